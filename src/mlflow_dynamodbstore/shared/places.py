"""Where runs and traces lie, and to which of them an item of an experiment belongs."""

from __future__ import annotations

from typing import NamedTuple

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.keys.encoding import CUT
from mlflow_dynamodbstore.keys.traces import trace_issue
from mlflow_dynamodbstore.table.values import Item, Key, Value

ARTIFACTS_FOLDER = "artifacts"
"""Folder of a run, logged model or trace that holds its artifacts."""
NAME = "key"
"""Attribute with a name that was too long to be read back from the item's sort key."""


class RunPlace(NamedTuple):
    """Which run, and in which volume of which experiment."""

    experiment_id: str
    run_id: str
    volume: int = 0

    @property
    def pk(self) -> str:
        return experiment_keys.volume_pk(self.experiment_id, self.volume)

    @property
    def key(self) -> Key:
        return run_keys.run_key(self.experiment_id, self.run_id, self.volume)

    def child(self, sk: str, name: str, attributes: dict[str, Value]) -> Item:
        """An item of this run with a name that a user chose; adds its key to ``attributes``."""
        attributes["PK"], attributes["SK"] = self.pk, sk
        if CUT in sk:
            attributes[NAME] = name
        return attributes

    def tag(self, name: str, value: str) -> Item:
        return self.child(run_keys.run_tag(self.run_id, name), name, {"value": value})

    def param(self, name: str, value: str) -> Item:
        return self.child(run_keys.run_param(self.run_id, name), name, {"value": value})


class TracePlace(NamedTuple):
    """Where a trace lies."""

    experiment_id: str
    trace_id: str
    volume: int = 0

    @property
    def pk(self) -> str:
        return experiment_keys.volume_pk(self.experiment_id, self.volume)

    @property
    def key(self) -> Key:
        return trace_keys.trace_key(self.experiment_id, self.trace_id, self.volume)

    @property
    def spans(self) -> Key:
        return Key(self.pk, trace_keys.trace_spans(self.trace_id))

    def more_spans(self, number: int) -> Key:
        """The item of a later batch of spans."""
        return Key(self.pk, trace_keys.trace_spans_part(self.trace_id, number))

    @property
    def client_request(self) -> Key:
        return Key(self.pk, trace_keys.trace_client_request(self.trace_id))

    def tag(self, key: str) -> Key:
        return Key(self.pk, trace_keys.trace_tag(self.trace_id, key))

    def assessment(self, assessment_id: str) -> Key:
        return Key(self.pk, trace_keys.trace_assessment(self.trace_id, assessment_id))

    def issue_note(self, assessment_id: str) -> Key:
        return Key(self.pk, trace_issue(self.trace_id, assessment_id))

    @property
    def session_note(self) -> Key:
        return Key(self.pk, trace_keys.session_assessed(self.trace_id))


def run_place_of(item: Item) -> RunPlace:
    """The run that an item of an experiment's partition belongs to."""
    return RunPlace(experiment_id_of(item), run_id_of(item), volume_of(item))


def trace_place_of(item: Item) -> TracePlace:
    """Where a trace's own item lies."""
    trace_id = trace_keys.trace_id_of(str(item["SK"])) or str(item["trace_id"])
    return TracePlace(experiment_id_of(item), trace_id, volume_of(item))


def experiment_id_of(item: Item) -> str:
    """The experiment in whose partition an item lies."""
    experiment_id = experiment_keys.experiment_id_of(str(item["PK"]))
    assert experiment_id is not None  # ids are short
    return experiment_id


def volume_of(item: Item) -> int:
    """The number of the volume in which an item of an experiment lies."""
    return experiment_keys.volume_of(str(item["PK"]))


def run_id_of(item: Item) -> str:
    """The run that an item is, or belongs to."""
    run_id = run_keys.run_id_of(str(item["SK"]))
    assert run_id is not None  # ids are short
    return run_id


def kind_and_name(child: Item) -> tuple[str, str]:
    """What an item of a run is (METRIC, PARAM, TAG, ...) and the name its user gave it."""
    kind, name = run_keys.run_child_of(child["SK"])
    return kind, str(child[NAME]) if name is None else name
