"""Keys of scorers, which lie in the partition of their experiment.

Each has a locator, because MLflow also asks for scorers by id alone.
"""

from __future__ import annotations

from mlflow_dynamodbstore.keys.base import ID, NAME, Range, children, join, key_text, pieces_of
from mlflow_dynamodbstore.keys.encoding import bounded, ordered_version, version_of
from mlflow_dynamodbstore.keys.experiments import (
    EXPERIMENT_META,
    experiment_key,
    experiment_pk,
    listed_experiment,
)
from mlflow_dynamodbstore.keys.section_types import ItemDescription, KeySection
from mlflow_dynamodbstore.table.values import Item, Key

SCORERS = children("S")
ONLINE_PK = "ONLINE"
"""The partition that lists all scorers that score new traces."""
ONLINE_SCORERS = children("S")
EXPERIMENTS_WITH_SCORERS_PK = "SCORERS"
"""The partition that lists all experiments that have or had scorers."""

_LOCATOR = "S#LOC"


def scorer(name: str) -> str:
    """A scorer's own item."""
    return join("S", bounded(name, NAME))


def scorer_key(experiment_id: str, name: str) -> Key:
    """The whole key of a scorer's own item."""
    return Key(experiment_pk(experiment_id), scorer(name))


def scorer_version(scorer_id: str, version: int) -> str:
    """A version of a scorer, by the scorer's id: another scorer may take its name later."""
    return join("SV", bounded(scorer_id, ID), ordered_version(version))


def scorer_versions(scorer_id: str) -> Range:
    """All versions of a scorer, with their parts."""
    return children(join("SV", bounded(scorer_id, ID)))


def scorer_version_of(sk: str) -> int:
    """The number of a version of a scorer."""
    return version_of(pieces_of(sk, "SV")[1])


def is_scorer_version(sk: str) -> bool:
    """Whether a sort key among the versions is that of a version, not of a part of one."""
    return len(pieces_of(sk, "SV")) == 2


def scorer_locator_key(scorer_id: str) -> Key:
    """The item that names a scorer's experiment and name, in a partition of its own."""
    return Key(join("SCORER", bounded(scorer_id, ID)), _LOCATOR)


def online_scorer(experiment_id: str, name: str) -> str:
    """A scorer in the list of those that score new traces."""
    return join("S", bounded(experiment_id, ID), bounded(name, NAME))


def online_scorer_key(experiment_id: str, name: str) -> Key:
    """The whole key of a scorer's entry in that list."""
    return Key(ONLINE_PK, online_scorer(experiment_id, name))


def experiment_with_scorers_key(experiment_id: str) -> Key:
    """An experiment in the list of those that have or had scorers."""
    return Key(EXPERIMENTS_WITH_SCORERS_PK, listed_experiment(experiment_id))


# --- what an item is ----------------------------------------------------------------------------


def _scorer(pk: str, _words: list[str], _item: Item) -> ItemDescription:
    return ItemDescription("Scorer", (Key(pk, EXPERIMENT_META),))


def _scorer_version(pk: str, words: list[str], _item: Item) -> ItemDescription:
    owners = (Key(pk, EXPERIMENT_META), Key(join("SCORER", words[1]), _LOCATOR))
    return ItemDescription("Version of a scorer", owners, key_text(words[1]))


def _scorer_locator(pk: str, words: list[str], item: Item) -> ItemDescription | None:
    if words != ["S", "LOC"]:
        return None
    experiment_id = str(item["experiment_id"])
    owners = (experiment_key(experiment_id), scorer_key(experiment_id, str(item["name"])))
    return ItemDescription("Scorer locator", owners, key_text(pk.partition("#")[2]))


def _online_scorer(_pk: str, words: list[str], _item: Item) -> ItemDescription:
    pk = join("EXP", words[1])
    return ItemDescription(
        "Online scorer", (Key(pk, EXPERIMENT_META), Key(pk, join("S", words[2])))
    )


def _experiment(_pk: str, words: list[str], _item: Item) -> ItemDescription:
    owner = Key(join("EXP", words[1]), EXPERIMENT_META)
    return ItemDescription("Experiment with scorers", (owner,))


SECTION = KeySection(
    partitions={
        "SCORER": _scorer_locator,
        ONLINE_PK: _online_scorer,
        EXPERIMENTS_WITH_SCORERS_PK: _experiment,
    },
    in_experiment={"S": _scorer, "SV": _scorer_version},
)
