# MLflow on one DynamoDB table: table, bucket, server on Fargate, upkeep and alarms.
# The same as `mlflow-dynamodbstore deploy --stack server`.

terraform {
  required_version = ">= 1.3"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = ">= 5.0"
    }
  }
}

data "aws_region" "here" {}

data "aws_partition" "here" {}

data "aws_caller_identity" "here" {}

locals {
  port    = 5000
  uri     = "dynamodb://${data.aws_region.here.name}/${aws_dynamodb_table.mlflow.name}"
  archive = "s3://${aws_s3_bucket.mlflow.bucket}/backups/$(date -u +%Y-%m-%dT%H-%M-%SZ).jsonl.gz"
  upkeep = {
    cleanup = {
      schedule = var.cleanup_schedule
      command  = "mlflow-dynamodbstore ttl cleanup --uri ${local.uri}"
    }
    doctor = {
      schedule = var.doctor_schedule
      command  = "mlflow-dynamodbstore doctor --json --uri ${local.uri}"
    }
    backup = {
      schedule = var.backup_schedule
      command  = "mlflow-dynamodbstore dump ${local.archive} --verify --uri ${local.uri}"
    }
  }
}

# --- the bucket for artifacts and archives ---------------------------------------------------------

resource "aws_s3_bucket" "mlflow" {
  bucket_prefix = "${var.name}-"

  lifecycle {
    prevent_destroy = true
  }
}

resource "aws_s3_bucket_public_access_block" "mlflow" {
  bucket                  = aws_s3_bucket.mlflow.id
  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_server_side_encryption_configuration" "mlflow" {
  bucket = aws_s3_bucket.mlflow.id

  rule {
    apply_server_side_encryption_by_default {
      sse_algorithm = "AES256"
    }
  }
}

