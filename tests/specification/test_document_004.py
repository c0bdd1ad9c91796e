"""Document 004, the DynamoDB side of `versioned`: a test for each sentence, named after it."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from pynamodb.connection import Connection
from pynamodb.exceptions import DeleteError, PutError, UpdateError
from pynamodb.models import Model
from pynamodb.transactions import TransactWrite

from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.table.values import Item, Key
from tests.engines import ROOT, dynoxide_server, find_dynoxide, moto_server
from versioned import Repository, dynamodb
from versioned.dynamodb import encode_alias_pk, encode_version_sk
from versioned.errors import ArtifactNotFound, Corrupt, VersionInUse
from versioned.keys import TABLE

NOON = datetime(2024, 1, 1, 12, 0, 0, tzinfo=timezone.utc)
NOON_TEXT = "2024-01-01T12:00:00.000000+0000"


@dataclass
class Place:
    """A table, the models and the contract on it, and a repository."""

    host: str
    table_name: str
    folder: Path

    def __post_init__(self) -> None:
        class Meta:
            table_name = self.table_name
            region = "us-east-1"
            host = f"http://{self.host}"

        self.meta = Meta
        base: Any = type("Row", (dynamodb.Base,), {"Meta": Meta})
        # One client for all: each takes 0.3 s to make.
        shared = {"Meta": Meta, "_connection": base._get_connection()}
        self.Base = base
        self.Artifact: Any = type("MyArtifact", (dynamodb.Artifact,), shared)
        self.Alias: Any = type("MyAlias", (dynamodb.Alias,), shared)
        self.uri = f"dynamodb://{self.host}/{self.table_name}"
        self._opened: list[Table | Repository] = []

    def raw(self, pk: str, sk: str) -> Item | None:
        return self._table.get(Key(pk, sk))

    @cached_property
    def _table(self) -> Table:
        table = Table(open_engine(self.uri, TABLE))
        self._opened.append(table)
        return table

    def open(self, storage: str = "files") -> Repository:
        repo = Repository(self.uri, str(self.folder / storage), actor="ann")
        self._opened.append(repo)
        return repo

    def close(self) -> None:
        while self._opened:
            self._opened.pop().close()


@pytest.fixture(scope="module", params=["dynoxide", "moto"])
def endpoint(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "dynoxide" and find_dynoxide() is None:
        pytest.skip("dynoxide is not installed (tools/install_dynoxide.sh installs it with npm)")
    with dynoxide_server() if request.param == "dynoxide" else moto_server() as host:
        yield host


@pytest.fixture
def bare(endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    """Models of a table that does not exist yet."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    made = Place(endpoint, f"artifacts-{uuid.uuid4().hex[:8]}", tmp_path)
    yield made
    made.close()


@pytest.fixture
def place(bare: Place) -> Place:
    bare.Base.create_table(wait=True)
    return bare


def saved(place: Place, name: str, version: int | None = None, sha256: str = "abc123") -> Any:
    row = place.Artifact.new(name, version)
    row.sha256, row.update_at = sha256, NOON
    row.save()
    return row


class TestTableStructure:
    def test_the_table_has_a_composite_primary_key_pk_and_sk(self, bare: Place):
        bare.Artifact.create_table(wait=True)
        described = bare.Artifact.describe_table()
        assert described["KeySchema"] == [
            {"AttributeName": "pk", "KeyType": "HASH"},
            {"AttributeName": "sk", "KeyType": "RANGE"},
        ]
        types = {
            one["AttributeName"]: one["AttributeType"] for one in described["AttributeDefinitions"]
        }
        assert types == {"pk": "S", "sk": "S"}

    def test_one_table_holds_artifact_versions_and_aliases(self, place: Place):
        saved(place, "my-app", 5)
        place.Alias.new("my-app", "prod", 5).save()
        assert place.raw("my-app", "000005") is not None
        assert place.raw("__my-app-alias", "prod") is not None

    def test_a_table_that_the_models_made_is_one_that_the_repository_takes(self, place: Place):
        assert place.open().publish("my-app", b"x").version == "1"

    def test_a_table_that_the_repository_made_is_one_that_the_models_take(self, bare: Place):
        assert not bare.Artifact.exists()
        bare.open().publish("my-app", b"x")
        assert bare.Artifact.exists()
        assert bare.Artifact.get("my-app", "000001").version == "1"


