"""Table URIs: the three forms, and one clear sentence for every other."""

from __future__ import annotations

import subprocess
import sys

import pytest

from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.errors import BadTableURI, TableMissing
from mlflow_dynamodbstore.table.location import Location, parse
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Key

RIGHT = {
    "dynamodb://us-east-1/mlflow": Location("aws", "mlflow", "us-east-1"),
    "dynamodb://us-gov-west-1/my_table.v2": Location("aws", "my_table.v2", "us-gov-west-1"),
    "dynamodb://eusc-de-east-1/mlflow": Location("aws", "mlflow", "eusc-de-east-1"),
    "dynamodb://us-east-1/mlflow/": Location("aws", "mlflow", "us-east-1"),
    "dynamodb://us-east-1/mlflow?transport=botocore": Location(
        "aws", "mlflow", "us-east-1", options={"transport": "botocore"}
    ),
    "dynamodb://localhost:8000/mlflow": Location(
        "endpoint", "mlflow", "us-east-1", "http://localhost:8000"
    ),
    "dynamodb://localhost/mlflow": Location("endpoint", "mlflow", "us-east-1", "http://localhost"),
    "dynamodb://127.0.0.1:8000/mlflow": Location(
        "endpoint", "mlflow", "us-east-1", "http://127.0.0.1:8000"
    ),
    "dynamodb://[::1]:8000/mlflow": Location(
        "endpoint", "mlflow", "us-east-1", "http://[::1]:8000"
    ),
    "dynamodb://scylla:8000/mlflow?scheme=https&region=eu-west-1": Location(
        "endpoint", "mlflow", "eu-west-1", "https://scylla:8000"
    ),
    "dynamodb://vpce-1.dynamodb.us-east-1.vpce.amazonaws.com/mlflow": Location(
        "endpoint", "mlflow", "us-east-1", "https://vpce-1.dynamodb.us-east-1.vpce.amazonaws.com"
    ),
    "dynamodb:///mlflow.ddb": Location("file", path="mlflow.ddb"),
    "dynamodb:///some/folder/mlflow.ddb": Location("file", path="some/folder/mlflow.ddb"),
    "dynamodb:////abs/my file#1.ddb": Location("file", path="/abs/my file#1.ddb"),
    "dynamodb://///abs/a.ddb": Location("file", path="/abs/a.ddb"),
    "dynamodb:///m.ddb?synchronous=NORMAL&index_lag=2&collection_limit=1000": Location(
        "file",
        path="m.ddb",
        options={"synchronous": "NORMAL", "index_lag": 2.0, "collection_limit": 1000},
    ),
}


@pytest.mark.parametrize("uri", RIGHT)
def test_right_uris(uri):
    """Each form names its place, and the place's own URI names it again."""
    location = parse(uri)
    assert location == RIGHT[uri]
    again = parse(str(location))
    assert (again.kind, again.table, again.region, again.endpoint, again.path) == (
        location.kind,
        location.table,
        location.region,
        location.endpoint,
        location.path,
    )


