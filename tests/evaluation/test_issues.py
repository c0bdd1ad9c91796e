"""Issues: changed by many, counted by the traces that refer to them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest
from mlflow.entities import IssueSeverity, IssueStatus
from mlflow.entities.assessment import IssueReference

from mlflow_dynamodbstore.shared.policies import DAY
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup
from tests.interleaving import interleaved, two_stores
from tests.places import trace_place
from tests.stores import everything_in, open_tracking_store, refused
from tests.table.fakes import FakeTime
from tests.traces.making import make_info, trace_id


@pytest.fixture
def issue(store, experiment):
    return store.create_issue(experiment, "slow", "takes too long").issue_id


def refer(store, number, issue):
    reference = IssueReference(issue_id=issue, issue_name="slow", trace_id=trace_id(number))
    return store.create_assessment(reference).assessment_id


def traces_of(store, experiment, issue):
    found = store.search_issues(experiment, include_trace_count=True)
    return {one.issue_id: one.trace_count for one in found}[issue]


def test_texts_of_any_length_come_back_and_leave_nothing(store, experiment):
    long = Random(1).randbytes(300_000).hex()
    issue = store.create_issue(experiment, "n" * 250, long, root_causes=[long], categories=["c"])
    found = store.get_issue(issue.issue_id)
    assert (found.description, found.root_causes, found.categories) == (long, [long], ["c"])
    size = len(everything_in(store.table))
    changed = store.update_issue(issue.issue_id, description="short")
    assert (changed.description, changed.root_causes) == ("short", [long])
    assert store.search_issues(experiment)[0].root_causes == [long]
    assert len(everything_in(store.table)) <= size


def test_changes_made_at_once_are_all_kept(store, issue):
    changes = (
        {"name": "renamed"},
        {"status": IssueStatus.RESOLVED},
        {"severity": IssueSeverity.HIGH},
        {"description": "as told"},
    )
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda change: store.update_issue(issue, **change), changes))
    found = store.get_issue(issue)
    assert (found.name, found.description) == ("renamed", "as told")
    assert (found.status, found.severity) == (IssueStatus.RESOLVED, IssueSeverity.HIGH)


def test_the_count_follows_references_and_traces(store, experiment, issue):
    for number in range(4):
        store.start_trace(make_info(trace_id(number), experiment))
    references = [refer(store, number, issue) for number in (0, 0, 1, 2)]
    assert traces_of(store, experiment, issue) == 3
    store.delete_assessment(trace_id(0), references[0])
    assert traces_of(store, experiment, issue) == 3
    store.delete_assessment(trace_id(0), references[1])
    assert traces_of(store, experiment, issue) == 2
    store.delete_traces(experiment, trace_ids=[trace_id(1)])
    assert traces_of(store, experiment, issue) == 1


def test_traces_in_all_volumes_of_an_experiment_count(tmp_path):
    store = open_tracking_store(tmp_path, FakeTime(), options="synchronous=NORMAL&spread=3")
    issue = store.create_issue("0", "slow", "takes too long").issue_id
    for number in range(20):
        store.start_trace(make_info(trace_id(number), "0"))
        refer(store, number, issue)
    assert len({trace_place(store.table, trace_id(number)).volume for number in range(20)}) == 3
    assert traces_of(store, "0", issue) == 20
    store.table.close()


def test_expired_traces_do_not_count(store, time, experiment, issue):
    store.start_trace(make_info(trace_id(1), experiment))
    refer(store, 1, issue)
    assert traces_of(store, experiment, issue) == 1
    time.sleep(31 * DAY)
    assert traces_of(store, experiment, issue) == 0


def test_pages_are_in_order_of_severity_then_traces_then_age(store, experiment):
    levels = [None, IssueSeverity.LOW, IssueSeverity.HIGH, IssueSeverity.HIGH]
    made = [store.create_issue(experiment, str(n), "", severity=s) for n, s in enumerate(levels)]
    store.start_trace(make_info(trace_id(1), experiment))
    refer(store, 1, made[2].issue_id)
    pages = [store.search_issues(experiment, max_results=3, include_trace_count=True)]
    pages.append(
        store.search_issues(
            experiment, max_results=3, page_token=pages[0].token, include_trace_count=True
        )
    )
    assert [one.name for page in pages for one in page] == ["2", "3", "1", "0"]
    assert [one.name for one in store.search_issues()] == ["3", "2", "1", "0"]


def test_a_run_that_does_not_exist_finds_no_issue(store, experiment):
    with refused("RESOURCE_DOES_NOT_EXIST", "Run with id=nobody not found"):
        store.create_issue(experiment, "n", "d", source_run_id="nobody")


def test_issues_go_with_their_experiment(store, time, experiment, issue):
    store.delete_experiment(experiment)
    with refused("RESOURCE_DOES_NOT_EXIST", "No Experiment with id"):
        store.create_issue(experiment, "n", "d")
    store._hard_delete_experiment(experiment)
    with refused("RESOURCE_DOES_NOT_EXIST", f"Issue with ID '{issue}' not found"):
        store.get_issue(issue)
    assert store.search_issues() == []
    time.sleep(4000 * DAY)
    Cleanup(store.table, store.policies, sleep=time.sleep).run()
    assert not [i for i in everything_in(store.table) if i["PK"].startswith("ISSUE")]


def test_an_issue_lets_go_of_a_run_that_is_removed_for_good(store, experiment):
    """As in MLflow's databases. A run that can be restored is still named."""
    elsewhere = store.create_experiment("elsewhere")
    run, kept = (store.create_run(elsewhere, "ada", 0, [], "n").info.run_id for _ in range(2))
    issues = [
        store.create_issue(home, "slow", "too long", source_run_id=source).issue_id
        for home, source in ((experiment, run), (elsewhere, run), (experiment, kept))
    ]
    store.delete_run(run)
    assert [store.get_issue(one).source_run_id for one in issues] == [run, run, kept]
    store._hard_delete_run(run)
    assert [store.get_issue(one).source_run_id for one in issues] == [None, None, kept]


@pytest.mark.parametrize("meanwhile", ["create_issue", "update_issue"])
def test_no_issue_names_a_removed_run_however_the_calls_interleave(tmp_path, meanwhile):
    """The issue is created or changed at any moment of the removal, and the reverse."""
    two = two_stores(tmp_path)

    def begin():
        run = two.second.create_run("0", "ada", 0, [], "n").info.run_id
        return run, two.second.create_issue("0", "n", "d", source_run_id=run).issue_id

    def change(store, subject):
        run, issue = subject
        if meanwhile == "create_issue":
            store.create_issue("0", "late", "d", source_run_id=run)
        else:
            store.update_issue(issue, name="late")

    def remove(store, subject):
        store._hard_delete_run(subject[0])

    def state(subject):
        found = two.second.search_issues("0", max_results=1000)
        return [one.name for one in found if one.source_run_id == subject[0]]

    for one, other in ((change, remove), (remove, change)):
        for at, end, _ in interleaved(two, begin, one, other, state):
            assert end.state == [], at
