output "table_name" {
  value = aws_dynamodb_table.mlflow.name
}

output "bucket" {
  value = aws_s3_bucket.mlflow.bucket
}

output "address" {
  description = "Point the DNS name of the certificate here"
  value       = aws_lb.mlflow.dns_name
}
