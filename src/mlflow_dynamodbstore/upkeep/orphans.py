"""Finding orphans: items whose owners are gone.

An item is read first, and its owners after it, consistently. Only a few writers put an item before
its owner:

- the tags of a new experiment come before the experiment, and those of a new run may;
- the parts of a large value come before the item that names them, the items below a trace before
  the trace, and the full-text entries of a name before the experiment or model that takes it.

So an item without an owner is an orphan if the id in its key was made long ago. If its key tells no
age, it is a suspect: an orphan only if a second check, after every writer must have finished, finds
it unchanged.

Spans that are still here although archiving has moved them are suspects, too: a process was killed
before it removed them.

The RANK and FTS items of a sealed run are compared with its summary. A run that is being sealed has
them before its summary, so they are left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys.item_kinds import SPANS, describe_item
from mlflow_dynamodbstore.keys.metric_log import METRIC_LOG
from mlflow_dynamodbstore.keys.section_types import ItemDescription
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.experiment_items import name_of
from mlflow_dynamodbstore.shared.places import run_id_of
from mlflow_dynamodbstore.shared.plain_values import readable_text
from mlflow_dynamodbstore.shared.policies import Rules
from mlflow_dynamodbstore.shared.search import name_index
from mlflow_dynamodbstore.table.contract import Query
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import TTL, Item, Key, Value
from mlflow_dynamodbstore.traces.items import has_archived_spans
from mlflow_dynamodbstore.tracking import sealing, summaries
from mlflow_dynamodbstore.tracking.log_entries import AT
from mlflow_dynamodbstore.tracking.records import (
    BEGUN_WITH,
    LIVE,
    LOGGING,
    SEALED,
    SEALING,
    SUMMARISING,
)

YOUNG_SECONDS = 3600
"""An id up to this age may belong to something that is still being written."""
OWNERS_AT_ONCE = 100
"""How many owners are read, and held whole, at a time."""
GUARD_OF_EXPERIMENT = "Experiment name"


class Verdict(Enum):
    """What a check of an item and its owners says."""

    KEPT = "kept"
    SUSPECT = "suspect"
    ORPHAN = "orphan"


@dataclass(frozen=True)
class PossibleOrphan:
    """An item that is an orphan or a suspect.

    ``sealed_as`` is the generation of the run whose summary contradicts a search entry; None when
    the run is gone. ``named`` is the name that the owner of a guard or name entry has; None when
    the owner is gone.
    """

    key: Key
    description: ItemDescription
    verdict: Verdict
    sealed_as: int | None = None
    named: str | None = None


@dataclass
class _Owner:
    """The little that is kept of an owner, since there may be many.

    ``true_entries`` are the search entries, of those asked about, that the summary of a sealed run
    confirms; None when that is unknown.
    """

    state: str | None
    generation: int | None
    named_parts: frozenset[str]
    name: tuple[Value, Value]
    has_archived_spans: bool
    true_entries: set[str] | None = None


@dataclass(frozen=True)
class _Checked:
    item: Item
    key: Key
    description: ItemDescription


class OrphanFinder:
    """Finds the orphans and suspects of one table, a batch of items at a time."""

    def __init__(self, table: Table):
        self._table = table

    def find(self, items: Iterable[Item], rules: Rules) -> list[PossibleOrphan]:
        """The orphans and suspects among items. ``rules`` must be read after the items."""
        described = ((item, describe_item(item)) for item in items)
        checked = [
            _Checked(item, self._table.schema.key_of(item), description)
            for item, description in described
            if description.owners
        ]
        owners = self._owners(checked, rules)
        found = (self._check(one, owners, rules) for one in checked)
        return [one for one in found if one.verdict != Verdict.KEPT]

    # --- owners ---------------------------------------------------------------------------------

    def _owners(self, checked: Sequence[_Checked], rules: Rules) -> dict[Key, _Owner]:
        wanted: dict[Key, set[str]] = {}
        for one in checked:
            head = one.description.head
            for key in (*one.description.owners, *(() if head is None else (head,))):
                wanted.setdefault(key, set())
            if one.description.run is not None:
                wanted[one.description.run].add(one.key.sk)
        owners: dict[Key, _Owner] = {}
        for chunk in batched(wanted, OWNERS_AT_ONCE):
            for key, item in self._table.get_many(chunk).items():
                owners[key] = self._owner(item, wanted[key], rules)
        return owners

    def _owner(self, item: Item, entries: set[str], rules: Rules) -> _Owner:
        owner = _Owner(
            state=item.get("state"),
            generation=item.get("generation"),
            named_parts=frozenset(
                str(value["generation"])
                for value in item.values()
                if isinstance(value, dict) and "generation" in value
            ),
            name=(item.get("name"), item.get("workspace")),
            has_archived_spans=has_archived_spans(item),
        )
        if entries and owner.state == SEALED:
            owner.true_entries = self._true_entries(item, entries, rules)
        return owner

    def _true_entries(self, run: Item, entries: set[str], rules: Rules) -> set[str] | None:
        """Those of some search entries that the summary of a sealed run confirms."""
        try:
            record = sealing.read(self._table, run)
        except large_values.LargeValueLost:
            return None  # the summary is unknown, so the entries stay
        params = record.contents.params
        record.contents.params = {name: readable_text(value) for name, value in params.items()}
        derived = summaries.derived_keys(str(run["PK"]), record.run_id, record.contents, rules)
        return {key.sk for key in derived if key.sk in entries}

    # --- verdicts -------------------------------------------------------------------------------

    def _check(self, one: _Checked, owners: dict[Key, _Owner], rules: Rules) -> PossibleOrphan:
        what, key = one.description, one.key
        if any(owner not in owners for owner in what.owners):
            certain = what.is_search_entry or what.kind.endswith(" name")
            # A name tells no age, even if it looks like an id.
            owner_id = None if what.is_name_entry else what.owner_id
            verdict = Verdict.ORPHAN if certain else self._by_age(owner_id)
            return PossibleOrphan(key, what, verdict)
        if BEGUN_WITH in one.item and self._lacks_tags(one.item):
            return PossibleOrphan(key, what, Verdict.ORPHAN)
        if what.head is not None:
            return PossibleOrphan(key, what, self._check_part(what, owners.get(what.head)))
        if what.run is not None:
            run = owners[what.run]
            wrong = run.true_entries is not None and key.sk not in run.true_entries
            verdict = Verdict.ORPHAN if wrong else Verdict.KEPT
            return PossibleOrphan(key, what, verdict, sealed_as=run.generation)
        if what.kind == METRIC_LOG:
            # A writer reopens the run after its put, and a sealer removes what it has folded.
            is_old = self._table.clock() - one.item[AT] > YOUNG_SECONDS
            is_left = is_old and owners[what.owners[-1]].state == SEALED and TTL not in one.item
            return PossibleOrphan(key, what, Verdict.SUSPECT if is_left else Verdict.KEPT)
        if what.kind == SPANS and owners[what.owners[-1]].has_archived_spans:
            return PossibleOrphan(key, what, Verdict.SUSPECT)
        if what.kind == GUARD_OF_EXPERIMENT:
            return self._check_guard(one, owners[what.owners[0]])
        if what.is_name_entry:
            return self._check_name_entry(one, owners[what.owners[0]], rules)
        return PossibleOrphan(key, what, Verdict.KEPT)

    def _lacks_tags(self, run: Item) -> bool:
        """Whether a process died while it wrote a new run and its tags."""
        run_id = run_id_of(run)
        if run["generation"] != 1 or self._by_age(run_id) != Verdict.ORPHAN:
            return False
        query = Query(run["PK"], run_keys.run_tags(run_id).on(), keys_only=True)
        return len(list(self._table.items(query))) < int(run[BEGUN_WITH])

    def _check_part(self, part: ItemDescription, head: _Owner | None) -> Verdict:
        if head is None:
            return self._by_age(part.owner_id)
        if part.generation in head.named_parts or head.state in (SEALING, SUMMARISING):
            return Verdict.KEPT
        # The generation of a run tells that the writer of these parts can no longer publish them.
        return Verdict.ORPHAN if head.state in (LIVE, LOGGING, SEALED) else Verdict.SUSPECT

    def _check_guard(self, guard: _Checked, meta: _Owner) -> PossibleOrphan:
        """A guard is an orphan when its experiment has another name or workspace."""
        name, workspace = name_of(guard.item), access_keys.workspace_of(guard.key.pk)
        verdict = Verdict.KEPT if meta.name == (name, workspace) else Verdict.ORPHAN
        return PossibleOrphan(guard.key, guard.description, verdict, named=str(meta.name[0]))

    def _check_name_entry(self, entry: _Checked, meta: _Owner, rules: Rules) -> PossibleOrphan:
        """An entry of another name is a suspect: its owner may be about to take that name."""
        name, entity_id = str(meta.name[0]), str(entry.description.owner_id)
        is_model = entry.description.text_field == name_index.MODEL_NAME
        # A model never leaves its workspace, which is part of its key.
        workspace = access_keys.workspace_of(entry.key.pk) if is_model else meta.name[1]
        true_entries = {
            (item["PK"], item["SK"])
            for field in rules.text_fields
            if field.name == entry.description.text_field
            for item in name_index.items(field, str(workspace), entity_id, name)
        }
        verdict = Verdict.KEPT if entry.key in true_entries else Verdict.SUSPECT
        return PossibleOrphan(entry.key, entry.description, verdict, named=name)

    def _by_age(self, owner_id: str | None) -> Verdict:
        made_ms = None if owner_id is None else ids.made_at(owner_id)
        if made_ms is None:
            return Verdict.SUSPECT
        young = self._table.clock() - made_ms / 1000 < YOUNG_SECONDS
        return Verdict.KEPT if young else Verdict.ORPHAN
