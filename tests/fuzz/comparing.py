"""A call with one bad value, on MLflow's store and on ours, and whether the two agree."""

from __future__ import annotations

import inspect
import time
import types
import typing
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mlflow.exceptions import MlflowException

from tests.fuzz.bad_values import Slot, slots
from tests.fuzz.worlds import Ours, Theirs, Watched, World, removes

ANSWERED = "answered"
ONE_OF = (typing.Union, types.UnionType)
INVALID = "INVALID_PARAMETER_VALUE"
BROKEN = frozenset({"INTERNAL_ERROR", "BAD_REQUEST", "TEMPORARILY_UNAVAILABLE"})
"""Codes by which MLflow's SQL store says that its database or its code failed."""
SLOW = 2.0
"""Seconds of the processor that a call of ours may take."""
MOST_ITEMS = 600
"""A world that has grown to this is replaced by a new one."""


@dataclass(frozen=True)
class Outcome:
    """What came of a call: an answer, MLflow's error by its code, or another error by its type."""

    code: str
    message: str = ""

    @property
    def is_raw(self) -> bool:
        return self.code.endswith("(raw)")

    @property
    def is_broken(self) -> bool:
        if self.code.startswith(NotImplementedError.__name__):
            return False  # how a store tells what it does not offer
        return self.is_raw or self.code in BROKEN


@dataclass(frozen=True)
class Call:
    """One call on both sides."""

    kind: str
    method: str
    slot: str
    value: str
    theirs: Outcome
    ours: Outcome
    seconds: float
    left_behind: tuple[str, ...]
    """The keys of items that a refused call has written, changed or removed."""
    is_text: bool
    """Whether a text belongs into this place."""
    is_mlflows: bool
    """Whether the method is one of MLflow's own that our store inherits."""

    @property
    def is_fault(self) -> bool:
        """Whether ours did what nothing excuses: to break, to write in vain, to take long."""
        if self.is_mlflows:
            return bool(self.left_behind) or self.seconds > SLOW
        return self.ours.is_broken or bool(self.left_behind) or self.seconds > SLOW

    def complaint(self) -> str | None:
        """Why the two do not agree; None if they do.

        Where MLflow's store breaks, ours may refuse or answer, but not break.
        """
        if self.is_mlflows and self.ours.code == self.theirs.code:
            return None
        if self.ours.is_broken:
            return "ours breaks"
        if self.left_behind:
            return f"a refused call wrote {self.left_behind[:3]}"
        if self.seconds > SLOW:
            return f"ours took {self.seconds:.1f} s"
        if not self.theirs.is_broken and self.theirs.code != self.ours.code:
            return "the codes differ"
        return None

    def __str__(self) -> str:
        return (
            f"{self.kind} {self.method}({self.slot}={self.value}): {self.complaint()}; MLflow: "
            f"{self.theirs.code} {self.theirs.message}; ours: {self.ours.code} {self.ours.message}"
        )


def outcome(method: Callable[..., Any], given: dict[str, Any]) -> Outcome:
    """Call a method and read all that it returns."""
    try:
        answer = method(**given)
        if inspect.isgenerator(answer):
            list(answer)
    except MlflowException as error:
        return Outcome(error.error_code, ascii(error.message)[:300])
    except Exception as error:  # noqa: BLE001  # whatever a caller would see
        return Outcome(f"{type(error).__name__} (raw)", ascii(error)[:300])
    return Outcome(ANSWERED)


class Comparison:
    """Calls of the methods of one kind of store."""

    def __init__(self, theirs: Theirs, ours: Ours, kind: str):
        self._origins = (theirs, ours)
        self._kind = kind
        self._number = 0
        self._open()

    def _open(self) -> None:
        self._theirs, self._ours = (origin.fresh(self._kind) for origin in self._origins)
        assert self._ours.table is not None
        self._watched = Watched(self._ours.table)

    def close(self) -> None:
        self._watched.close()
        for world in (self._theirs, self._ours):
            world.close()

    def _renew(self) -> None:
        self.close()
        self._open()

    def calls(self, methods: Iterable[str], *, share: int = 1) -> Iterator[Call]:
        """Each method with each bad value in each place; only one value in ``share`` of them."""
        turn = 0
        for method in methods:
            for slot, other in self._slots(method):
                for value in slot.values():
                    turn += 1
                    if turn % share == 0:
                        found = self._call(method, (slot, other), value, slot.values()[value])
                        if found is not None:
                            yield found
            if removes(method) or len(self._watched.items()) > MOST_ITEMS:
                self._renew()

    def _slots(self, method: str) -> Iterator[tuple[Slot, Slot]]:
        """Places in the arguments, which have the same structure on both sides.

        Ours may take more arguments: those of a newer release.
        """
        sides = [world.arguments(self._kind, method, 0) for world in (self._theirs, self._ours)]
        theirs, ours = ({slot.name: slot for slot in slots(given)} for given in sides)
        for name, slot in theirs.items():
            yield slot, ours[name]

    def _call(self, method: str, places: tuple[Slot, Slot], name: str, value: Any) -> Call | None:
        self._number += 1
        sides: list[tuple[World, Slot]] = [(self._theirs, places[0]), (self._ours, places[1])]
        given = []
        for world, slot in sides:
            arguments = world.arguments(self._kind, method, self._number)
            given.append(slot.filled(arguments, value))
        if given[0] is None or given[1] is None:
            return None
        theirs = outcome(getattr(self._theirs.stores[self._kind], method), given[0])
        before = self._watched.items()
        began = time.process_time()  # other processes may keep us waiting
        ours = outcome(getattr(self._ours.stores[self._kind], method), given[1])
        seconds = time.process_time() - began
        changed: tuple[str, ...] = ()
        if ours.code != ANSWERED:
            after = self._watched.items()
            changed = () if after is before else _changed(before, after)
        store = self._ours.stores[self._kind]
        return Call(
            kind=self._kind,
            method=method,
            slot=places[0].name,
            value=name,
            theirs=theirs,
            ours=ours,
            seconds=seconds,
            left_behind=changed,
            is_text=_takes_text(store, method, places[1]),
            is_mlflows=not _is_ours(store, method),
        )


def _is_ours(store: Any, method: str) -> bool:
    return any(
        method in vars(kind)
        for kind in type(store).__mro__
        if kind.__module__.startswith("mlflow_dynamodbstore.")
    )


def _takes_text(store: Any, method: str, slot: Slot) -> bool:
    """Whether a text is declared for an argument, or is in this place inside one."""
    if len(slot.path) > 1:
        return slot.is_text
    try:
        declared = typing.get_type_hints(getattr(store, method)).get(slot.path[0], str)
    except NameError:
        return True
    inside = typing.get_args(declared) if typing.get_origin(declared) in ONE_OF else (declared,)
    return str in inside


def _changed(before: list[Any], after: list[Any]) -> tuple[str, ...]:
    old, new = ({f"{item['PK']} {item['SK']}": item for item in side} for side in (before, after))
    # By their texts, since NaN is not equal to itself.
    return tuple(sorted(key for key in old | new if repr(old.get(key)) != repr(new.get(key))))
