"""One hierarchy of errors, and what happens when the table misbehaves."""

from __future__ import annotations

import inspect
import random
from pathlib import Path

import pytest

from mlflow_dynamodbstore.table import errors as table_errors
from mlflow_dynamodbstore.table.retry import Retry
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from tests.faults import FaultyEngine
from tests.versioned.conftest import Backing
from versioned import Repository, errors
from versioned.keys import TABLE


def own_errors() -> list[type[Exception]]:
    return [
        value
        for _, value in inspect.getmembers(errors, inspect.isclass)
        if issubclass(value, Exception) and value.__module__ == errors.__name__
    ]


def test_every_error_is_a_versioned_error_and_says_what_it_means():
    assert len(own_errors()) > 20
    for error in own_errors():
        assert issubclass(error, errors.VersionedError)
        assert error.__doc__


def test_wrong_input_is_a_value_error_and_what_is_missing_a_lookup_error():
    assert issubclass(errors.InvalidName, ValueError)
    assert issubclass(errors.VersionNotFound, LookupError)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        (table_errors.Throttled("slow down"), errors.Unavailable),
        (table_errors.Unavailable("no answer"), errors.Unavailable),
        (table_errors.AccessDenied("no"), errors.AccessDenied),
        (table_errors.TableMissing("absent"), errors.LocationMissing),
        (table_errors.SchemaMismatch("another"), errors.LocationMissing),
        (table_errors.TransactionCancelled([]), errors.Contended),
        (table_errors.ItemTooLarge("big"), errors.Unusable),
    ],
    ids=lambda value: getattr(value, "__name__", type(value).__name__),
)
def test_an_error_of_the_table_becomes_ours_and_stays_its_cause(theirs, ours, local: Backing):
    repo = local.open()
    repo.put("app", b"x")

    def fail(*_: object, **__: object) -> None:
        raise theirs

    repo._home.table.get = fail  # type: ignore[method-assign]
    with pytest.raises(ours, match="the table could not be used") as caught:
        repo.show("app")
    assert caught.value.__cause__ is theirs


def test_every_public_method_speaks_our_language_only():
    for name, method in inspect.getmembers(Repository, inspect.isfunction):
        if not name.startswith("_"):
            assert hasattr(method, "__wrapped__"), name


@pytest.mark.parametrize("uri", ["mysql://x/y", "dynamodb://", "dynamodb://us-east-1"])
def test_a_bad_table_uri_is_refused_with_a_right_one(uri, tmp_path: Path):
    with pytest.raises(errors.InvalidLocation, match="dynamodb://"):
        Repository(uri, str(tmp_path))


def test_a_table_that_does_not_exist_is_told_with_how_to_create_it(backing: Backing):
    with pytest.raises(errors.LocationMissing, match="versioned init"):
        backing.open(create=False)
    backing.open(create=True).put("app", b"x")
    assert backing.open(create=False).read("app") == b"x"


def test_a_file_that_is_another_kind_of_table_is_refused(tmp_path: Path):
    from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE

    open_engine(f"dynamodb:///{tmp_path}/mlflow.ddb", MLFLOW_TABLE).close()
    with pytest.raises(errors.LocationMissing):
        Repository(f"dynamodb:///{tmp_path}/mlflow.ddb", str(tmp_path))


def test_a_place_that_cannot_be_written_to_is_told(local: Backing, tmp_path: Path):
    repo = local.open()
    repo.publish("app", b"x")
    (tmp_path / "file").write_text("")
    with pytest.raises(errors.Unusable, match="cannot be written"):
        repo.get("app", 1, to=tmp_path / "file" / "below")


def test_everything_is_exact_under_throttling_conflicts_and_lost_answers(local: Backing):
    """Each fault is met by a retry; nothing is done twice, nothing is left out."""
    faulty = FaultyEngine(
        open_engine(local.table_uri, TABLE),
        throttle=0.1,
        timeout_before=0.1,
        timeout_after=0.1,
        conflict=0.1,
        rng=random.Random(11),
    )
    table = Table(faulty, retry=Retry(sleep=lambda _: None, rng=random.Random(11)))
    repo = Repository(table, local.storage_uri)
    for number in range(1, 16):
        assert repo.publish("app", f"{number}".encode()).version == str(number)
        assert repo.put_alias("app", "prod", number).revision == number
    for number in range(1, 10):
        repo.delete("app", number)
        repo.purge("app", number)
    assert sum(faulty.injected.values()) > 50
    sound = local.open()
    assert sound.verify().ok
    assert [row.version for row in sound.list_versions("app")] == [
        "LATEST", *(str(number) for number in range(15, 9, -1)),
    ]  # fmt: skip
    assert len(sound.history("app", "prod")) == 15
    table.close()
