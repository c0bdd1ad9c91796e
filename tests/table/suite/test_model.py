"""Any sequence of operations agrees with a dictionary that does the same."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from boto3.dynamodb.conditions import Attr, ConditionBase
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from mlflow_dynamodbstore.table.contract import (
    Delete,
    Engine,
    Patch,
    Put,
    Query,
    Returns,
    Write,
)
from mlflow_dynamodbstore.table.errors import ConditionFailed, TransactionCancelled
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key
from tests.table.suite.samples import assert_same, keys_of, token, walk

_runs = itertools.count()

PARTITIONS = ["p", "q"]
SORT_KEYS = ["a", "a#1", "b", "b#2", "c"]
INDEX_KEYS = ["x", "y", "y#", "z"]


@dataclass(frozen=True)
class Rule:
    """A condition, and the same as a function of the old item."""

    condition: ConditionBase | None
    holds: Callable[[Item | None], bool]

    def __repr__(self) -> str:
        return "no condition" if self.condition is None else str(self.condition.get_expression())


def _more_than_one(old: Item | None) -> bool:
    n = (old or {}).get("n")
    return isinstance(n, int) and n > 1


RULES = [
    Rule(None, lambda _: True),
    Rule(None, lambda _: True),
    Rule(Attr("PK").not_exists(), lambda old: old is None),
    Rule(Attr("PK").exists(), lambda old: old is not None),
    Rule(Attr("n").gt(1), _more_than_one),
    Rule(Attr("PK").not_exists() | Attr("n").gt(1), lambda old: old is None or _more_than_one(old)),
]

index_attributes = st.fixed_dictionaries(
    {},
    optional={
        "gsi1sk": st.sampled_from(INDEX_KEYS),
        "lsi1sk": st.sampled_from(INDEX_KEYS),
        "lsi2sk": st.sampled_from(INDEX_KEYS),
    },
)
places = st.tuples(st.sampled_from(PARTITIONS), st.sampled_from(SORT_KEYS))
returns = st.sampled_from(["none", "old"])
numbers = st.integers(-3, 3)


@st.composite
def puts(draw: Any) -> Any:
    attributes = draw(index_attributes)
    group = draw(st.sampled_from([None, *PARTITIONS]))
    return ("put", draw(places), {"n": draw(numbers), **attributes}, group, draw(returns))


@st.composite
def patches(draw: Any) -> Any:
    changes = draw(index_attributes)
    removed = draw(st.sets(st.sampled_from(["lsi1sk", "lsi2sk", "gsi1sk", "absent"])))
    return ("patch", draw(places), changes, removed - changes.keys(), draw(numbers))


@st.composite
def deletes(draw: Any) -> Any:
    return ("delete", draw(places), draw(returns))


operations = st.tuples(st.one_of(puts(), patches(), deletes()), st.sampled_from(RULES))
several = st.lists(operations, min_size=1, max_size=5, unique_by=lambda one: one[0][1])


class AgreesWithADictionary(RuleBasedStateMachine):
    """Does each operation on an engine and on a dictionary, and compares."""

    def __init__(self, engine: Engine, *, through_keys: bool) -> None:
        super().__init__()
        self.engine = engine
        self.through_keys = through_keys
        self.model: dict[Key, Item] = {}
        # One table serves all runs; each has partitions of its own.
        self.run = f"{next(_runs)}-"

    def write_of(self, operation: Any, condition: ConditionBase | None) -> Write:
        kind, (pk, sk), *rest = operation
        key = Key(self.run + pk, sk)
        if kind == "put":
            attributes, group, wanted = rest
            group_key = {} if group is None else {"gsi1pk": self.run + group}
            return Put({"PK": key.pk, "SK": sk, **attributes, **group_key}, condition, wanted)
        if kind == "delete":
            wanted_old: Returns = rest[0]
            return Delete(key, condition, wanted_old)
        changes, removed, amount = rest
        update = Update(changes, {"text": sk}, {"n": amount}, tuple(removed))
        return Patch(key, update, condition, "new")

    def old(self, write: Write) -> Item | None:
        key = self.engine.schema.key_of(write.item) if isinstance(write, Put) else write.key
        return self.model.get(key)

    def apply_to_model(self, write: Write) -> Item | None:
        """Do a write on the dictionary; gives the image it asks for."""
        old = self.old(write)
        if isinstance(write, Delete):
            self.model.pop(write.key, None)
        elif isinstance(write, Put):
            self.model[self.engine.schema.key_of(write.item)] = write.item
        else:
            new = write.update.apply(old or {"PK": write.key.pk, "SK": write.key.sk})
            self.model[write.key] = new
            return new
        return old if write.returns == "old" else None

    @rule(operation=operations)
    def write_one(self, operation: Any) -> None:
        what, on = operation
        write = self.write_of(what, on.condition)
        old = self.old(write)
        try:
            image = self.engine.apply(write)
        except ConditionFailed as refused:
            assert not on.holds(old)
            assert_same(refused.old, old)
        else:
            assert on.holds(old)
            assert_same(image, self.apply_to_model(write))

    @rule(batch=several)
    def write_many(self, batch: Any) -> None:
        writes = [self.write_of(what, on.condition) for what, on in batch]
        outcomes = self.engine.apply_many(writes)
        for write, (_, on), outcome in zip(writes, batch, outcomes, strict=True):
            old = self.old(write)
            assert outcome.status == ("applied" if on.holds(old) else "refused")
            image = self.apply_to_model(write) if outcome.status == "applied" else old
            assert_same(outcome.image, image)

    @rule(batch=several)
    def write_all_or_none(self, batch: Any) -> None:
        writes = [self.write_of(what, on.condition) for what, on in batch]
        verdicts = [on.holds(self.old(write)) for write, (_, on) in zip(writes, batch, strict=True)]
        try:
            self.engine.transact(writes, token())
        except TransactionCancelled as cancelled:
            reasons = cancelled.reasons
        else:
            reasons = [None] * len(writes)
            for write in writes:
                self.apply_to_model(write)
        assert [reason is None for reason in reasons] == verdicts
        for write, reason in zip(writes, reasons, strict=True):
            if reason is not None:
                assert_same(reason.old, self.old(write))

    @rule(
        partition=st.sampled_from(PARTITIONS),
        descending=st.booleans(),
        limit=st.sampled_from([None, 1, 2, 3]),
        index=st.sampled_from([None, "LSI1", "LSI2", "GSI1"]),
        above=st.sampled_from([None, 0]),
    )
    def query(
        self,
        partition: str,
        descending: bool,
        limit: int | None,
        index: str | None,
        above: int | None,
    ) -> None:
        if index == "LSI2" and not self.through_keys:
            return
        whole = index in (None, "LSI1")  # the others carry keys, so a filter cannot see ``n``
        found = walk(
            self.engine,
            Query(
                self.run + partition,
                index=index,
                descending=descending,
                limit=limit,
                filter=Attr("n").gt(above) if above is not None and whole else None,
            ),
        )
        wanted = self.in_index(self.run + partition, index, descending)
        if above is not None and whole:
            wanted = [one for one in wanted if one["n"] > above]
        sort_key = "SK" if index is None else self.engine.schema.by_name[index].sk
        assert [one[sort_key] for one in found] == [one[sort_key] for one in wanted]
        # Equal keys of an index come in no particular order.
        found.sort(key=self.engine.schema.key_of)
        wanted.sort(key=self.engine.schema.key_of)
        if index == "GSI1":
            assert keys_of(found) == keys_of(wanted)
        else:
            assert_same(found, wanted)

    def in_index(self, partition: str, name: str | None, descending: bool) -> list[Item]:
        schema = self.engine.schema
        if name is None:
            placed = [(k.sk, item) for k, item in self.model.items() if k.pk == partition]
        else:
            index = schema.by_name[name]
            placed = [
                (place[1], item)
                for item in self.model.values()
                if (place := schema.index_key(index, item)) and place[0] == partition
            ]
        placed.sort(key=lambda one: one[0], reverse=descending)
        return [item for _, item in placed]

    @invariant()
    def every_item_is_there(self) -> None:
        every = [Key(self.run + pk, sk) for pk in PARTITIONS for sk in SORT_KEYS]
        got = self.engine.get_many(every)
        assert_same(
            {str(key): item for key, item in got.items.items()},
            {str(key): item for key, item in self.model.items()},
        )


def test_any_sequence_of_operations_agrees_with_a_dictionary(subject):
    """Random writes and queries give what a plain dictionary of items would give."""
    through_keys = "index_reads_through" in subject.capabilities

    class OnThisEngine(AgreesWithADictionary):
        def __init__(self) -> None:
            super().__init__(subject.engine, through_keys=through_keys)

    # One that answers a request at a time is slow, and shows little that the others do not.
    share = 2 if "parallel_processes" in subject.capabilities else 10
    run_state_machine_as_test(
        OnThisEngine,
        settings=settings(max_examples=settings().max_examples // share, stateful_step_count=20),
    )
