"""The planner knows every path that can answer, and always has one that does."""

from __future__ import annotations

import pytest
from mlflow.entities import ViewType

from mlflow_dynamodbstore.shared.search.fulltext import TextField
from mlflow_dynamodbstore.tracking.run_search.paths import Path
from mlflow_dynamodbstore.tracking.run_search.plans import OptionalIndexes, Plans, plans
from mlflow_dynamodbstore.tracking.run_search.search import parse_run_query

INDEXED = OptionalIndexes((TextField("run.name"), TextField("run.tags.note", ("trigram",))), "loss")


def planned(filter_string: str, order_by: list[str]) -> Plans:
    query = parse_run_query(filter_string, order_by, ViewType.ACTIVE_ONLY)
    return plans(query.comparisons, query.ordering, INDEXED)


def told(paths: tuple[Path, ...]) -> str:
    return ", ".join(f"{path.name}{' ordered' if path.ordered else ''}" for path in paths)


@pytest.mark.parametrize(
    ("filter_string", "order_by", "narrow", "base"),
    [
        # In the order asked for.
        ("", [], "", "ByTime ordered"),
        ("", ["start_time ASC"], "", "ByTime ordered"),
        ("", ["run_name ASC"], "", "ByName ordered"),
        ("", ["metrics.acc DESC"], "", "ByMetric ordered"),
        ("", ["metrics.loss ASC"], "", "ByPrimaryMetric ordered"),
        ("", ["params.lr ASC"], "", "ByParam ordered"),
        ("", ["tags.note ASC"], "", "ByTime"),
        ("", ["end_time DESC"], "", "ByTime"),
        # By what the filter says.
        ("run_id = 'a'", ["metrics.acc DESC"], "ById", "ByMetric ordered"),
        ("run_id IN ('a', 'b')", [], "ById", "ByTime ordered"),
        ("params.lr = '0.1'", [], "ByParam", "ByTime ordered"),
        ("params.lr LIKE '0.%'", [], "ByParam", "ByTime ordered"),
        ("params.lr LIKE '%1'", [], "", "ByTime ordered"),
        ("params.lr ILIKE '0.%'", [], "", "ByTime ordered"),
        ("metrics.acc = 1", [], "ByMetric", "ByTime ordered"),
        ("metrics.acc > 0.9", [], "ByMetric", "ByTime ordered"),
        ("metrics.acc > 0.9 AND metrics.acc < 1", [], "ByMetric", "ByTime ordered"),
        ("metrics.loss < 0.1", [], "ByPrimaryMetric", "ByTime ordered"),
        ("metrics.acc != 1", [], "", "ByTime ordered"),
        ("metrics.acc > 0.9", ["metrics.acc DESC"], "", "ByMetric ordered"),
        ("metrics.loss < 1", ["metrics.acc DESC"], "ByPrimaryMetric", "ByMetric ordered"),
        ("metrics.loss < 1", ["metrics.loss ASC"], "", "ByPrimaryMetric ordered"),
        ("run_name = 'x'", [], "ByName, ByText", "ByTime ordered"),
        ("run_name LIKE 'x%'", ["metrics.acc DESC"], "ByName", "ByMetric ordered"),
        ("run_name LIKE '%abcd%'", [], "ByText", "ByTime ordered"),
        ("tags.note LIKE '%abcd%'", [], "ByText", "ByTime ordered"),
        ("tags.note LIKE '%ab%'", [], "", "ByTime ordered"),
        ("tags.other LIKE '%abcd%'", [], "", "ByTime ordered"),
        ("status = 'FAILED'", [], "ByStatus ordered", "ByTime ordered"),
        ("status = 'FAILED'", ["metrics.acc ASC"], "", "ByMetric ordered"),
        ("status != 'FAILED'", [], "", "ByTime ordered"),
        ("tags.a = 'b' AND params.lr = '1'", ["start_time ASC"], "ByParam", "ByTime ordered"),
    ],
)
def test_the_able_paths(filter_string: str, order_by: list[str], narrow: str, base: str) -> None:
    """For each kind of filter and order: what brings few runs, and what reads them all."""
    found = planned(filter_string, order_by)
    assert told(found.narrow) == narrow
    assert told((found.base,)) == base


def test_two_paths_answer_everything() -> None:
    """Reading by time and reading the partition need no index of what is asked for."""
    for filter_string in ("", "params.lr = '1'", "tags.note LIKE '%abcd%'", "run_name = 'x'"):
        names = [path.name for path in planned(filter_string, ["tags.x ASC"]).all()]
        assert names[-2:] == ["ByTime", "ByPartition"]
        assert "ByTime" in [path.name for path in planned(filter_string, ["metrics.m ASC"]).all()]


def test_the_primary_metric_is_ranked_like_any_other() -> None:
    """LSI5 comes first, and RANK is able too."""
    for order_by in ([], ["metrics.loss ASC"]):
        names = [path.name for path in planned("metrics.loss < 1", order_by).all()]
        assert names.index("ByPrimaryMetric") < names.index("ByMetric")


def test_times_in_the_filter_narrow_what_is_read() -> None:
    """Start times named by the filter bound the range of the index."""
    path = planned("start_time > 1000 AND start_time <= 2000", []).base
    assert (path.since, path.until) == (1000, 2000)  # type: ignore[attr-defined]


@pytest.mark.parametrize("metric", ["acc", "loss"])
def test_ranges_of_a_metric_narrow_what_is_read(metric: str) -> None:
    """Two comparisons of one metric are one range of keys."""
    low, both = f"metrics.{metric} > 0.5", f"metrics.{metric} > 0.5 AND metrics.{metric} <= 0.75"
    order_by = [f"metrics.{metric} ASC"]
    for one, two in (
        (planned(low, order_by).base, planned(both, order_by).base),
        (planned(low, []).narrow[0], planned(both, []).narrow[0]),
    ):
        assert two.within != one.within  # type: ignore[attr-defined]
        assert two.within.overlap(one.within) == two.within  # type: ignore[attr-defined]


def test_every_plan_can_be_told_in_words() -> None:
    """``explain`` prints them."""
    for path in planned(
        "params.a = '1' AND metrics.m > 1 AND run_name LIKE 'abcd%' AND run_id = 'x'", []
    ).all():
        assert len(str(path)) > 10


def test_estimates_follow_the_rules_of_dynamodb() -> None:
    """An index of keys pays a whole read for each run it fetches; LSI1 pays for their bytes."""
    units = {
        path.name: path.estimate(100).units
        for path in planned(
            "metrics.loss < 1 AND params.a = '1' AND status = 'FAILED'", ["start_time ASC"]
        ).all()
    }
    assert units["ByTime"] == 25
    for name in ("ByPrimaryMetric", "ByMetric", "ByParam", "ByStatus"):
        assert 100 < units[name] < 110
    assert units["ByPartition"] > 300
