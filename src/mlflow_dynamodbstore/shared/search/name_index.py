"""Full-text entries of names: of experiments, and of registered models.

They lie in the partition of the workspace, where consistent reads find them; the forward entries
are also in GSI2, for lookups by word over a whole workspace. The filter judges what they bring, so
a superfluous entry does no harm, and a missing one hides an entity. A name is therefore entered
before it is taken, and again afterwards in case cleanup ran in between. The entries of an old name
are removed last.

The id of an experiment stays when its name changes. The id of a registered model is its name, so
the entries of a released name are removed while nobody can take it: see ``shared.names.claims``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import ranks as rank_keys
from mlflow_dynamodbstore.keys.encoding import is_cut
from mlflow_dynamodbstore.keys.ranks import MODEL_NAME, forward_fts
from mlflow_dynamodbstore.shared.policies import Policies
from mlflow_dynamodbstore.shared.search.filters import Comparison
from mlflow_dynamodbstore.shared.search.fulltext import TextField, needed, tokens
from mlflow_dynamodbstore.table.contract import Delete, Put, Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key

__all__ = ["EXPERIMENT_NAME", "MODEL_NAME", "NameIndex", "entries_left", "items"]

EXPERIMENT_NAME = "experiment.name"

ENTITY_ID = "entity_id"
"""Attribute of an entry: an id that is too long for its key."""
MOST_TOKENS = 3
MOST_ENTRIES = 1_000
"""For a token of more names than this, it is cheaper to list all names."""


def items(field: TextField, workspace: str, entity_id: str, name: str) -> Iterator[Item]:
    """The forward and reverse items of a name."""
    pk = access_keys.workspace_pk(workspace)
    for level in field.levels:
        for token in sorted(tokens(level, name)):
            parts = (level, token, field.name, entity_id)
            back = rank_keys.fts_rev(field.name, entity_id, level, token)
            yield _item(
                pk, rank_keys.fts(*parts), entity_id, index_keys.gsi2_fts(*parts, workspace)
            )
            yield _item(pk, back, entity_id)


def _item(pk: str, sk: str, entity_id: str, index: Item | None = None) -> Item:
    whole = {ENTITY_ID: entity_id} if is_cut(sk) else {}
    return {"PK": pk, "SK": sk, **whole, **(index or {})}


def entries_left(table: Table, field: str, workspace: str, entity_id: str) -> list[Key]:
    """The keys of all entries of an entity, whatever was indexed when they were written.

    The reverse entries come last: by them, an interrupted removal finds the rest.
    """
    pk = access_keys.workspace_pk(workspace)
    words = rank_keys.fts_rev_entries(field, entity_id)
    back = [Key(pk, str(item["SK"])) for item in table.items(Query(pk, where=words.on()))]
    return [*(Key(pk, forward_fts(key.sk)) for key in back), *back]


class NameIndex:
    """The entries of names of one kind; does nothing while these are not indexed."""

    def __init__(self, table: Table, policies: Policies, field: str = EXPERIMENT_NAME):
        self._table = table
        self._policies = policies
        self._name = field

    def entries(self, workspace: str, entity_id: str, name: str) -> dict[Key, Item]:
        """The items of a name by their keys."""
        field = self._field()
        found = () if field is None else items(field, workspace, entity_id, name)
        return {Key(item["PK"], item["SK"]): item for item in found}

    def enter(self, workspace: str, entity_id: str, name: str) -> None:
        """Write the entries of a name; to be called before it is taken, and after."""
        found = self.entries(workspace, entity_id, name)
        if found:
            self._table.write([Put(item) for item in found.values()])

    def leave(self, workspace: str, entity_id: str, name: str, kept: Iterable[Key] = ()) -> None:
        """Remove the entries of an old name, except those that the new one needs."""
        gone = self.entries(workspace, entity_id, name).keys() - set(kept)
        if gone:
            self._table.write([Delete(key) for key in sorted(gone)])

    def ids_having(self, workspace: str, comparisons: Iterable[Comparison]) -> set[str] | None:
        """The entities whose names can satisfy comparisons; None when entries cannot tell."""
        field = self._field()
        if field is None or not field.complete:
            return None
        wanted = {
            (level, token)
            for level in field.levels
            for comparison in comparisons
            for token in needed(level, comparison)
        }
        pk = access_keys.workspace_pk(workspace)
        # The longest tokens are in the fewest names.
        few = sorted(wanted, key=lambda one: (-len(one[1]), one))[:MOST_TOKENS]
        found = self._table.map(lambda one: self._having(pk, *one), few)
        telling = [ids for ids in found if ids is not None]
        return set.intersection(*telling) if telling else None

    def _having(self, pk: str, level: str, token: str) -> set[str] | None:
        """The entities with a token; None when they are too many."""
        words = rank_keys.fts_entries(level, token, self._name)
        query = Query(pk, where=words.on(), limit=MOST_ENTRIES + 1)
        found = {_entity_of(item) for item in islice(self._table.items(query), MOST_ENTRIES + 1)}
        return None if len(found) > MOST_ENTRIES else found

    def _field(self) -> TextField | None:
        fields = self._policies.text_fields()
        return next((field for field in fields if field.name == self._name), None)


def _entity_of(entry: Item) -> str:
    return str(entry.get(ENTITY_ID) or rank_keys.fts_of(str(entry["SK"])).entity_id)
