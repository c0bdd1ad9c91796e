"""Search: the whole filter language against MLflow's SQL store, and the paths it takes."""

from __future__ import annotations

import random

import pytest
from mlflow.entities.trace_state import TraceState
from mlflow.exceptions import MlflowException
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from mlflow.tracing.constant import SpanAttributeKey

from mlflow_dynamodbstore.shared.search.filters import Comparison
from mlflow_dynamodbstore.traces.filters import parse_filter
from mlflow_dynamodbstore.traces.plans import usable_paths
from mlflow_dynamodbstore.traces.search import parse_order
from tests.releases import needs
from tests.sql import empty_database
from tests.traces.making import NOON, feedback, make_info, make_prompt, make_span, trace_id, usage

SESSION = "mlflow.trace.session"
RUN = "b" * 32

TERMS = [
    "status = 'OK'",
    "status != 'OK'",
    "status IN ('ERROR', 'IN_PROGRESS')",
    "status NOT IN ('ERROR')",
    f"timestamp_ms > {NOON + 10}",
    f"timestamp_ms >= {NOON + 10}",
    f"timestamp < {NOON + 20}",
    f"timestamp = {NOON + 7}",
    "execution_time_ms > 5",
    "execution_time <= 7",
    f"end_time_ms > {NOON + 20}",
    f"request_id = '{trace_id(3)}'",
    f"request_id IN ('{trace_id(3)}', '{trace_id(12)}', 'tr-none')",
    "client_request_id = 'client-2'",
    "client_request_id LIKE 'client-%'",
    "name = 'predict'",
    "name != 'predict'",
    "name LIKE 'pre%'",
    "name ILIKE 'PRE%'",
    "name RLIKE '^pre.*t$'",
    "name RLIKE '('",
    "name IS NULL",
    "tags.team = 'red'",
    "tags.team != 'red'",
    "tags.team LIKE '%e%'",
    "tags.team IS NULL",
    "tags.team IS NOT NULL",
    "tags.absent != 'x'",
    "metadata.kind = 'a'",
    "metadata.kind RLIKE 'a|b'",
    "metadata.kind IS NOT NULL",
    f"metadata.`{SESSION}` = 's1'",
    f"metadata.`{SESSION}` != 's1'",
    f"metadata.`{SESSION}` LIKE 's%'",
    f"metadata.`{SESSION}` IS NULL",
    "metadata.`mlflow.trace.tokenUsage` IS NOT NULL",
    "metadata.`mlflow.trace.tokenUsage` != 'x'",
    f"run_id = '{RUN}'",
    "prompt = 'greeting/1'",
    "span.name = 'search'",
    "span.name != 'search'",
    "span.type = 'TOOL'",
    "span.type IN ('LLM', 'TOOL')",
    "span.status = 'ERROR'",
    "span.name LIKE 'se%'",
    "span.name = 'search' AND span.type = 'LLM'",
    "span.name = 'search' AND span.status = 'ERROR'",
    "span.content LIKE '%Berlin%'",
    "span.content ILIKE '%berlin%'",
    "trace.text LIKE '%übermorgen%'",
    "span.attributes.city LIKE '%Paris%'",
    "span.attributes.city RLIKE '^Par'",
    "span.attributes.city RLIKE 'ris$'",
    "feedback.good = 'yes'",
    "feedback.good != 'yes'",
    "feedback.good LIKE '%e%'",
    "feedback.good IS NULL",
    "feedback.good IS NOT NULL",
    "feedback.score > 0.5",
    "feedback.score <= 0.5",
    "feedback.absent IS NULL",
    "feedback.whole = 'true'",
    "feedback.whole IS NULL",
]
ORDERS = [
    None,
    ["timestamp ASC"],
    ["timestamp DESC", "request_id DESC"],
    ["name ASC"],
    ["name DESC"],
    ["name ASC", "timestamp ASC"],
    ["name DESC", "status ASC"],
    ["tags.team DESC"],
    ["execution_time ASC"],
    ["status DESC", "timestamp ASC"],
    [f"metadata.`{SESSION}` ASC", "execution_time DESC"],
    ["experiment_id DESC"],
]


class Both:
    """Our store and MLflow's, filled alike."""

    def __init__(self, ours, sql):
        self.stores = (ours, sql)
        self.places = [[s.create_experiment(f"e{n}") for n in range(2)] for s in self.stores]
        for store, places in zip(self.stores, self.places, strict=True):
            fill(store, places)

    def ask(self, filter_string, order_by=None, size=100):
        return [
            pages(store, places, filter_string, order_by, size)
            for store, places in zip(self.stores, self.places, strict=True)
        ]


def pages(store, places, filter_string, order_by, size):
    found, token = [], None
    while True:
        some, token = store.search_traces(
            places, filter_string, max_results=size, order_by=order_by, page_token=token
        )
        found += [int(info.trace_id[3:], 16) for info in some]
        if token is None or not some:
            return found