class TestArtifactVersionStorage:
    @pytest.mark.parametrize(
        ("version", "sk", "shown"),
        [
            (None, "LATEST", "LATEST"),
            (1, "000001", "1"),
            (2, "000002", "2"),
            (999, "000999", "999"),
        ],
    )
    def test_example_artifact_entries(self, place: Place, version, sk, shown):
        saved(place, "my-app", version)
        assert place.raw("my-app", sk) == {
            "pk": "my-app",
            "sk": sk,
            "sha256": "abc123",
            "is_deleted": False,
            "update_at": NOON_TEXT,
        }
        assert place.Artifact.get("my-app", sk).version == shown

    def test_the_repository_writes_the_same_entries(self, place: Place):
        repo = place.open()
        for content in (b"1", b"2", b"3"):
            repo.publish("my-app", content)
        rows = list(place.Artifact.query("my-app"))
        assert [(row.pk, row.sk) for row in rows] == [
            ("my-app", sk) for sk in ("000001", "000002", "000003", "LATEST")
        ]

    def test_all_versions_of_an_artifact_are_in_one_partition(self, place: Place):
        for version in (None, 1, 2):
            saved(place, "my-app", version)
        saved(place, "other", 1)
        assert {row.sk for row in place.Artifact.query("my-app")} == {"LATEST", "000001", "000002"}

    def test_sort_key_ordering_is_latest_then_the_versions(self, place: Place):
        """As a listing gives it. Text sorts LATEST after digits: first when read backwards."""
        for version in (2, None, 10, 1):
            saved(place, "my-app", version)
        listed = place.open().list_versions("my-app", oldest_first=True)
        assert [row.version for row in listed] == ["LATEST", "1", "2", "10"]
        backwards = place.Artifact.query("my-app", scan_index_forward=False)
        assert [row.version for row in backwards] == ["LATEST", "10", "2", "1"]

    def test_efficient_range_queries_for_listing_versions(self, place: Place):
        for version in (1, 2, 3, 4, None):
            saved(place, "my-app", version)
        between = place.Artifact.sk.between(encode_version_sk(2), encode_version_sk(3))
        assert [row.version for row in place.Artifact.query("my-app", between)] == ["2", "3"]
        numbered = place.Artifact.sk < "LATEST"
        newest = place.Artifact.query("my-app", numbered, scan_index_forward=False, limit=1)
        assert [row.version for row in newest] == ["4"]

    def test_zero_padding_makes_text_order_the_order_of_numbers(self, place: Place):
        for version in (10, 9, 100, 1, 999_999, 1_000_000):
            saved(place, "my-app", version)
        assert [row.version for row in place.Artifact.query("my-app")] == [
            "1", "9", "10", "100", "999999", "1000000",
        ]  # fmt: skip


class TestAliasStorage:
    @pytest.mark.parametrize(
        ("alias", "version", "sk"),
        [("prod", 5, "000005"), ("staging", 3, "000003"), ("dev", None, "LATEST")],
    )
    def test_example_alias_entries(self, place: Place, alias, version, sk):
        row = place.Alias.new("my-app", alias, version)
        row.update_at = NOON
        row.save()
        assert place.raw("__my-app-alias", alias) == {
            "pk": "__my-app-alias",
            "sk": alias,
            "version": sk,
            "update_at": NOON_TEXT,
        }

    def test_aliases_are_isolated_from_artifact_versions(self, place: Place):
        saved(place, "my-app", 1)
        place.Alias.new("my-app", "prod", 1).save()
        assert [row.sk for row in place.Artifact.query("my-app")] == ["000001"]

    def test_all_aliases_of_an_artifact_are_in_one_partition(self, place: Place):
        for alias in ("prod", "staging", "dev"):
            place.Alias.new("my-app", alias, 1).save()
        place.Alias.new("other", "prod", 1).save()
        found = place.Alias.query(encode_alias_pk("my-app"))
        assert [row.alias for row in found] == ["dev", "prod", "staging"]

    def test_efficient_alias_lookup(self, place: Place):
        place.Alias.new("my-app", "prod", 5).save()
        assert place.Alias.get(encode_alias_pk("my-app"), "prod").version == "000005"

    def test_the_prefix_prevents_naming_conflicts_with_artifact_names(self):
        for name in ("__my-app-alias", "_x", "__"):
            with pytest.raises(ValueError, match="beginning with a letter or a digit"):
                dynamodb.Artifact.new(name)


