"""Registries for tests: on a file, with a clock that tests move."""

from __future__ import annotations

from pathlib import Path

from mlflow_dynamodbstore.keys import registry as registry_keys
from mlflow_dynamodbstore.registry.items import RegisteredModelPlace, listed_meta
from mlflow_dynamodbstore.registry.records import Model
from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.shared.names import claims
from mlflow_dynamodbstore.table.contract import Engine
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Item
from tests.stores import everything_in
from tests.table.fakes import FakeTime, patient_retry


def engine_of(folder: Path, options: str = "synchronous=NORMAL") -> Engine:
    """The engine on a folder's file."""
    return open_engine(f"dynamodb:///{folder / 'mlflow.ddb'}?{options}")


def registry_on(
    engine: Engine, time: FakeTime, *, patience: float = 600.0
) -> DynamoDBRegistryStore:
    """A registry on an engine, as another process would open it: it remembers nothing."""
    table = Table(engine, clock=time, retry=patient_retry(time, deadline=patience))
    return DynamoDBRegistryStore(engine.uri, table=table)


def left_behind(store: DynamoDBRegistryStore) -> list[tuple[str, str]]:
    """The keys of everything in the table."""
    return sorted((item["PK"], item["SK"]) for item in everything_in(store.table))


def check_repeats(store: DynamoDBRegistryStore) -> None:
    """That whatever META and the list of models repeat is what they repeat it of."""
    items = {(item["PK"], item["SK"]): item for item in everything_in(store.table)}
    metas = [
        i for (_, sk), i in items.items() if sk == registry_keys.MODEL_META and claims.is_live(i)
    ]
    for meta in metas:
        name, workspace = registry_keys.model_pk_of(meta["PK"])
        place = RegisteredModelPlace(meta["name"] if name is None else name, str(workspace))
        guard = items[place.guard["PK"], place.guard["SK"]]
        assert guard == place.listing(meta)
        told = listed_meta(guard, place.name)
        assert told is None or all(meta[attribute] == told[attribute] for attribute in told)
        for number, copy in Model(place, meta).copies.items():
            key = place.version(number)
            assert {"PK": key.pk, "SK": key.sk, **copy} == items[key]


def items_at(store: DynamoDBRegistryStore, pk: str) -> dict[str, Item]:
    """The items of a partition by their sort keys."""
    return {item["SK"]: item for item in everything_in(store.table) if item["PK"] == pk}
