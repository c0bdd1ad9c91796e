"""Keys of issues, which lie in the partition of their experiment.

Each has a locator, because MLflow also asks for issues by id alone.
"""

from __future__ import annotations

from mlflow_dynamodbstore.keys.base import ID, children, join, key_text, pieces_of
from mlflow_dynamodbstore.keys.encoding import bounded
from mlflow_dynamodbstore.keys.experiments import (
    EXPERIMENT_META,
    experiment_key,
    experiment_pk,
    listed_experiment,
)
from mlflow_dynamodbstore.keys.section_types import (
    ItemDescription,
    KeySection,
    id_without_prefix,
)
from mlflow_dynamodbstore.table.values import Item, Key

ISSUES = children("I")
"""The issues of an experiment; in LSI5, the references to them from traces."""
EXPERIMENTS_WITH_ISSUES_PK = "ISSUES"
"""The partition that lists all experiments that have issues."""

_LOCATOR = "I#LOC"


def issue(issue_id: str) -> str:
    """An issue."""
    return join("I", bounded(issue_id, ID))


def issue_key(experiment_id: str, issue_id: str) -> Key:
    """The whole key of an issue."""
    return Key(experiment_pk(experiment_id), issue(issue_id))


def issue_id_of(sk: str) -> str | None:
    """The issue that a sort key, of the table or of LSI5, belongs to."""
    return key_text(pieces_of(sk, "I")[0])


def is_issue(sk: str) -> bool:
    """Whether a sort key among the issues is that of an issue, not of a part of one."""
    return len(pieces_of(sk, "I")) == 1


def issue_locator_key(issue_id: str) -> Key:
    """The item that names an issue's experiment, in a partition of its own."""
    return Key(join("ISSUE", bounded(issue_id, ID)), _LOCATOR)


def experiment_with_issues_key(experiment_id: str) -> Key:
    """An experiment in the list of those that have issues."""
    return Key(EXPERIMENTS_WITH_ISSUES_PK, listed_experiment(experiment_id))


def lsi5_issue(issue_id: str, trace_id: str, assessment_id: str) -> str:
    """A reference to an issue from a trace, by issue."""
    pieces = (bounded(issue_id, ID), bounded(trace_id, ID), bounded(assessment_id, ID))
    return join("I", *pieces)


def reference_of(lsi5sk: str) -> tuple[str, str]:
    """The sort keys of the issue that a reference names, and of the trace that refers to it."""
    issue_piece, trace_piece, _ = pieces_of(lsi5sk, "I")
    return join("I", issue_piece), join("T", trace_piece)


# --- what an item is ----------------------------------------------------------------------------


def _issue(pk: str, words: list[str], _item: Item) -> ItemDescription:
    return ItemDescription(
        "Issue", (Key(pk, EXPERIMENT_META),), id_without_prefix("iss-", words[1])
    )


def _issue_locator(pk: str, words: list[str], item: Item) -> ItemDescription | None:
    if words != ["I", "LOC"]:
        return None
    piece = pk.partition("#")[2]
    meta = experiment_key(str(item["experiment_id"]))
    owners = (meta, Key(meta.pk, join("I", piece)))
    return ItemDescription("Issue locator", owners, id_without_prefix("iss-", piece))


def _experiment(_pk: str, words: list[str], _item: Item) -> ItemDescription:
    owner = Key(join("EXP", words[1]), EXPERIMENT_META)
    return ItemDescription("Experiment with issues", (owner,))


SECTION = KeySection(
    partitions={"ISSUE": _issue_locator, EXPERIMENTS_WITH_ISSUES_PK: _experiment},
    in_experiment={"I": _issue},
)
