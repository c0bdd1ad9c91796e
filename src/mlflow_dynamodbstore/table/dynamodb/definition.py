"""A table's definition for DynamoDB, made from our schema and compared with it. Pure functions."""

from __future__ import annotations

from typing import Any

from mlflow_dynamodbstore.table.errors import SchemaMismatch
from mlflow_dynamodbstore.table.schema import Index, Schema

_KINDS = {"GSI": "GlobalSecondaryIndexes", "LSI": "LocalSecondaryIndexes"}


def table_definition(schema: Schema, name: str) -> dict[str, Any]:
    """The arguments of CreateTable, and the properties of ``AWS::DynamoDB::Table``.

    Billing is by request. The table is protected against deletion.
    """
    definition: dict[str, Any] = {
        "TableName": name,
        "BillingMode": "PAY_PER_REQUEST",
        "DeletionProtectionEnabled": True,
        "AttributeDefinitions": [
            {"AttributeName": attribute, "AttributeType": "S"}
            for attribute in schema.key_attributes
        ],
        "KeySchema": _key_schema(schema.pk, schema.sk),
    }
    for index in schema.indexes:
        definition.setdefault(_KINDS[_kind(index)], []).append(
            {
                "IndexName": index.name,
                "KeySchema": _key_schema(index.pk or schema.pk, index.sk),
                "Projection": {"ProjectionType": index.projection},
            }
        )
    return definition


def check_table(schema: Schema, described: dict[str, Any]) -> None:
    """Raise ``SchemaMismatch`` naming the first difference between a table and our schema.

    Additional indexes are harmless.
    """
    table = f"table {described.get('TableName')!r}"
    _expect(f"the key of {table}", (schema.pk, schema.sk), _key_names(described))
    types = {
        definition["AttributeName"]: definition["AttributeType"]
        for definition in described.get("AttributeDefinitions", [])
    }
    for attribute in schema.key_attributes:
        if (found := types.get(attribute, "S")) != "S":
            raise SchemaMismatch(f"key attribute {attribute!r} of {table} is {found}, not S")
    for index in schema.indexes:
        _check_index(schema, index, described, table)


def _check_index(schema: Schema, index: Index, described: dict[str, Any], table: str) -> None:
    entries = {e["IndexName"]: e for e in described.get(_KINDS[_kind(index)]) or []}
    entry = entries.get(index.name)
    if entry is None:
        raise SchemaMismatch(
            f"{table} has no {_kind(index)} named {index.name}; it was not made by this program"
        )
    what = f"of index {index.name} of {table}"
    _expect(f"the key {what}", (index.pk or schema.pk, index.sk), _key_names(entry))
    projection = str(entry.get("Projection", {}).get("ProjectionType"))
    _expect(f"the projection {what}", (index.projection,), (projection,))


def _expect(what: str, expected: tuple[str, ...], found: tuple[str, ...]) -> None:
    if expected != found:
        raise SchemaMismatch(f"{what} is ({', '.join(found)}), not ({', '.join(expected)})")


def _key_names(described: dict[str, Any]) -> tuple[str, ...]:
    parts = {part["KeyType"]: part["AttributeName"] for part in described.get("KeySchema", [])}
    return tuple(parts[kind] for kind in ("HASH", "RANGE") if kind in parts)


def _key_schema(pk: str, sk: str) -> list[dict[str, str]]:
    return [
        {"AttributeName": pk, "KeyType": "HASH"},
        {"AttributeName": sk, "KeyType": "RANGE"},
    ]


def _kind(index: Index) -> str:
    return "LSI" if index.is_local else "GSI"