class TestVersionEncoding:
    @pytest.mark.parametrize(
        ("version", "key"),
        [
            (None, "LATEST"),
            ("LATEST", "LATEST"),
            (1, "000001"),
            ("000001", "000001"),
            (999999, "999999"),
        ],
    )
    def test_encode_version_sk(self, version, key):
        assert encode_version_sk(version) == key

    def test_latest_is_always_stored_as_latest(self, place: Place):
        place.open().put("my-app", b"x")
        assert (place.raw("my-app", "LATEST") or {})["sk"] == "LATEST"

    def test_leading_zeros_are_stripped_for_display(self):
        assert dynamodb.Artifact("my-app", "000001").version == "1"

    @pytest.mark.parametrize(
        ("name", "key"),
        [
            ("my-app", "__my-app-alias"),
            ("frontend", "__frontend-alias"),
            ("api-v2", "__api-v2-alias"),
        ],
    )
    def test_encode_alias_pk(self, name, key):
        assert encode_alias_pk(name) == key

    def test_signatures_of_the_functions(self):
        assert str(inspect.signature(encode_version_sk)) == "(version: 'int | str | None') -> 'str'"
        assert str(inspect.signature(encode_alias_pk)) == "(name: 'str') -> 'str'"


class TestAdvantages:
    def test_native_support_for_conditional_updates(self, place: Place):
        row = saved(place, "my-app", 1)
        fresh = place.Artifact.new("my-app", 1)
        with pytest.raises(PutError) as refused:
            fresh.save(condition=place.Artifact.pk.does_not_exist())
        assert refused.value.cause_response_code == "ConditionalCheckFailedException"
        row.update(
            [place.Artifact.is_deleted.set(True)], condition=place.Artifact.sha256 == "abc123"
        )
        assert (place.raw("my-app", "000001") or {})["is_deleted"] is True
        with pytest.raises(UpdateError):
            row.update([place.Artifact.sha256.remove()], condition=place.Artifact.sha256 == "other")
        with pytest.raises(DeleteError):
            row.delete(condition=place.Artifact.is_deleted == False)  # noqa: E712

    def test_native_support_for_transactions(self, place: Place):
        row = place.Artifact.new("my-app", 1)
        row.sha256 = "abc123"
        connection = Connection(region="us-east-1", host=place.meta.host)
        with TransactWrite(connection=connection) as transaction:
            transaction.save(row)
            transaction.save(place.Alias.new("my-app", "prod", 1))
        assert place.raw("my-app", "000001") is not None
        assert place.raw("__my-app-alias", "prod") is not None
        assert place.open().list_names().items == ["my-app"]

    def test_efficient_pagination_and_filtering(self, place: Place):
        for version in range(1, 6):
            row = place.Artifact.new("my-app", version)
            row.is_deleted = version == 3
            row.save()
        first = place.Artifact.query("my-app", limit=2)
        assert [row.version for row in first] == ["1", "2"]
        rest = place.Artifact.query(
            "my-app",
            filter_condition=place.Artifact.is_deleted != True,  # noqa: E712
            last_evaluated_key=first.last_evaluated_key,
            page_size=1,
        )
        assert [row.version for row in rest] == ["4", "5"]

    def test_strong_consistency_for_read_after_write(self, place: Place):
        row = saved(place, "my-app", 1)
        assert place.Artifact.get("my-app", "000001", consistent_read=True).sha256 == "abc123"
        place.Artifact("my-app", "000001", sha256="def456").save()
        row.refresh(consistent_read=True)
        assert row.sha256 == "def456"

    def test_optimistic_locking(self, place: Place):
        """A change by a model between a repository's read and its write is noticed."""
        repo = place.open()
        repo.publish("my-app", b"1")
        repo.publish("my-app", b"2")
        repo.put_alias("my-app", "prod", 1)
        home, table = repo._home, repo._home.table
        transact = table.transact

        def late(writes: Any) -> None:
            home.table.transact = transact  # type: ignore[method-assign]
            row = place.Alias.get("__my-app-alias", "prod")
            row.version = "000002"
            row.save()
            transact(writes)

        table.transact = late  # type: ignore[method-assign]
        repo.canary("my-app", "prod", "LATEST", 10)
        assert repo.get_alias("my-app", "prod").version == "000002"


