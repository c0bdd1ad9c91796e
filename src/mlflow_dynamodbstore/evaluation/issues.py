"""Issues: problems that were found in traces.

A trace refers to an issue by an assessment, which leaves a note in LSI5. The traces of an issue are
counted by these notes, without reading a trace.
"""

from __future__ import annotations

from collections.abc import Iterable

from boto3.dynamodb.conditions import Attr
from mlflow.entities import Issue, IssueSeverity, IssueStatus
from mlflow.entities.lifecycle_stage import LifecycleStage
from mlflow.store.entities.paged_list import PagedList
from mlflow.store.tracking import SEARCH_ISSUES_DEFAULT_MAX_RESULTS
from mlflow.utils.search_utils import SearchIssuesUtils
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.evaluation.attributes import CONTENTS, REVISION
from mlflow_dynamodbstore.evaluation.experiment_lists import listed_experiments
from mlflow_dynamodbstore.evaluation.issue_items import (
    CREATED,
    ISSUE_ID,
    SEVERITY,
    TRACE_COUNT,
    IssueRow,
    Texts,
    new_issue,
)
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import issues as issue_keys
from mlflow_dynamodbstore.keys.experiments import experiment_key, experiment_pk
from mlflow_dynamodbstore.mlflow_compat.search import parse_search_filter
from mlflow_dynamodbstore.mlflow_compat.validation import parse_experiment_id
from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.optimistic import Outdated, optimistically
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.shared.refusals import not_found
from mlflow_dynamodbstore.shared.run_lookup import RunLookup, run_not_found
from mlflow_dynamodbstore.shared.search.filters import ATTRIBUTE, Comparison, all_hold
from mlflow_dynamodbstore.shared.search.ordering import Ordering, SortKey
from mlflow_dynamodbstore.shared.search.pages import in_order, page, validate_max_results
from mlflow_dynamodbstore.table.contract import Patch, Put, Query
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item

ID_PREFIX = "iss-"


