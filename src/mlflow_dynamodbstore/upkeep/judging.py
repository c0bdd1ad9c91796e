"""Whether an item still belongs to something.

An item was read first; what it hangs on is read after it, consistently. Nothing is written without
its owner except in a few orders that are known:

- the tags of a new experiment and of a new run come before the experiment and the run;
- the parts of a large value come before the item that names them, what lies below a trace before
  the trace, and the full-text entries of a name before an experiment or a model takes it.

So an item without an owner is an orphan when the id in its key says that it was made long ago. One
that says nothing about its age is a suspect: it is one only if a second look, after every writer
must have come to its end, finds it the same.

RANK and FTS items of a run are judged by what a sealed run says of itself. A run that is being
sealed has them before it says so, and is passed over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys.item_kinds import anatomy
from mlflow_dynamodbstore.keys.pattern_types import Anatomy
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.experiment_items import name_of
from mlflow_dynamodbstore.shared.policies import Rules
from mlflow_dynamodbstore.shared.search import name_index
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key, Value
from mlflow_dynamodbstore.tracking import sealing
from mlflow_dynamodbstore.tracking.records import LIVE, SEALED, SEALING

YOUNG_SECONDS = 3600
"""Age up to which an id may belong to something that is just being made."""
OWNERS_AT_ONCE = 100
"""Whole items held at a time while owners are looked at."""
GUARD_OF_EXPERIMENT = "Experiment name"


class Verdict(Enum):
    """What a look at an item and at its owners says."""

    KEPT = "kept"
    SUSPECT = "suspect"
    ORPHAN = "orphan"


@dataclass(frozen=True)
class Judged:
    """An item that belongs to nothing, or seems so.

    ``sealed_as`` is the generation of the run that does not say of itself what a search entry
    says; None where the run is gone. ``named`` is the name of the experiment that a guard or an
    entry of a name belongs to, or of the model; None where that is gone.
    """

    key: Key
    what: Anatomy
    verdict: Verdict
    sealed_as: int | None = None
    named: str | None = None


@dataclass
class _Owner:
    """What is remembered of an owner: little, since there may be many."""

    state: str | None = None
    generation: int | None = None
    named_parts: frozenset[str] = frozenset()
    name: tuple[Value, Value] = (None, None)
    said: set[str] = field(default_factory=set)
    judges_entries: bool = False


@dataclass(frozen=True)
class _Subject:
    item: Item
    key: Key
    what: Anatomy


class Judge:
    """Judges the items of one table, a batch at a time."""

    def __init__(self, table: Table):
        self._table = table

    def judge(self, items: Iterable[Item], rules: Rules) -> list[Judged]:
        """Those among some items that are not certainly in order.

        ``rules`` must have been read after the items were.
        """
        subjects = [
            _Subject(item, self._table.schema.key_of(item), anatomy(item)) for item in items
        ]
        subjects = [subject for subject in subjects if subject.what.owners]
        owners = self._owners(subjects, rules)
        judged = (self._judged(subject, owners, rules) for subject in subjects)
        return [found for found in judged if found.verdict != Verdict.KEPT]

    # --- owners ---------------------------------------------------------------------------------

    def _owners(self, subjects: Sequence[_Subject], rules: Rules) -> dict[Key, _Owner]:
        wanted: dict[Key, set[str]] = {}
        for subject in subjects:
            for key in (*subject.what.owners, *_head(subject.what)):
                wanted.setdefault(key, set())
            if subject.what.run is not None:
                wanted[subject.what.run].add(subject.key.sk)
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
        )
        if entries and owner.state == SEALED:
            owner.said, owner.judges_entries = self._said(item, entries, rules)
        return owner

    def _said(self, run: Item, entries: set[str], rules: Rules) -> tuple[set[str], bool]:
        """Which of some search entries a sealed run says of itself, and whether that is known."""
        try:
            record = sealing.read(self._table, run)
        except large_values.LargeValueLost:
            return set(), False  # what it says cannot be known, so its entries stay
        derived = sealing.derived_keys(str(run["PK"]), record.run_id, record.contents, rules)
        return {key.sk for key in derived if key.sk in entries}, True

    # --- verdicts -------------------------------------------------------------------------------

    def _judged(self, subject: _Subject, owners: dict[Key, _Owner], rules: Rules) -> Judged:
        what, key = subject.what, subject.key
        if any(owner not in owners for owner in what.owners):
            certain = what.is_search_entry or what.entity.endswith(" name")
            # A name says nothing about its age, even one that looks like an id.
            told_by = None if what.is_name_entry else what.owner_id
            verdict = Verdict.ORPHAN if certain else self._by_age(told_by)
            return Judged(key, what, verdict)
        if what.head is not None:
            return Judged(key, what, self._part(what, owners.get(what.head)))
        if what.run is not None:
            run = owners[what.run]
            wrong = run.judges_entries and key.sk not in run.said
            verdict = Verdict.ORPHAN if wrong else Verdict.KEPT
            return Judged(key, what, verdict, sealed_as=run.generation)
        if what.entity == GUARD_OF_EXPERIMENT:
            return self._name(subject, owners[what.owners[0]])
        if what.is_name_entry:
            return self._name_entry(subject, owners[what.owners[0]], rules)
        return Judged(key, what, Verdict.KEPT)

    def _part(self, what: Anatomy, head: _Owner | None) -> Verdict:
        if head is None:
            return self._by_age(what.owner_id)
        if what.generation in head.named_parts or head.state == SEALING:
            return Verdict.KEPT
        # The generation of a run tells that whoever wrote these parts cannot publish them any more.
        is_run = head.state in (LIVE, SEALED)
        return Verdict.ORPHAN if is_run else Verdict.SUSPECT

    def _name(self, subject: _Subject, meta: _Owner) -> Judged:
        """A guard whose experiment has another name, or has moved to another workspace."""
        name, workspace = name_of(subject.item), access_keys.workspace_of(subject.key.pk)
        verdict = Verdict.KEPT if meta.name == (name, workspace) else Verdict.ORPHAN
        return Judged(subject.key, subject.what, verdict, named=str(meta.name[0]))

    def _name_entry(self, subject: _Subject, meta: _Owner, rules: Rules) -> Judged:
        """An entry of a name that its owner does not have; it may be about to take it."""
        name, entity_id = str(meta.name[0]), str(subject.what.owner_id)
        is_model = subject.what.text_field == name_index.MODEL_NAME
        # A model never leaves the workspace that is part of its key.
        workspace = access_keys.workspace_of(subject.key.pk) if is_model else meta.name[1]
        true = {
            (entry["PK"], entry["SK"])
            for field in rules.text_fields
            if field.name == subject.what.text_field
            for entry in name_index.items(field, str(workspace), entity_id, name)
        }
        verdict = Verdict.KEPT if subject.key in true else Verdict.SUSPECT
        return Judged(subject.key, subject.what, verdict, named=name)

    def _by_age(self, owner_id: str | None) -> Verdict:
        made_ms = None if owner_id is None else ids.made_at(owner_id)
        if made_ms is None:
            return Verdict.SUSPECT
        young = self._table.clock() - made_ms / 1000 < YOUNG_SECONDS
        return Verdict.KEPT if young else Verdict.ORPHAN


def _head(what: Anatomy) -> tuple[Key, ...]:
    return () if what.head is None else (what.head,)