class TestIntegration:
    def test_the_table_stores_metadata_and_the_storage_stores_content(self, place: Place):
        repo = place.open()
        repo.publish("my-app", b"content", metadata={"commit": "3f2a91c"})
        row = place.Artifact.get("my-app", "000001")
        assert (row.size, row.metadata, row.by) == (7, {"commit": "3f2a91c"}, "ann")
        assert not any(
            "content" in str(value) for value in (place.raw("my-app", "000001") or {}).values()
        )
        assert repo.read(row) == b"content"

    def test_rows_of_the_repository_are_read_and_saved_without_loss(self, place: Place):
        repo = place.open()
        repo.publish("my-app", b"1", metadata={"default": "x", "null": "y", "é": "ß"})
        repo.publish("my-app", b"2")
        repo.put_alias("my-app", "prod", 1, 2, 20, reason="try")
        for model, pk, sk in (
            (place.Artifact, "my-app", "000001"),
            (place.Artifact, "my-app", "LATEST"),
            (place.Alias, "__my-app-alias", "prod"),
        ):
            before = place.raw(pk, sk)
            model.get(pk, sk).save()
            assert place.raw(pk, sk) == before
        assert repo.verify().ok

    def test_conditions_reach_into_metadata(self, place: Place):
        repo = place.open()
        repo.publish("my-app", b"1", metadata={"commit": "a"})
        repo.publish("my-app", b"2", metadata={"commit": "b"})
        found = place.Artifact.query(
            "my-app",
            place.Artifact.sk < "LATEST",
            filter_condition=place.Artifact.metadata["commit"] == "b",
        )
        assert [row.version for row in found] == ["2"]

    def test_the_repository_reads_rows_of_the_models(self, place: Place):
        saved(place, "my-app", 5)
        place.Alias.new("my-app", "prod", 5).save()
        repo = place.open()
        assert repo.show("my-app", 5).to_dict() == {
            "name": "my-app",
            "version": "5",
            "update_at": NOON,
            "sha256": "abc123",
        }
        assert [row.alias for row in repo.list_aliases("my-app")] == ["prod"]
        assert repo.resolve("my-app", "prod").version == "5"
        with pytest.raises(VersionInUse):
            repo.delete("my-app", 5)
        repo.put("other", b"x")  # the repository takes its place in the table
        assert repo.show("my-app", 5).sha256 == "abc123"
        with pytest.raises(Corrupt, match="not a sha256"):
            repo.read("my-app", 5)

    def test_names_lists_artifacts_of_the_repository_and_of_the_models(self, place: Place):
        saved(place, "saved", 1)
        with place.Artifact.batch_write() as batch:
            for version in range(1, 31):
                batch.save(place.Artifact.new("batched", version))
        place.Artifact.new("updated", 1).update([place.Artifact.sha256.set("abc")])
        repo = place.open()
        assert repo.list_names().items == ["batched", "saved", "updated"]
        repo.publish("published", b"x")
        assert repo.list_names().items == ["batched", "published", "saved", "updated"]
        assert place.raw("__names", "saved") == {"pk": "__names", "sk": "saved"}
        assert len(repo.list_versions("batched")) == 30

    def test_a_refused_row_is_not_listed(self, place: Place):
        with pytest.raises(PutError):
            place.Artifact.new("my-app", 1).save(condition=place.Artifact.pk.exists())
        assert place.open().list_names().items == []

    def test_another_repository_of_the_table_does_not_see_the_rows(self, place: Place):
        place.open().publish("first", b"x")
        saved(place, "my-app", 1)
        other = place.open("other")
        assert other.list_names().items == []
        with pytest.raises(ArtifactNotFound):
            other.show("my-app", 1)

    def test_models_write_into_other_repositories_of_the_table_by_their_prefix(self, place: Place):
        place.open().publish("first", b"x")
        other = place.open("other")
        prefix = other.publish("second", b"x").pk.removesuffix("second")
        place.Artifact(f"{prefix}my-app", "000001").save()
        assert other.list_names().items == ["my-app", "second"]
        assert place.Artifact.get(f"{prefix}my-app", "000001").name == "my-app"

    def test_publishing_goes_on_after_the_numbers_of_the_models(self, place: Place):
        repo = place.open()
        repo.publish("my-app", b"1")
        saved(place, "my-app", 2)
        saved(place, "my-app", 7)
        assert repo.publish("my-app", b"2").version == "8"
        assert (place.raw("my-app", "000002") or {})["sha256"] == "abc123"

    def test_a_purged_number_of_a_model_is_not_used_again(self, place: Place):
        repo = place.open()
        saved(place, "my-app", 7)
        repo.delete("my-app", 7)
        repo.purge("my-app", 7)
        assert repo.publish("my-app", b"2").version == "8"

    def test_artifacts_of_the_models_can_be_purged_whole(self, place: Place):
        for version in (None, 1, 2):
            place.Artifact.new("my-app", version).save()  # no sha256
        repo = place.open()
        assert repo.purge_artifact("my-app") == 3
        assert repo.list_names().items == []

    def test_an_alias_may_come_to_point_at_a_row_of_the_models(self, place: Place):
        place.Artifact.new("my-app", 1).save()
        repo = place.open()
        repo.put_alias("my-app", "prod", 1, reason="first")
        assert place.Alias.get("__my-app-alias", "prod").reason == "first"
        assert repo.resolve("my-app", "prod").version == "1"

    def test_an_alias_that_a_model_has_moved_resolves_to_where_it_points_now(self, place: Place):
        repo = place.open()
        repo.publish("my-app", b"1")
        repo.publish("my-app", b"2")
        repo.put_alias("my-app", "prod", 1)
        row = place.Alias.get("__my-app-alias", "prod")
        row.version = encode_version_sk(2)
        row.save()
        assert repo.resolve("my-app", "prod").version == "2"
        assert repo.put_alias("my-app", "prod", 1).version == "000001"


