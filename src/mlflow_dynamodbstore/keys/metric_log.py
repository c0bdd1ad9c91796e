"""Keys of the metric log: the metrics of runs that are not folded into their histories yet.

The logs of all runs of an experiment lie in one range, so that one query brings what is unfolded of
every run. In the log of a run, the segments of a writer sort before its head, and all writers
before the latest values: whoever moves a value writes the later item first, so a reader in the
order of the keys finds the value in one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from mlflow_dynamodbstore.keys.base import ID, WORD, Range, children, join, key_text, pieces_of
from mlflow_dynamodbstore.keys.encoding import bounded
from mlflow_dynamodbstore.keys.experiments import EXPERIMENT_META, first_volume
from mlflow_dynamodbstore.keys.section_types import ItemDescription, KeySection
from mlflow_dynamodbstore.table.values import Item, Key

METRIC_LOG = "Metric log"
METRIC_LOGS = children("LIVE")
"""The logs of all runs of an experiment."""
HEAD, LATEST = "head", "latest"
"""Both sort after the hexadecimal digits of writers and slots."""


class LogItem(NamedTuple):
    """The parts of a sort key in the metric log."""

    run_id: str
    writer: str  # LATEST for the latest values of folded writers
    part: str  # the slot of a segment, or HEAD; empty for LATEST


@lru_cache(maxsize=4096)
def run_log(run_id: str) -> Range:
    """The log of one run."""
    return children(join("LIVE", bounded(run_id, ID)))


def run_logs(run_ids: Iterable[str]) -> Range:
    """The logs of some runs, and of those whose ids lie between theirs."""
    ranges = [run_log(run_id) for run_id in run_ids]
    return Range(min(low for low, _ in ranges), max(high for _, high in ranges))


def log_segment(run_id: str, writer: str, slot: int) -> str:
    """Some calls of one writer."""
    return f"{run_log(run_id).low}{bounded(writer, WORD)}#{slot:02x}"


def log_head(run_id: str, writer: str) -> str:
    """What a writer has folded: how far, and the latest values."""
    return f"{run_log(run_id).low}{bounded(writer, WORD)}#{HEAD}"


def log_latest(run_id: str) -> str:
    """The latest values of what others have folded for its writers."""
    return f"{run_log(run_id).low}{LATEST}"


def log_item_of(sk: str) -> LogItem:
    """The parts of a sort key in the metric log."""
    run_piece, writer, *part = pieces_of(sk, "LIVE")
    run_id = key_text(run_piece)
    assert run_id is not None  # ids are short
    return LogItem(run_id, writer, part[0] if part else "")


def _describe(pk: str, words: list[str], _item: Item) -> ItemDescription:
    owners = (Key(first_volume(pk), EXPERIMENT_META), Key(pk, join("R", words[1])))
    return ItemDescription(METRIC_LOG, owners, key_text(words[1]))


SECTION = KeySection(in_experiment={"LIVE": _describe})
