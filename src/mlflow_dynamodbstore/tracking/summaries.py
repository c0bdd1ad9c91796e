"""The summary of a run, and what is derived from it so that searches find the run."""

from __future__ import annotations

from collections.abc import Iterable

from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import ranks as rank_keys
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.policies import Rules
from mlflow_dynamodbstore.shared.search import fulltext
from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.tracking.records import RunContents

SUMMARY = "summary"
RUN_NAME_FIELD = "run.name"
RUN_TAG_FIELDS = "run.tags."


def lsi5_entry(run_id: str, contents: RunContents, primary_metric: str | None) -> Item:
    """The sort key of a sealed run in LSI5: by the primary metric, or by its first one by name."""
    name = primary_metric or min(contents.metrics, default=None)
    if name is None or name not in contents.metrics:
        return {}
    return {"lsi5sk": index_keys.lsi5_run(run_id, name, contents.metrics[name][0])}


def published(table: Table, item: Item) -> RunContents | None:
    """The contents of a run's last summary, from which its RANK items were made."""
    if SUMMARY not in item:
        return None
    return RunContents.from_summary(large_values.load(table, item, SUMMARY))


# --- what is derived from a run for searching ---------------------------------------------------


def derived_keys(pk: str, run_id: str, contents: RunContents, rules: Rules) -> Iterable[Key]:
    """The RANK items of a run's latest metrics and params, and the FTS items of its texts.

    A deleted run keeps them until it expires: a search reads the run itself and sees its stage.
    """
    for name, (value, _, _) in contents.metrics.items():
        yield Key(pk, rank_keys.metric_rank(name, value, run_id))
    for name, text in contents.params.items():
        yield Key(pk, rank_keys.param_rank(name, text, run_id))
    for field in rules.text_fields:
        tag = tag_of(field.name)
        if tag in contents.tags:
            yield from fulltext.entries(pk, field, run_id, contents.tags[tag])


def derived_item(key: Key) -> Put:
    """A RANK or FTS item, which is nothing but its key; a forward FTS item is in GSI2 too."""
    index = index_keys.run_fts_index(key.sk) if key.sk in rank_keys.FTS_ENTRIES else {}
    return Put({"PK": key.pk, "SK": key.sk, **index})


def time_of_texts(pk: str, derived: Iterable[Key], now: float) -> list[Put]:
    """The note of when FTS items of an experiment were written, if any are among those derived.

    GSI2 shows them later. It must be written before the run is no longer live.
    """
    if not any(key.sk in rank_keys.FTS_ENTRIES for key in derived):
        return []
    return [Put({"PK": pk, "SK": experiment_keys.experiment_texts(), "at": int(now)})]


def tag_of(field: str) -> str | None:
    """The tag that a text field of runs stands for; a run's name is one of its tags."""
    if field == RUN_NAME_FIELD:
        return str(MLFLOW_RUN_NAME)
    prefix, _, tag = field.partition(RUN_TAG_FIELDS)
    return tag if tag and not prefix else None