class TestBase:
    def test_signature(self):
        for model in (dynamodb.Base, dynamodb.Artifact, dynamodb.Alias):
            assert list(inspect.signature(model).parameters) == [
                "hash_key", "range_key", "_user_instantiated", "attributes",
            ]  # fmt: skip
            assert issubclass(model, Model)

    def test_hash_key_and_range_key_are_pk_and_sk(self):
        row = dynamodb.Base("my-app", "LATEST")
        assert (row.pk, row.sk) == ("my-app", "LATEST")
        assert dynamodb.Base.pk.is_hash_key
        assert dynamodb.Base.sk.is_range_key

    def test_unknown_attributes_are_refused(self):
        with pytest.raises(ValueError, match="colour"):
            dynamodb.Artifact("my-app", "000001", colour="red")

    @pytest.mark.parametrize("model", [dynamodb.Base, dynamodb.Artifact, dynamodb.Alias])
    def test_it_must_be_subclassed_to_define_the_table_name_and_region(self, model):
        with pytest.raises(AttributeError, match="Meta"):
            model.exists()

    def test_a_subclass_defines_the_table_name_and_region(self, bare: Place):
        class Artifact(dynamodb.Artifact):
            class Meta:
                table_name = bare.table_name
                region = "us-east-1"
                host = f"http://{bare.host}"

        assert not Artifact.exists()
        Artifact.create_table(wait=True)
        assert Artifact.exists()
        Artifact.new("my-app").save()
        assert bare.raw("my-app", "LATEST") is not None
        Artifact.delete_table()
        assert not Artifact.exists()

    def test_a_subclass_may_have_attributes_of_its_own(self, place: Place):
        from pynamodb.attributes import UnicodeAttribute

        model: Any = type(
            "Team", (dynamodb.Artifact,), {"Meta": place.meta, "team": UnicodeAttribute(null=True)}
        )
        model("my-app", "000001", team="search").save()
        assert (place.raw("my-app", "000001") or {})["team"] == "search"
        assert [row.team for row in model.scan(model.team == "search")] == ["search"]
        assert place.open().show("my-app", 1).version == "1"

    def test_a_table_may_be_created_with_provisioned_capacity(self, bare: Place):
        bare.Base.create_table(wait=True, read_capacity_units=2, write_capacity_units=1)
        assert bare.Base.describe_table()["ProvisionedThroughput"]["ReadCapacityUnits"] == 2

    def test_different_types_of_records_are_in_the_same_table(self, place: Place):
        repo = place.open()
        repo.publish("my-app", b"x")
        repo.put_alias("my-app", "prod", 1)
        assert sorted(row.version for row in place.Artifact.scan()) == ["1", "LATEST"]
        assert [row.alias for row in place.Alias.scan()] == ["prod"]
        assert {row.pk for row in place.Base.scan()} > {"my-app", "__my-app-alias", "__names"}

    def test_scan_gives_the_rows_of_every_repository(self, place: Place):
        place.open().publish("a__b", b"x")
        place.open("other").publish("second", b"x")
        assert {row.name for row in place.Artifact.scan()} == {"a__b", "second"}

    def test_get_of_a_row_that_is_not_there(self, place: Place):
        with pytest.raises(place.Artifact.DoesNotExist):
            place.Artifact.get("my-app", "000001")

    def test_batches_counts_and_deletes(self, place: Place):
        with place.Artifact.batch_write() as batch:
            for version in (1, 2, 3):
                batch.save(place.Artifact.new("my-app", version))
        assert place.Artifact.count("my-app") == 3
        keys = [("my-app", "000001"), ("my-app", "000002")]
        assert {row.version for row in place.Artifact.batch_get(keys)} == {"1", "2"}
        with place.Artifact.batch_write() as batch:
            batch.delete(place.Artifact.new("my-app", 3))
        place.Artifact.new("my-app", 2).delete()
        assert [row.version for row in place.Artifact.query("my-app")] == ["1"]