def fill(store, places):
    choose = random.Random(7)
    states = [TraceState.OK, TraceState.ERROR, TraceState.IN_PROGRESS]
    for n in range(30):
        trace, place = trace_id(n), places[n % 2]
        if n % 3:
            store.log_spans(place, spans_of(trace, n, choose))
        metadata = {"kind": choose.choice("abc")} if n % 4 else {}
        if n % 5 < 2:
            metadata[SESSION] = f"s{n % 3}"
        if n == 8:
            metadata["mlflow.sourceRun"] = RUN
        store.start_trace(
            make_info(
                trace,
                place,
                start=NOON + n // 2,  # in pairs, so that ties have to be broken
                lasting=choose.choice([None, 3, 7, 20]),
                state=choose.choice(states),
                name=choose.choice(["predict", "Predict", "chat", None]),
                tags={"team": choose.choice(["red", "green"])} if n % 3 else {},
                metadata=metadata,
                client_request_id=f"client-{n}" if n % 2 else None,
            )
        )
    store.link_traces_to_run([trace_id(5), trace_id(6)], RUN)
    prompts = [make_prompt("greeting", 1)]
    store.link_prompts_to_trace(trace_id(4), prompts)
    assess(store)


def spans_of(trace, n, choose):
    cities = ["Berlin", "Paris", "übermorgen in Rom"]
    return [
        make_span(
            trace,
            k,
            start=NOON + n,
            name=choose.choice(["search", "answer"]),
            kind=choose.choice(["LLM", "TOOL"]),
            failed=choose.random() < 0.3,
            attributes={
                "city": choose.choice(cities),
                SpanAttributeKey.INPUTS: {"q": k},
                **(usage(1, 2) if n % 2 else {}),
            },
        )
        for k in range(3)
    ]


def assess(store):
    for n in range(0, 30, 4):
        store.create_assessment(feedback(trace_id(n), "good", "yes" if n % 8 else "no"))
        store.create_assessment(feedback(trace_id(n + 1), "score", n / 30))
    first = store.create_assessment(feedback(trace_id(2), "good", "yes"))
    store.create_assessment(feedback(trace_id(2), "good", "no", overrides=first.assessment_id))
    store.create_assessment(feedback(trace_id(10), "whole", True, metadata={SESSION: "s1"}))


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    from tests.stores import open_tracking_store
    from tests.table.fakes import FakeTime

    folder = tmp_path_factory.mktemp("both")
    ours = open_tracking_store(folder, FakeTime())
    return Both(ours, SqlAlchemyStore(empty_database(folder), str(folder)))


@pytest.mark.parametrize("term", TERMS)
def test_a_filter_finds_what_mlflows_store_finds(both, term):
    ours, sql = both.ask(term)
    assert ours == sql


def test_combined_filters_find_what_mlflows_store_finds(both):
    choose = random.Random(1)
    for _ in range(60):
        terms = choose.sample(TERMS, choose.choice([2, 2, 3]))
        filter_string = " AND ".join(terms)
        ours, sql = both.ask(filter_string, choose.choice(ORDERS), choose.choice([3, 100]))
        assert ours == sql, filter_string


@pytest.mark.parametrize("order_by", ORDERS, ids=str)
@pytest.mark.parametrize("size", [1, 4, 100])
def test_an_order_holds_across_pages(both, order_by, size):
    ours, sql = both.ask(None, order_by, size)
    assert ours == sql
    assert len(ours) == 30


@pytest.mark.parametrize(
    "filter_string",
    ["name > 'a'", "span.nothing = 'x'", "prompt LIKE 'a'", "feedback.x > 'a'", "metrics.a > 1"],
)
def test_what_mlflow_refuses_is_refused_in_its_words(both, filter_string):
    messages = []
    for store, places in zip(both.stores, both.places, strict=True):
        with pytest.raises(MlflowException) as caught:
            store.search_traces(places, filter_string)
        messages.append(caught.value.message.split("{")[0])
    assert messages[0] == messages[1]


def test_metrics_are_what_mlflows_store_computes(both):
    from mlflow.entities.trace_metrics import AggregationType, MetricAggregation, MetricViewType

    avg = MetricAggregation(AggregationType.AVG)
    p90 = MetricAggregation(AggregationType.PERCENTILE, 90)
    count = MetricAggregation(AggregationType.COUNT)
    asked = [
        (MetricViewType.TRACES, "trace_count", [count], ["trace_name", "trace_status"], None),
        (MetricViewType.TRACES, "latency", [avg, p90], ["trace_name"], None),
        (MetricViewType.TRACES, "total_tokens", [avg], [], ['trace.tag.team = "red"']),
        (MetricViewType.TRACES, "session_count", [count], [], None),
        (MetricViewType.SPANS, "span_count", [count], ["span_name", "span_status"], None),
        (MetricViewType.SPANS, "latency", [avg, p90], ["span_name"], ['span.type = "LLM"']),
    ]
    compare_metrics(both, asked)


