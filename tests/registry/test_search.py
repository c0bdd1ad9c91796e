"""Searches: pages that stay valid, names in order, renames under way."""

from __future__ import annotations

import base64

import pytest
from mlflow.entities.model_registry import ModelVersionTag, RegisteredModelTag

from mlflow_dynamodbstore.shared.names import search as name_search
from mlflow_dynamodbstore.table.wrappers.base import WrappedEngine
from tests.registry.helpers import registry_on
from tests.releases import needs
from tests.stores import refused

INVALID = "INVALID_PARAMETER_VALUE"


def names(found):
    return [one.name for one in found]


def walked(search, size):
    """All pages of a search, one after the other."""
    found, token = [], None
    while True:
        page = search(max_results=size, page_token=token)
        assert len(page) <= size
        found += page
        token = page.token
        if token is None:
            return found


@pytest.fixture
def many(store, monkeypatch):
    """Models in no order, over several pages of guards."""
    monkeypatch.setattr(name_search, "GUARD_PAGE", 3)
    made = ["b", "a", "é", "Z", "a b", "ab", "a#", "🙂", "B", "aa", "~", "a%"]
    for name in made:
        store.create_registered_model(name)
        store.create_model_version(name, "s3://b/1", "r1")
        store.create_model_version(name, "s3://b/2")
    return made


@pytest.mark.parametrize("size", [1, 2, 5, 100])
@pytest.mark.parametrize("order", ["name ASC", "name DESC"])
def test_models_come_in_order_of_their_names(store, many, size, order):
    found = walked(lambda **kw: store.search_registered_models(order_by=[order], **kw), size)
    assert names(found) == sorted(many, reverse=order.endswith("DESC"))


@pytest.mark.parametrize("size", [1, 3, 100])
@pytest.mark.parametrize(
    "order", [["name"], ["name DESC", "version_number"], None, ["version_number"]]
)
def test_versions_come_in_order_page_by_page(store, many, size, order):
    whole = store.search_model_versions(order_by=order, max_results=1000)
    paged = walked(lambda **kw: store.search_model_versions(order_by=order, **kw), size)
    assert [(v.name, v.version) for v in paged] == [(v.name, v.version) for v in whole]
    assert len(whole) == 2 * len(many)


@pytest.mark.parametrize(
    "wanted", ["name LIKE 'a%'", "name ILIKE 'B%'", "name LIKE '%'", "name != 'a'", "name LIKE 'a'"]
)
def test_a_filter_on_names_gives_the_same_with_and_without_pages(store, many, wanted):
    whole = names(store.search_registered_models(wanted))
    assert whole
    assert whole == names(walked(lambda **kw: store.search_registered_models(wanted, **kw), 2))


def test_a_page_token_stays_valid_while_models_come_and_go(store, many):
    first = store.search_registered_models(max_results=5)
    store.create_registered_model("0 before everything")
    store.delete_registered_model(first[-1].name)  # the very one that the token names
    store.create_registered_model("zz")
    rest = walked(
        lambda page_token=None, **kw: store.search_registered_models(
            page_token=page_token or first.token, **kw
        ),
        4,
    )
    assert names(rest) == sorted([*sorted(many)[5:], "zz"])


def test_only_the_last_page_has_no_token(store, many):
    assert store.search_registered_models(max_results=len(many)).token is None
    assert store.search_registered_models(max_results=len(many) - 1).token is not None


@pytest.mark.parametrize("token", ["evilhax", "AAAA", base64.b64encode(b'{"offset": 3}').decode()])
def test_a_token_that_is_none_of_ours_is_refused(store, token):
    with refused(INVALID, "Invalid page token"):
        store.search_registered_models(page_token=token)
    with refused(INVALID, "Invalid page token"):
        store.search_model_versions(page_token=token)


def test_a_search_by_run_finds_what_was_created_a_moment_ago(store, many):
    for n in range(3):
        store.create_model_version("a", f"s3://b/{n}", "fresh")
        assert len(store.search_model_versions("run_id = 'fresh'")) == n + 1
    assert store.search_model_versions("run_id = 'fresh' AND run_id = 'r1'") == []


@needs("filters by lists of names")
def test_a_search_by_lists_of_runs_and_models(store, many):
    store.create_model_version("a", "s3://b/0", "fresh")
    found = store.search_model_versions("run_id IN ('fresh', 'r1') AND name IN ('a', 'b')")
    assert {(v.name, v.run_id) for v in found} == {("a", "fresh"), ("a", "r1"), ("b", "r1")}


@pytest.mark.parametrize(
    "wanted",
    [
        "",
        "run_id = 'r'",
        pytest.param("name IN ('model', 'prompt')", marks=needs("filters by lists of names")),
    ],
)
def test_prompts_are_found_only_when_asked_for(store, wanted):
    is_prompt = "tags.`mlflow.prompt.is_prompt` = 'true'"
    for name, tags in (("model", []), ("prompt", [("mlflow.prompt.is_prompt", "true")])):
        store.create_registered_model(name, [RegisteredModelTag(*tag) for tag in tags])
        store.create_model_version(name, "s", "r", [ModelVersionTag(*tag) for tag in tags])
    assert names(store.search_registered_models()) == ["model"]
    assert names(store.search_registered_models(is_prompt)) == ["prompt"]
    assert names(store.search_model_versions(wanted)) == ["model"]
    both = " AND ".join(filter(None, [wanted, is_prompt]))
    assert names(store.search_model_versions(both)) == ["prompt"]


def test_a_model_renamed_during_a_search_is_found_all_the_same(engine, time, store):
    """It is listed under one name and gone when it is read; the search looks again."""
    for name in ("a", "m", "z"):
        store.create_registered_model(name)
        store.create_model_version(name, "s3://b/1", "r1")

    class Renaming(WrappedEngine):
        """Renames a model once the names have been listed."""

        renames: list[tuple[str, str]]

        def query(self, query):
            page = self.inner.query(query)
            if query.partition in ("WORKSPACE#default", "RMRUN#r1") and self.renames:
                registry_on(self.inner, time).rename_registered_model(*self.renames.pop())
            return page

    def searching(source, target):
        flaky = Renaming(engine)
        flaky.renames = [(source, target)]
        return registry_on(flaky, time)

    assert names(searching("m", "b").search_registered_models()) == ["a", "b", "z"]
    found = searching("b", "m").search_model_versions(order_by=["name"])
    assert names(found) == ["a", "m", "z"]
    by_run = searching("m", "b").search_model_versions("run_id = 'r1'", order_by=["name"])
    assert names(by_run) == ["a", "b", "z"]


def test_filters_that_mlflow_refuses_are_refused(store):
    for wanted in ("run_id = 'x'", "version_number = 1", "nonsense", "tags.k > 'x'"):
        with refused(INVALID, "Invalid"):
            store.search_registered_models(wanted)
    for wanted in ("nonsense", "version_number LIKE '1'", "tags.k > 'x'", "version_number > 1.5"):
        with refused(INVALID, "Invalid"):
            store.search_model_versions(wanted)
    with refused("INTERNAL_ERROR", "duplicate fields"):
        store.search_registered_models(order_by=["timestamp", "last_updated_timestamp"])