class TestArtifact:
    def test_parameters(self, place: Place):
        row = place.Artifact("my-app", "000001", update_at=NOON, is_deleted=True, sha256="abc123")
        row.save()
        assert place.raw("my-app", "000001") == {
            "pk": "my-app",
            "sk": "000001",
            "update_at": NOON_TEXT,
            "is_deleted": True,
            "sha256": "abc123",
        }

    def test_update_at_is_a_utc_timestamp_from_the_start(self):
        row = dynamodb.Artifact.new("my-app")
        assert row.update_at.tzinfo is timezone.utc
        assert abs((datetime.now(timezone.utc) - row.update_at).total_seconds()) < 60

    def test_is_deleted_hides_without_data_loss(self, place: Place):
        row = saved(place, "my-app", 1)
        row.update([place.Artifact.is_deleted.set(True)])
        repo = place.open()
        assert repo.list_versions("my-app").items == []
        assert repo.undelete("my-app", 1).sha256 == "abc123"
        row.refresh()
        assert row.is_deleted is False

    def test_examples(self, place: Place):
        for version, sha256 in ((None, "abc123"), (1, "def456"), (2, "ghi789")):
            saved(place, "my-app", version, sha256)
        for sk, sha256 in (("LATEST", "abc123"), ("000001", "def456"), ("000002", "ghi789")):
            item = place.raw("my-app", sk) or {}
            assert (item["sha256"], item["is_deleted"]) == (sha256, False)

    def test_query_patterns(self, place: Place):
        for version in (None, 1, 2):
            saved(place, "my-app", version)
        assert place.Artifact.get("my-app", "000001").version == "1"
        assert [row.sk for row in place.Artifact.query("my-app")] == ["000001", "000002", "LATEST"]
        assert place.Artifact.get("my-app", "LATEST").version == "LATEST"

    def test_new(self):
        assert str(inspect.signature(dynamodb.Artifact.new)) == (
            "(name: 'str', version: 'int | str | None' = None) -> 'Self'"
        )
        latest = dynamodb.Artifact.new("my-app")
        assert (latest.pk, latest.sk) == ("my-app", "LATEST")
        fifth = dynamodb.Artifact.new("my-app", version=5)
        assert (fifth.pk, fifth.sk) == ("my-app", "000005")
        assert type(latest) is dynamodb.Artifact

    def test_new_gives_an_instance_ready_for_dynamodb_operations(self, place: Place):
        place.Artifact.new("my-app").save()
        item = place.raw("my-app", "LATEST") or {}
        assert sorted(item) == ["is_deleted", "pk", "sk", "update_at"]

    @pytest.mark.parametrize("version", [0, -1, True, "abc", "1.5", 10**17, 1.0])
    def test_new_refuses_what_is_no_version(self, version):
        with pytest.raises(ValueError, match="is not a version"):
            dynamodb.Artifact.new("my-app", version)

    @pytest.mark.parametrize("name", ["", "..", "a/", "__x-alias", "x" * 2050, "é"])
    def test_new_refuses_what_is_no_name(self, name):
        with pytest.raises(ValueError, match="cannot name an artifact"):
            dynamodb.Artifact.new(name)

    def test_name_is_the_partition_key(self):
        assert dynamodb.Artifact.new("my-app").name == "my-app"

    @pytest.mark.parametrize(
        ("sk", "version"), [("LATEST", "LATEST"), ("000001", "1"), ("000042", "42")]
    )
    def test_version_is_read_from_the_sort_key(self, sk, version):
        assert dynamodb.Artifact("my-app", sk).version == version

    def test_to_dict(self, place: Place):
        saved(place, "my-app", 5, "abc123def456")
        assert place.Artifact.get("my-app", "000005").to_dict() == {
            "name": "my-app",
            "version": "5",
            "update_at": NOON,
            "sha256": "abc123def456",
        }


