# Alarms: throttles, errors, sizes of collections, and unusual costs.

locals {
  operations = ["BatchGetItem", "BatchWriteItem", "GetItem", "PutItem", "Query", "TransactWriteItems", "UpdateItem"]
}

resource "aws_sns_topic" "alarms" {
  name = "${var.name}-alarms"
}

resource "aws_sns_topic_subscription" "mail" {
  count     = var.alarm_email == "" ? 0 : 1
  topic_arn = aws_sns_topic.alarms.arn
  protocol  = "email"
  endpoint  = var.alarm_email
}

resource "aws_cloudwatch_metric_alarm" "throttled_reads" {
  alarm_name          = "${var.name}-throttled-reads"
  alarm_description   = "A hot experiment is throttled; people wait"
  namespace           = "AWS/DynamoDB"
  metric_name         = "ReadThrottleEvents"
  dimensions          = { TableName = aws_dynamodb_table.mlflow.name }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  threshold           = 0
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = [aws_sns_topic.alarms.arn]
}

resource "aws_cloudwatch_metric_alarm" "throttled_writes" {
  alarm_name          = "${var.name}-throttled-writes"
  alarm_description   = "A hot experiment is throttled; people wait"
  namespace           = "AWS/DynamoDB"
  metric_name         = "WriteThrottleEvents"
  dimensions          = { TableName = aws_dynamodb_table.mlflow.name }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  threshold           = 0
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = [aws_sns_topic.alarms.arn]
}

resource "aws_cloudwatch_metric_alarm" "system_errors" {
  alarm_name          = "${var.name}-system-errors"
  alarm_description   = "DynamoDB has a problem"
  evaluation_periods  = 1
  threshold           = 10
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = [aws_sns_topic.alarms.arn]

  metric_query {
    id          = "total"
    expression  = "SUM(METRICS())"
    label       = "system errors"
    return_data = true
  }

  dynamic "metric_query" {
    for_each = local.operations
    content {
      id = "m${metric_query.key}"
      metric {
        namespace   = "AWS/DynamoDB"
        metric_name = "SystemErrors"
        period      = 300
        stat        = "Sum"
        dimensions  = { TableName = aws_dynamodb_table.mlflow.name, Operation = metric_query.value }
      }
    }
  }
}

resource "aws_cloudwatch_metric_alarm" "server_errors" {
  alarm_name          = "${var.name}-server-errors"
  alarm_description   = "The server answers with errors: look at its log"
  namespace           = "AWS/ApplicationELB"
  metric_name         = "HTTPCode_Target_5XX_Count"
  dimensions          = { LoadBalancer = aws_lb.mlflow.arn_suffix }
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  threshold           = 20
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = [aws_sns_topic.alarms.arn]
}

resource "aws_cloudwatch_metric_alarm" "no_server" {
  alarm_name          = "${var.name}-no-server"
  alarm_description   = "No server is healthy"
  namespace           = "AWS/ApplicationELB"
  metric_name         = "HealthyHostCount"
  dimensions          = { LoadBalancer = aws_lb.mlflow.arn_suffix, TargetGroup = aws_lb_target_group.mlflow.arn_suffix }
  statistic           = "Minimum"
  period              = 300
  evaluation_periods  = 1
  threshold           = 1
  comparison_operator = "LessThanThreshold"
  treat_missing_data  = "breaching"
  alarm_actions       = [aws_sns_topic.alarms.arn]
}

resource "aws_cloudwatch_log_metric_filter" "full" {
  name           = "${var.name}-full-collections"
  log_group_name = aws_cloudwatch_log_group.server.name
  pattern        = "\"10 GB that DynamoDB\" \"and is full\""

  metric_transformation {
    namespace = "mlflow-dynamodbstore"
    name      = "FullCollections"
    value     = "1"
  }
}

resource "aws_cloudwatch_metric_alarm" "full_collections" {
  alarm_name          = "${var.name}-full-collections"
  alarm_description   = "A partition of an experiment is full: its volumes could not keep up"
  namespace           = "mlflow-dynamodbstore"
  metric_name         = "FullCollections"
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  threshold           = 0
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = [aws_sns_topic.alarms.arn]
}

resource "aws_cloudwatch_log_metric_filter" "findings" {
  name           = "${var.name}-doctor-findings"
  log_group_name = aws_cloudwatch_log_group.upkeep.name
  pattern        = "?\"\\\"level\\\": \\\"warning\\\"\" ?\"\\\"level\\\": \\\"failure\\\"\""

  metric_transformation {
    namespace = "mlflow-dynamodbstore"
    name      = "DoctorFindings"
    value     = "1"
  }
}

resource "aws_cloudwatch_metric_alarm" "doctor_findings" {
  alarm_name          = "${var.name}-doctor-findings"
  alarm_description   = "doctor found something: large collections, orphans, damage, an unfinished import"
  namespace           = "mlflow-dynamodbstore"
  metric_name         = "DoctorFindings"
  statistic           = "Sum"
  period              = 300
  evaluation_periods  = 1
  threshold           = 0
  comparison_operator = "GreaterThanThreshold"
  treat_missing_data  = "notBreaching"
  alarm_actions       = [aws_sns_topic.alarms.arn]
}

resource "aws_cloudwatch_metric_alarm" "unusual_writes" {
  alarm_name          = "${var.name}-unusual-writes"
  alarm_description   = "Far more write units than usual: the bill follows"
  evaluation_periods  = 2
  comparison_operator = "GreaterThanUpperThreshold"
  threshold_metric_id = "band"
  treat_missing_data  = "notBreaching"
  alarm_actions       = [aws_sns_topic.alarms.arn]

  metric_query {
    id          = "band"
    expression  = "ANOMALY_DETECTION_BAND(units, 3)"
    label       = "usual"
    return_data = true
  }

  metric_query {
    id          = "units"
    return_data = true
    metric {
      namespace   = "AWS/DynamoDB"
      metric_name = "ConsumedWriteCapacityUnits"
      period      = 3600
      stat        = "Sum"
      dimensions  = { TableName = aws_dynamodb_table.mlflow.name }
    }
  }
}

resource "aws_budgets_budget" "dynamodb" {
  count        = var.monthly_budget > 0 ? 1 : 0
  name         = "${var.name}-dynamodb"
  budget_type  = "COST"
  time_unit    = "MONTHLY"
  limit_amount = tostring(var.monthly_budget)
  limit_unit   = "USD"

  cost_filter {
    name   = "Service"
    values = ["Amazon DynamoDB"]
  }

  notification {
    notification_type         = "FORECASTED"
    comparison_operator       = "GREATER_THAN"
    threshold                 = 80
    threshold_type            = "PERCENTAGE"
    subscriber_sns_topic_arns = [aws_sns_topic.alarms.arn]
  }
}
