"""Every key of the table, made here and nowhere else.

====================================  =========================  ==================================
partition                             sort key                   item
====================================  =========================  ==================================
``<name>``                            ``LATEST``, ``000001`` …   a version of an artifact
``__<name>-alias``                    ``<alias>``                an alias
``__<name>-history``                  ``<alias>#<revision>``     one change of an alias
``__<name>-digest``                   ``<sha256>``               the version that has this content
``__<name>-state``                    ``STATE``                  last number used, alias changes
``__<sha256>-blob``                   ``BLOB``                   how often content is referred to
``__names``                           ``<name>``                 an artifact, for listing
``__repositories``                    see :class:`Registration`  who owns which partitions
====================================  =========================  ==================================

A name begins with a letter or a digit and holds neither ``#`` nor ``:`` (see
:mod:`versioned.names`), so no name reaches into another kind of partition. All but the last stand
behind the prefix of their repository, which is empty for the first one of a table and ends in
``:`` for all others.
"""

from __future__ import annotations

from dataclasses import dataclass

from boto3.dynamodb.conditions import ConditionBase
from boto3.dynamodb.conditions import Key as SortKey

from mlflow_dynamodbstore.table.schema import Schema
from mlflow_dynamodbstore.table.values import Key
from versioned.names import LATEST, check_name, parse_version

TABLE = Schema(kind="versioned", pk="pk", sk="sk")

PREFIX_END = ":"
_ALIAS_START, _ALIAS_END = "__", "-alias"
_REVISION_DIGITS = 9


def encode_version_sk(version: int | str | None) -> str:
    """The sort key of a version: ``LATEST``, or the number with at least six digits.

    A number of more digits gets a letter for its length, ``A`` for seven: ``A1000000`` sorts after
    ``999999`` and before ``LATEST``. Raises ``ValueError`` for what is not a version.
    """
    number = parse_version(version)
    if number is None:
        return LATEST
    digits = f"{number:06d}"
    extra = len(digits) - 6
    return digits if extra == 0 else chr(ord("A") + extra - 1) + digits


def decode_version_sk(sk: str) -> str:
    """The version that a sort key stands for, without leading zeros."""
    number = parse_version(sk)
    return LATEST if number is None else str(number)


def encode_alias_pk(name: str) -> str:
    """The partition of the aliases of an artifact. Raises ``ValueError`` for a bad name."""
    return f"{_ALIAS_START}{check_name(name)}{_ALIAS_END}"


def decode_alias_pk(pk: str) -> str:
    """The artifact whose aliases are in a partition."""
    return artifact_of(pk).removeprefix(_ALIAS_START).removesuffix(_ALIAS_END)


def artifact_of(pk: str) -> str:
    """A partition key without the prefix of its repository."""
    return pk.rpartition(PREFIX_END)[2]


@dataclass(frozen=True)
class Keys:
    """The keys of one repository: all of them begin with its prefix."""

    prefix: str = ""

    def version(self, name: str, version: int | str | None) -> Key:
        return Key(self.versions(name), encode_version_sk(version))

    def versions(self, name: str) -> str:
        return self.prefix + name

    def alias(self, name: str, alias: str) -> Key:
        return Key(self.aliases(name), alias)

    def aliases(self, name: str) -> str:
        return self.prefix + encode_alias_pk(name)

    def change(self, name: str, alias: str, revision: int) -> Key:
        return Key(self.history(name), f"{alias}#{revision:0{_REVISION_DIGITS}d}")

    def history(self, name: str) -> str:
        return f"{self.prefix}__{name}-history"

    def digest(self, name: str, sha256: str) -> Key:
        return Key(f"{self.prefix}__{name}-digest", sha256)

    def state(self, name: str) -> Key:
        return Key(f"{self.prefix}__{name}-state", "STATE")

    def blob(self, sha256: str) -> Key:
        return Key(f"{self.prefix}__{sha256}-blob", "BLOB")

    def listed(self, name: str) -> Key:
        return Key(self.names, name)

    @property
    def names(self) -> str:
        return f"{self.prefix}__names"


def changes_of(alias: str) -> ConditionBase:
    """The range of one alias within the history of its artifact."""
    return SortKey(TABLE.sk).begins_with(f"{alias}#")


NUMBERED: ConditionBase = SortKey(TABLE.sk).lt(LATEST)
"""The range of the numbered versions."""


class Registration:
    """Keys of the items that tell which repository owns which prefix."""

    FIRST = Key("__repositories", "FIRST")
    """Whoever has written this item owns the empty prefix."""

    @staticmethod
    def by_storage(identity: str) -> Key:
        return Key("__repositories", f"storage#{identity}")

    @staticmethod
    def by_namespace(namespace: str) -> Key:
        return Key("__repositories", f"namespace#{namespace}")

    @staticmethod
    def prefix_of(key: Key) -> str:
        """The prefix for the repository that is registered at a key."""
        kind, _, name = key.sk.partition("#")
        # "~" cannot begin a namespace, so that nobody can choose a prefix that was given out.
        return f"{name}{PREFIX_END}" if kind == "namespace" else f"~{name[:12]}{PREFIX_END}"
