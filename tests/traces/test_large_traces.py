"""Traces whose tags, metadata and assessments are more than one item holds."""

from __future__ import annotations

import random
import string
from copy import deepcopy
from itertools import count

import pytest
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.table.contract import MAX_ITEM_BYTES, Query
from mlflow_dynamodbstore.table.sizes import size_with_copies
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.traces.overflow import OVERFLOW
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.places import items_in, trace_place
from tests.sql import empty_database
from tests.stores import ARTIFACTS, refused, uri_on
from tests.traces.making import NOON, feedback, make_info, make_prompt, make_spans, trace_id

ID = trace_id(1)
DICE = random.Random(7)
NUMBERS = count()


@pytest.fixture(scope="module", params=["embedded", "dynamodb_local"])
def uri(request, tmp_path_factory):
    """A table on an engine that counts the copies of items in local indexes."""
    with uri_on(request.param, tmp_path_factory.mktemp("large")) as where:
        yield where


@pytest.fixture
def store(uri):
    opened = DynamoDBTrackingStore(uri, ARTIFACTS, table=Table(open_engine(uri)))
    yield opened
    opened.table.close()


@pytest.fixture
def other(uri):
    """The same data as another process sees it: with none of the store's memories."""
    opened = DynamoDBTrackingStore(uri, ARTIFACTS, table=Table(open_engine(uri)))
    yield opened
    opened.table.close()


@pytest.fixture
def experiment(store):
    made = store.create_experiment(f"large-{next(NUMBERS)}")
    yield made
    store.delete_traces(made, trace_ids=[ID])


def noise(length: int) -> str:
    """Text that does not compress well."""
    return "".join(DICE.choices(string.ascii_letters + string.digits, k=length))


def many_tags(number: int = 350, length: int = 1_000) -> dict[str, str]:
    return {f"tag-{n:03}": noise(length) for n in range(number)}


def many_assessments(number: int = 200, trace: str | None = ID):
    return [
        feedback(trace, f"judge-{n:03}", n, rationale=noise(1_900), metadata={"n": str(n)})
        for n in range(number)
    ]


def own_tags(info) -> dict[str, str]:
    return {key: value for key, value in info.tags.items() if key.startswith("tag-")}


def own(store, experiment: str):
    place = trace_place(store.table, ID)
    assert place.experiment_id == experiment
    item = store.table.get(place.key)
    assert size_with_copies(store.table.schema, item) <= MAX_ITEM_BYTES
    return item


def found(store, experiment: str, filter_string: str) -> list[str]:
    infos, _ = store.search_traces(locations=[experiment], filter_string=filter_string)
    return [info.trace_id for info in infos]


def rationales(info) -> dict[str, str]:
    return {one.name: one.rationale for one in info.assessments}


def test_a_trace_begins_with_350_tags_of_1_kb(store, other, experiment):
    """They are read back, found by filters, changed and deleted."""
    tags = many_tags()
    begun = store.start_trace(make_info(ID, experiment, tags=tags))
    assert own_tags(begun) == tags
    assert OVERFLOW in own(store, experiment)
    assert own_tags(other.get_trace_info(ID)) == tags
    for wanted in (f"= '{tags['tag-200']}'", f"LIKE '{tags['tag-200'][:9]}%'"):
        assert found(other, experiment, f"tag.`tag-200` {wanted}") == [ID]
    other.set_trace_tag(ID, "tag-200", "short")
    store.delete_trace_tag(ID, "tag-007")
    store.delete_trace_tag(ID, "tag-200")
    store.set_trace_tag(ID, "tag-201", "changed")
    left = {k: v for k, v in tags.items() if k not in ("tag-007", "tag-200")}
    assert own_tags(other.get_trace_info(ID)) == {**left, "tag-201": "changed"}
    assert found(other, experiment, "tag.`tag-201` = 'changed'") == [ID]
    assert found(other, experiment, "tag.`tag-200` = 'short'") == []


def test_350_tags_of_1_kb_are_set_one_by_one(store, other, experiment):
    """Two processes set them in turn, and spans come in between."""
    store.start_trace(make_info(ID, experiment))
    tags = many_tags()
    for n, (key, value) in enumerate(tags.items()):
        (store if n % 2 else other).set_trace_tag(ID, key, value)
        if n == 250:
            store.log_spans(experiment, make_spans(ID))
    assert OVERFLOW in own(store, experiment)
    assert own_tags(other.get_trace_info(ID)) == tags
    assert len(other.get_trace(ID).data.spans) == 10


