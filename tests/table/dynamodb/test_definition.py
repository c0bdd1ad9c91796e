"""The table's definition, and what tells a table that is not ours."""

from __future__ import annotations

import copy

import pytest

from mlflow_dynamodbstore.table.dynamodb.definition import check_table, table_definition
from mlflow_dynamodbstore.table.errors import SchemaMismatch
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE, Index, Schema


def test_the_definition_of_a_small_table():
    """Keys, indexes and projections as the schema has them; billing by request; protected."""
    schema = Schema(
        "small",
        pk="a",
        sk="b",
        indexes=(Index("G", pk="gp", sk="gs"), Index("L", sk="ls", projection="ALL")),
    )
    assert table_definition(schema, "tiny") == {
        "TableName": "tiny",
        "BillingMode": "PAY_PER_REQUEST",
        "DeletionProtectionEnabled": True,
        "AttributeDefinitions": [
            {"AttributeName": name, "AttributeType": "S"} for name in ("a", "b", "gp", "gs", "ls")
        ],
        "KeySchema": [
            {"AttributeName": "a", "KeyType": "HASH"},
            {"AttributeName": "b", "KeyType": "RANGE"},
        ],
        "GlobalSecondaryIndexes": [
            {
                "IndexName": "G",
                "KeySchema": [
                    {"AttributeName": "gp", "KeyType": "HASH"},
                    {"AttributeName": "gs", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "KEYS_ONLY"},
            }
        ],
        "LocalSecondaryIndexes": [
            {
                "IndexName": "L",
                "KeySchema": [
                    {"AttributeName": "a", "KeyType": "HASH"},
                    {"AttributeName": "ls", "KeyType": "RANGE"},
                ],
                "Projection": {"ProjectionType": "ALL"},
            }
        ],
    }


def test_a_table_without_indexes_names_none():
    """DynamoDB refuses an empty list of indexes."""
    definition = table_definition(Schema("plain"), "plain")
    assert "GlobalSecondaryIndexes" not in definition
    assert "LocalSecondaryIndexes" not in definition


def test_our_own_definition_fits():
    """A table may also have indexes of somebody else."""
    described = table_definition(MLFLOW_TABLE, "mlflow")
    check_table(MLFLOW_TABLE, described)
    described["GlobalSecondaryIndexes"].append({"IndexName": "theirs"})
    check_table(MLFLOW_TABLE, described)


def _no_sort_key(table):
    table["KeySchema"].pop()


def _other_partition_key(table):
    table["KeySchema"][0]["AttributeName"] = "id"


def _numeric_key(table):
    table["AttributeDefinitions"][1]["AttributeType"] = "N"


def _no_index(table):
    table["GlobalSecondaryIndexes"] = [
        index for index in table["GlobalSecondaryIndexes"] if index["IndexName"] != "GSI4"
    ]


def _no_local_indexes(table):
    del table["LocalSecondaryIndexes"]


def _other_index_key(table):
    table["LocalSecondaryIndexes"][2]["KeySchema"][1]["AttributeName"] = "created"


def _other_projection(table):
    table["LocalSecondaryIndexes"][0]["Projection"]["ProjectionType"] = "KEYS_ONLY"


DIFFERENCES = {
    _no_sort_key: r"the key of table 'mlflow' is \(PK\), not \(PK, SK\)",
    _other_partition_key: r"the key of table 'mlflow' is \(id, SK\), not \(PK, SK\)",
    _numeric_key: "key attribute 'SK' of table 'mlflow' is N, not S",
    _no_index: "table 'mlflow' has no GSI named GSI4",
    _no_local_indexes: "table 'mlflow' has no LSI named LSI1",
    _other_index_key: r"the key of index LSI3 of table 'mlflow' is \(PK, created\)",
    _other_projection: r"the projection of index LSI1 .* is \(KEYS_ONLY\), not \(ALL\)",
}


@pytest.mark.parametrize("change", DIFFERENCES, ids=lambda change: change.__name__)
def test_the_first_difference_is_named(change):
    """A table that is not ours is refused with the difference, not with a failing request later."""
    described = copy.deepcopy(table_definition(MLFLOW_TABLE, "mlflow"))
    change(described)
    with pytest.raises(SchemaMismatch, match=DIFFERENCES[change]):
        check_table(MLFLOW_TABLE, described)
