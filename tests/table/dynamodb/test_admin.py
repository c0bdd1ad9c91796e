"""Opening a table that is there, is not there, or is not ours."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.dynamodb import DynamoDBEngine, admin, table_definition
from mlflow_dynamodbstore.table.errors import (
    AccessDenied,
    InvalidRequest,
    SchemaMismatch,
    TableMissing,
    Unavailable,
)
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE, Schema
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Key
from tests.table.dynamodb.scripted import Answer, error, scripted

ACTIVE = {**table_definition(MLFLOW_TABLE, "mlflow"), "TableStatus": "ACTIVE"}


def client_of(engine):
    return engine._connected().client


def test_a_missing_table_is_created_with_all_that_belongs_to_it(open_table):
    """Expiry, protection and billing by request are on from the first moment."""
    engine = open_table()
    name, client = engine._table, client_of(engine)
    described = client.describe_table(TableName=name)["Table"]
    assert described["BillingModeSummary"]["BillingMode"] == "PAY_PER_REQUEST"
    assert described["DeletionProtectionEnabled"] is True
    expiry = client.describe_time_to_live(TableName=name)["TimeToLiveDescription"]
    assert (expiry["TimeToLiveStatus"], expiry["AttributeName"]) == ("ENABLED", "ttl")


def test_a_new_table_can_be_recovered(moto):
    """Point-in-time recovery is switched on where the endpoint has it."""
    engine = open_engine(f"dynamodb://{moto}/recovered")
    answer = client_of(engine).describe_continuous_backups(TableName="recovered")
    recovery = answer["ContinuousBackupsDescription"]["PointInTimeRecoveryDescription"]
    assert recovery["PointInTimeRecoveryStatus"] == "ENABLED"
    engine.close()


def test_opening_again_keeps_what_is_there(open_table):
    """A second handle sees the items of the first."""
    first = open_table()
    first.apply(Put({"PK": "p", "SK": "s", "n": 1}))
    second = open_table(create=False)
    assert second.get(Key("p", "s")) == {"PK": "p", "SK": "s", "n": 1}


def test_without_leave_nothing_is_created(new_uri):
    """A missing table is an error that names the command, and is still missing afterwards."""
    for _ in range(2):
        with pytest.raises(TableMissing, match=r"mlflow-dynamodbstore --name .* deploy"):
            open_engine(new_uri, create=False)


def test_a_table_of_another_schema_is_refused(open_table, new_uri):
    """Whether or not it may be created."""
    open_table()
    for create in (False, True):
        with pytest.raises(SchemaMismatch, match=r"is \(PK, SK\), not \(id, at\)"):
            open_engine(new_uri, Schema("other", pk="id", sk="at"), create=create)


def test_many_threads_may_create_at_once(new_uri):
    """One of them creates the table and all of them can use it."""
    ready, failures, engines = threading.Barrier(6), [], []

    def work(number):
        try:
            ready.wait(20)
            engine = open_engine(new_uri)
            engines.append(engine)
            engine.apply(Put({"PK": "p", "SK": str(number)}))
        except Exception as failure:  # noqa: BLE001 - asserted on below
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert len(engines[0].get_many([Key("p", str(n)) for n in range(6)]).items) == 6
    for engine in engines:
        engine.close()


def test_many_processes_may_create_at_once(dynoxide):
    """The same between processes."""
    program = (
        "import sys\n"
        "from mlflow_dynamodbstore.table.uri import open_engine\n"
        "sys.stdin.readline()\n"
        "open_engine(sys.argv[1]).close()\n"
    )
    uri = f"dynamodb://{dynoxide}/processes"
    processes = [
        subprocess.Popen([sys.executable, "-c", program, uri], stdin=subprocess.PIPE)
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"\n")
        process.stdin.close()
    assert [process.wait(60) for process in processes] == [0] * 4
    open_engine(uri, create=False).close()


def test_an_endpoint_without_the_extras_is_fine():
    """Expiry, recovery and protection are asked for, and done without where they are unknown."""
    created = []

    def answer(operation, request):
        if operation == "CreateTable":
            if "DeletionProtectionEnabled" in request:
                return error("ValidationException", "DeletionProtectionEnabled is not supported")
            created.append(request)
        elif operation == "DescribeTable":
            return Answer({"Table": ACTIVE}) if created else error("ResourceNotFoundException")
        elif operation == "DescribeTimeToLive":
            return Answer({"TimeToLiveDescription": {"TimeToLiveStatus": "DISABLED"}})
        else:
            return error("UnknownOperationException", operation)
        return Answer({})

    with scripted(answer) as script:
        engine = script.engine()
        engine.prepare(create=True)
        engine.close()
    assert len(created) == 1


def test_a_definition_that_is_refused_is_told():
    """What is wrong in the definition itself is not taken for a missing extra."""

    def answer(operation, _request):
        if operation == "DescribeTable":
            return error("ResourceNotFoundException")
        return error("ValidationException", "too many indexes")

    with scripted(answer) as script:
        engine = script.engine()
        with pytest.raises(InvalidRequest, match="too many indexes"):
            engine.prepare(create=True)
        engine.close()


def test_a_right_that_is_missing_is_told():
    """Being denied an extra is not the same as its being unknown."""

    def answer(operation, _request):
        if operation == "DescribeTable":
            return Answer({"Table": ACTIVE})
        return error("AccessDeniedException", "not authorized")

    with scripted(answer) as script:
        engine = script.engine()
        with pytest.raises(AccessDenied, match="not authorized"):
            engine.prepare(create=True)
        engine.close()


def test_a_table_under_way_is_waited_for(monkeypatch):
    """Somebody else's table that is being created is waited for, up to a deadline."""
    states = ["CREATING", "CREATING", "ACTIVE"]

    def answer(operation, _request):
        if operation == "DescribeTable":
            status = states.pop(0) if len(states) > 1 else states[0]
            return Answer({"Table": {**ACTIVE, "TableStatus": status}})
        return Answer({"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED"}})

    with scripted(answer) as script:
        engine = script.engine()
        engine.prepare(create=True)
        asked = [operation for operation, _ in script.requests]
        assert asked == ["DescribeTable"] * 3 + ["DescribeTimeToLive"]

        states[:] = ["CREATING"]
        monkeypatch.setattr(admin, "ACTIVE_SECONDS", 0.2)
        with pytest.raises(Unavailable, match="still CREATING"):
            engine.prepare(create=False)
        engine.close()


def test_losing_the_race_is_no_error():
    """ResourceInUse means that another process was quicker."""
    asked = []

    def answer(operation, _request):
        asked.append(operation)
        if operation == "CreateTable":
            return error("ResourceInUseException", "being created")
        if operation == "DescribeTable":
            first = asked.count("DescribeTable") == 1
            return error("ResourceNotFoundException") if first else Answer({"Table": ACTIVE})
        return Answer({"TimeToLiveDescription": {"TimeToLiveStatus": "ENABLED"}})

    with scripted(answer) as script:
        engine = script.engine()
        engine.prepare(create=True)
        engine.close()
    assert asked == ["DescribeTable", "CreateTable", "DescribeTable", "DescribeTimeToLive"]


def test_a_table_on_aws_needs_a_region():
    with pytest.raises(InvalidRequest, match="dynamodb://us-east-1/mlflow"):
        DynamoDBEngine("mlflow", MLFLOW_TABLE)
