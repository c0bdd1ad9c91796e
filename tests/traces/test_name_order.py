"""Traces in the order of their names: all of them, in order, in pages, and what that costs."""

from __future__ import annotations

import random

import pytest

from mlflow_dynamodbstore.traces import name_order
from mlflow_dynamodbstore.traces.paths import FEW
from tests.specification.logged import Logged
from tests.traces.making import NOON, make_info, trace_id

LONG = "é" * 200  # 600 bytes, more than a key holds whole
NAMES = [None, "a", "a b", "ab", "b#1", "b$", "zeta", "Ärger", f"{LONG}1", f"{LONG}2", "common"]
ORDERS = [
    ["name ASC"],
    ["name DESC"],
    ["name ASC", "timestamp ASC"],
    ["name DESC", "status ASC"],
]


@pytest.fixture(params=[3, FEW], ids=["many share a name", "few share a name"])
def named(request, store, experiment, monkeypatch):
    """Traces of all kinds of names, of which a few or many are taken to be many."""
    monkeypatch.setattr(name_order, "FEW", request.param)
    choose = random.Random(3)
    infos = [
        make_info(
            trace_id(n),
            experiment,
            start=NOON + choose.randrange(20),
            name=choose.choice(NAMES) if n % 2 else "common",
            tags={"team": choose.choice(["red", "blue"]), "rare": "yes" if n == 17 else "no"},
        )
        for n in range(60)
    ]
    for info in infos:
        store.start_trace(info)
    return infos


def expected(infos, order_by, keep=lambda _: True):
    """Sorted in memory: those without a name last, ties newest first and then by id."""
    first, *more = order_by

    def key(info):
        ties = [-info.request_time, info.trace_id]
        return ties if not more or more[0].startswith("status") else [info.request_time, ties[1]]

    rows = sorted(filter(keep, infos), key=key)
    named = [info for info in rows if "mlflow.traceName" in info.tags]
    named.sort(key=lambda info: info.tags["mlflow.traceName"], reverse=False)
    if first.endswith("DESC"):
        named = [
            info
            for name in sorted({i.tags["mlflow.traceName"] for i in named}, reverse=True)
            for info in named
            if info.tags["mlflow.traceName"] == name
        ]
    unnamed = [info for info in rows if "mlflow.traceName" not in info.tags]
    return [info.trace_id for info in (*named, *unnamed)]


def pages(store, experiment, filter_string, order_by, size):
    found, token = [], None
    while True:
        some, token = store.search_traces(
            [experiment], filter_string, max_results=size, order_by=order_by, page_token=token
        )
        found += [info.trace_id for info in some]
        if token is None:
            return found


@pytest.mark.parametrize("order_by", ORDERS, ids=" ".join)
@pytest.mark.parametrize("size", [1, 7, 59, 60, 100])
def test_every_trace_comes_once_and_in_order(store, experiment, named, order_by, size):
    assert pages(store, experiment, None, order_by, size) == expected(named, order_by)


@pytest.mark.parametrize("order_by", ORDERS, ids=" ".join)
@pytest.mark.parametrize(
    ("filter_string", "keep"),
    [
        ("tags.team = 'red'", lambda info: info.tags["team"] == "red"),
        ("tags.rare = 'yes'", lambda info: info.tags["rare"] == "yes"),
        ("tags.rare = 'absent'", lambda info: False),
        ("name LIKE 'a%'", lambda info: info.tags.get("mlflow.traceName", "").startswith("a")),
        ("name = 'common'", lambda info: info.tags.get("mlflow.traceName") == "common"),
        ("name != 'common'", lambda info: info.tags.get("mlflow.traceName", "common") != "common"),
        ("name IS NULL", lambda info: "mlflow.traceName" not in info.tags),
    ],
)
def test_filters_hold_in_the_order_of_names(
    store, experiment, named, order_by, filter_string, keep
):
    found = pages(store, experiment, filter_string, order_by, 5)
    assert found == expected(named, order_by, keep)


@pytest.mark.parametrize("seed", range(6))
def test_any_mixture_of_names_pages_and_filters(store, experiment, seed, monkeypatch):
    """Names that few, some and many traces have, each in pages of several sizes."""
    choose = random.Random(seed)
    monkeypatch.setattr(name_order, "FEW", choose.choice([5, 40, FEW]))
    names = [f"n{n}" for n in range(choose.choice([3, 12, 60]))]
    shares = [choose.choice([1, 1, 1, 20]) for _ in names]
    infos = [
        make_info(
            trace_id(n),
            experiment,
            start=NOON + choose.randrange(200),
            name=choose.choices([*names, None], [*shares, 2])[0],
            tags={"team": choose.choice(["red", "blue", "blue", "blue", "blue"])},
        )
        for n in range(220)
    ]
    for info in infos:
        store.start_trace(info)
    for order_by in ORDERS[:2]:
        for size in (3, 10, 25, 50):
            assert pages(store, experiment, None, order_by, size) == expected(infos, order_by)
            for team in ("red", "blue"):
                found = pages(store, experiment, f"tags.team = '{team}'", order_by, size)
                keep = expected(infos, order_by, lambda info, t=team: info.tags["team"] == t)
                assert found == keep, (order_by, size, team)


@pytest.fixture
def logged(tmp_path):
    made = Logged(f"dynamodb:///{tmp_path}/mlflow.ddb?synchronous=NORMAL")
    yield made
    made.table.close()


def experiment_of_300(logged, name_of):
    experiment = logged.tracking.create_experiment("many")
    for n in range(300):
        info = make_info(trace_id(n), experiment, start=NOON + n, name=name_of(n))
        logged.tracking.start_trace(info)
    logged.tracking.search_traces([experiment], max_results=1)  # it knows the experiment now
    return experiment


@pytest.mark.one_volume(reason="counts what is read of one partition")
@pytest.mark.parametrize(
    ("name_of", "most_requests", "most_items"),
    [
        (lambda n: f"name-{n * 7 % 300:03}", 3, 48 + 13 + 12),
        (lambda n: "predict", 4, 48 + 13 + 201 + 16),
        (lambda n: f"name-{n % 3}", 5, 48 + 13 + 201 + 60),
    ],
    ids=["each has its own", "all have the same", "three names"],
)
def test_ten_of_300_do_not_read_all(logged, name_of, most_requests, most_items):
    """Where many share a name, only keys are read of the others."""
    experiment = experiment_of_300(logged, name_of)
    with logged.requests() as made:
        found, token = logged.tracking.search_traces(
            [experiment], max_results=10, order_by=["name ASC"]
        )
    assert [info.tags["mlflow.traceName"] for info in found] == sorted(
        name_of(n) for n in range(300)
    )[:10]
    assert token is not None
    assert made.queries("LSI4")
    assert len(made) <= most_requests, made
    assert made.items_read <= most_items, made
