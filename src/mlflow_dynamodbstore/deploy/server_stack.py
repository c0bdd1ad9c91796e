"""The whole stack as a CloudFormation template: table, bucket, server, upkeep and alarms.

The server and its upkeep run on Fargate with one image. Network and certificate are given: most
accounts have them already, and whoever makes them decides who reaches the server.
"""

from __future__ import annotations

from typing import Any

from mlflow_dynamodbstore.deploy.alarms import alarms
from mlflow_dynamodbstore.deploy.iam import ROLES
from mlflow_dynamodbstore.deploy.resources import allow, arn, ref, resource, role, sub
from mlflow_dynamodbstore.deploy.template import RESOURCE as TABLE
from mlflow_dynamodbstore.deploy.template import table_resource

PORT = 5000
IMAGE, VPC, SUBNETS = "Image", "Vpc", "Subnets"
PUBLIC_SUBNETS, CERTIFICATE, HOSTS = "PublicSubnets", "CertificateArn", "AllowedHosts"
BACKUPS = "backups"
"""The prefix in the bucket below which archives of the table are kept."""
LOG_DAYS = 30
NO_BUDGET = "0"
CPU, MEMORY = "512", "2048"
CPU_WITH_JOBS, MEMORY_WITH_JOBS = "1024", "4096"
JOBS = "BackgroundJobs"
URI = "dynamodb://${AWS::Region}/${Table}"
PROGRAM = "mlflow-dynamodbstore"
ARCHIVE = f"s3://${{Bucket}}/{BACKUPS}/$(date -u +%Y-%m-%dT%H-%M-%SZ).jsonl.gz"

UPKEEP = {
    "Cleanup": ("CleanupSchedule", f"{PROGRAM} ttl cleanup --uri {URI}"),
    "Doctor": ("DoctorSchedule", f"{PROGRAM} doctor --json --uri {URI}"),
    "Backup": ("BackupSchedule", f"{PROGRAM} dump {ARCHIVE} --verify --uri {URI}"),
}
"""What runs on a schedule: the parameter with the schedule, and the command."""
SCHEDULES = {
    "CleanupSchedule": "cron(0 3 * * ? *)",
    "DoctorSchedule": "cron(0 4 ? * SUN *)",
    "BackupSchedule": "cron(0 2 * * ? *)",
}


def server_template(name: str) -> dict[str, Any]:
    """A stack with the table of this name and everything that serves it."""
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"MLflow on the table {name}: bucket, server, upkeep and alarms",
        "Parameters": _parameters(),
        "Conditions": {
            "HasEmail": {"Fn::Not": [{"Fn::Equals": [ref("AlarmEmail"), ""]}]},
            "HasJobs": {"Fn::Equals": [ref(JOBS), "true"]},
            "HasBudget": {"Fn::Not": [{"Fn::Equals": [ref("MonthlyBudget"), NO_BUDGET]}]},
        },
        "Resources": {
            TABLE: table_resource(name),
            **_bucket(),
            **_roles(),
            **_service(),
            **_load_balancer(),
            **_schedules(),
            **alarms(TABLE),
        },
        "Outputs": {
            "TableName": {"Value": ref(TABLE)},
            "TableArn": {"Value": arn(TABLE)},
            "BucketName": {"Value": ref("Bucket")},
            "Address": {
                "Description": "Point the DNS name of the certificate here",
                "Value": {"Fn::GetAtt": ["LoadBalancer", "DNSName"]},
            },
        },
    }


def _parameters() -> dict[str, Any]:
    def text(description: str, default: str | None = None, kind: str = "String") -> dict[str, Any]:
        given = {} if default is None else {"Default": default}
        return {"Type": kind, "Description": description, **given}

    return {
        IMAGE: text("Container image with this package, as the Dockerfile builds it"),
        VPC: text("The VPC of the subnets", kind="AWS::EC2::VPC::Id"),
        SUBNETS: text("Private subnets for the server", kind="List<AWS::EC2::Subnet::Id>"),
        PUBLIC_SUBNETS: text("Subnets of the load balancer", kind="List<AWS::EC2::Subnet::Id>"),
        CERTIFICATE: text("Certificate in ACM for the name that people use"),
        HOSTS: text("Names that people use for the server, separated by commas"),
        "ClientCidr": text("Addresses from which people may reach the server", "10.0.0.0/8"),
        "Scheme": {**text("internal, or internet-facing", "internal"), "AllowedValues": _SCHEMES},
        "Tasks": {"Type": "Number", "Default": 2, "MinValue": 1, "Description": "How many servers"},
        JOBS: {
            **text("Whether servers run background jobs, such as judges: they need 4 GB", "true"),
            "AllowedValues": ["true", "false"],
        },
        "BackupDays": {
            "Type": "Number",
            "Default": 35,
            "MinValue": 1,
            "Description": "How long archives of the table are kept",
        },
        "AlarmEmail": text("Address that alarms are sent to; empty for none", ""),
        "MonthlyBudget": {
            **text("Dollars a month for DynamoDB in this account; 0 for no budget", NO_BUDGET),
            "AllowedPattern": r"[0-9]+(\.[0-9]+)?",
        },
        **{name: text(f"When it runs: {name}", when) for name, when in SCHEDULES.items()},
    }


