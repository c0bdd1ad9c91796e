"""Random sequences of calls give the same answers and errors on MLflow's SqlAlchemyStore and ours.

Ours is asked through two stores in turn, so that each often goes by a memory which the other has
made outdated, and its global indexes lag: nothing may depend on them. The short form is part of
``make test``; ``make fuzz`` runs long ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    rule,
    run_state_machine_as_test,
)
from mlflow.entities.model_registry import (
    ModelVersion,
    ModelVersionTag,
    RegisteredModel,
    RegisteredModelTag,
)
from mlflow.exceptions import MlflowException
from mlflow.prompt.constants import IS_PROMPT_TAG_KEY
from mlflow.store.entities.paged_list import PagedList
from mlflow.store.model_registry.sqlalchemy_store import SqlAlchemyStore

from mlflow_dynamodbstore.registry.store import DynamoDBRegistryStore
from mlflow_dynamodbstore.shared.policies import TEXT_FIELDS
from mlflow_dynamodbstore.shared.search.name_index import MODEL_NAME
from tests.differences import Refused, joined, term
from tests.registry.helpers import check_repeats
from tests.sql import empty_database

pytestmark = pytest.mark.hypothesis  # so that `make fuzz` runs it too

NAMES = ["a", "ab", "A b", "é#x%", "b_1"]
# The first ones are there from the start, and most calls are about them.
NAME = st.sampled_from(["a", "a", "a", "a", "ab", "ab", *NAMES])
VERSION = st.sampled_from([1, 2, 3, 2, 1, "1", "2", 4, 7])
KEY = st.sampled_from(["k", "K", "k 2", "x.y", IS_PROMPT_TAG_KEY])
TEXT = st.sampled_from(["", "true", "false", "v", "V", "it's 50%", "🙂", "n" * 2000])
DESCRIPTION = st.none() | st.sampled_from(["", "text", "d" * 3000])
ALIAS = st.sampled_from(["champion", "champion", "Champion", "x_1", "latest", ""])
STAGE = st.sampled_from(["None", "staging", "Production", "ARCHIVED", "nonsense"])
SOURCE = st.sampled_from(["s3://b/1", "s3://b/2", "", "models:/a/1", "models:/ab/2"])
RUN = st.none() | st.sampled_from(["r1", "r2", "R1", "#"])

COMPARATORS = ["=", "!=", "LIKE", "ILIKE"]
PATTERNS = ["a", "A%", "%b%", "_", "é%", "", "v", "V%", "true", "r1", "R%", "s3%"]


NAME_TERM = term(st.just("name"), COMPARATORS, PATTERNS) | st.sampled_from(
    ["name IN ('a', 'ab')", "name NOT IN ('a')", "name = 'é#x%'", "name LIKE 'é#%'"]
)
TAG_TERM = term(
    st.sampled_from(["tags.k", "tag.`k 2`", "tags.`x.y`"]), COMPARATORS, PATTERNS
) | st.sampled_from(
    [
        f"tags.`{IS_PROMPT_TAG_KEY}` {comparator} '{value}'"
        for comparator in ("=", "!=")
        for value in ("true", "false", "v")
    ]
)
VERSION_TERM = term(
    st.sampled_from(["run_id", "source_path"]), COMPARATORS, PATTERNS
) | st.sampled_from(
    [
        "run_id IN ('r1', 'r2')",
        "run_id NOT IN ('r1')",
        "run_id = '#'",
        "version_number > 1",
        "version_number = 2",
        "version_number <= '2'",
        "source_path IN ('x')",
        "version_number > 1.5",
    ]
)


MODEL_FILTER = joined(NAME_TERM, TAG_TERM)
VERSION_FILTER = joined(NAME_TERM, TAG_TERM, VERSION_TERM)
MODEL_ORDER = st.sampled_from(
    [None, ["name DESC"], ["timestamp ASC"], ["last_updated_timestamp DESC", "name DESC"]]
)
VERSION_ORDER = st.sampled_from(
    [
        None,
        ["name DESC"],
        ["version_number ASC"],
        ["creation_timestamp DESC", "name DESC"],
        ["last_updated_timestamp ASC"],
        ["name", "version_number ASC"],
    ]
)


class Difference(RuleBasedStateMachine):
    """Every rule calls both stores and compares what comes back."""

    theirs: ClassVar[Any]
    ours: ClassVar[tuple[Any, Any]]

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 1_700_000_000
        self.turn = 0

    @initialize()
    def begin(self) -> None:
        for name in ("a", "ab"):
            self.same("create_registered_model", name)
            for run_id in ("r1", "r2", None):
                self.same("create_model_version", name, "s3://b/1", run_id)

    def teardown(self) -> None:
        check_repeats(self.ours[0])
        for name in NAMES:
            for store in (self.theirs, self.ours[0]):
                outcome(store, "delete_registered_model", (name,))

    def same(self, method: str, *args: Any, order_matters: bool = True) -> Any:
        """Call a method on both at the same moment; what comes back must be the same."""
        self.turn += 1
        self.seconds += self.turn % 3 == 0  # often two changes fall into one moment
        with mock.patch("time.time", return_value=self.seconds):
            mine = outcome(self.ours[self.turn // 2 % 2], method, args)
            other = outcome(self.theirs, method, args)
        if order_matters:
            assert shown(mine) == shown(other), (method, args)
        else:
            assert sorted(shown(mine), key=str) == sorted(shown(other), key=str), (method, args)
        return mine

    # --- models ---------------------------------------------------------------------------------

    @rule(name=NAME, tags=st.dictionaries(KEY, TEXT, max_size=2), description=DESCRIPTION)
    def create_model(self, name: str, tags: dict[str, str], description: str | None) -> None:
        given = [RegisteredModelTag(key, value) for key, value in tags.items()]
        self.same("create_registered_model", name, given, description)

    @rule(name=NAME)
    def create_plain_model(self, name: str) -> None:
        self.same("create_registered_model", name)

    @rule(name=NAME)
    def get_model(self, name: str) -> None:
        self.same("get_registered_model", name)

    @rule(name=NAME, description=DESCRIPTION)
    def update_model(self, name: str, description: str | None) -> None:
        self.same("update_registered_model", name, description)

    @rule(name=NAME, new_name=NAME)
    def rename_model(self, name: str, new_name: str) -> None:
        self.same("rename_registered_model", name, new_name)

    @rule(name=st.sampled_from(NAMES[1:]))
    def delete_model(self, name: str) -> None:
        self.same("delete_registered_model", name)

    @rule(name=NAME, key=KEY, value=TEXT)
    def set_model_tag(self, name: str, key: str, value: str) -> None:
        self.same("set_registered_model_tag", name, RegisteredModelTag(key, value))

    @rule(name=NAME, key=KEY)
    def delete_model_tag(self, name: str, key: str) -> None:
        self.same("delete_registered_model_tag", name, key)

    @rule(name=NAME, stages=st.none() | st.lists(STAGE, max_size=2))
    def get_latest_versions(self, name: str, stages: list[str] | None) -> None:
        self.same("get_latest_versions", name, stages, order_matters=False)

    # --- versions -------------------------------------------------------------------------------

    @rule(
        name=NAME,
        source=SOURCE,
        run_id=RUN,
        tags=st.dictionaries(KEY, TEXT, max_size=2),
        description=DESCRIPTION,
    )
    def create_version(
        self,
        name: str,
        source: str,
        run_id: str | None,
        tags: dict[str, str],
        description: str | None,
    ) -> None:
        given = [ModelVersionTag(key, value) for key, value in tags.items()]
        self.same("create_model_version", name, source, run_id, given, None, description)

    @rule(name=NAME, run_id=RUN)
    def create_plain_version(self, name: str, run_id: str | None) -> None:
        self.same("create_model_version", name, "s3://b/1", run_id)

    @rule(name=NAME, version=VERSION)
    def get_version(self, name: str, version: Any) -> None:
        self.same("get_model_version", name, version)
        self.same("get_model_version_download_uri", name, version)

    @rule(name=NAME, version=VERSION, description=DESCRIPTION)
    def update_version(self, name: str, version: Any, description: str | None) -> None:
        self.same("update_model_version", name, version, description)

    @rule(name=NAME, version=VERSION, stage=STAGE, archive=st.booleans())
    def transition(self, name: str, version: Any, stage: str, archive: bool) -> None:
        self.same("transition_model_version_stage", name, version, stage, archive)

    @rule(name=NAME, version=VERSION)
    def delete_version(self, name: str, version: Any) -> None:
        self.same("delete_model_version", name, version)

    @rule(name=NAME, version=VERSION, key=KEY, value=TEXT)
    def set_version_tag(self, name: str, version: Any, key: str, value: str) -> None:
        self.same("set_model_version_tag", name, version, ModelVersionTag(key, value))

    @rule(name=NAME, version=VERSION, key=KEY)
    def delete_version_tag(self, name: str, version: Any, key: str) -> None:
        self.same("delete_model_version_tag", name, version, key)

    # --- aliases --------------------------------------------------------------------------------

    @rule(name=NAME, alias=ALIAS, version=VERSION)
    def set_alias(self, name: str, alias: str, version: Any) -> None:
        self.same("set_registered_model_alias", name, alias, version)

    @rule(name=NAME, alias=ALIAS)
    def delete_alias(self, name: str, alias: str) -> None:
        self.same("delete_registered_model_alias", name, alias)

    @rule(name=NAME, alias=ALIAS)
    def get_by_alias(self, name: str, alias: str) -> None:
        self.same("get_model_version_by_alias", name, alias)

    # --- searching ------------------------------------------------------------------------------

    @rule(wanted=MODEL_FILTER, order=MODEL_ORDER, size=st.sampled_from([1, 2, 100]))
    def search_models(self, wanted: str | None, order: list[str] | None, size: int) -> None:
        self.same_pages("search_registered_models", wanted, size, order)

    @rule(wanted=VERSION_FILTER, order=VERSION_ORDER, size=st.sampled_from([1, 3, 100]))
    def search_versions(self, wanted: str | None, order: list[str] | None, size: int) -> None:
        self.same_pages("search_model_versions", wanted, size, order)

    def same_pages(self, method: str, wanted: str | None, size: int, order: Any) -> None:
        mine, other = (
            list(pages(store, method, wanted, size, order))
            for store in (self.ours[self.turn % 2], self.theirs)
        )
        assert shown(mine) == shown(other), (method, wanted, size, order)


def pages(
    store: Any, method: str, wanted: str | None, size: int, order: Any
) -> Iterator[Refused | list[Any]]:
    """All pages of a search, or the error."""
    token = None
    while True:
        page = outcome(store, method, (wanted, size, order, token))
        yield page if isinstance(page, Refused) else list(page)
        token = getattr(page, "token", None)
        if not token:
            return


def outcome(store: Any, method: str, args: tuple[Any, ...]) -> Any:
    try:
        return getattr(store, method)(*args)
    except MlflowException as error:
        # Some of MLflow's messages go on in the words of its database.
        message = error.message.split("already exists")[0].split("Error:")[0]
        return Refused(error.error_code, message)


def shown(result: Any) -> Any:
    """A result as plain values, without the order of what has none."""
    if isinstance(result, Refused | str | int | None):
        return result
    if isinstance(result, list | PagedList):
        return [shown(one) for one in result]
    if isinstance(result, RegisteredModel):
        values = {**dict(result), "tags": result._tags}
        values["latest_versions"] = sorted(shown(result.latest_versions), key=str)
        return values
    assert isinstance(result, ModelVersion)
    return {**dict(result), "tags": result.tags, "aliases": sorted(result.aliases)}


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return SqlAlchemyStore(empty_database(tmp_path_factory.mktemp("sql")))


def test_same_answers_as_mlflows_sql_store(
    tmp_path: Path, theirs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Random calls: same answers, same errors, same error codes."""
    uri = f"dynamodb:///{tmp_path}/mlflow.ddb?synchronous=NORMAL&index_lag=2"
    Difference.theirs = theirs
    Difference.ours = (DynamoDBRegistryStore(uri), DynamoDBRegistryStore(uri))
    # Names are indexed; one of the stores searches by their words, the other lists them.
    field = {"levels": ["word", "trigram"], "complete": True}
    Difference.ours[0].context.policies.set(TEXT_FIELDS, {MODEL_NAME: field})
    monkeypatch.setattr(Difference.ours[1].search.name_index, "ids_having", lambda *_: None)
    examples = settings().max_examples // 3  # theirs is slow
    run_state_machine_as_test(
        Difference, settings=settings(stateful_step_count=40, max_examples=examples)
    )
