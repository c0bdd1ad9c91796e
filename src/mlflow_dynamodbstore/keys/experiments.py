"""Keys of experiments and of the datasets in them."""

from __future__ import annotations

from functools import lru_cache

from mlflow_dynamodbstore.keys.base import (
    ID,
    KEY,
    NAME,
    WORD,
    Range,
    children,
    join,
    key_text,
    pieces_of,
)
from mlflow_dynamodbstore.keys.encoding import bounded
from mlflow_dynamodbstore.table.values import Key

EXPERIMENT_META = "E#META"
EXPERIMENT_TAGS = children("E#TAG")
DATASETS = children("D")
DATASET_CONTEXTS = children("DCTX")
LISTED_EXPERIMENTS = children("E")
"""The entries of a list of experiments, such as those that have issues."""


@lru_cache(maxsize=4096)
def experiment_pk(experiment_id: str) -> str:
    """The partition of an experiment: its first volume."""
    return join("EXP", bounded(experiment_id, ID))


@lru_cache(maxsize=4096)
def volume_pk(experiment_id: str, volume: int) -> str:
    """The partition of a volume of an experiment."""
    first = experiment_pk(experiment_id)
    return join(first, str(volume)) if volume else first


@lru_cache(maxsize=4096)
def experiment_id_of(pk: str) -> str | None:
    """The experiment whose partition, or volume, this is."""
    return key_text(pieces_of(pk, "EXP")[0])


@lru_cache(maxsize=4096)
def volume_of(pk: str) -> int:
    """The number of the volume that a partition is."""
    pieces = pieces_of(pk, "EXP")
    return int(pieces[1]) if len(pieces) > 1 else 0


def first_volume(pk: str) -> str:
    """The partition with an experiment's own item, given any of its volumes."""
    return join(*pk.split("#", 2)[:2])


def experiment_key(experiment_id: str) -> Key:
    """An experiment's own item."""
    return Key(experiment_pk(experiment_id), EXPERIMENT_META)


def experiment_name_rev() -> str:
    """The sort key of an experiment's reversed name."""
    return "E#NAME_REV"


def experiment_texts() -> str:
    """When full-text entries of the experiment's runs were last written."""
    return "E#TEXTS"


def experiment_resealed() -> str:
    """The sort key of the mark that a run of an experiment was sealed again."""
    return "E#RESEALED"


def experiment_tag(key: str) -> str:
    """A tag of an experiment."""
    return join("E#TAG", bounded(key, KEY))


def experiment_tag_key(sk: str) -> str | None:
    """The key of a tag; None when it was cut."""
    return key_text(pieces_of(sk, "E", "TAG")[0])


def dataset(dataset_hash: str) -> str:
    """A dataset, identified by a hash of its name and digest."""
    return join("D", bounded(dataset_hash, ID))


def dataset_context(dataset_hash: str, context: str | None = None) -> str:
    """Notes that a dataset was used in a context (training, evaluation), or in none.

    These small items tell which datasets an experiment has without reading the datasets.
    """
    entry = join("DCTX", bounded(dataset_hash, ID))
    return entry if context is None else join(entry, bounded(context, KEY))


def dataset_link(run_id: str, name: str, digest: str | None = None) -> str:
    """The link from a run to a dataset.

    The digests tell the links apart when a run uses two datasets of one name.
    """
    link = join("DLINK", bounded(run_id, ID), bounded(name, NAME))
    return link if digest is None else join(link, bounded(digest, WORD))


def dataset_links(run_id: str) -> Range:
    """All links of one run."""
    return children(join("DLINK", bounded(run_id, ID)))


DATASET_LINKS = children("DLINK")
"""The links of all runs of an experiment."""


def dataset_link_run(sk: str) -> str | None:
    """The run that a link starts from."""
    return key_text(pieces_of(sk, "DLINK")[0])


def listed_experiment(experiment_id: str) -> str:
    """An experiment in a list, such as that of experiments with issues."""
    return join("E", bounded(experiment_id, ID))


def listed_experiment_of(sk: str) -> str | None:
    """The experiment that an entry of a list names."""
    return key_text(pieces_of(sk, "E")[0])
