"""CloudWatch alarms of a stack: throttles, errors, sizes of collections, and unusual costs.

CloudWatch knows no sizes of item collections: the weekly ``doctor`` prints what it finds into its
log, and a filter of the log counts findings.
"""

from __future__ import annotations

from typing import Any

from mlflow_dynamodbstore.deploy.resources import VERSION, allow, arn, ref, resource, sub

NAMESPACE = sub("mlflow-dynamodbstore/${AWS::StackName}")
"""Of the metrics that logs are counted into: each stack has its own."""
REPORTING = ("budgets", "cloudwatch", "events")
"""The services that send to the topic; a budget may not without a policy that says so."""
FIVE_MINUTES = 300
HOUR = 3_600
OPERATIONS = (
    "BatchGetItem",
    "BatchWriteItem",
    "GetItem",
    "PutItem",
    "Query",
    "TransactWriteItems",
    "UpdateItem",
)
MOST_SYSTEM_ERRORS = 10
MOST_SERVER_ERRORS = 20
NORMAL_BAND = 3
"""How many standard deviations from the usual are still usual."""
FINDINGS = "DoctorFindings"
FULL = "FullCollections"


def alarms(table: str) -> dict[str, Any]:
    """The alarms, the topic they report to, and the budget."""
    named = [{"Name": "TableName", "Value": ref(table)}]
    return {
        "Alarms": resource("SNS::Topic"),
        "AlarmPolicy": _topic_policy(),
        "AlarmMail": {
            **resource(
                "SNS::Subscription",
                TopicArn=ref("Alarms"),
                Protocol="email",
                Endpoint=ref("AlarmEmail"),
            ),
            "Condition": "HasEmail",
        },
        "ThrottledReads": _alarm(
            "A hot experiment is throttled; people wait",
            _metric("AWS/DynamoDB", "ReadThrottleEvents", named),
        ),
        "ThrottledWrites": _alarm(
            "A hot experiment is throttled; people wait",
            _metric("AWS/DynamoDB", "WriteThrottleEvents", named),
        ),
        "SystemErrors": _alarm(
            "DynamoDB has a problem", _sum_of_operations(named), threshold=MOST_SYSTEM_ERRORS
        ),
        "ServerErrors": _alarm(
            "The server answers with errors: look at its log",
            _metric("AWS/ApplicationELB", "HTTPCode_Target_5XX_Count", _balancer()),
            threshold=MOST_SERVER_ERRORS,
        ),
        "NoServer": _alarm(
            "No server is healthy",
            _metric(
                "AWS/ApplicationELB", "HealthyHostCount", [*_balancer(), _targets()], "Minimum"
            ),
            threshold=1,
            comparison="LessThanThreshold",
            missing="breaching",
        ),
        "FullFilter": _count_in_log("ServerLogs", '"10 GB that DynamoDB" "and is full"', FULL),
        "FullCollections": _alarm(
            "A partition of an experiment is full: its volumes could not keep up",
            _metric(NAMESPACE, FULL, []),
        ),
        "FindingsFilter": _count_in_log(
            "UpkeepLogs", '?"\\"level\\": \\"warning\\"" ?"\\"level\\": \\"failure\\""', FINDINGS
        ),
        "DoctorFindings": _alarm(
            "doctor found something: large collections, orphans, damage, an unfinished import",
            _metric(NAMESPACE, FINDINGS, []),
        ),
        "UpkeepFailed": _failed_upkeep(),
        "UnusualWrites": _anomaly(named),
        "Budget": _budget(),
    }


def _metric(
    namespace: str | dict[str, Any],
    name: str,
    dimensions: list[Any],
    statistic: str = "Sum",
) -> dict[str, Any]:
    return {
        "Namespace": namespace,
        "MetricName": name,
        "Dimensions": dimensions,
        "Statistic": statistic,
        "Period": FIVE_MINUTES,
    }


def _alarm(
    description: str,
    watched: dict[str, Any],
    *,
    threshold: int = 0,
    comparison: str = "GreaterThanThreshold",
    missing: str = "notBreaching",
) -> dict[str, Any]:
    return resource(
        "CloudWatch::Alarm",
        AlarmDescription=description,
        AlarmActions=[ref("Alarms")],
        EvaluationPeriods=1,
        Threshold=threshold,
        ComparisonOperator=comparison,
        TreatMissingData=missing,
        **watched,
    )


