variable "name" {
  description = "Name of the table, and the beginning of other names"
  type        = string
  default     = "mlflow"
}

variable "image" {
  description = "Container image with this package, as the Dockerfile builds it"
  type        = string
}

variable "vpc_id" {
  description = "The VPC of the subnets"
  type        = string
}

variable "subnet_ids" {
  description = "Private subnets for the server"
  type        = list(string)
}

variable "public_subnet_ids" {
  description = "Subnets of the load balancer"
  type        = list(string)
}

variable "certificate_arn" {
  description = "Certificate in ACM for the name that people use"
  type        = string
}

variable "allowed_hosts" {
  description = "Names that people use for the server, separated by commas"
  type        = string
}

variable "client_cidr" {
  description = "Addresses from which people may reach the server"
  type        = string
  default     = "10.0.0.0/8"
}

variable "internal" {
  description = "Whether the load balancer has private addresses only"
  type        = bool
  default     = true
}

variable "tasks" {
  description = "How many servers"
  type        = number
  default     = 2
}

variable "background_jobs" {
  description = "Whether servers run background jobs, such as judges: they need 4 GB"
  type        = bool
  default     = true
}

variable "backup_days" {
  description = "How long archives of the table are kept"
  type        = number
  default     = 35
}

variable "alarm_email" {
  description = "Address that alarms are sent to; empty for none"
  type        = string
  default     = ""
}

variable "monthly_budget" {
  description = "Dollars a month for DynamoDB in this account; 0 for no budget"
  type        = number
  default     = 0
}

variable "cleanup_schedule" {
  description = "When `ttl cleanup` runs"
  type        = string
  default     = "cron(0 3 * * ? *)"
}

variable "doctor_schedule" {
  description = "When `doctor` runs"
  type        = string
  default     = "cron(0 4 ? * SUN *)"
}

variable "backup_schedule" {
  description = "When `dump` writes an archive of the table into the bucket"
  type        = string
  default     = "cron(0 2 * * ? *)"
}
