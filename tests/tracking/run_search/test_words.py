"""Words of runs' names and tags over several experiments: GSI2, and what it does not show yet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from mlflow.entities import RunStatus, RunTag, ViewType

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.shared.policies import TEXT_FIELDS
from mlflow_dynamodbstore.shared.volumes import Volumes
from mlflow_dynamodbstore.table.contract import Put
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Key
from mlflow_dynamodbstore.tracking.run_search import words
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from mlflow_dynamodbstore.upkeep.text_index import TextIndex
from tests.places import run_place
from tests.specification.logged import LoggedEngine, Requests
from tests.stores import everything_in
from tests.table.fakes import FakeTime, patient_retry

OWL = "attributes.run_name LIKE '%owl%'"
NAMES = ["night-owl", "early-bird", "owlet", "late"]


class Place:
    """A store on a file; its global indexes show a write ``lag`` seconds late."""

    def __init__(self, folder: Path, lag: int = 0) -> None:
        self.time = FakeTime()
        uri = f"dynamodb:///{folder}/words.ddb?synchronous=NORMAL&index_lag={lag}"
        self.engine = LoggedEngine(open_engine(uri))
        self.engine.prepare(create=True)
        self.table = Table(self.engine, clock=self.time, retry=patient_retry(self.time))
        self.store = DynamoDBTrackingStore(uri, "s3://bucket/root", table=self.table)
        self.index = TextIndex(self.table, self.store.policies, sleep=self.time.sleep)
        self.experiments = [self.store.create_experiment(f"e{n}") for n in range(12)]

    def run(self, experiment: int, name: str, *, end: bool = True) -> str:
        place = self.experiments[experiment]
        run_id: str = self.store.create_run(place, "u", 1_000, [], name).info.run_id
        if end:
            self.store.update_run_info(run_id, RunStatus.FINISHED, 2_000, None)
        return run_id

    def found(self, filter_string: str = OWL, experiments: int = 12) -> set[str]:
        runs = self.store.search_runs(
            self.experiments[:experiments], filter_string, ViewType.ACTIVE_ONLY
        )
        return {run.info.run_id for run in runs}

    def asked(self, filter_string: str = OWL) -> tuple[set[str], Requests]:
        first = len(self.engine.log)
        found = self.found(filter_string)
        return found, Requests(self.engine.log[first:])


def asked_themselves(made: Requests) -> set[str]:
    """The experiments whose own partitions were searched for words."""
    return {one.partition for one in made.queries(None) if one.partition.startswith("EXP#")}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = Place(tmp_path)
    yield made
    made.table.close()


@pytest.fixture
def indexed(place: Place) -> Place:
    place.index.add("run.name")
    place.index.backfill("run.name")
    return place


def fill(place: Place) -> set[str]:
    """Runs in half of the experiments, and those with an owl among them."""
    made = {place.run(n % 6, name): name for n, name in enumerate(NAMES * 3)}
    return {run_id for run_id, name in made.items() if "owl" in name}


def test_forward_entries_are_in_gsi2_and_reversed_ones_are_not(indexed):
    run_id = indexed.run(0, "night-owl")
    items = [item for item in everything_in(indexed.table) if item["SK"].startswith("FTS")]
    forward = {item["SK"]: item for item in items if item["SK"].startswith("FTS#")}
    assert forward[f"FTS#word#owl#run.name#{run_id}"]["gsi2pk"] == "FTS#owl"
    assert forward[f"FTS#word#owl#run.name#{run_id}"]["gsi2sk"] == f"word#run.name#{run_id}"
    assert all("gsi2pk" in item for item in forward.values())
    assert not any("gsi2pk" in item for item in items if item["SK"].startswith("FTS_REV#"))


def test_one_query_answers_for_all_experiments(indexed):
    """Beside the live runs of each experiment, which are read in any case."""
    owls = fill(indexed)
    indexed.time.sleep(words.LAG_SECONDS + 1)
    found, made = indexed.asked()
    assert found == owls
    assert len(made.queries("GSI2")) == 1
    assert not asked_themselves(made)
    assert len(made.queries("LSI5")) == len(Volumes(indexed.table).of(indexed.experiments))


def test_live_runs_are_found(indexed):
    owls = fill(indexed)
    indexed.time.sleep(words.LAG_SECONDS + 1)
    owls |= {indexed.run(11, "owl-in-flight", end=False)}
    assert indexed.found() == owls


def test_other_experiments_are_left_out(indexed):
    """GSI2 lists the runs of the whole table."""
    here, there = indexed.run(0, "night-owl"), indexed.run(5, "night-owl")
    indexed.time.sleep(words.LAG_SECONDS + 1)
    assert indexed.found(experiments=2) == {here}
    assert indexed.found() == {here, there}


def test_words_and_several_letters_of_tags(place):
    place.index.add("run.tags.note")
    place.index.backfill("run.tags.note")
    runs = [place.run(n, "r", end=False) for n in range(3)]
    for run_id, note in zip(runs, ["the quick fox", "quick!", "slow fox"], strict=True):
        place.store.set_tag(run_id, RunTag("note", note))
        place.store.update_run_info(run_id, RunStatus.FINISHED, 2_000, None)
    place.time.sleep(words.LAG_SECONDS + 1)
    assert place.found("tags.note LIKE '%quick%'") == {*runs[:2]}
    assert place.found("tags.note LIKE '%quick%fox%'") == {runs[0]}
    assert place.found("tags.note ILIKE '%FOX'") == {runs[0], runs[2]}
    assert place.found("tags.note = 'slow fox'") == {runs[2]}
    assert place.found("tags.note LIKE '%hen%'") == set()


def test_a_run_that_gsi2_does_not_show_yet_is_found(tmp_path):
    """Its experiment is asked itself."""
    place = Place(tmp_path, lag=3600)
    place.index.add("run.name")
    place.index.backfill("run.name")
    run_id = place.run(3, "night-owl")
    found, made = place.asked()
    assert found == {run_id}
    assert made.queries("GSI2")
    asked = {pk.split("#")[1] for pk in asked_themselves(made)}
    assert asked == {run_place(run_id).experiment_id}
    place.table.close()


def test_a_backfill_says_when_it_wrote_entries(tmp_path):
    place = Place(tmp_path, lag=3600)
    owls = fill(place)
    place.index.add("run.name")
    place.index.backfill("run.name")
    assert place.found() == owls
    place.table.close()


def test_a_word_that_very_many_runs_have_is_looked_up_in_each_experiment(indexed, monkeypatch):
    monkeypatch.setattr(words, "MOST_ENTRIES", 3)
    owls = fill(indexed)
    indexed.time.sleep(words.LAG_SECONDS + 1)
    assert indexed.found() == owls


def test_a_table_of_an_earlier_release_is_searched_and_brought_up_to_date(indexed):
    """Its entries are not in GSI2 before the next backfill."""
    owls = fill(indexed)
    for item in everything_in(indexed.table):
        if item["SK"].startswith("FTS#"):
            indexed.engine.apply(Put({"PK": item["PK"], "SK": item["SK"]}))
        elif item["SK"] == experiment_keys.experiment_texts():
            indexed.table.delete(Key(item["PK"], item["SK"]))
    before = {"run.name": {"levels": ["trigram", "word"], "complete": True}}
    indexed.store.policies.set(TEXT_FIELDS, before)
    found, made = indexed.asked()
    assert found == owls
    assert not made.queries("GSI2")
    indexed.index.backfill("run.name")
    indexed.time.sleep(words.LAG_SECONDS + 1)
    found, made = indexed.asked()
    assert found == owls
    assert made.queries("GSI2")
    assert not asked_themselves(made)


def test_sealing_a_run_again_with_the_same_words_writes_no_time(indexed):
    """Nothing is on its way to GSI2 then."""
    run_id = indexed.run(0, "night-owl")
    key = Key(run_place(run_id).pk, experiment_keys.experiment_texts())
    before = indexed.table.get(key)
    indexed.time.sleep(100)
    indexed.store.set_tag(run_id, RunTag("a", "b"))
    indexed.store.update_run_info(run_id, RunStatus.FINISHED, 3_000, None)
    assert indexed.table.get(key) == before
