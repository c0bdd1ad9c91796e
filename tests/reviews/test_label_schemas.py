"""Label schemas: what MLflow's own tests do not look at."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from mlflow.exceptions import MlflowException
from mlflow.genai.label_schemas.label_schemas import InputCategorical, InputNumeric, InputText

from mlflow_dynamodbstore.reviews.newest_first import NEWEST_FIRST
from tests.reviews.making import ask, pages
from tests.stores import everything_in, refused


def test_a_label_schema_is_found_by_another_process_at_once(store, other, experiment):
    made = ask(store, experiment)
    assert other.get_label_schema(made.schema_id) == made
    assert other.get_label_schema_by_name(experiment, "correct?") == made
    assert made in list(other.list_label_schemas(experiment))


@pytest.mark.parametrize(
    "given",
    [
        InputNumeric(min_value=-1, max_value=10**50),
        InputNumeric(min_value=float("-inf"), max_value=1e300),
        InputCategorical(options=["é", "🙂", "a#b", "%"], multi_select=True),
        InputText(max_length=10**30),
    ],
)
def test_what_is_asked_for_comes_back_as_it_was_given(store, other, experiment, given):
    made = store.create_label_schema(experiment, name="n", type="expectation", input=given)
    found = other.get_label_schema(made.schema_id)
    assert found == made
    assert repr(found.input) == repr(given)


@pytest.mark.parametrize("name", ["#", "a#b", " x ", "%", "é" * 250, "\U0001f600" * 250, "FEED"])
def test_any_name_is_guarded_and_can_be_taken_back(store, other, experiment, name):
    made = ask(store, experiment, name)
    with refused("RESOURCE_ALREADY_EXISTS", "already exists for experiment"):
        ask(other, experiment, name)
    assert other.get_label_schema_by_name(experiment, name).schema_id == made.schema_id
    store.update_label_schema(made.schema_id, name="else")
    again = ask(other, experiment, name)
    other.delete_label_schema(again.schema_id)
    assert ask(store, experiment, name).name == name


def test_names_differ_by_case_and_live_in_their_experiment(store, experiment):
    elsewhere = store.create_experiment("elsewhere")
    made = {ask(store, *where).schema_id for where in ((experiment, "a"), (experiment, "A"))}
    made.add(ask(store, elsewhere, "a").schema_id)
    assert len(made) == 3


def test_a_renamed_schema_takes_the_new_name_only_if_it_is_free(store, experiment):
    one, two = ask(store, experiment, "one"), ask(store, experiment, "two")
    with refused("RESOURCE_ALREADY_EXISTS", "'two' already exists"):
        store.update_label_schema(one.schema_id, name="two", instruction="lost")
    assert store.get_label_schema(one.schema_id) == one
    store.delete_label_schema(two.schema_id)
    assert store.update_label_schema(one.schema_id, name="two").name == "two"


def test_of_many_who_take_a_name_at_once_one_gets_it(store, experiment):
    begin = threading.Barrier(6)

    def attempt(_: int) -> str:
        begin.wait()
        try:
            ask(store, experiment, "wanted")
        except MlflowException as error:
            return str(error.error_code)
        return "made"

    with ThreadPoolExecutor(6) as pool:
        outcomes = sorted(pool.map(attempt, range(6)))
    assert outcomes == [*["RESOURCE_ALREADY_EXISTS"] * 5, "made"]


def test_many_who_list_at_once_make_one_default_question(store, other, experiment):
    begin = threading.Barrier(6)

    def names(n: int) -> list[str]:
        begin.wait()
        return [s.name for s in (store, other)[n % 2].list_label_schemas(experiment)]

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(names, range(6))) == [["Feedback"]] * 6


def test_pages_go_on_where_they_ended_whatever_happens_in_between(store, experiment):
    made = [ask(store, experiment, f"n{n}").schema_id for n in range(7)]
    seen = []
    for page in pages(lambda **options: store.list_label_schemas(experiment, **options), 2):
        seen += [schema.schema_id for schema in page]
        ask(store, experiment, f"new {len(seen)}")
        if not page[-1].is_default:
            store.delete_label_schema(seen[-1])
    assert set(made) <= set(seen)
    assert len(seen) == len(set(seen))


def test_those_of_one_millisecond_are_listed_by_id(store, experiment, monkeypatch):
    now = "mlflow_dynamodbstore.reviews.label_schemas.get_current_time_millis"
    monkeypatch.setattr(now, lambda: 1_700_000_000_000)
    made = [str(ask(store, experiment, f"n{n}").schema_id) for n in range(5)]
    default = store.list_label_schemas(experiment)[-1]
    made = sorted([*made, str(default.schema_id)])
    listed = pages(lambda **options: store.list_label_schemas(experiment, **options), 2)
    assert [schema.schema_id for page in listed for schema in page] == made


@pytest.mark.parametrize("token", ["nonsense", "e30=", "W10="])
def test_a_page_token_that_is_none_is_refused(store, experiment, token):
    with refused("INVALID_PARAMETER_VALUE", "Invalid page token"):
        store.list_label_schemas(experiment, page_token=token)


def test_a_token_of_another_type_is_refused(store, experiment):
    for position in (((0, "x"), (0, "y")), ((0, 1), (0, 2)), ((0, 2**70), (0, "y"))):
        with refused("INVALID_PARAMETER_VALUE", "Invalid page token"):
            store.list_label_schemas(experiment, page_token=NEWEST_FIRST.token(position))


def test_a_schema_that_vanishes_while_it_is_changed_is_not_found(store, other, experiment):
    made = ask(store, experiment)
    found = store.label_schemas._get_item

    def vanishing(schema_id):
        item = found(schema_id)
        other.delete_label_schema(schema_id)
        return item

    store.label_schemas._get_item = vanishing
    with refused("RESOURCE_DOES_NOT_EXIST", f"'{made.schema_id}' not found"):
        store.update_label_schema(made.schema_id, instruction="late")
    assert not [item for item in everything_in(store.table) if str(made.schema_id) in str(item)]


def test_an_experiment_that_is_deleted_meanwhile_takes_no_schema(store, other, experiment):
    active = store.reviewed_experiments.active_id

    def then_deleted(experiment_id):
        home = active(experiment_id)
        other.delete_experiment(experiment_id)
        return home

    store.reviewed_experiments.active_id = then_deleted
    with refused("RESOURCE_DOES_NOT_EXIST", f"No Experiment with id={experiment} exists"):
        ask(store, experiment)
    assert not [item for item in everything_in(store.table) if "LS" in item["SK"]]


def test_an_experiment_that_cannot_be_is_refused_in_mlflows_words(store):
    for call in (store.list_label_schemas, store.list_review_queues):
        with refused("INVALID_PARAMETER_VALUE", "must be a valid integer"):
            call("not-an-int")
    with refused("INVALID_PARAMETER_VALUE", "must be a valid integer"):
        store.get_label_schema_by_name("not-an-int", "correct?")


def test_an_experiment_may_be_named_by_its_number(store, experiment):
    made = ask(store, int(experiment))
    assert made.experiment_id == experiment
    assert store.get_label_schema_by_name(int(experiment), "correct?") == made
