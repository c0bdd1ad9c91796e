"""Keys of the model registry: a partition for each registered model."""

from __future__ import annotations

from typing import NamedTuple

from mlflow_dynamodbstore.keys.base import (
    DEFAULT_WORKSPACE,
    ID,
    KEY,
    NAME,
    PARTITION_NAME,
    Range,
    children,
    in_workspace,
    join,
    key_text,
    pieces_of,
)
from mlflow_dynamodbstore.keys.encoding import bounded, ordered_time, ordered_version, version_of
from mlflow_dynamodbstore.table.values import Key

MODEL_META = "M#META"
MODEL_VERSIONS = children("M#V")
"""All versions of a model, each followed by its tags."""
MODEL_TAGS = children("M#TAG")
MODEL_ALIASES = children("M#ALIAS")
MODEL_AND_VERSIONS = Range(MODEL_META, MODEL_VERSIONS.high)
"""A model's own item, its tags and its versions, in one range."""


class ModelPartition(NamedTuple):
    """The parts of a registered model's partition key; None for text that was cut."""

    name: str | None
    workspace: str | None


class RunLink(NamedTuple):
    """The version of a model that a run produced; the name is None when it was cut."""

    name: str | None
    version: int


def model_pk(name: str, workspace: str = DEFAULT_WORKSPACE) -> str:
    """The partition of a registered model."""
    return in_workspace("RM", workspace, bounded(name, PARTITION_NAME))


def model_pk_of(pk: str) -> ModelPartition:
    """The model whose partition this is."""
    pieces = pieces_of(pk, "RM")
    workspace = DEFAULT_WORKSPACE if len(pieces) == 1 else key_text(pieces[0])
    return ModelPartition(key_text(pieces[-1]), workspace)


def model_key(name: str, workspace: str = DEFAULT_WORKSPACE) -> Key:
    """The whole key of a registered model's own item."""
    return Key(model_pk(name, workspace), MODEL_META)


def model_version(version: int) -> str:
    """A version of a model."""
    return join("M#V", ordered_version(version))


def model_version_key(name: str, version: int, workspace: str = DEFAULT_WORKSPACE) -> Key:
    """The whole key of a version of a model."""
    return Key(model_pk(name, workspace), model_version(version))


def model_version_tag(version: int, key: str) -> str:
    """A tag of a version."""
    return join(model_version(version), "TAG", bounded(key, KEY))


def model_version_of(sk: str) -> int:
    """The number of the version that a sort key belongs to."""
    return version_of(pieces_of(sk, "M", "V")[0])


def model_version_tag_key(sk: str) -> str | None:
    """The key of a version's tag; None when it was cut."""
    _, _, key = pieces_of(sk, "M", "V")
    return key_text(key)


def model_tag(key: str) -> str:
    """A tag of a registered model."""
    return join("M#TAG", bounded(key, KEY))


def model_tag_key(sk: str) -> str | None:
    """The key of a model's tag; None when it was cut."""
    return key_text(pieces_of(sk, "M", "TAG")[0])


def model_alias(alias: str) -> str:
    """An alias of a model."""
    return join("M#ALIAS", bounded(alias, KEY))


def model_alias_of(sk: str) -> str | None:
    """The alias; None when it was cut."""
    return key_text(pieces_of(sk, "M", "ALIAS")[0])


def model_alias_change(alias: str, timestamp: int, change_id: str) -> str:
    """A recorded change of an alias."""
    change = (ordered_time(timestamp), bounded(change_id, ID))
    return join("M#ALIASHIST", bounded(alias, KEY), *change)


def model_alias_changes(alias: str | None = None) -> Range:
    """The recorded changes of all aliases, or of one alias, the oldest first."""
    return children("M#ALIASHIST" if alias is None else join("M#ALIASHIST", bounded(alias, KEY)))


def model_run_pk(run_id: str, workspace: str = DEFAULT_WORKSPACE) -> str:
    """The partition that lists the model versions a run produced."""
    return in_workspace("RMRUN", workspace, bounded(run_id, ID))


def model_run_link(name: str, version: int) -> str:
    """A version of a model among those that a run produced."""
    return join("RM", bounded(name, NAME), ordered_version(version))


def model_run_link_of(sk: str) -> RunLink:
    """The model version that a link names."""
    name, version = pieces_of(sk, "RM")
    return RunLink(key_text(name), version_of(version))