@needs("sums of traces")
def test_metrics_of_assessments_are_what_mlflows_store_computes(both):
    """Up to 3.16 MLflow counts them at the time they were given, and not at that of the trace."""
    from mlflow.entities.trace_metrics import AggregationType, MetricAggregation, MetricViewType

    avg = MetricAggregation(AggregationType.AVG)
    p90 = MetricAggregation(AggregationType.PERCENTILE, 90)
    count = MetricAggregation(AggregationType.COUNT)
    asked = [
        (MetricViewType.ASSESSMENTS, "assessment_value", [avg, p90], ["assessment_name"], None),
        (MetricViewType.ASSESSMENTS, "assessment_count", [count], ["assessment_value"], None),
    ]
    compare_metrics(both, asked)


def compare_metrics(both, asked):
    for view, metric, aggregations, dimensions, filters in asked:
        for bounds in ({}, {"start_time_ms": NOON + 3, "end_time_ms": NOON + 9}):
            interval = {"time_interval_seconds": 60} if bounds else {}
            answers = [
                store.query_trace_metrics(
                    places, view, metric, aggregations, dimensions, filters, **interval, **bounds
                )
                for store, places in zip(both.stores, both.places, strict=True)
            ]
            ours, sql = answers
            assert [p.dimensions for p in ours] == [p.dimensions for p in sql], (view, metric)
            for one, other in zip(ours, sql, strict=True):
                assert one.values == pytest.approx(other.values, rel=1e-12), (view, metric)


def test_correlation_and_sessions_are_what_mlflows_store_computes(both):
    (ours, sql), (here, there) = both.stores, both.places
    one, two = "tags.team = 'red'", "span.type = 'TOOL'"
    for base in (None, "status = 'OK'"):
        assert (
            ours.calculate_trace_filter_correlation(here, one, two, base).__dict__
            == sql.calculate_trace_filter_correlation(there, one, two, base).__dict__
        )
    for n in (0, 1):
        for filter_string in (None, "tags.team = 'red'", "span.type = 'TOOL'"):
            window = (NOON, NOON + 100, 2, filter_string)
            assert ours.find_completed_sessions(here[n], *window) == sql.find_completed_sessions(
                there[n], *window
            )


@pytest.mark.parametrize(
    ("filter_string", "order_by", "path"),
    [
        (None, None, "ByTime(LSI1)"),
        ("tags.a = 'b'", None, "ByTime(LSI1)"),
        ("status = 'OK'", None, "ByTime(LSI1)"),
        ("status = 'ERROR'", None, "ByTime(LSI3)"),
        (f"metadata.`{SESSION}` = 's'", None, "ByTime(LSI5)"),
        ("request_id = 'tr-1'", None, "ById"),
        ("name = 'a'", None, "ByName"),
        ("name LIKE 'a%'", None, "ByName"),
        ("name LIKE '%a'", None, "ByTime(LSI1)"),
        ("name = 'a' AND request_id = 'tr-1'", None, "ById"),
        (None, ["name ASC"], "InNameOrder"),
        ("tags.a = 'b'", ["name DESC"], "InNameOrder"),
        ("status = 'ERROR'", ["name ASC"], "ByTime(LSI3)"),
        ("name IS NULL", ["name ASC"], "ByTime(LSI1)"),
        (f"timestamp_ms > {NOON}", ["name ASC"], "ByTime(LSI1)"),
    ],
)
def test_the_path_that_reads_least_is_taken(filter_string, order_by, path):
    comparisons: tuple[Comparison, ...] = parse_filter(filter_string).comparisons
    assert usable_paths(comparisons, parse_order(order_by))[0].name == path


def test_a_common_name_is_searched_by_time(store, experiment, monkeypatch):
    monkeypatch.setattr("mlflow_dynamodbstore.traces.paths.FEW", 3)
    for n in range(8):
        name = "rare" if n == 5 else "common"
        store.start_trace(make_info(trace_id(n), experiment, start=NOON + n, name=name))
    for name, numbers in (("rare", [5]), ("common", [7, 6, 4, 3, 2, 1, 0])):
        assert pages(store, [experiment], f"name = '{name}'", None, 2) == numbers


def test_pages_stay_whole_while_traces_are_added_and_deleted(store, experiment):
    for n in range(10):
        store.start_trace(make_info(trace_id(n), experiment, start=NOON + n))
    first, token = store.search_traces([experiment], max_results=4)
    store.start_trace(make_info(trace_id(50), experiment, start=NOON + 50))
    store.delete_traces(experiment, trace_ids=[trace_id(7)])
    second, _ = store.search_traces([experiment], max_results=4, page_token=token)
    numbers = [int(info.trace_id[3:], 16) for info in [*first, *second]]
    assert numbers == [9, 8, 7, 6, 5, 4, 3, 2]
