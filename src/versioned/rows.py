"""The rows of artifacts and aliases.

One table, two string keys ``pk`` and ``sk``. A version of an artifact is the row
``pk=<name>, sk=LATEST | 000001 …``; an alias is the row ``pk=__<name>-alias, sk=<alias>``.

A row here is a plain object: :class:`~versioned.Repository` writes and reads it through the table
contract. :mod:`versioned.dynamodb` has the same rows as PynamoDB models. What both can tell about
themselves is in :class:`ArtifactRow` and :class:`AliasRow`.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, ClassVar, cast

from mlflow_dynamodbstore.table.values import Item, Value
from versioned import times
from versioned.errors import Corrupt, InvalidCanary, InvalidName
from versioned.keys import (
    artifact_of,
    decode_alias_pk,
    decode_version_sk,
    encode_alias_pk,
    encode_version_sk,
)
from versioned.names import check_filename, check_name, check_weight

if TYPE_CHECKING:
    from typing_extensions import Self


class ArtifactRow:
    """What the row of a version tells, however its attributes are kept."""

    pk: Any
    sk: Any
    update_at: Any
    sha256: Any
    size: Any
    filename: Any

    @property
    def name(self) -> str:
        return artifact_of(self.pk or "")

    @property
    def version(self) -> str:
        """``LATEST``, or the number without leading zeros."""
        return decode_version_sk(self.sk or "")

    @property
    def file_name(self) -> str:
        """The name of its content in a folder. Raises ``Corrupt`` for one that leads elsewhere."""
        try:
            return check_filename(self.name if self.filename is None else self.filename)
        except InvalidName as error:
            raise Corrupt(
                f"the row of version {self.version} of {self.name!r} is damaged: {error}; to get "
                "its content, give the path of a file instead of a folder"
            ) from error

    @property
    def is_counted(self) -> bool:
        """Whether the repository counts its content. Rows that others have written are not."""
        return self.size is not None

    def to_dict(self) -> dict[str, Any]:
        """Name, version, time and digest, with names for people."""
        return {
            "name": self.name,
            "version": self.version,
            "update_at": self.update_at,
            "sha256": self.sha256,
        }


class AliasRow:
    """What the row of an alias tells, however its attributes are kept."""

    pk: Any
    sk: Any
    update_at: Any
    version: Any
    secondary_version: Any
    secondary_version_weight: Any

    @property
    def name(self) -> str:
        return decode_alias_pk(self.pk or "")

    @property
    def alias(self) -> str:
        return self.sk or ""

    @property
    def points_at(self) -> tuple[str, ...]:
        """The sort keys of its versions."""
        return (self.version, *((self.secondary_version,) if self.secondary_version else ()))

    def to_dict(self) -> dict[str, Any]:
        """The alias with versions for people; without a canary its two fields are None."""
        secondary = self.secondary_version
        return {
            "name": self.name,
            "alias": self.alias,
            "update_at": self.update_at,
            "version": decode_version_sk(self.version),
            "secondary_version": decode_version_sk(secondary) if secondary else None,
            "secondary_version_weight": self.secondary_version_weight,
        }


class Row:
    """A row with a partition key, a sort key and the attributes that its class names.

    Raises ``ValueError`` for an attribute that the class does not have.
    """

    DEFAULTS: ClassVar[Mapping[str, Any]] = {}

    pk: str | None
    sk: str | None

    def __init__(self, pk: str | None = None, sk: str | None = None, **attributes: Any):
        self.pk, self.sk = pk, sk
        unknown = sorted(set(attributes) - set(self.DEFAULTS))
        if unknown:
            raise ValueError(
                f"{type(self).__name__} has no attribute {', '.join(unknown)}; "
                f"it has pk, sk, {', '.join(self.DEFAULTS)}"
            )
        for name, default in self.DEFAULTS.items():
            setattr(self, name, attributes.get(name, default() if callable(default) else default))

    def to_item(self) -> Item:
        """The item that the table keeps; attributes without a value are left out."""
        values = {name: getattr(self, name) for name in ("pk", "sk", *self.DEFAULTS)}
        return {name: _stored(value) for name, value in values.items() if value is not None}

    @classmethod
    def from_item(cls, item: Item) -> Self:
        """The row that an item holds; attributes of later releases are passed over."""
        known: dict[str, Any] = {name: item[name] for name in cls.DEFAULTS if name in item}
        if "update_at" in cls.DEFAULTS:
            known["update_at"] = times.from_text(item.get("update_at"))
        return cls(item["pk"], item["sk"], **known)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    __hash__ = None  # type: ignore[assignment]  # a row can be changed

    def __repr__(self) -> str:
        return f"{type(self).__name__}(pk={self.pk!r}, sk={self.sk!r})"


class Artifact(ArtifactRow, Row):
    """A version of an artifact: a row that points at content by its digest.

    - ``update_at``: when the row was last changed, UTC
    - ``is_deleted``: hidden, and can be brought back
    - ``sha256``, ``size``: the content
    - ``filename``, ``is_folder``: what the content was called, and whether it is a packed folder
    - ``generation``: which of the stored copies of the digest it means (:mod:`versioned.blobs`)
    - ``metadata``: text to text, given when the content was put
    - ``by``: who put it
    """

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "update_at": lambda: datetime.now(timezone.utc),
        "is_deleted": False,
        "sha256": None,
        "size": None,
        "filename": None,
        "is_folder": False,
        "generation": 0,
        "metadata": dict,
        "by": None,
    }

    update_at: datetime
    is_deleted: bool
    sha256: str | None
    size: int | None
    filename: str | None
    is_folder: bool
    generation: int
    metadata: dict[str, str]
    by: str | None

    @classmethod
    def new(cls, name: str, version: int | str | None = None) -> Self:
        """A row for a version of an artifact; None is LATEST. Raises ``ValueError``."""
        return cls(check_name(name), encode_version_sk(version))


class Alias(AliasRow, Row):
    """A name for a version, or for two between which keys are divided.

    - ``version``, ``secondary_version``: sort keys (``000005``)
    - ``secondary_version_weight``: percentage of keys that get the secondary version, 0 to 99
    - ``revision``: number of the change that made it so, from 1
    - ``update_at``, ``by``, ``reason``: when, who and why
    - ``targets``: what the rows of its numbered versions say, so that resolving is one read. A
      version that an alias points at cannot be deleted, and its content never changes.
    """

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "update_at": lambda: datetime.now(timezone.utc),
        "version": None,
        "secondary_version": None,
        "secondary_version_weight": None,
        "revision": 0,
        "by": None,
        "reason": None,
        "targets": dict,
    }

    update_at: datetime
    version: str
    secondary_version: str | None
    secondary_version_weight: int | None
    revision: int
    by: str | None
    reason: str | None
    targets: dict[str, Item]

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


def alias_row(
    name: str,
    alias: str,
    version: int | str | None,
    secondary_version: int | str | None,
    secondary_version_weight: int | None,
) -> tuple[str, str, dict[str, Any]]:
    """The keys of an alias and where it points. Raises ``ValueError`` as ``Alias.new`` says."""
    primary, weight = encode_version_sk(version), check_weight(secondary_version_weight)
    secondary = None
    if secondary_version is not None:
        secondary = encode_version_sk(secondary_version)
        if secondary == primary:
            raise InvalidCanary(
                f"both versions are {decode_version_sk(primary)}: "
                "keys can be divided between two different versions only"
            )
        weight = weight or 0
    elif weight is not None:
        raise InvalidCanary(
            f"a weight of {weight} needs a secondary version that gets this part of the keys"
        )
    points_at = {
        "version": primary,
        "secondary_version": secondary,
        "secondary_version_weight": weight,
    }
    return encode_alias_pk(name), check_name(alias, "an alias"), points_at


def _stored(value: Any) -> Value:
    return times.to_text(value) if isinstance(value, datetime) else cast("Value", value)