WRONG = {
    "sqlite:///mlflow.db": "is not a table URI; write dynamodb://us-east-1/mlflow",
    "dynamodb:mlflow": "is not a table URI; write dynamodb://us-east-1/mlflow",
    "dynamodb:/mlflow.ddb": "is not a table URI; write dynamodb://us-east-1/mlflow",
    "": "is not a table URI; write dynamodb://us-east-1/mlflow",
    "dynamodb://": "names no file",
    "dynamodb:///": "names no file",
    "dynamodb:///folder/": "names no file",
    "dynamodb://us-east-1": "names no table; write dynamodb://us-east-1/mlflow",
    "dynamodb://mlflow": "names no table; write dynamodb://us-east-1/mlflow",
    "dynamodb://us-east-1/": "names no table; write dynamodb://us-east-1/mlflow",
    "dynamodb://localhost:8000": "names no table; write dynamodb://localhost:8000/mlflow",
    "dynamodb://us-east/mlflow": (
        "'us-east' is neither an AWS region nor host:port; write dynamodb://us-east-1/mlflow or "
    ),
    "dynamodb://mlflow/table": "'mlflow' is neither an AWS region nor host:port",
    "dynamodb://US-EAST-1/mlflow": "'US-EAST-1' is neither an AWS region nor host:port",
    "dynamodb://localhost:http/mlflow": "'http' is not a port",
    "dynamodb://localhost:70000/mlflow": "'70000' is not a port",
    "dynamodb://[nonsense]:8000/mlflow": "is not an IPv6 address",
    "dynamodb://us-east-1/team/mlflow": "'/team/mlflow' is a path, not the name of a table",
    "dynamodb://us-east-1//mlflow": "is a path, not the name of a table",
    "dynamodb://us-east-1/my table": "is not a table name",
    "dynamodb://us-east-1/ml": "is not a table name",
    f"dynamodb://us-east-1/{'x' * 256}": "is not a table name",
    "dynamodb://us-east-1/mlflow?colour=blue": "unknown option 'colour': .* takes transport",
    "dynamodb://us-east-1/mlflow?region=eu-west-1": "the URI of a table on AWS takes transport",
    "dynamodb://localhost:8000/mlflow?scheme=ftp": "scheme is http or https",
    "dynamodb://localhost:8000/mlflow?region=moon": r"region is an AWS region; .*\?region=",
    "dynamodb:///m.ddb?synchronous=OFF": "synchronous is FULL or NORMAL",
    "dynamodb:///m.ddb?synchronous=FULL&synchronous=NORMAL": "gives the option .* twice",
    "dynamodb:///m.ddb?index_lag=-1": r"index_lag is a number of seconds; .*\?index_lag=2",
    "dynamodb:///m.ddb?index_lag=nan": "number of seconds",
    "dynamodb:///m.ddb?collection_limit=0": "number of bytes above 0",
    "dynamodb:///m.ddb?collection_limit=many": "number of bytes above 0",
}


@pytest.mark.parametrize("uri", WRONG)
def test_wrong_uris(uri):
    """A wrong URI gets one sentence that says what is wrong and shows a right one."""
    with pytest.raises(BadTableURI, match=WRONG[uri]) as refused:
        parse(uri)
    message = str(refused.value)
    assert "dynamodb://" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    "uri",
    [
        "dynamodb://AKIDEXAMPLE:hunter2@us-east-1/mlflow",
        "dynamodb://user:hunter2@localhost:8000/mlflow",
        "dynamo://user:hunter2@localhost:8000/mlflow",
        "dynamodb://hunter2@us-east-1",
    ],
)
def test_credentials_are_refused_and_never_shown(uri):
    """Credentials do not belong in a URI, nor in a message that ends in a log."""
    with pytest.raises(BadTableURI) as refused:
        parse(uri)
    assert "hunter2" not in str(refused.value)


def test_only_what_is_not_aws_creates_itself():
    """A private address of AWS is AWS too."""
    for uri, itself in (
        ("dynamodb://us-east-1/mlflow", False),
        ("dynamodb://vpce-1.dynamodb.us-east-1.vpce.amazonaws.com/mlflow", False),
        ("dynamodb://dynamodb.cn-north-1.amazonaws.com.cn/mlflow", False),
        ("dynamodb://amazonaws.com.example.org:8000/mlflow", True),
        ("dynamodb://localhost:8000/mlflow", True),
        ("dynamodb:///mlflow.ddb", True),
    ):
        assert parse(uri).creates_itself is itself


def test_a_file_creates_itself_unless_told_not_to(tmp_path):
    """The same rule and the same error as for an endpoint."""
    uri = f"dynamodb:///{tmp_path}/mlflow.ddb"
    with pytest.raises(TableMissing):
        open_engine(uri, create=False)
    engine = open_engine(uri, synchronous="NORMAL")
    engine.apply(Put({"PK": "p", "SK": "s"}))
    engine.close()
    again = open_engine(engine.uri, create=False)
    assert again.get(Key("p", "s")) == {"PK": "p", "SK": "s"}
    again.close()


def test_a_relative_file_is_in_the_folder_of_its_opening(tmp_path, monkeypatch):
    """Three slashes mean this folder, and the handle's URI means it from everywhere."""
    monkeypatch.chdir(tmp_path)
    engine = open_engine("dynamodb:///mlflow.ddb")
    engine.close()
    assert (tmp_path / "mlflow.ddb").is_file()
    monkeypatch.chdir("/")
    open_engine(engine.uri, create=False).close()


def test_reading_a_uri_imports_no_engine():
    """Neither boto3 nor sqlite3 is loaded to look at a URI."""
    program = (
        "import sys\n"
        "from mlflow_dynamodbstore.table.location import parse\n"
        "parse('dynamodb://us-east-1/mlflow')\n"
        "print([m for m in ('boto3', 'botocore', 'sqlite3') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert done.stdout.strip() == b"[]"