def test_a_trace_that_shrinks_needs_no_overflow(store, other, experiment):
    tags = many_tags(140)
    store.start_trace(make_info(ID, experiment, tags=tags))
    assert OVERFLOW in own(store, experiment)
    while len(tags) > 50:
        store.delete_trace_tag(ID, tags.popitem()[0])
    assert OVERFLOW not in own(store, experiment)
    assert own_tags(other.get_trace_info(ID)) == tags


def test_a_trace_begins_with_200_assessments_of_2_kb(store, other, experiment):
    given = many_assessments()
    begun = store.start_trace(make_info(ID, experiment, assessments=given))
    expected = {one.name: one.rationale for one in given}
    assert rationales(begun) == expected
    own(store, experiment)
    assert rationales(other.get_trace_info(ID)) == expected
    assert found(other, experiment, "feedback.`judge-150` = '150'") == [ID]
    assert found(other, experiment, "feedback.`judge-150` = '151'") == []


def test_200_assessments_of_2_kb_are_made_one_by_one(store, other, experiment):
    """They are overridden, changed and deleted where they lie."""
    store.start_trace(make_info(ID, experiment, tags=many_tags(100)))
    made = [store.create_assessment(one) for one in many_assessments()]
    assert OVERFLOW in own(store, experiment)
    expected = {one.name: one.rationale for one in made}
    assert rationales(other.get_trace_info(ID)) == expected
    first, second, third = made[:3]
    other.update_assessment(ID, first.assessment_id, rationale="changed")
    other.delete_assessment(ID, second.assessment_id)
    override = feedback(ID, third.name, "better")
    override.overrides = third.assessment_id
    store.create_assessment(override)
    assert store.get_assessment(ID, first.assessment_id).rationale == "changed"
    assert not store.get_assessment(ID, third.assessment_id).valid
    names = [one.name for one in store.get_trace_info(ID).assessments]
    assert second.name not in names
    assert len(names) == 200
    assert found(other, experiment, f"feedback.`{made[199].name}` = '199'") == [ID]


def test_much_metadata_and_spans_that_begin_the_trace(store, other, experiment):
    """The info joins a trace that its spans have begun."""
    store.log_spans(experiment, make_spans(ID))
    metadata = {f"key-{n:03}": noise(4_000) for n in range(100)}
    tags = many_tags(350, 10)
    other.start_trace(make_info(ID, experiment, metadata=metadata, tags=tags))
    own(store, experiment)
    info = store.get_trace(ID).info
    assert {k: info.trace_metadata[k] for k in metadata} == metadata
    assert own_tags(info) == tags
    assert len(store.get_trace(ID).data.spans) == 10
    assert found(other, experiment, f"metadata.`key-042` = '{metadata['key-042']}'") == [ID]
    # Again: what lies in the overflow is replaced.
    store.start_trace(make_info(ID, experiment, metadata={"key-001": "new"}))
    assert other.get_trace_info(ID).trace_metadata["key-001"] == "new"
    assert other.get_trace_info(ID).trace_metadata["key-002"] == metadata["key-002"]


def test_many_small_tags_are_changed_at_once(store, other, experiment):
    """An update that names too many attributes for DynamoDB's expressions is not sent."""
    store.start_trace(make_info(ID, experiment, tags=many_tags(400, 5)))
    tags = many_tags(400, 6)
    other.start_trace(make_info(ID, experiment, tags=tags))
    assert own_tags(store.get_trace_info(ID)) == tags
    assert OVERFLOW not in own(store, experiment)


