"""What becomes of the gateway's things when their workspace is deleted.

All of them lie in the workspace's partition, so moving one is copying it, together with the guard
of its name. The bindings of an endpoint are copied before it and removed after it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.gateway.endpoint_items import MAPPINGS
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.keys.base import Range
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.table.contract import Delete, Put, Query, TransactWrite
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key

Guard = Callable[[str, str], Key]


@dataclass(frozen=True)
class Things:
    """A kind of things of the gateway; ``guard`` makes the key that keeps a name unique."""

    label: str
    listed: Range
    guard: Guard | None = None

    def guards(self, item: Item, workspace: str) -> list[Key]:
        """Where the name of a thing is guarded, if it must be unique."""
        return [] if self.guard is None else [self.guard(str(item["name"]), workspace)]

    def remove(self, table: Table, workspace: str, item: Item) -> None:
        """Remove a thing, its name and its bindings."""
        gone = [*self.guards(item, workspace), table.schema.key_of(item)]
        table.transact([Delete(key) for key in gone])
        table.write([Delete(table.schema.key_of(one)) for one in _bindings(table, item)])

    def move(self, table: Table, workspace: str, item: Item, to: str) -> None:
        """Move a thing. Raises ``TransactionCancelled`` when its name is taken there."""
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
                free = ABSENT
                writes += [Put({**known, "PK": pk}, condition=free), Delete(guard)]
        table.transact(writes)
        table.write([Delete(table.schema.key_of(binding)) for binding in bindings])


def _bindings(table: Table, item: Item) -> list[Item]:
    """The bindings of an endpoint; other things have none."""
    if MAPPINGS not in item:
        return []
    query = Query(
        str(item["PK"]),
        where=gateway_keys.bindings().on(),
        filter=Attr("endpoint_id").eq(item["endpoint_id"]),
    )
    return list(table.items(query))


def move_note(table: Table, experiment_id: str, workspace: str, to: str) -> None:
    """Let the workspace that gets an experiment know that it holds traces of gateway calls."""
    note = table.get(gateway_keys.traced_experiment_key(experiment_id, workspace))
    if note is not None:
        table.put({**note, "PK": access_keys.workspace_pk(to)})


THINGS = (
    Things("secrets", gateway_keys.SECRETS, gateway_keys.secret_name_guard),
    Things("endpoints", gateway_keys.ENDPOINTS, gateway_keys.endpoint_name_guard),
    Things(
        "model_definitions",
        gateway_keys.MODEL_DEFINITIONS,
        gateway_keys.model_definition_name_guard,
    ),
    Things("budget_policies", gateway_keys.BUDGETS),
    Things("guardrails", gateway_keys.GUARDRAILS),
)