_SCHEMES = ["internal", "internet-facing"]


def _bucket() -> dict[str, Any]:
    """A private bucket for artifacts and archives; it outlives the stack, as the table does."""
    bucket = resource(
        "S3::Bucket",
        BucketEncryption={
            "ServerSideEncryptionConfiguration": [
                {"ServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}
            ]
        },
        PublicAccessBlockConfiguration={
            "BlockPublicAcls": True,
            "BlockPublicPolicy": True,
            "IgnorePublicAcls": True,
            "RestrictPublicBuckets": True,
        },
        VersioningConfiguration={"Status": "Enabled"},
        LifecycleConfiguration={
            "Rules": [
                {
                    "Id": "archives",
                    "Status": "Enabled",
                    "Prefix": f"{BACKUPS}/",
                    "ExpirationInDays": ref("BackupDays"),
                    "NoncurrentVersionExpiration": {"NoncurrentDays": 1},
                },
                {
                    "Id": "deleted artifacts",
                    "Status": "Enabled",
                    "Prefix": "artifacts/",
                    "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
                    "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
                },
            ]
        },
    )
    whole = [arn("Bucket"), sub("${Bucket.Arn}/*")]
    only_tls = {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": whole,
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }
    return {
        "Bucket": {**bucket, "DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain"},
        "BucketPolicy": resource(
            "S3::BucketPolicy",
            Bucket=ref("Bucket"),
            PolicyDocument={"Version": "2012-10-17", "Statement": [only_tls]},
        ),
    }


def _roles() -> dict[str, Any]:
    table = [arn(TABLE), sub("${Table.Arn}/index/*")]
    objects = ("s3:GetObject", "s3:PutObject", "s3:DeleteObject")
    server = [
        allow([f"dynamodb:{action}" for action in ROLES["writer"]], table),
        allow(objects, [sub("${Bucket.Arn}/artifacts/*")]),
        allow(["s3:ListBucket"], [arn("Bucket")]),
    ]
    upkeep = [
        allow([f"dynamodb:{action}" for action in _UPKEEP], table),
        allow(["s3:GetObject", "s3:PutObject"], [sub(f"${{Bucket.Arn}}/{BACKUPS}/*")]),
        allow(["s3:ListBucket"], [arn("Bucket")]),
    ]
    start = [
        allow(["ecr:GetAuthorizationToken"], ["*"]),
        allow(_PULL, [sub("arn:${AWS::Partition}:ecr:*:${AWS::AccountId}:repository/*")]),
        allow(_LOG, [arn("ServerLogs"), arn("UpkeepLogs")]),
    ]
    passed = [arn("UpkeepRole"), arn("StartRole")]
    tasks = [ref(f"{job}Task") for job in UPKEEP]
    schedule = [allow(["ecs:RunTask"], tasks), allow(["iam:PassRole"], passed)]
    return {
        "ServerRole": role("ecs-tasks.amazonaws.com", server),
        "UpkeepRole": role("ecs-tasks.amazonaws.com", upkeep),
        "StartRole": role("ecs-tasks.amazonaws.com", start),
        "ScheduleRole": role("events.amazonaws.com", schedule),
    }


_UPKEEP = sorted({*ROLES["cleanup"], "DescribeContinuousBackups", "DescribeTimeToLive"})
_LOG = ["logs:CreateLogStream", "logs:PutLogEvents"]
_PULL = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]


def _task(family: str, task_role: str, logs: str, container: dict[str, Any]) -> dict[str, Any]:
    """A task of one container on Fargate."""
    options = {
        "awslogs-group": ref(logs),
        "awslogs-region": ref("AWS::Region"),
        "awslogs-stream-prefix": family,
    }
    defined = {
        "Name": family,
        "Image": ref(IMAGE),
        "Essential": True,
        "LogConfiguration": {"LogDriver": "awslogs", "Options": options},
        **container,
    }
    return resource(
        "ECS::TaskDefinition",
        Family=sub(f"${{AWS::StackName}}-{family}"),
        RequiresCompatibilities=["FARGATE"],
        NetworkMode="awsvpc",
        Cpu=CPU,
        Memory=MEMORY,
        TaskRoleArn=arn(task_role),
        ExecutionRoleArn=arn("StartRole"),
        ContainerDefinitions=[defined],
    )


