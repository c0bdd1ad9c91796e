"""The rows of artifacts and aliases as PynamoDB models.

A model gets its table from a subclass::

    from versioned import dynamodb

    class Artifact(dynamodb.Artifact):
        class Meta:
            table_name = "artifacts"
            region = "us-east-1"

    Artifact.create_table(wait=True)
    Artifact.new("my-app", 1).save()
    Artifact.get("my-app", "000001")

A :class:`~versioned.Repository` on the same table reads these rows and lists their names, and the
models read the rows that it writes. A model writes rows and nothing else: no content, no history,
and no check that an alias points at a version. Nothing else in this package imports PynamoDB
(docs/adr/0097).
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeVar

from pynamodb.attributes import (
    Attribute,
    BooleanAttribute,
    NumberAttribute,
    UnicodeAttribute,
    UTCDateTimeAttribute,
)
from pynamodb.constants import MAP, PAY_PER_REQUEST_BILLING_MODE
from pynamodb.expressions.condition import Condition
from pynamodb.expressions.update import Action
from pynamodb.models import BatchWrite, Model
from pynamodb.pagination import ResultIterator

from mlflow_dynamodbstore.table.dynamodb.codec import decode_item, encode_item
from versioned.errors import InvalidName
from versioned.keys import Keys, encode_alias_pk, encode_version_sk
from versioned.names import check_name
from versioned.rows import AliasRow, ArtifactRow, alias_row

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["Alias", "Artifact", "Base", "encode_alias_pk", "encode_version_sk"]

A = TypeVar("A", bound="Artifact")


class DictAttribute(Attribute[dict[str, Any]]):
    """A map whose value is a plain dict, stored as the repository stores it."""

    attr_type = MAP

    def serialize(self, value: dict[str, Any]) -> dict[str, Any]:
        return encode_item(value)

    def deserialize(self, value: dict[str, Any]) -> dict[str, Any]:
        return decode_item(value)


def _now() -> datetime:
    return datetime.now(timezone.utc)


class Base(Model):
    """A row with a partition key and a sort key. A subclass names the table in its ``Meta``."""

    pk = UnicodeAttribute(hash_key=True)
    sk = UnicodeAttribute(range_key=True)

    @classmethod
    def create_table(
        cls,
        wait: bool = False,
        read_capacity_units: int | None = None,
        write_capacity_units: int | None = None,
        billing_mode: str | None = None,
        ignore_update_ttl_errors: bool = False,
    ) -> Any:
        """Create the table, paid per request unless ``Meta`` or an argument says otherwise."""
        in_meta = {"read_capacity_units", "billing_mode"} & set(dir(cls.Meta))
        if not in_meta and (read_capacity_units, billing_mode) == (None, None):
            billing_mode = PAY_PER_REQUEST_BILLING_MODE
        return super().create_table(
            wait, read_capacity_units, write_capacity_units, billing_mode, ignore_update_ttl_errors
        )


class _ListingBatch(BatchWrite[A]):
    """A batch that also lists the names of the artifacts it has written."""

    def commit(self) -> None:
        written = [one["item"] for one in self.pending_operations if one["action"] == "PUT"]
        super().commit()
        for row in {row.pk: row for row in written}.values():
            row.list_name()


class Artifact(ArtifactRow, Base):
    """A version of an artifact.

    - ``update_at``: when the row was last changed, UTC
    - ``is_deleted``: hidden, and can be brought back
    - ``sha256``: the content

    The other attributes are those that a repository writes (:class:`versioned.rows.Artifact`).
    """

    update_at = UTCDateTimeAttribute(default_for_new=_now)
    is_deleted = BooleanAttribute(default=False)
    sha256 = UnicodeAttribute(null=True)
    size = NumberAttribute(null=True)
    filename = UnicodeAttribute(null=True)
    is_folder = BooleanAttribute(null=True)
    generation = NumberAttribute(null=True)
    metadata = DictAttribute(null=True)
    by = UnicodeAttribute(null=True)

    @classmethod
    def new(cls, name: str, version: int | str | None = None) -> Self:
        """A row for a version of an artifact; None is LATEST. Raises ``ValueError``."""
        return cls(check_name(name), encode_version_sk(version))

    def list_name(self) -> None:
        """Let the repository list the artifact. Every way of writing a row ends here."""
        try:
            name = check_name(self.name)
        except InvalidName:
            return  # no repository can show what has no name
        listed = Keys(self.pk.removesuffix(name)).listed(name)
        self._get_connection().put_item(listed.pk, range_key=listed.sk, attributes={})

    def update_local_version_attribute(self) -> None:
        """PynamoDB calls this after ``save`` and after a transaction has written the row."""
        super().update_local_version_attribute()  # type: ignore[no-untyped-call]
        self.list_name()

    def update(
        self,
        actions: list[Action],
        condition: Condition | None = None,
        *,
        add_version_condition: bool = True,
    ) -> Any:
        """Change attributes of the row, which is made if it does not exist."""
        answer = super().update(actions, condition, add_version_condition=add_version_condition)
        self.list_name()
        return answer

    @classmethod
    def batch_write(cls, auto_commit: bool = True) -> BatchWrite[Self]:
        """Write and delete rows, 25 in a request."""
        return _ListingBatch(cls, auto_commit=auto_commit)

    @classmethod
    def scan(
        cls, filter_condition: Condition | None = None, *args: Any, **options: Any
    ) -> ResultIterator[Self]:
        """The versions of all artifacts, without the other rows of the table."""
        versions = ~cls.pk.startswith("__") & ~cls.pk.contains(":__")
        return super().scan(filter_condition & versions, *args, **options)


class Alias(AliasRow, Base):
    """A name for a version, or for two between which traffic is divided.

    - ``update_at``: when the row was last changed, UTC
    - ``version``, ``secondary_version``: sort keys (``000005``)
    - ``secondary_version_weight``: percentage of traffic for the secondary version, 0 to 99

    The other attributes are those that a repository writes (:class:`versioned.rows.Alias`).
    """

    update_at = UTCDateTimeAttribute(default_for_new=_now)
    version = UnicodeAttribute()
    secondary_version = UnicodeAttribute(null=True)
    secondary_version_weight = NumberAttribute(null=True)
    revision = NumberAttribute(null=True)
    by = UnicodeAttribute(null=True)
    reason = UnicodeAttribute(null=True)
    targets = DictAttribute(null=True)

    @classmethod
    def new(
        cls,
        name: str,
        alias: str,
        version: int | str | None = None,
        secondary_version: int | str | None = None,
        secondary_version_weight: int | None = None,
    ) -> Self:
        """A row for an alias; a version of None is LATEST, a secondary of None is none.

        Raises ``ValueError`` for a bad name, version or weight, for two equal versions, and for a
        weight without a secondary version.
        """
        pk, sk, attributes = alias_row(
            name, alias, version, secondary_version, secondary_version_weight
        )
        return cls(pk, sk, **attributes)

    @classmethod
    def scan(
        cls, filter_condition: Condition | None = None, *args: Any, **options: Any
    ) -> ResultIterator[Self]:
        """The aliases of all artifacts, without the other rows of the table."""
        aliases = cls.version.exists() & cls.update_at.exists()
        return super().scan(filter_condition & aliases, *args, **options)