def _sum_of_operations(named: list[Any]) -> dict[str, Any]:
    """The system errors of all operations: CloudWatch counts them for each operation alone."""
    queries = [
        {
            "Id": f"m{n}",
            "ReturnData": False,
            "MetricStat": {
                "Metric": {
                    "Namespace": "AWS/DynamoDB",
                    "MetricName": "SystemErrors",
                    "Dimensions": [*named, {"Name": "Operation", "Value": operation}],
                },
                "Period": FIVE_MINUTES,
                "Stat": "Sum",
            },
        }
        for n, operation in enumerate(OPERATIONS)
    ]
    return {"Metrics": [*queries, {"Id": "total", "Expression": "SUM(METRICS())"}]}


def _anomaly(named: list[Any]) -> dict[str, Any]:
    """An alarm when much more is written than usual at this hour: the bill follows."""
    units = {
        "Namespace": "AWS/DynamoDB",
        "MetricName": "ConsumedWriteCapacityUnits",
        "Dimensions": named,
    }
    return resource(
        "CloudWatch::Alarm",
        AlarmDescription="Far more write units than usual: the bill follows",
        AlarmActions=[ref("Alarms")],
        EvaluationPeriods=2,
        ComparisonOperator="GreaterThanUpperThreshold",
        TreatMissingData="notBreaching",
        ThresholdMetricId="band",
        Metrics=[
            {"Id": "units", "MetricStat": {"Metric": units, "Period": HOUR, "Stat": "Sum"}},
            {"Id": "band", "Expression": f"ANOMALY_DETECTION_BAND(units, {NORMAL_BAND})"},
        ],
    )


def _topic_policy() -> dict[str, Any]:
    """Who may send to the topic. It replaces AWS's own policy, under which a budget is silent."""
    senders = [f"{service}.amazonaws.com" for service in REPORTING]
    statement = {
        **allow(["sns:Publish"], [ref("Alarms")]),
        "Principal": {"Service": senders},
        "Condition": {"StringEquals": {"aws:SourceAccount": ref("AWS::AccountId")}},
    }
    document = {"Version": VERSION, "Statement": [statement]}
    return resource("SNS::TopicPolicy", Topics=[ref("Alarms")], PolicyDocument=document)


def _failed_upkeep() -> dict[str, Any]:
    """A message when a cleanup, a check or a backup failed, or could not even start."""
    stopped = {
        "clusterArn": [arn("Cluster")],
        "lastStatus": ["STOPPED"],
        "group": [{"prefix": "family:"}],  # the server's tasks belong to its service
        "$or": [
            {"containers": {"exitCode": [{"anything-but": [0]}]}},
            {"stopCode": ["TaskFailedToStart"]},
        ],
    }
    pattern = {
        "source": ["aws.ecs"],
        "detail-type": ["ECS Task State Change"],
        "detail": stopped,
    }
    target = {"Id": "alarms", "Arn": ref("Alarms")}
    return resource("Events::Rule", EventPattern=pattern, State="ENABLED", Targets=[target])


def _balancer() -> list[Any]:
    return [
        {"Name": "LoadBalancer", "Value": {"Fn::GetAtt": ["LoadBalancer", "LoadBalancerFullName"]}}
    ]


def _targets() -> dict[str, Any]:
    return {"Name": "TargetGroup", "Value": {"Fn::GetAtt": ["Targets", "TargetGroupFullName"]}}


def _count_in_log(logs: str, pattern: str, metric: str) -> dict[str, Any]:
    counted = {"MetricNamespace": NAMESPACE, "MetricName": metric, "MetricValue": "1"}
    return resource(
        "Logs::MetricFilter",
        LogGroupName=ref(logs),
        FilterPattern=pattern,
        MetricTransformations=[counted],
    )


def _budget() -> dict[str, Any]:
    """A budget for DynamoDB, with a message when four fifths of it are to be spent."""
    notified = {
        "Notification": {
            "NotificationType": "FORECASTED",
            "ComparisonOperator": "GREATER_THAN",
            "Threshold": 80,
        },
        "Subscribers": [{"SubscriptionType": "SNS", "Address": ref("Alarms")}],
    }
    budget = resource(
        "Budgets::Budget",
        Budget={
            "BudgetName": sub("${AWS::StackName}-dynamodb"),
            "BudgetType": "COST",
            "TimeUnit": "MONTHLY",
            "BudgetLimit": {"Amount": ref("MonthlyBudget"), "Unit": "USD"},
            "CostFilters": {"Service": ["Amazon DynamoDB"]},
        },
        NotificationsWithSubscribers=[notified],
    )
    return {**budget, "Condition": "HasBudget"}
