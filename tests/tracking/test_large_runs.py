"""Runs and logged models of more params, tags and metrics than one item holds."""

from __future__ import annotations

import random
import string

import pytest
from mlflow.entities import (
    LoggedModelParameter,
    LoggedModelStatus,
    LoggedModelTag,
    Metric,
    Param,
    RunStatus,
    RunTag,
)

from mlflow_dynamodbstore.shared import large_values
from mlflow_dynamodbstore.table.contract import MAX_ITEM_BYTES
from mlflow_dynamodbstore.table.sizes import size_with_copies
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.tracking.summaries import SUMMARY
from tests.stores import ARTIFACTS, open_tracking_store, uri_on
from tests.table.fakes import FakeTime

NOON = 1_700_000_000_000
DICE = random.Random(7)


def noise(length: int) -> str:
    """Text that does not compress well."""
    return "".join(DICE.choices(string.ascii_letters + string.digits, k=length))


@pytest.fixture(scope="module", params=["embedded", "dynamodb_local"])
def store(request, tmp_path_factory):
    """A store on an engine that counts the copies of items in local indexes."""
    with uri_on(request.param, tmp_path_factory.mktemp("large")) as uri:
        opened = DynamoDBTrackingStore(uri, ARTIFACTS)
        yield opened
        opened.table.close()


def fits(store, item) -> bool:
    return size_with_copies(store.table.schema, item) <= MAX_ITEM_BYTES


@pytest.mark.parametrize("params", [30, 55, 200])
def test_a_run_of_any_size_ends(store, params):
    """Its summary is whole, found by every kind of search, and made anew when it changes."""
    experiment = store.create_experiment(f"with {params} params")
    run_id = store.create_run(experiment, "ada", NOON, [], "large").info.run_id
    given = {f"p{n:03}": noise(6_000) for n in range(params)}
    tags = {f"t{n:03}": noise(300) for n in range(300)}
    for start in range(0, params, 100):
        some = list(given.items())[start : start + 100]
        store.log_batch(run_id, [], [Param(*one) for one in some], [])
    for start in range(0, 300, 100):
        some = list(tags.items())[start : start + 100]
        store.log_batch(run_id, [], [], [RunTag(*one) for one in some])
    store.log_batch(run_id, [Metric(f"m{n}", n / 7, NOON, 1) for n in range(1_000)], [], [])
    store.update_run_info(run_id, RunStatus.FINISHED, NOON + 1, None)

    def check() -> None:
        item = store.runs.run_lookup.get(run_id)
        assert item["state"] == "sealed"
        assert fits(store, item)
        data = store.get_run(run_id).data
        assert data.params == given
        assert {key: data.tags[key] for key in tags} == tags
        assert len(data.metrics) == 1_000
        for wanted in ("metrics.m999 > 142", "tags.t299 LIKE '%'", "params.p029 LIKE '%'"):
            assert [r.info.run_id for r in store.search_runs([experiment], wanted, 1)] == [run_id]

    check()
    store.delete_run(run_id)
    store.restore_run(run_id)
    store.set_tag(run_id, RunTag("t000", "new"))
    tags["t000"] = "new"
    store.update_run_info(run_id, RunStatus.FINISHED, NOON + 2, None)
    check()


def test_a_run_that_an_early_release_sealed_larger_can_still_be_changed(tmp_path, monkeypatch):
    """Its summary lies in its own item up to 256 KB; the next one does not."""
    store = open_tracking_store(tmp_path, FakeTime())
    run_id = store.create_run("0", "ada", NOON, [], "large").info.run_id
    store.log_batch(run_id, [], [Param(f"p{n}", noise(6_000)) for n in range(50)], [])
    with monkeypatch.context() as early:
        early.setattr(large_values, "INLINE_IN_LSI1", 256 * 1024)
        early.setattr("mlflow_dynamodbstore.table.embedded.layout.check_size", lambda *_: None)
        store.update_run_info(run_id, RunStatus.FINISHED, NOON + 1, None)
    item = store.runs.run_lookup.get(run_id)
    assert isinstance(item[SUMMARY], bytes)
    assert not fits(store, item)
    store.delete_run(run_id)
    store.restore_run(run_id)
    store.set_tag(run_id, RunTag("k", "v"))
    store.update_run_info(run_id, RunStatus.FINISHED, NOON + 2, None)
    item = store.runs.run_lookup.get(run_id)
    assert fits(store, item)
    assert len(store.get_run(run_id).data.params) == 50
    store.table.close()


def texts(count: int, length: int) -> dict[str, str]:
    return {f"k{n:04}": noise(length) for n in range(count)}


def test_a_logged_model_of_any_size(store):
    """Made with many params and tags, and given more of them."""
    params, tags = texts(150, 1_000), texts(150, 1_000)
    model = store.create_logged_model(
        "0",
        "m",
        tags=[LoggedModelTag(*one) for one in tags.items()],
        params=[LoggedModelParameter(*one) for one in params.items()],
    )
    more = {f"more-{key}": value for key, value in texts(300, 1_000).items()}
    for start in range(0, 300, 50):
        some = list(more.items())[start : start + 50]
        store.set_logged_model_tags(model.model_id, [LoggedModelTag(*one) for one in some])
        store.log_logged_model_params(model.model_id, [LoggedModelParameter(*one) for one in some])
    found = store.get_logged_model(model.model_id)
    assert found.tags == {**tags, **more}
    assert found.params == {**params, **more}
    assert fits(store, store.logged_models._get_item(model.model_id))


def test_a_logged_model_that_is_full_can_be_finalized_measured_and_deleted(store):
    """Tags never take the last bytes of its own item."""
    model_id = store.create_logged_model("0", "m").model_id
    tags: dict[str, str] = {}
    for n in range(250):
        size = size_with_copies(store.table.schema, store.logged_models._get_item(model_id))
        length = min(1_000, (MAX_ITEM_BYTES - size) // 2 - len(f"t:{n:04}"))
        tags[f"{n:04}"] = noise(max(length, 1))
        store.set_logged_model_tags(model_id, [LoggedModelTag(f"{n:04}", tags[f"{n:04}"])])
    run_id = store.create_run("0", "ada", NOON, [], "r").info.run_id
    store.finalize_logged_model(model_id, LoggedModelStatus.READY)
    store.log_batch(run_id, [Metric("auc", 0.5, NOON, 0, model_id=model_id)], [], [])
    assert store.get_logged_model(model_id).tags == tags
    store.delete_logged_model(model_id)


def test_a_logged_model_gets_400_tags_and_params_in_one_call(store):
    """One update that sets them all would be longer than DynamoDB takes."""
    model_id = store.create_logged_model("0", "m").model_id
    given = texts(400, 10)
    store.set_logged_model_tags(model_id, [LoggedModelTag(*one) for one in given.items()])
    params = [LoggedModelParameter(*one) for one in given.items()]
    store.log_logged_model_params(model_id, params)
    store.log_logged_model_params(model_id, params)
    found = store.get_logged_model(model_id)
    assert found.tags == found.params == given
