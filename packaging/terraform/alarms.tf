# Alarms: throttles, errors, sizes of collections, and unusual costs.

locals {
  operations = ["BatchGetItem", "BatchWriteItem", "GetItem", "PutItem", "Query", "TransactWriteItems", "UpdateItem"]
  metrics    = "mlflow-dynamodbstore/${var.name}"

  # Each on one metric. Unless it says otherwise, the alarm goes off when the sum of five minutes is above 0.
  alarms = {
    throttled-reads = {
      description = "A hot experiment is throttled; people wait"
      namespace   = "AWS/DynamoDB"
      metric      = "ReadThrottleEvents"
      dimensions  = { TableName = aws_dynamodb_table.mlflow.name }
    }
    throttled-writes = {
      description = "A hot experiment is throttled; people wait"
      namespace   = "AWS/DynamoDB"
      metric      = "WriteThrottleEvents"
      dimensions  = { TableName = aws_dynamodb_table.mlflow.name }
    }
    server-errors = {
      description = "The server answers with errors: look at its log"
      namespace   = "AWS/ApplicationELB"
      metric      = "HTTPCode_Target_5XX_Count"
      dimensions  = { LoadBalancer = aws_lb.mlflow.arn_suffix }
      threshold   = 20
    }
    no-server = {
      description = "No server is healthy"
      namespace   = "AWS/ApplicationELB"
      metric      = "HealthyHostCount"
      dimensions  = { LoadBalancer = aws_lb.mlflow.arn_suffix, TargetGroup = aws_lb_target_group.mlflow.arn_suffix }
      statistic   = "Minimum"
      comparison  = "LessThanThreshold"
      threshold   = 1
      missing     = "breaching"
    }
    full-collections = {
      description = "A partition of an experiment is full: its volumes could not keep up"
      namespace   = local.metrics
      metric      = "FullCollections"
      dimensions  = {}
    }
    doctor-findings = {
      description = "doctor found something: large collections, orphans, damage, an unfinished import"
      namespace   = local.metrics
      metric      = "DoctorFindings"
      dimensions  = {}
    }
  }

  # What is counted in logs, by the name of the metric.
  log_filters = {
    FullCollections = {
      logs    = "server"
      pattern = "\"10 GB that DynamoDB\" \"and is full\""
    }
    DoctorFindings = {
      logs    = "upkeep"
      pattern = "?\"\\\"level\\\": \\\"warning\\\"\" ?\"\\\"level\\\": \\\"failure\\\"\""
    }
  }
}

resource "aws_sns_topic" "alarms" {
  name = "${var.name}-alarms"
}

# It replaces AWS's own policy, under which a budget is silent.
data "aws_iam_policy_document" "alarms" {
  statement {
    actions   = ["sns:Publish"]
    resources = [aws_sns_topic.alarms.arn]

    principals {
      type        = "Service"
      identifiers = ["budgets.amazonaws.com", "cloudwatch.amazonaws.com", "events.amazonaws.com"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [data.aws_caller_identity.here.account_id]
    }
  }
}

resource "aws_sns_topic_policy" "alarms" {
  arn    = aws_sns_topic.alarms.arn
  policy = data.aws_iam_policy_document.alarms.json
}

# A cleanup, a check or a backup failed, or could not even start. The server's tasks belong to its service.
resource "aws_cloudwatch_event_rule" "upkeep_failed" {
  name = "${var.name}-upkeep-failed"

  event_pattern = jsonencode({
    source      = ["aws.ecs"]
    detail-type = ["ECS Task State Change"]
    detail = {
      clusterArn = [aws_ecs_cluster.mlflow.arn]
      lastStatus = ["STOPPED"]
      group      = [{ prefix = "family:" }]
      "$or" = [
        { containers = { exitCode = [{ anything-but = [0] }] } },
        { stopCode = ["TaskFailedToStart"] },
      ]
    }
  })
}

resource "aws_cloudwatch_event_target" "upkeep_failed" {
  rule = aws_cloudwatch_event_rule.upkeep_failed.name
  arn  = aws_sns_topic.alarms.arn
}

resource "aws_sns_topic_subscription" "mail" {
  count     = var.alarm_email == "" ? 0 : 1
  topic_arn = aws_sns_topic.alarms.arn
  protocol  = "email"
  endpoint  = var.alarm_email
}

resource "aws_cloudwatch_metric_alarm" "metric" {
  for_each            = local.alarms
  alarm_name          = "${var.name}-${each.key}"
  alarm_description   = each.value.description
  namespace           = each.value.namespace
  metric_name         = each.value.metric
  dimensions          = each.value.dimensions
  statistic           = try(each.value.statistic, "Sum")
  period              = 300
  evaluation_periods  = 1
  threshold           = try(each.value.threshold, 0)
  comparison_operator = try(each.value.comparison, "GreaterThanThreshold")
  treat_missing_data  = try(each.value.missing, "notBreaching")
  alarm_actions       = [aws_sns_topic.alarms.arn]
}

resource "aws_cloudwatch_log_metric_filter" "log" {
  for_each       = local.log_filters
  name           = "${var.name}-${each.key}"
  log_group_name = aws_cloudwatch_log_group.own[each.value.logs].name
  pattern        = each.value.pattern

  metric_transformation {
    namespace = local.metrics
    name      = each.key
    value     = "1"
  }
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
