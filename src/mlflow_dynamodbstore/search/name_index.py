"""Full-text entries of names: of experiments and of registered models.

They lie in the partition of the workspace, where consistent reads find them; the forward entries
are also in GSI2, for lookups by word over a whole workspace. What they bring is judged again, so an
entry too many does no harm, and they are written before the name is taken and removed after it is
given up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mlflow_dynamodbstore import keys
from mlflow_dynamodbstore.search.filters import Comparison
from mlflow_dynamodbstore.search.fulltext import TextField, needed, tokens
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key

EXPERIMENT_NAME = "experiment.name"
MODEL_NAME = "registered_model.name"
FIELDS = (EXPERIMENT_NAME, MODEL_NAME)

MOST_TOKENS = 3


def items(field: TextField, workspace: str, entity_id: str, name: str) -> Iterator[Item]:
    """The forward and reverse items of a name."""
    pk = keys.workspace_pk(workspace)
    for level in field.levels:
        for token in sorted(tokens(level, name)):
            place = (level, token, field.name, entity_id)
            yield {"PK": pk, "SK": keys.fts(*place), **keys.gsi2_fts(*place, workspace)}
            yield {"PK": pk, "SK": keys.fts_rev(field.name, entity_id, level, token)}


def item_keys(
    fields: Iterable[TextField], field_name: str, workspace: str, entity_id: str, name: str
) -> dict[Key, Item]:
    """The items of a name by their keys; none when the field is not indexed."""
    return {
        Key(item["PK"], item["SK"]): item
        for field in fields
        if field.name == field_name
        for item in items(field, workspace, entity_id, name)
    }


def names(table: Table, field_name: str, workspace: str) -> Iterator[tuple[str, str]]:
    """The id and the name of everything that a workspace names."""
    within = keys.EXPERIMENT_NAMES if field_name == EXPERIMENT_NAME else keys.MODEL_NAMES
    for guard in table.items(Query(keys.workspace_pk(workspace), where=within.on())):
        cut = guard.get("key", guard.get("name"))
        name = str(keys.guarded_name_of(str(guard["SK"])) or cut)
        yield (str(guard["experiment_id"]) if field_name == EXPERIMENT_NAME else name), name


def ids_having(
    table: Table,
    fields: Iterable[TextField],
    field_name: str,
    workspace: str,
    comparisons: Iterable[Comparison],
) -> set[str] | None:
    """The ids of what can satisfy comparisons of its name; None when the entries cannot tell."""
    wanted = [
        (level, token)
        for field in fields
        if field.name == field_name and field.complete
        for level in field.levels
        for comparison in comparisons
        for token in needed(level, comparison)
    ]
    if not wanted:
        return None
    pk = keys.workspace_pk(workspace)
    # The longest tokens are in the fewest names.
    few = sorted(set(wanted), key=lambda one: (-len(one[1]), one))[:MOST_TOKENS]
    return set.intersection(*table.map(lambda one: _having(table, pk, field_name, *one), few))


def _having(table: Table, pk: str, field_name: str, level: str, token: str) -> set[str]:
    query = Query(pk, where=keys.fts_entries(level, token).on(), keys_only=True)
    places = (keys.fts_of(str(item["SK"])) for item in table.items(query))
    return {str(p.entity_id) for p in places if p.entity_type == field_name}