resource "aws_s3_bucket_versioning" "mlflow" {
  bucket = aws_s3_bucket.mlflow.id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "mlflow" {
  bucket = aws_s3_bucket.mlflow.id

  rule {
    id     = "archives"
    status = "Enabled"

    filter {
      prefix = "backups/"
    }

    expiration {
      days = var.backup_days
    }

    noncurrent_version_expiration {
      noncurrent_days = 1
    }
  }

  rule {
    id     = "deleted artifacts"
    status = "Enabled"

    filter {
      prefix = "artifacts/"
    }

    noncurrent_version_expiration {
      noncurrent_days = 30
    }

    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }
}

data "aws_iam_policy_document" "only_tls" {
  statement {
    effect    = "Deny"
    actions   = ["s3:*"]
    resources = [aws_s3_bucket.mlflow.arn, "${aws_s3_bucket.mlflow.arn}/*"]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_s3_bucket_policy" "mlflow" {
  bucket = aws_s3_bucket.mlflow.id
  policy = data.aws_iam_policy_document.only_tls.json
}

# --- the server ------------------------------------------------------------------------------------

resource "aws_cloudwatch_log_group" "own" {
  for_each          = toset(["server", "upkeep"])
  name_prefix       = "${var.name}-${each.key}-"
  retention_in_days = 30
}

resource "aws_ecs_cluster" "mlflow" {
  name = var.name
}

resource "aws_ecs_task_definition" "server" {
  family                   = "${var.name}-server"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = var.background_jobs ? 1024 : 512
  memory                   = var.background_jobs ? 4096 : 2048
  task_role_arn            = aws_iam_role.own["server"].arn
  execution_role_arn       = aws_iam_role.own["start"].arn

  container_definitions = jsonencode([
    {
      name         = "server"
      image        = var.image
      essential    = true
      command      = ["--table", local.uri, "--artifacts", "s3://${aws_s3_bucket.mlflow.bucket}/artifacts", "--workers", "2"]
      portMappings = [{ containerPort = local.port }]
      environment = [
        { name = "MLFLOW_SERVER_ALLOWED_HOSTS", value = var.allowed_hosts },
        { name = "MLFLOW_SERVER_ENABLE_JOB_EXECUTION", value = tostring(var.background_jobs) },
      ]
      logConfiguration = {
        logDriver = "awslogs"
        options = {
          awslogs-group         = aws_cloudwatch_log_group.own["server"].name
          awslogs-region        = data.aws_region.here.name
          awslogs-stream-prefix = "server"
        }
      }
    }
  ])
}

resource "aws_ecs_service" "mlflow" {
  name                              = "${var.name}-server"
  cluster                           = aws_ecs_cluster.mlflow.id
  launch_type                       = "FARGATE"
  desired_count                     = var.tasks
  task_definition                   = aws_ecs_task_definition.server.arn
  health_check_grace_period_seconds = 120
  depends_on                        = [aws_lb_listener.mlflow]

  deployment_circuit_breaker {
    enable   = true
    rollback = true
  }

  network_configuration {
    subnets          = var.subnet_ids
    security_groups  = [aws_security_group.server.id]
    assign_public_ip = false
  }

  load_balancer {
    target_group_arn = aws_lb_target_group.mlflow.arn
    container_name   = "server"
    container_port   = local.port
  }
}

resource "aws_security_group" "balancer" {
  name_prefix = "${var.name}-balancer-"
  description = "People reach the load balancer"
  vpc_id      = var.vpc_id

  ingress {
    protocol    = "tcp"
    from_port   = 443
    to_port     = 443
    cidr_blocks = [var.client_cidr]
  }

  egress {
    protocol    = "-1"
    from_port   = 0
    to_port     = 0
    cidr_blocks = ["0.0.0.0/0"]
  }
}

resource "aws_security_group" "server" {
  name_prefix = "${var.name}-server-"
  description = "Only the load balancer reaches the server"
  vpc_id      = var.vpc_id

  ingress {
    protocol        = "tcp"
    from_port       = local.port
    to_port         = local.port
    security_groups = [aws_security_group.balancer.id]
  }

  egress {
    protocol    = "-1"
    from_port   = 0
    to_port     = 0
    cidr_blocks = ["0.0.0.0/0"]
  }
}

resource "aws_lb" "mlflow" {
  name                       = var.name
  internal                   = var.internal
  load_balancer_type         = "application"
  subnets                    = var.public_subnet_ids
  security_groups            = [aws_security_group.balancer.id]
  drop_invalid_header_fields = true
}

resource "aws_lb_target_group" "mlflow" {
  name        = var.name
  vpc_id      = var.vpc_id
  target_type = "ip"
  protocol    = "HTTP"
  port        = local.port

  health_check {
    path     = "/health"
    interval = 15
  }
}

resource "aws_lb_listener" "mlflow" {
  load_balancer_arn = aws_lb.mlflow.arn
  port              = 443
  protocol          = "HTTPS"
  ssl_policy        = "ELBSecurityPolicy-TLS13-1-2-2021-06"
  certificate_arn   = var.certificate_arn

  default_action {
    type             = "forward"
    target_group_arn = aws_lb_target_group.mlflow.arn
  }
}

# --- what runs on a schedule -----------------------------------------------------------------------

resource "aws_ecs_task_definition" "upkeep" {
  for_each                 = local.upkeep
  family                   = "${var.name}-${each.key}"
  requires_compatibilities = ["FARGATE"]
  network_mode             = "awsvpc"
  cpu                      = 512
  memory                   = 2048
  task_role_arn            = aws_iam_role.own["upkeep"].arn
  execution_role_arn       = aws_iam_role.own["start"].arn

  container_definitions = jsonencode([
    {
      name       = each.key
      image      = var.image
      essential  = true
      entryPoint = ["sh", "-c"]
      command    = [each.value.command]
      logConfiguration = {
        logDriver = "awslogs"
        options = {
          awslogs-group         = aws_cloudwatch_log_group.own["upkeep"].name
          awslogs-region        = data.aws_region.here.name
          awslogs-stream-prefix = each.key
        }
      }
    }
  ])
}

resource "aws_cloudwatch_event_rule" "upkeep" {
  for_each            = local.upkeep
  name                = "${var.name}-${each.key}"
  schedule_expression = each.value.schedule
}

resource "aws_cloudwatch_event_target" "upkeep" {
  for_each = local.upkeep
  rule     = aws_cloudwatch_event_rule.upkeep[each.key].name
  arn      = aws_ecs_cluster.mlflow.arn
  role_arn = aws_iam_role.own["schedule"].arn

  ecs_target {
    task_definition_arn = aws_ecs_task_definition.upkeep[each.key].arn
    launch_type         = "FARGATE"

    network_configuration {
      subnets         = var.subnet_ids
      security_groups = [aws_security_group.server.id]
    }
  }
}
