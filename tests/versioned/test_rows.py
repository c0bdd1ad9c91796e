"""The plain rows, `versioned.rows`. The models have tests/specification/test_document_004.py."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest

from mlflow_dynamodbstore.table.values import Key
from tests.versioned.conftest import Backing
from versioned.keys import encode_alias_pk, encode_version_sk
from versioned.rows import Alias, Artifact

NOON = datetime(2024, 1, 1, 12, tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("version", "key"),
    [
        (None, "LATEST"),
        ("LATEST", "LATEST"),
        (1, "000001"),
        ("1", "000001"),
        ("000001", "000001"),
        (999, "000999"),
        (999999, "999999"),
    ],
)
def test_the_sort_key_of_a_version(version, key):
    assert encode_version_sk(version) == key


@pytest.mark.parametrize("name", ["my-app", "frontend", "api-v2"])
def test_the_partition_of_aliases(name):
    assert encode_alias_pk(name) == f"__{name}-alias"


def test_a_new_artifact_is_latest_unless_a_version_is_given():
    latest, fifth = Artifact.new("my-app"), Artifact.new("my-app", version=5)
    assert (latest.pk, latest.sk, latest.name, latest.version) == (
        "my-app", "LATEST", "my-app", "LATEST",
    )  # fmt: skip
    assert (fifth.sk, fifth.version, fifth.is_deleted) == ("000005", "5", False)
    assert Artifact.new("my-app", 1_000_000).version == "1000000"


def test_an_artifact_as_a_dict():
    row = Artifact.new("my-app", 5)
    row.sha256, row.update_at = "abc123def456", NOON
    assert row.to_dict() == {
        "name": "my-app",
        "version": "5",
        "update_at": NOON,
        "sha256": "abc123def456",
    }


def test_a_simple_alias():
    row = Alias.new("my-app", "prod", version=5)
    row.update_at = NOON
    assert (row.pk, row.sk, row.name, row.alias) == ("__my-app-alias", "prod", "my-app", "prod")
    assert row.version == "000005"
    assert row.to_dict() == {
        "name": "my-app",
        "alias": "prod",
        "update_at": NOON,
        "version": "5",
        "secondary_version": None,
        "secondary_version_weight": None,
    }


def test_an_alias_that_splits_traffic():
    row = Alias.new("my-app", "prod", 5, secondary_version=6, secondary_version_weight=20)
    assert (row.version, row.secondary_version, row.secondary_version_weight) == (
        "000005", "000006", 20,
    )  # fmt: skip
    assert row.to_dict()["secondary_version"] == "6"
    assert row.to_dict()["secondary_version_weight"] == 20


def test_an_alias_without_a_version_points_at_latest():
    assert Alias.new("my-app", "dev").to_dict()["version"] == "LATEST"


def test_the_name_in_a_partition_is_found_whatever_it_contains():
    for name in ("frontend-service", "x-alias", "a-alias-alias"):
        assert Alias.new(name, "prod", 1).name == name


@pytest.mark.parametrize(
    "arguments",
    [
        {"version": 5, "secondary_version": 5},
        {"version": 5, "secondary_version": "000005", "secondary_version_weight": 10},
        {"version": None, "secondary_version": "LATEST", "secondary_version_weight": 10},
        {"version": 5, "secondary_version": 6, "secondary_version_weight": 100},
        {"version": 5, "secondary_version": 6, "secondary_version_weight": -1},
        {"version": 5, "secondary_version": 6, "secondary_version_weight": True},
        {"version": 5, "secondary_version": 6, "secondary_version_weight": 1.5},
        {"version": 5, "secondary_version": 6, "secondary_version_weight": "20"},
        {"version": 5, "secondary_version_weight": 100},
        {"version": 5, "secondary_version_weight": 20},
        {"version": 0},
        {"version": "abc"},
    ],
    ids=str,
)
def test_an_alias_that_makes_no_sense_is_refused(arguments):
    with pytest.raises(ValueError):
        Alias.new("my-app", "prod", **arguments)


def test_a_secondary_version_without_a_weight_gets_no_keys_yet():
    assert Alias.new("my-app", "prod", 5, 6).secondary_version_weight == 0


def test_rows_take_keys_and_attributes_and_refuse_unknown_ones():
    row = Artifact("my-app", "000001", sha256="abc")
    assert (row.pk, row.sk, row.sha256) == ("my-app", "000001", "abc")
    assert Artifact(pk="my-app", sk="000001", sha256="abc", update_at=row.update_at) == row
    with pytest.raises(ValueError, match="has no attribute colour"):
        Artifact("my-app", "000001", colour="red")


def test_what_a_row_keeps_comes_back(backing: Backing):
    table = backing.table()
    row = Alias.new("my-app", "prod", 5, 6, 20)
    row.by, row.reason = "ann", "é\n"
    table.put(row.to_item())
    assert Alias.from_item(table.get(Key("__my-app-alias", "prod")) or {}) == row
    table.close()


def test_a_row_of_the_older_package_can_be_read():
    row = Artifact.from_item(
        {
            "pk": "my-app",
            "sk": "000042",
            "update_at": "2024-01-01T12:00:00.000000+0000",
            "is_deleted": False,
            "sha256": "abc",
        }
    )
    assert (row.version, row.update_at, row.size) == ("42", NOON, None)