def fill_up(store, experiment: str) -> None:
    """Fill a trace's own item with tags up to the last bytes, as many writers at once may."""
    assert own(store, experiment)
    key = trace_place(store.table, ID).key
    for n in range(400):
        room = MAX_ITEM_BYTES - size_with_copies(store.table.schema, store.table.get(key))
        if room < 100:
            return
        length = min(1_000, room // 2 - 20)
        store.table.update(key, Update(set={f"t:tag-{n:03}": noise(length)}, add={"edits": 1}))


@pytest.mark.parametrize("what", ["link", "prompt", "name", "tag", "long tag", "assessment", "end"])
def test_a_trace_that_is_full_to_the_brim_still_changes(store, other, experiment, what):
    store.start_trace(make_info(ID, experiment))
    fill_up(store, experiment)
    tags = own_tags(other.get_trace_info(ID))
    if what == "link":
        run = store.create_run(experiment, "ada", NOON, [], "r").info.run_id
        store.link_traces_to_run([ID], run)
        assert found(other, experiment, f"metadata.`mlflow.sourceRun` = '{run}'") == [ID]
    elif what == "prompt":
        store.link_prompts_to_trace(ID, [make_prompt("p", 1)])
        assert found(other, experiment, "prompt = 'p/1'") == [ID]
    elif what == "name":
        store.set_trace_tag(ID, "mlflow.traceName", "n" * 200)
        assert other.get_trace_info(ID).tags["mlflow.traceName"] == "n" * 200
    elif what in ("tag", "long tag"):
        value = "v" * (900 if what == "tag" else 4_000)
        store.set_trace_tag(ID, "new", value)
        assert other.get_trace_info(ID).tags["new"] == value
    elif what == "assessment":
        store.create_assessment(feedback(ID, "judge", 1))
        assert [one.name for one in other.get_trace_info(ID).assessments] == ["judge"]
    else:
        store.log_spans(experiment, make_spans(ID))
        assert len(other.get_trace(ID).data.spans) == 10
    assert own_tags(other.get_trace_info(ID)) == tags


def test_nothing_of_a_large_trace_is_left_behind(store, experiment):
    """Neither when its overflow is replaced, nor when the trace moves or is deleted."""
    store.start_trace(make_info(ID, experiment, tags=many_tags(), assessments=many_assessments(50)))
    for n in range(3):
        store.delete_trace_tag(ID, f"tag-{n:03}")
    elsewhere = store.create_experiment(f"elsewhere-{next(NUMBERS)}")
    store.start_trace(make_info(ID, elsewhere))
    assert len(own_tags(store.get_trace_info(ID))) == 347
    item = own(store, elsewhere)
    parts = [one for one in store.table.items(Query(item["PK"])) if "data" in one]
    assert len(parts) == item[OVERFLOW]["parts"]
    assert store.delete_traces(elsewhere, trace_ids=[ID]) == 1
    for home in (experiment, elsewhere):
        items = items_in(store.table, home)
        assert [one["SK"] for one in items if ID in str(one["SK"])] == []


def test_what_cannot_fit_is_refused_and_nothing_of_it_written(store, other, experiment):
    """A preview has no other place than the own item."""
    large = make_info(ID, experiment, tags=many_tags(), request_preview=noise(250_000))

    def items():
        return items_in(store.table, experiment)

    before = items()
    with refused("INVALID_PARAMETER_VALUE", "more than 409600"):
        store.start_trace(large)
    assert items() == before
    assert store.table.get(trace_keys.trace_locator_key(ID)) is None
    tags = many_tags(200)
    store.start_trace(make_info(ID, experiment, tags=tags))
    before = items()
    with refused("INVALID_PARAMETER_VALUE", "more than 409600"):
        other.start_trace(large)
    assert items() == before
    assert own_tags(other.get_trace_info(ID)) == tags


def test_searches_find_what_mlflows_own_store_finds(tmp_path, store):
    """Ten traces of different sizes, by tags, metadata and assessments, in several orders."""
    theirs = SqlAlchemyStore(empty_database(tmp_path), str(tmp_path))
    homes = {one: one.create_experiment(f"both-{next(NUMBERS)}") for one in (store, theirs)}
    for n in range(10):
        trace = trace_id(1_000 + n)
        tags = {"n": str(n % 3), **many_tags(60 * (n % 4))}
        metadata = {"m": str(n % 4), "long": noise(3_000)}
        given = many_assessments(20 * (n % 3), trace)
        for one, home in homes.items():
            info = make_info(trace, home, start=NOON + n, tags=tags, metadata=metadata)
            one.start_trace(info)
            for assessment in [*given, feedback(trace, "yes", n % 2 == 0)]:
                one.create_assessment(deepcopy(assessment))
            one.set_trace_tag(trace, "late", str(n % 5))
    found = store.table.get(trace_place(store.table, trace_id(1_003)).key)
    assert OVERFLOW in found
    for filter_string, order in (
        ("tag.n = '1'", None),
        ("tag.late != '2' AND metadata.m = '3'", ["timestamp_ms ASC"]),
        ("tag.`tag-100` LIKE '%a%'", None),
        ("feedback.yes = 'true' AND tag.n != '0'", None),
        ("feedback.`judge-019` = '19'", ["tag.late DESC"]),
        (None, ["tag.n ASC", "metadata.m DESC"]),
    ):
        answers = []
        for one, home in homes.items():
            infos, _ = one.search_traces(
                locations=[home], filter_string=filter_string, order_by=order
            )
            answers.append([_shown(info) for info in infos])
        assert answers[0] == answers[1], filter_string
        assert answers[0]


def _shown(info):
    """What a trace says but for its experiment, and when it was assessed."""
    tags = {key: value for key, value in info.tags.items() if not key.startswith("mlflow.")}
    assessed = sorted((one.name, one.value, one.rationale) for one in info.assessments)
    return info.trace_id, tags, info.trace_metadata["m"], info.trace_metadata["long"], assessed
