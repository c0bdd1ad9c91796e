# Roles with the least permissions: the server is a writer, upkeep may also scan.

locals {
  # The service that takes each role.
  roles = {
    server   = "ecs-tasks"
    upkeep   = "ecs-tasks"
    start    = "ecs-tasks"
    schedule = "events"
  }
  policies = {
    server   = data.aws_iam_policy_document.server.json
    upkeep   = data.aws_iam_policy_document.upkeep.json
    start    = data.aws_iam_policy_document.start.json
    schedule = data.aws_iam_policy_document.schedule.json
  }
  table_and_indexes = [aws_dynamodb_table.mlflow.arn, "${aws_dynamodb_table.mlflow.arn}/index/*"]
}

data "aws_iam_policy_document" "taken_by" {
  for_each = toset(values(local.roles))

  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["${each.key}.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "own" {
  for_each           = local.roles
  name_prefix        = "${var.name}-${each.key}-"
  assume_role_policy = data.aws_iam_policy_document.taken_by[each.value].json
}

resource "aws_iam_role_policy" "own" {
  for_each = local.policies
  name     = "own"
  role     = aws_iam_role.own[each.key].id
  policy   = each.value
}

data "aws_iam_policy_document" "server" {
  statement {
    actions = [
      "dynamodb:BatchGetItem",
      "dynamodb:BatchWriteItem",
      "dynamodb:ConditionCheckItem",
      "dynamodb:DeleteItem",
      "dynamodb:DescribeTable",
      "dynamodb:GetItem",
      "dynamodb:PutItem",
      "dynamodb:Query",
      "dynamodb:UpdateItem",
    ]
    resources = local.table_and_indexes
  }
  statement {
    actions   = ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"]
    resources = ["${aws_s3_bucket.mlflow.arn}/artifacts/*"]
  }
  statement {
    actions   = ["s3:ListBucket"]
    resources = [aws_s3_bucket.mlflow.arn]
  }
}

data "aws_iam_policy_document" "upkeep" {
  statement {
    actions = [
      "dynamodb:BatchGetItem",
      "dynamodb:BatchWriteItem",
      "dynamodb:ConditionCheckItem",
      "dynamodb:DeleteItem",
      "dynamodb:DescribeContinuousBackups",
      "dynamodb:DescribeTable",
      "dynamodb:DescribeTimeToLive",
      "dynamodb:GetItem",
      "dynamodb:PutItem",
      "dynamodb:Query",
      "dynamodb:Scan",
      "dynamodb:UpdateItem",
    ]
    resources = local.table_and_indexes
  }
  statement {
    actions   = ["s3:GetObject", "s3:PutObject"]
    resources = ["${aws_s3_bucket.mlflow.arn}/backups/*"]
  }
  statement {
    actions   = ["s3:ListBucket"]
    resources = [aws_s3_bucket.mlflow.arn]
  }
}

data "aws_iam_policy_document" "start" {
  statement {
    actions   = ["ecr:GetAuthorizationToken"]
    resources = ["*"]
  }
  statement {
    actions   = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
    resources = ["arn:${data.aws_partition.here.partition}:ecr:*:${data.aws_caller_identity.here.account_id}:repository/*"]
  }
  statement {
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = [for logs in aws_cloudwatch_log_group.own : "${logs.arn}:*"]
  }
}

data "aws_iam_policy_document" "schedule" {
  statement {
    actions   = ["ecs:RunTask"]
    resources = [for task in aws_ecs_task_definition.upkeep : task.arn]
  }
  statement {
    actions   = ["iam:PassRole"]
    resources = [aws_iam_role.own["upkeep"].arn, aws_iam_role.own["start"].arn]
  }
}
