"""Removing or moving the gateway's entities when their workspace is deleted.

All of them lie in the workspace's partition, so moving one means copying its item and the guard of
its name. The bindings of an endpoint are copied before it and removed after it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlflow_dynamodbstore.gateway.bindings import bindings_of_endpoint
from mlflow_dynamodbstore.gateway.endpoint_records import MAPPINGS
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.table.contract import Delete, Put, TransactWrite
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key

Guard = Callable[[str, str], Key]


@dataclass(frozen=True)
class EntityKind:
    """A kind of entity; ``guard`` makes the key of the guard where names are unique."""

    label: str
    listed: Range
    guard: Guard | None = None

    def guards(self, item: Item, workspace: str) -> list[Key]:
        """The key of the guard of an entity's name, if names are unique."""
        return [] if self.guard is None else [self.guard(str(item["name"]), workspace)]

    def remove(self, table: Table, workspace: str, item: Item) -> None:
        """Remove an entity, the guard of its name, and its bindings."""
        keys = [*self.guards(item, workspace), table.schema.key_of(item)]
        table.transact([Delete(key) for key in keys])
        bindings = _bindings(table, item)
        table.write([Delete(table.schema.key_of(binding)) for binding in bindings])

    def move(self, table: Table, workspace: str, item: Item, to: str) -> None:
        """Move an entity. Raises ``TransactionCancelled`` when its name is taken there."""
        pk = access_keys.workspace_pk(to)
        bindings = _bindings(table, item)
        table.write([Put({**binding, "PK": pk}) for binding in bindings])
        writes: list[TransactWrite] = [
            Put({**item, "PK": pk}, condition=ABSENT),
            Delete(table.schema.key_of(item)),
        ]
        for guard in self.guards(item, workspace):
            known = table.get(guard)
            if known is not None:
                writes += [Put({**known, "PK": pk}, condition=ABSENT), Delete(guard)]
        table.transact(writes)
        table.write([Delete(table.schema.key_of(binding)) for binding in bindings])


def _bindings(table: Table, item: Item) -> list[Item]:
    """The bindings of an endpoint; other entities have none."""
    return bindings_of_endpoint(table, item) if MAPPINGS in item else []


def note_traced_experiment(table: Table, experiment_id: str, workspace: str, to: str) -> None:
    """Note in another workspace, too, that an experiment has traces of gateway calls."""
    note = table.get(gateway_keys.traced_experiment_key(experiment_id, workspace))
    if note is not None:
        table.put({**note, "PK": access_keys.workspace_pk(to)})


ENTITY_KINDS = (
    EntityKind("secrets", gateway_keys.SECRETS, gateway_keys.secret_name_guard),
    EntityKind("endpoints", gateway_keys.ENDPOINTS, gateway_keys.endpoint_name_guard),
    EntityKind(
        "model_definitions",
        gateway_keys.MODEL_DEFINITIONS,
        gateway_keys.model_definition_name_guard,
    ),
    EntityKind("budget_policies", gateway_keys.BUDGETS),
    EntityKind("guardrails", gateway_keys.GUARDRAILS),
)