class TestAlias:
    def test_parameters(self, place: Place):
        row = place.Alias.new("my-app", "prod", 5, 6, 20)
        row.update_at = NOON
        row.save()
        assert place.raw("__my-app-alias", "prod") == {
            "pk": "__my-app-alias",
            "sk": "prod",
            "update_at": NOON_TEXT,
            "version": "000005",
            "secondary_version": "000006",
            "secondary_version_weight": 20,
        }

    def test_traffic_splitting(self, place: Place):
        """The secondary version gets its weight, the primary version the rest."""
        for version in (5, 6):
            place.Artifact.new("my-app", version).save()
        place.Alias.new("my-app", "prod", 5, 6, 20).save()
        repo = place.open()
        answers = [repo.resolve("my-app", "prod", key=str(key)).version for key in range(100)]
        assert 10 < answers.count("6") < 30
        assert set(answers) == {"5", "6"}

    def test_example_of_a_simple_alias(self, place: Place):
        place.Alias.new("my-app", "prod", version=5).save()
        item = place.raw("__my-app-alias", "prod") or {}
        assert item["version"] == "000005"
        assert "secondary_version" not in item

    def test_query_patterns(self, place: Place):
        for alias in ("prod", "staging"):
            place.Alias.new("my-app", alias, 1).save()
        assert place.Alias.get("__my-app-alias", "prod").alias == "prod"
        assert [row.alias for row in place.Alias.query("__my-app-alias")] == ["prod", "staging"]

    def test_new(self):
        assert list(inspect.signature(dynamodb.Alias.new).parameters) == [
            "name", "alias", "version", "secondary_version", "secondary_version_weight",
        ]  # fmt: skip
        simple = dynamodb.Alias.new("my-app", "prod", version=5)
        assert (simple.pk, simple.sk, simple.version) == ("__my-app-alias", "prod", "000005")
        canary = dynamodb.Alias.new(
            name="my-app",
            alias="prod",
            version=5,
            secondary_version=6,
            secondary_version_weight=20,
        )
        assert (canary.secondary_version, canary.secondary_version_weight) == ("000006", 20)

    def test_new_without_a_version_is_latest(self):
        assert dynamodb.Alias.new("my-app", "dev").version == "LATEST"

    @pytest.mark.parametrize(
        ("version", "secondary"), [(5, 5), (5, "000005"), ("5", 5), (None, "LATEST")]
    )
    def test_new_raises_value_error_if_both_versions_are_identical(self, version, secondary):
        with pytest.raises(ValueError, match="two different versions"):
            dynamodb.Alias.new("my-app", "prod", version, secondary, 10)

    @pytest.mark.parametrize("weight", [-1, 100, True, 1.5, "20"])
    @pytest.mark.parametrize("secondary", [None, 6])
    def test_new_refuses_a_weight_outside_0_to_99(self, secondary, weight):
        with pytest.raises(ValueError, match="is not a weight"):
            dynamodb.Alias.new("my-app", "prod", 5, secondary, weight)

    def test_new_refuses_a_weight_without_a_secondary_version(self):
        with pytest.raises(ValueError, match="needs a secondary version"):
            dynamodb.Alias.new("my-app", "prod", 5, None, 20)

    @pytest.mark.parametrize(
        ("pk", "name"),
        [("__my-app-alias", "my-app"), ("__frontend-service-alias", "frontend-service")],
    )
    def test_name_is_read_from_the_partition_key(self, pk, name):
        assert dynamodb.Alias(pk, "prod").name == name

    def test_alias_is_the_sort_key(self):
        assert dynamodb.Alias("__my-app-alias", "prod").alias == "prod"

    def test_to_dict_of_a_simple_alias(self, place: Place):
        row = place.Alias.new("my-app", "prod", 5)
        row.update_at = NOON
        row.save()
        assert place.Alias.get("__my-app-alias", "prod").to_dict() == {
            "name": "my-app",
            "alias": "prod",
            "update_at": NOON,
            "version": "5",
            "secondary_version": None,
            "secondary_version_weight": None,
        }

    def test_to_dict_of_an_alias_that_splits_traffic(self, place: Place):
        row = place.Alias.new("my-app", "prod", 5, 6, 20)
        row.update_at = NOON
        row.save()
        assert place.Alias.get("__my-app-alias", "prod").to_dict() == {
            "name": "my-app",
            "alias": "prod",
            "update_at": NOON,
            "version": "5",
            "secondary_version": "6",
            "secondary_version_weight": 20,
        }


