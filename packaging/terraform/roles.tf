# Roles with the least permissions: the server is a writer, upkeep may also scan.

data "aws_iam_policy_document" "tasks" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["ecs-tasks.amazonaws.com"]
    }
  }
}

data "aws_iam_policy_document" "events" {
  statement {
    actions = ["sts:AssumeRole"]
    principals {
      type        = "Service"
      identifiers = ["events.amazonaws.com"]
    }
  }
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
    resources = [aws_dynamodb_table.mlflow.arn, "${aws_dynamodb_table.mlflow.arn}/index/*"]
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
    resources = [aws_dynamodb_table.mlflow.arn, "${aws_dynamodb_table.mlflow.arn}/index/*"]
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
    resources = ["${aws_cloudwatch_log_group.server.arn}:*", "${aws_cloudwatch_log_group.upkeep.arn}:*"]
  }
}

data "aws_iam_policy_document" "schedule" {
  statement {
    actions   = ["ecs:RunTask"]
    resources = [for task in aws_ecs_task_definition.upkeep : task.arn]
  }
  statement {
    actions   = ["iam:PassRole"]
    resources = [aws_iam_role.upkeep.arn, aws_iam_role.start.arn]
  }
}

resource "aws_iam_role" "server" {
  name_prefix        = "${var.name}-server-"
  assume_role_policy = data.aws_iam_policy_document.tasks.json
}

resource "aws_iam_role_policy" "server" {
  name   = "own"
  role   = aws_iam_role.server.id
  policy = data.aws_iam_policy_document.server.json
}

resource "aws_iam_role" "upkeep" {
  name_prefix        = "${var.name}-upkeep-"
  assume_role_policy = data.aws_iam_policy_document.tasks.json
}

resource "aws_iam_role_policy" "upkeep" {
  name   = "own"
  role   = aws_iam_role.upkeep.id
  policy = data.aws_iam_policy_document.upkeep.json
}

resource "aws_iam_role" "start" {
  name_prefix        = "${var.name}-start-"
  assume_role_policy = data.aws_iam_policy_document.tasks.json
}

resource "aws_iam_role_policy" "start" {
  name   = "own"
  role   = aws_iam_role.start.id
  policy = data.aws_iam_policy_document.start.json
}

resource "aws_iam_role" "schedule" {
  name_prefix        = "${var.name}-schedule-"
  assume_role_policy = data.aws_iam_policy_document.events.json
}

resource "aws_iam_role_policy" "schedule" {
  name   = "own"
  role   = aws_iam_role.schedule.id
  policy = data.aws_iam_policy_document.schedule.json
}