def _service() -> dict[str, Any]:
    command = [
        "--table",
        sub(URI),
        "--artifacts",
        sub("s3://${Bucket}/artifacts"),
        "--workers",
        "2",
    ]
    container = {
        "Command": command,
        "PortMappings": [{"ContainerPort": PORT}],
        "Environment": [
            {"Name": "MLFLOW_SERVER_ALLOWED_HOSTS", "Value": ref(HOSTS)},
            {"Name": "MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "Value": ref(JOBS)},
        ],
    }
    server = _task("server", "ServerRole", "ServerLogs", container)
    server["Properties"]["Cpu"] = {"Fn::If": ["HasJobs", CPU_WITH_JOBS, CPU]}
    server["Properties"]["Memory"] = {"Fn::If": ["HasJobs", MEMORY_WITH_JOBS, MEMORY]}
    service = resource(
        "ECS::Service",
        Cluster=ref("Cluster"),
        LaunchType="FARGATE",
        DesiredCount=ref("Tasks"),
        TaskDefinition=ref("ServerTask"),
        HealthCheckGracePeriodSeconds=120,
        DeploymentConfiguration={
            "MinimumHealthyPercent": 100,
            "MaximumPercent": 200,
            "DeploymentCircuitBreaker": {"Enable": True, "Rollback": True},
        },
        NetworkConfiguration=_network(),
        LoadBalancers=[
            {
                "ContainerName": "server",
                "ContainerPort": PORT,
                "TargetGroupArn": ref("Targets"),
            }
        ],
    )
    return {
        "Cluster": resource("ECS::Cluster", ClusterName=ref("AWS::StackName")),
        "ServerLogs": resource("Logs::LogGroup", RetentionInDays=LOG_DAYS),
        "UpkeepLogs": resource("Logs::LogGroup", RetentionInDays=LOG_DAYS),
        "ServerTask": server,
        "Service": {**service, "DependsOn": ["Listener"]},
    }


def _network() -> dict[str, Any]:
    return {
        "AwsvpcConfiguration": {
            "AssignPublicIp": "DISABLED",
            "Subnets": ref(SUBNETS),
            "SecurityGroups": [{"Fn::GetAtt": ["ServerGroup", "GroupId"]}],
        }
    }


def _load_balancer() -> dict[str, Any]:
    tcp = {"IpProtocol": "tcp"}
    balancer_group = {"Fn::GetAtt": ["BalancerGroup", "GroupId"]}
    reach = {**tcp, "FromPort": 443, "ToPort": 443, "CidrIp": ref("ClientCidr")}
    serve = {**tcp, "FromPort": PORT, "ToPort": PORT, "SourceSecurityGroupId": balancer_group}
    health = {"HealthCheckPath": "/health", "HealthCheckIntervalSeconds": 15}
    forward = {"Type": "forward", "TargetGroupArn": ref("Targets")}
    return {
        "BalancerGroup": resource(
            "EC2::SecurityGroup",
            GroupDescription="People reach the load balancer",
            VpcId=ref(VPC),
            SecurityGroupIngress=[reach],
        ),
        "ServerGroup": resource(
            "EC2::SecurityGroup",
            GroupDescription="Only the load balancer reaches the server",
            VpcId=ref(VPC),
            SecurityGroupIngress=[serve],
        ),
        "LoadBalancer": resource(
            "ElasticLoadBalancingV2::LoadBalancer",
            Type="application",
            Scheme=ref("Scheme"),
            Subnets=ref(PUBLIC_SUBNETS),
            SecurityGroups=[balancer_group],
            LoadBalancerAttributes=[
                {"Key": "routing.http.drop_invalid_header_fields.enabled", "Value": "true"}
            ],
        ),
        "Targets": resource(
            "ElasticLoadBalancingV2::TargetGroup",
            VpcId=ref(VPC),
            TargetType="ip",
            Protocol="HTTP",
            Port=PORT,
            **health,
        ),
        "Listener": resource(
            "ElasticLoadBalancingV2::Listener",
            LoadBalancerArn=ref("LoadBalancer"),
            Port=443,
            Protocol="HTTPS",
            SslPolicy="ELBSecurityPolicy-TLS13-1-2-2021-06",
            Certificates=[{"CertificateArn": ref(CERTIFICATE)}],
            DefaultActions=[forward],
        ),
    }


def _schedules() -> dict[str, Any]:
    made: dict[str, Any] = {}
    for job, (schedule, command) in UPKEEP.items():
        container = {"EntryPoint": ["sh", "-c"], "Command": [sub(command)]}
        made[f"{job}Task"] = _task(job.lower(), "UpkeepRole", "UpkeepLogs", container)
        target = {
            "Id": job.lower(),
            "Arn": arn("Cluster"),
            "RoleArn": arn("ScheduleRole"),
            "EcsParameters": {
                "TaskDefinitionArn": ref(f"{job}Task"),
                "LaunchType": "FARGATE",
                "NetworkConfiguration": {
                    "AwsVpcConfiguration": _network()["AwsvpcConfiguration"],
                },
            },
        }
        made[f"{job}Rule"] = resource(
            "Events::Rule", ScheduleExpression=ref(schedule), State="ENABLED", Targets=[target]
        )
    return made
