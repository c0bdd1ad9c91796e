"""Scorers: versions without gaps, also when many register at once; found by name and by id."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from mlflow_dynamodbstore.shared.policies import DAY
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.wrappers.metering import MeteredEngine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.upkeep.cleanup import Cleanup
from tests.faults import CrashingEngine, SimulatedCrash
from tests.stores import everything_in, refused


class Endpoint:
    """The attributes of a gateway endpoint that scorers read."""

    def __init__(self, name):
        self.endpoint_id, self.name = f"id-of-{name}", name


@pytest.fixture
def endpoint(store, monkeypatch):
    one = Endpoint("chat")
    monkeypatch.setattr(store, "get_gateway_endpoint", lambda **_: one)
    monkeypatch.setattr(store, "list_gateway_endpoints", lambda: [one])
    return one


def judge(endpoint="chat"):
    return json.dumps({"instructions_judge_pydantic_data": {"model": f"gateway:/{endpoint}"}})


def versions(store, experiment, name="s"):
    return [one.scorer_version for one in store.list_scorer_versions(experiment, name)]


def keys_in(store):
    return {(item["PK"], item["SK"]) for item in everything_in(store.table)}


def test_versions_have_no_gaps_when_many_register_at_once(store, experiment):
    def register(number):
        return store.register_scorer(experiment, "s", f'{{"n": {number}}}').scorer_version

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(register, range(12))) == list(range(1, 13))
    assert versions(store, experiment) == list(range(1, 13))
    assert len({one.scorer_id for one in store.list_scorer_versions(experiment, "s")}) == 1


def test_the_latest_is_the_greatest_that_is_left(store, experiment):
    for number in range(3):
        store.register_scorer(experiment, "s", f'{{"n": {number}}}')
    store.delete_scorer(experiment, "s", version=3)
    assert store.get_scorer(experiment, "s").scorer_version == 2
    assert [one.scorer_version for one in store.list_scorers(experiment)] == [2]
    store.delete_scorer(experiment, "s", version=1)
    store.delete_scorer(experiment, "s", version=2)
    assert store.list_scorers(experiment) == []
    with refused("RESOURCE_DOES_NOT_EXIST", "Scorer with name 's' not found"):
        store.get_scorer(experiment, "s")
    assert store.register_scorer(experiment, "s", "{}").scorer_version == 1


def test_names_of_any_form_and_scorers_of_any_size(store, experiment):
    texts = Random(1).randbytes(300_000).hex()
    names = ["a#b", "a", "LOC", "n" * 900, "\U0001f600"]
    for name in names:
        store.register_scorer(experiment, name, json.dumps({"text": texts, "of": name}))
    found = store.list_scorers(experiment)
    assert [one.scorer_name for one in found] == sorted(
        ("a#b", "a", "LOC", "n" * 900, "\U0001f600")
    )
    for one in found:
        assert json.loads(one._serialized_scorer) == {"text": texts, "of": one.scorer_name}


def test_nothing_is_left_of_a_deleted_scorer(store, experiment, endpoint):
    store.register_scorer(experiment, "other", judge())
    before = keys_in(store)
    for _ in range(3):
        store.register_scorer(experiment, "s", judge())
    store.upsert_online_scoring_config(experiment, "s", 0.5)
    store.delete_scorer(experiment, "s")
    assert keys_in(store) == before


def test_a_name_is_free_again_though_its_deletion_was_interrupted(store, time, experiment):
    old = store.register_scorer(experiment, "s", "{}")
    engine = CrashingEngine(store.table.engine, at=2, when="before")
    dying = DynamoDBTrackingStore("", "/tmp", table=Table(engine, clock=time))
    with pytest.raises(SimulatedCrash):
        dying.delete_scorer(experiment, "s")
    new = store.register_scorer(experiment, "s", '{"new": 1}')
    assert new.scorer_version == 1
    assert new.scorer_id != old.scorer_id
    assert versions(store, experiment) == [1]
    time.sleep(4000 * DAY)
    report = Cleanup(store.table, store.policies, sleep=time.sleep).run()
    assert report.found == {"Version of a scorer": 1}
    assert store.get_scorer(experiment, "s")._serialized_scorer == '{"new": 1}'


def test_scorers_go_with_their_experiment(store, time, experiment, endpoint):
    before = keys_in(store)
    other = store.create_experiment("other")
    scorer = store.register_scorer(other, "s", judge())
    store.upsert_online_scoring_config(other, "s", 0.5)
    store.delete_experiment(other)
    with refused("INVALID_PARAMETER_VALUE", "must be in the 'active' state"):
        store.list_scorers(other)
    store._hard_delete_experiment(other)
    assert store.get_active_online_scorers() == []
    assert store.get_online_scoring_configs([scorer.scorer_id]) == []
    time.sleep(4000 * DAY)
    Cleanup(store.table, store.policies, sleep=time.sleep).run()
    assert {key for key in keys_in(store) - before if key[0] != "CONFIG"} == set()


def test_the_scorers_of_many_experiments_take_few_requests(store, experiment):
    """Experiments without scorers are not asked for them."""
    homes = [store.create_experiment(f"e{number}") for number in range(20)]
    store.register_scorer(homes[7], "b", "{}")
    store.register_scorer(experiment, "a", "{}")
    engine = MeteredEngine(store.table.engine)
    metered = DynamoDBTrackingStore("", "/tmp", table=Table(engine, clock=store.table.clock))
    engine.meter.reset()
    found = metered.list_scorers_across_experiments([*homes, experiment])
    assert [one.scorer_name for one in found] == ["a", "b"]
    assert engine.meter.requests.total() <= 4


def test_a_scorer_follows_the_name_of_its_endpoint(store, experiment, endpoint):
    assert store.register_scorer(experiment, "s", judge())._serialized_scorer == judge()
    endpoint.name = "renamed"
    assert store.get_scorer(experiment, "s")._serialized_scorer == judge("renamed")
    assert store.list_scorers(experiment)[0]._serialized_scorer == judge("renamed")
    store.upsert_online_scoring_config(experiment, "s", 1)
    (active,) = store.get_active_online_scorers()
    assert active.serialized_scorer == judge("renamed")
    endpoint.endpoint_id = "another"
    assert json.loads(store.list_scorers(experiment)[0]._serialized_scorer) == {
        "instructions_judge_pydantic_data": {"model": None}
    }


def test_scorers_are_listed_while_they_are_at_work(store, experiment, endpoint):
    def at_work():
        return [
            (one.name, one.online_config.sample_rate) for one in store.get_active_online_scorers()
        ]

    for name in ("a", "b"):
        store.register_scorer(experiment, name, judge())
        store.upsert_online_scoring_config(experiment, name, 0.25, "status = 'OK'")
    assert at_work() == [("a", 0.25), ("b", 0.25)]
    config = store.upsert_online_scoring_config(experiment, "a", 0)
    assert at_work() == [("b", 0.25)]
    assert store.get_online_scoring_configs([config.scorer_id, "unknown"]) == [config]
    store.delete_scorer(experiment, "b")
    assert at_work() == []


def test_the_gateway_finds_versions_by_the_id_of_their_scorer(store, experiment):
    scorer = store.register_scorer(experiment, "s", '{"n": 1}')
    store.register_scorer(experiment, "s", '{"n": 2}')
    assert store.scorers.version_by_id(scorer.scorer_id).scorer_version == 2
    assert store.scorers.version_by_id(scorer.scorer_id, 1)._serialized_scorer == '{"n": 1}'
    with refused("RESOURCE_DOES_NOT_EXIST", "and version 9 not found"):
        store.scorers.version_by_id(scorer.scorer_id, 9)
    with refused("RESOURCE_DOES_NOT_EXIST", "Scorer with ID 'unknown' not found"):
        store.scorers.version_by_id("unknown", 1)
