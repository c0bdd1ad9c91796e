"""The items of an issue, built and read in one place."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlflow.entities import Issue, IssueSeverity, IssueStatus

from mlflow_dynamodbstore.evaluation.attributes import CONTENTS, REVISION
from mlflow_dynamodbstore.keys import evaluation as evaluation_keys
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.table.values import Item, Value

INLINE = 16 * 1024
"""Bytes of texts that may stay in an issue's own item, which every search reads."""
SEVERITY, TRACE_COUNT, CREATED, ISSUE_ID = (
    "severity",
    "trace_count",
    "created_timestamp",
    "issue_id",
)
"""What issues are sorted by."""

_SEVERITIES = {severity.value: n for n, severity in enumerate(IssueSeverity)}


@dataclass(frozen=True)
class Texts:
    """The texts of an issue, which may be long."""

    description: str
    root_causes: list[str] | None
    categories: list[str] | None

    @classmethod
    def of(cls, contents: Value) -> Texts:
        assert isinstance(contents, list)
        return cls(*contents)

    def stored(self, experiment_id: str, issue_id: str) -> large_values.Stored:
        """How these texts are stored in an issue."""
        key = evaluation_keys.issue_key(experiment_id, issue_id)
        contents: Value = [self.description, self.root_causes, self.categories]
        return large_values.store(key, CONTENTS, contents, inline=INLINE)


@dataclass(frozen=True)
class IssueRow:
    """An issue as filters and sort keys see it, with the count of its traces if asked for."""

    item: Item
    trace_count: int | None = None

    @property
    def issue_id(self) -> str:
        issue_id = evaluation_keys.issue_id_of(str(self.item["SK"]))
        assert issue_id is not None  # ids are short
        return issue_id

    def values(self, kind: str, name: str) -> Sequence[Any]:
        """What a search finds under a name: see ``search.filters.Searchable``."""
        del kind
        value = self._value(name)
        return () if value is None else (value,)

    def _value(self, name: str) -> Any:
        if name == SEVERITY:
            return _SEVERITIES.get(str(self.item["severity"]), -1)
        if name == TRACE_COUNT:
            return self.trace_count
        if name == ISSUE_ID:
            return self.issue_id
        return self.item["created" if name == CREATED else name]

    def to_entity(self, texts: Texts) -> Issue:
        """The issue as MLflow shows it."""
        item = self.item
        severity = item["severity"]
        return Issue(
            issue_id=self.issue_id,
            experiment_id=experiment_id_of(item),
            name=item["name"],
            description=texts.description,
            status=IssueStatus(item["status"]),
            severity=IssueSeverity(severity) if severity else None,
            root_causes=texts.root_causes,
            source_run_id=item["source_run_id"],
            categories=texts.categories,
            created_timestamp=item["created"],
            last_updated_timestamp=item["updated"],
            created_by=item["created_by"],
            trace_count=self.trace_count,
        )


def new_issue(experiment_id: str, issue_id: str, now: int, attributes: Item) -> Item:
    """A new issue's own item."""
    key = evaluation_keys.issue_key(experiment_id, issue_id)
    times: Item = {"created": now, "updated": now}
    return {"PK": key.pk, "SK": key.sk, **attributes, **times, REVISION: 1}