def test_the_repository_and_the_command_line_do_not_import_pynamodb(tmp_path: Path):
    program = (
        "import sys; sys.modules['pynamodb'] = None\n"
        "from versioned import Repository\n"
        "import versioned.cli, versioned.mlflow_artifacts\n"
        f"repo = Repository('dynamodb:///{tmp_path}/t.ddb', '{tmp_path}/files')\n"
        "repo.publish('my-app', b'x')\n"
        "print(repo.put_alias('my-app', 'prod', 1).version)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "000001\n"


def test_what_the_access_patterns_cost(place: Place, monkeypatch: pytest.MonkeyPatch):
    """The table in docs/versioned.md."""
    made: list[str] = []
    dispatch = Connection.dispatch

    def noted(self: Connection, operation: str, options: Any) -> Any:
        made.append(operation)
        return dispatch(self, operation, options)

    monkeypatch.setattr(Connection, "dispatch", noted)

    def requests(call: Any) -> list[str]:
        made.clear()
        call()
        return list(made)

    artifact, alias = place.Artifact.new("my-app", 1), place.Alias.new("my-app", "prod", 1)
    assert requests(artifact.save) == ["PutItem", "PutItem"]
    assert requests(alias.save) == ["PutItem"]
    assert requests(lambda: place.Artifact.get("my-app", "000001")) == ["GetItem"]
    assert requests(lambda: list(place.Artifact.query("my-app"))) == ["Query"]
    assert requests(lambda: place.Alias.get("__my-app-alias", "prod")) == ["GetItem"]
    assert requests(lambda: list(place.Alias.query("__my-app-alias"))) == ["Query"]


def test_the_example_of_the_page_works(bare: Place):
    """The first block of `With PynamoDB` in docs/versioned.md, on this endpoint."""
    page = (ROOT / "docs" / "versioned.md").read_text("utf-8")
    example = re.search(r"## With PynamoDB.*?```python\n(.*?)```", page, re.DOTALL)
    assert example is not None
    exec(_here(example[1], bare), {})
    assert bare.raw("__my-app-alias", "prod") is not None
    assert bare.open().resolve("my-app", "prod").sha256 == "abc123def456"


def _here(program: str, place: Place) -> str:
    program = program.replace('"artifacts"', repr(place.table_name))
    return program.replace('"us-east-1"', f'"us-east-1"; host = "{place.meta.host}"')


def test_the_example_of_the_module_works(bare: Place):
    """The docstring of `versioned.dynamodb`, on this endpoint."""
    example = re.search(r"::\n\n(.*?)\n\nA :class:", dynamodb.__doc__ or "", re.DOTALL)
    assert example is not None
    exec(_here(inspect.cleandoc(example[1]), bare), {})
    assert bare.open().list_names().items == ["my-app"]