class Issues:
    """The issues of experiments."""

    def __init__(
        self, context: Context, experiment_lookup: ExperimentLookup, run_lookup: RunLookup
    ) -> None:
        self.context = context
        self.table = context.table
        self.experiment_lookup = experiment_lookup
        self.run_lookup = run_lookup

    def create_issue(
        self,
        experiment_id: str,
        name: str,
        description: str,
        status: IssueStatus = IssueStatus.PENDING,
        severity: IssueSeverity | None = None,
        root_causes: list[str] | None = None,
        source_run_id: str | None = None,
        categories: list[str] | None = None,
        created_by: str | None = None,
    ) -> Issue:
        parse_experiment_id(experiment_id)  # an empty one is not that of the default experiment
        meta = self.experiment_lookup.get(experiment_id, {LifecycleStage.ACTIVE})
        experiment_id = experiment_id_of(meta)
        if source_run_id is not None and self.run_lookup.find(source_run_id) is None:
            raise run_not_found(source_run_id)
        now = get_current_time_millis()
        issue_id = ID_PREFIX + ids.new_id(experiment_id, now)
        texts = Texts(description, root_causes or None, categories or None)
        stored = texts.stored(experiment_id, issue_id)
        attributes: Item = {
            "name": name,
            "status": status.value,
            "severity": severity.value if severity else None,
            "source_run_id": source_run_id,
            "created_by": created_by,
            **stored.attributes,
        }
        item = new_issue(experiment_id, issue_id, now, attributes)
        locator = issue_keys.issue_locator_key(issue_id)
        listed = issue_keys.experiment_with_issues_key(experiment_id)
        self.table.write(stored.parts)
        self.table.transact(
            [
                Put(item, condition=ABSENT),
                Put({"PK": locator.pk, "SK": locator.sk, "experiment_id": experiment_id}),
                Put({"PK": listed.pk, "SK": listed.sk}),
            ]
        )
        if source_run_id is not None and self.run_lookup.find(source_run_id) is None:
            # The run was removed at the same time, and its removal may have missed this issue.
            self._clear_run([item], source_run_id)
            item["source_run_id"] = None
        return IssueRow(item).to_entity(texts)

    def get_issue(self, issue_id: str) -> Issue:
        item = self._get_item(issue_id)
        return IssueRow(item).to_entity(Texts.of(large_values.load(self.table, item, CONTENTS)))

    def update_issue(
        self,
        issue_id: str,
        status: IssueStatus | None = None,
        name: str | None = None,
        description: str | None = None,
        severity: IssueSeverity | None = None,
    ) -> Issue:
        changes: Item = {
            "status": None if status is None else status.value,
            "name": name,
            "severity": None if severity is None else severity.value,
        }
        changes = {key: value for key, value in changes.items() if value is not None}
        return optimistically(
            f"Issue '{issue_id}'",
            lambda: self._update(self._get_item(issue_id), changes, description),
        )

    def search_issues(
        self,
        experiment_id: str | None = None,
        filter_string: str | None = None,
        max_results: int | None = None,
        page_token: str | None = None,
        include_trace_count: bool = False,
    ) -> PagedList[Issue]:
        validate_max_results(max_results, allow_null=True)
        holds = all_hold(_comparisons(filter_string))
        ordering = _ordering(include_trace_count)
        after = ordering.after(page_token)
        wanted = self._experiments_with_issues(experiment_id)
        found = self.table.map(lambda one: self._issues_in(one, include_trace_count), wanted)
        rows = in_order([row for some in found for row in some if holds(row)], ordering)
        size = SEARCH_ISSUES_DEFAULT_MAX_RESULTS if max_results is None else max_results
        shown, token = page(iter(rows), ordering, after, size)
        texts = large_values.load_many(self.table, [row.item for row in shown], CONTENTS)
        issues = [row.to_entity(Texts.of(own)) for row, own in zip(shown, texts, strict=True)]
        return PagedList(issues, token)

    # --- reading --------------------------------------------------------------------------------

    def _get_item(self, issue_id: str) -> Item:
        locator = self.table.get(issue_keys.issue_locator_key(issue_id))
        if locator is not None:
            experiment_id = str(locator["experiment_id"])
            experiment = experiment_key(experiment_id)
            key = issue_keys.issue_key(experiment_id, issue_id)
            found = self.table.get_many([experiment, key])
            if key in found and self._is_accessible(found.get(experiment)):
                return found[key]
        raise not_found(f"Issue with ID '{issue_id}' not found")

    def _is_accessible(self, meta: Item | None) -> bool:
        return meta is not None and meta["workspace"] == self.context.workspace()

    def _experiments_with_issues(self, experiment_id: str | None) -> list[str]:
        """This experiment, or all that have issues; only those of the active workspace."""
        if experiment_id is not None:
            wanted: Iterable[str] = [str(parse_experiment_id(experiment_id))]
        else:
            wanted = listed_experiments(self.table, issue_keys.EXPERIMENTS_WITH_ISSUES_PK)
        metas = {experiment_key(one): one for one in wanted}
        found = self.table.get_many(metas)
        return [one for key, one in metas.items() if self._is_accessible(found.get(key))]

    def _issues_in(self, experiment_id: str, with_counts: bool) -> list[IssueRow]:
        query = Query(experiment_pk(experiment_id), where=issue_keys.ISSUES.on())
        items = [item for item in self.table.items(query) if issue_keys.is_issue(str(item["SK"]))]
        if not with_counts:
            return [IssueRow(item) for item in items]
        counts = self._traces_by_issue(experiment_id)
        return [IssueRow(item, len(counts.get(str(item["SK"]), ()))) for item in items]

    def _traces_by_issue(self, experiment_id: str) -> dict[str, set[str]]:
        """The traces of an experiment that refer to issues, by the sort keys of the issues."""
        # Whole items: a key alone does not say whether its trace has expired.
        queries = [
            Query(volume.pk, where=issue_keys.ISSUES.on("lsi5sk"), index="LSI5")
            for volume in self.experiment_lookup.volumes.of([experiment_id])
        ]
        found: dict[str, set[str]] = {}
        for notes in self.table.map(lambda query: list(self.table.items(query)), queries):
            for note in notes:
                issue, trace = issue_keys.reference_of(str(note["lsi5sk"]))
                found.setdefault(issue, set()).add(trace)
        return found

    # --- writing --------------------------------------------------------------------------------

    def forget_run(self, run_id: str) -> None:
        """Clear the source of issues that name a removed run, as MLflow's databases do."""
        for experiment_id in listed_experiments(self.table, issue_keys.EXPERIMENTS_WITH_ISSUES_PK):
            query = Query(experiment_pk(experiment_id), where=issue_keys.ISSUES.on())
            named = (item for item in self.table.items(query) if _source(item) == run_id)
            self._clear_run(named, run_id)

    def _clear_run(self, issues: Iterable[Item], run_id: str) -> None:
        cleared = Update(set={"source_run_id": None}, add={REVISION: 1})
        named = Attr("source_run_id").eq(run_id)
        key_of = self.table.schema.key_of
        self.table.write([Patch(key_of(item), cleared, condition=named) for item in issues])

    def _update(self, item: Item, changes: Item, description: str | None) -> Issue:
        """Change an issue as it was read. Raises ``Outdated`` when it has changed since."""
        row = IssueRow(item)
        texts = Texts.of(large_values.load(self.table, item, CONTENTS))
        stored = large_values.Stored({})
        if description is not None and description != texts.description:
            texts = Texts(description, texts.root_causes, texts.categories)
            stored = texts.stored(experiment_id_of(item), row.issue_id)
        after: Item = {
            **item,
            **changes,
            **stored.attributes,
            # It grows even within a millisecond: callers tell versions of an issue apart by it.
            "updated": max(get_current_time_millis(), item["updated"] + 1),
            REVISION: item[REVISION] + 1,
        }
        put = Put(after, condition=Attr(REVISION).eq(item[REVISION]))
        (outcome,) = self.table.write(stored.parts, then=[put])[-1:]
        replaced = bool(stored.attributes)
        if outcome.status != "applied":
            self.table.write(large_values.removal(after, CONTENTS) if replaced else [])
            raise Outdated
        self.table.write(large_values.removal(item, CONTENTS) if replaced else [])
        return IssueRow(after).to_entity(texts)


def _source(item: Item) -> str | None:
    """The run that found an issue; parts of issues and other items have none."""
    run_id: str | None = item.get("source_run_id")
    return run_id


def _comparisons(filter_string: str | None) -> list[Comparison]:
    """The comparisons of a filter, read by MLflow's own parser with its errors."""
    terms = parse_search_filter(SearchIssuesUtils, filter_string) if filter_string else []
    return [Comparison(t["type"], t["key"], t["comparator"], t["value"]) for t in terms]


def _ordering(with_counts: bool) -> Ordering:
    """The most severe first, then those with most traces, then the newest."""
    names = [SEVERITY, *([TRACE_COUNT] if with_counts else []), CREATED, ISSUE_ID]
    return Ordering(tuple(SortKey(ATTRIBUTE, name, ascending=False) for name in names))
