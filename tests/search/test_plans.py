"""The planner prefers the path that reads least, and always has one that answers."""

from __future__ import annotations

import pytest
from mlflow.entities import ViewType

from mlflow_dynamodbstore.search.fulltext import TextField
from mlflow_dynamodbstore.search.run_paths import Path
from mlflow_dynamodbstore.search.run_plans import able_paths
from mlflow_dynamodbstore.tracking.run_search import parse_run_query

NAMES = (TextField("run.name"), TextField("run.tags.note", ("trigram",)))


def plans(filter_string: str, order_by: list[str]) -> list[Path]:
    query = parse_run_query(filter_string, order_by, ViewType.ACTIVE_ONLY)
    return able_paths(query.comparisons, query.ordering, NAMES)


@pytest.mark.parametrize(
    ("filter_string", "order_by", "expected"),
    [
        # In the order asked for.
        ("", [], "ByTime ordered"),
        ("", ["start_time ASC"], "ByTime ordered"),
        ("", ["run_name ASC"], "ByName ordered"),
        ("", ["metrics.acc DESC"], "ByMetric ordered"),
        ("", ["params.lr ASC"], "ByParam ordered"),
        ("", ["tags.note ASC"], "ByTime"),
        ("", ["end_time DESC"], "ByTime"),
        # By what the filter says.
        ("run_id = 'a'", ["metrics.acc DESC"], "ById"),
        ("run_id IN ('a', 'b')", [], "ById"),
        ("params.lr = '0.1'", [], "ByParam"),
        ("params.lr LIKE '0.%'", [], "ByParam"),
        ("params.lr LIKE '%1'", [], "ByTime ordered"),
        ("params.lr ILIKE '0.%'", [], "ByTime ordered"),
        ("metrics.acc = 1", [], "ByMetric"),
        ("metrics.acc > 0.9", [], "ByMetric"),
        ("metrics.acc != 1", [], "ByTime ordered"),
        ("metrics.acc > 0.9", ["metrics.acc DESC"], "ByMetric ordered"),
        ("metrics.loss < 1", ["metrics.acc DESC"], "ByMetric ordered"),
        ("run_name = 'x'", [], "ByName"),
        ("run_name LIKE 'x%'", ["metrics.acc DESC"], "ByMetric ordered"),
        ("run_name LIKE '%abcd%'", [], "ByText"),
        ("tags.note LIKE '%abcd%'", [], "ByText"),
        ("tags.note LIKE '%ab%'", [], "ByTime ordered"),
        ("tags.other LIKE '%abcd%'", [], "ByTime ordered"),
        ("status = 'FAILED'", [], "ByStatus ordered"),
        ("status = 'FAILED'", ["metrics.acc ASC"], "ByMetric ordered"),
        ("status != 'FAILED'", [], "ByTime ordered"),
        ("tags.a = 'b' AND params.lr = '1'", ["start_time ASC"], "ByParam"),
    ],
)
def test_first_choice(filter_string: str, order_by: list[str], expected: str) -> None:
    """For each kind of filter and order, the path tried first."""
    first = plans(filter_string, order_by)[0]
    assert f"{first.name}{' ordered' if first.ordered else ''}" == expected


def test_the_last_choice_answers_everything() -> None:
    """Reading by time needs no index of what is asked for, and gives way to nothing."""
    for filter_string in ("", "params.lr = '1'", "tags.note LIKE '%abcd%'", "run_name = 'x'"):
        assert plans(filter_string, ["tags.x ASC"])[-1].name == "ByTime"


def test_times_in_the_filter_narrow_what_is_read() -> None:
    """Start times named by the filter bound the range of the index."""
    (path,) = plans("start_time > 1000 AND start_time <= 2000", [])
    assert (path.since, path.until) == (1000, 2000)  # type: ignore[attr-defined]


def test_ranges_of_a_metric_narrow_what_is_read() -> None:
    """Two comparisons of one metric are one range of RANK."""
    one = plans("metrics.acc > 0.5", ["metrics.acc ASC"])[0]
    two = plans("metrics.acc > 0.5 AND metrics.acc <= 0.75", ["metrics.acc ASC"])[0]
    assert two.within.low > one.within.low  # type: ignore[attr-defined]
    assert two.within.high == one.within.high  # type: ignore[attr-defined]


def test_every_plan_can_be_told_in_words() -> None:
    """``explain`` prints them."""
    for path in plans(
        "params.a = '1' AND metrics.m > 1 AND run_name LIKE 'abcd%' AND run_id = 'x'", []
    ):
        assert len(str(path)) > 10
