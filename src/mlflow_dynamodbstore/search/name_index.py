"""Full-text entries of the names of experiments.

They lie in the partition of the workspace, where consistent reads find them; the forward entries
are also in GSI2, for lookups by word over a whole workspace. What they bring is judged again, so an
entry too many does no harm, and one too few would hide an experiment. A name is therefore entered
before it is taken, and once more afterwards, should cleanup have come in between; entries of an old
name go last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mlflow_dynamodbstore import keys
from mlflow_dynamodbstore.policies import Policies
from mlflow_dynamodbstore.search.filters import Comparison
from mlflow_dynamodbstore.search.fulltext import TextField, needed, tokens
from mlflow_dynamodbstore.table.contract import Delete, Put, Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key

EXPERIMENT_NAME = "experiment.name"

MOST_TOKENS = 3


def items(field: TextField, workspace: str, experiment_id: str, name: str) -> Iterator[Item]:
    """The forward and reverse items of a name."""
    pk = keys.workspace_pk(workspace)
    for level in field.levels:
        for token in sorted(tokens(level, name)):
            place = (level, token, field.name, experiment_id)
            yield {"PK": pk, "SK": keys.fts(*place), **keys.gsi2_fts(*place, workspace)}
            yield {"PK": pk, "SK": keys.fts_rev(field.name, experiment_id, level, token)}


class NameIndex:
    """The entries of names in one table; nothing happens while names are not indexed."""

    def __init__(self, table: Table, policies: Policies):
        self._table = table
        self._policies = policies

    def entries(self, workspace: str, experiment_id: str, name: str) -> dict[Key, Item]:
        """The items of a name by their keys."""
        field = self._field()
        found = () if field is None else items(field, workspace, experiment_id, name)
        return {Key(item["PK"], item["SK"]): item for item in found}

    def enter(self, workspace: str, experiment_id: str, name: str) -> None:
        """Write the entries of a name; to be done before it is taken, and after."""
        found = self.entries(workspace, experiment_id, name)
        if found:
            self._table.write([Put(item) for item in found.values()])

    def leave(
        self, workspace: str, experiment_id: str, name: str, kept: Iterable[Key] = ()
    ) -> None:
        """Remove the entries of a name that was given up, but for those of the new one."""
        gone = self.entries(workspace, experiment_id, name).keys() - set(kept)
        if gone:
            self._table.write([Delete(key) for key in sorted(gone)])

    def ids_having(self, workspace: str, comparisons: Iterable[Comparison]) -> set[str] | None:
        """The experiments whose names can satisfy comparisons; None when entries cannot tell."""
        field = self._field()
        if field is None or not field.complete:
            return None
        wanted = {
            (level, token)
            for level in field.levels
            for comparison in comparisons
            for token in needed(level, comparison)
        }
        if not wanted:
            return None
        pk = keys.workspace_pk(workspace)
        # The longest tokens are in the fewest names.
        few = sorted(wanted, key=lambda one: (-len(one[1]), one))[:MOST_TOKENS]
        return set.intersection(*self._table.map(lambda one: self._having(pk, *one), few))

    def _having(self, pk: str, level: str, token: str) -> set[str]:
        query = Query(pk, where=keys.fts_entries(level, token).on(), keys_only=True)
        places = (keys.fts_of(str(item["SK"])) for item in self._table.items(query))
        return {str(p.entity_id) for p in places if p.entity_type == EXPERIMENT_NAME}

    def _field(self) -> TextField | None:
        fields = self._policies.text_fields()
        return next((field for field in fields if field.name == EXPERIMENT_NAME), None)
