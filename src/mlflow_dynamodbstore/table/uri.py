"""Open the engine that a table URI names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mlflow_dynamodbstore.table.contract import Engine
from mlflow_dynamodbstore.table.location import Location, parse
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE, Schema


def open_engine(
    uri: str,
    schema: Schema = MLFLOW_TABLE,
    *,
    create: bool | None = None,
    **options: Any,
) -> Engine:
    """The engine that a URI names, with its table ready.

    ``create`` tells whether an absent table is created. By default it is for files and for
    endpoints outside AWS; on AWS it is an error. ``options`` go to the engine and override those in
    the URI. Raises ``BadTableURI``, ``TableMissing``, ``SchemaMismatch``, ``AccessDenied`` and
    ``Unavailable``.
    """
    location = parse(uri)
    engine = _engine(location, schema, {**location.options, **options})
    try:
        engine.prepare(create=location.creates_itself if create is None else create)
    except BaseException:
        engine.close()
        raise
    return engine


def _engine(location: Location, schema: Schema, options: dict[str, Any]) -> Engine:
    # Importing the other engine too would take 20 to 60 ms.
    if location.kind == "file":
        from mlflow_dynamodbstore.table.embedded import EmbeddedEngine  # noqa: PLC0415

        return EmbeddedEngine(Path(location.path), schema, **options)
    from mlflow_dynamodbstore.table.dynamodb import DynamoDBEngine  # noqa: PLC0415

    return DynamoDBEngine(
        location.table,
        schema,
        region=location.region,
        endpoint_url=location.endpoint or None,
        **options,
    )
