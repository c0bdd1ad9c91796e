"""Keys of evaluation datasets and their records.

Experiments share an evaluation dataset, so it has a partition of its own, an entry in the list of
its workspace, and a link in every experiment that uses it.
"""

from __future__ import annotations

from mlflow_dynamodbstore.keys.access import workspace_pk
from mlflow_dynamodbstore.keys.base import (
    DEFAULT_WORKSPACE,
    ID,
    KEY,
    Range,
    children,
    join,
    key_text,
    pieces_of,
)
from mlflow_dynamodbstore.keys.encoding import bounded
from mlflow_dynamodbstore.keys.experiments import EXPERIMENT_META, experiment_pk
from mlflow_dynamodbstore.keys.section_types import (
    ItemDescription,
    KeySection,
    described,
    id_without_prefix,
)
from mlflow_dynamodbstore.table.values import Item, Key

DATASET_META = "V#META"
DATASET_SCHEMA = "V#SCHEMA"
"""The fields that the records of a dataset have."""
DATASET_TAGS = children("V#TAG")
DATASET_EXPERIMENTS = children("V#EXP")
DATASET_RECORDS = children("V#REC")
DATASETS = children("EVALDS")
"""The entries of datasets in a workspace, or the links to them in an experiment."""


def dataset_pk(dataset_id: str) -> str:
    """The partition of an evaluation dataset."""
    return join("EVALDS", bounded(dataset_id, ID))


def dataset_id_of(pk: str) -> str | None:
    """The evaluation dataset whose partition this is."""
    return key_text(pieces_of(pk, "EVALDS")[0])


def dataset_key(dataset_id: str) -> Key:
    """An evaluation dataset's own item."""
    return Key(dataset_pk(dataset_id), DATASET_META)


def dataset_tag(key: str) -> str:
    """A tag too long for the dataset's own item."""
    return join("V#TAG", bounded(key, KEY))


def dataset_tag_key(sk: str) -> str | None:
    """The key of a long tag; None when it was cut."""
    return key_text(pieces_of(sk, "V", "TAG")[0])


def dataset_experiment(experiment_id: str) -> str:
    """Notes that an experiment uses the dataset."""
    return join("V#EXP", bounded(experiment_id, ID))


def dataset_experiment_of(sk: str) -> str | None:
    """The experiment that uses a dataset."""
    return key_text(pieces_of(sk, "V", "EXP")[0])


def dataset_input(input_hash: str) -> str:
    """The guard that keeps a record's inputs unique, and names the record."""
    return join("V#HASH", bounded(input_hash, ID))


def dataset_record(record_id: str) -> str:
    """A record; ids sort by creation time."""
    return join("V#REC", bounded(record_id, ID))


def dataset_record_of(sk: str) -> str | None:
    """The record that a sort key belongs to; None when its id was cut."""
    return key_text(pieces_of(sk, "V", "REC")[0])


def is_dataset_record(sk: str) -> bool:
    """Whether a sort key among the records is that of a record, not of a part of one."""
    return len(pieces_of(sk, "V", "REC")) == 1


def dataset_records_after(record_id: str) -> Range:
    """The records after one, without its parts."""
    return Range(children(dataset_record(record_id)).high, DATASET_RECORDS.high)


def dataset_entry(dataset_id: str) -> str:
    """An evaluation dataset in the list of its workspace, or in an experiment that uses it."""
    return join("EVALDS", bounded(dataset_id, ID))


def dataset_entry_key(dataset_id: str, workspace: str = DEFAULT_WORKSPACE) -> Key:
    """The entry of an evaluation dataset in its workspace."""
    return Key(workspace_pk(workspace), dataset_entry(dataset_id))


def dataset_link_key(dataset_id: str, experiment_id: str) -> Key:
    """The link to an evaluation dataset from an experiment that uses it."""
    return Key(experiment_pk(experiment_id), dataset_entry(dataset_id))


def dataset_entry_of(sk: str) -> str | None:
    """The dataset that an entry or a link names."""
    return key_text(pieces_of(sk, "EVALDS")[0])


def dataset_entries_before(dataset_id: str) -> Range:
    """The entries of the datasets that are older, whose ids are smaller."""
    return Range(DATASETS.low, dataset_entry(dataset_id))


# --- what an item is ----------------------------------------------------------------------------

_DATASET_KINDS = {
    "SCHEMA": "Schema of an evaluation dataset",
    "TAG": "Evaluation dataset tag",
    "EXP": "Experiment of an evaluation dataset",
    "HASH": "Inputs of a record",
    "REC": "Record",
}


def _in_dataset(pk: str, words: list[str], _item: Item) -> ItemDescription | None:
    if words == ["V", "META"]:
        return ItemDescription("Evaluation dataset")
    owners = [Key(pk, DATASET_META)]
    if words[1] == "EXP":
        owners.append(Key(join("EXP", words[2]), EXPERIMENT_META))
    owner_id = id_without_prefix("d-", pk.partition("#")[2])
    return described(_DATASET_KINDS.get(words[1]), *owners, owner_id=owner_id)


def _dataset_entry(_pk: str, words: list[str], _item: Item) -> ItemDescription:
    owner = Key(join("EVALDS", words[1]), DATASET_META)
    return ItemDescription(
        "Entry of an evaluation dataset", (owner,), id_without_prefix("d-", words[1])
    )


def _dataset_link(pk: str, words: list[str], _item: Item) -> ItemDescription:
    owners = (Key(pk, EXPERIMENT_META), Key(join("EVALDS", words[1]), DATASET_META))
    return ItemDescription(
        "Link to an evaluation dataset", owners, id_without_prefix("d-", words[1])
    )


SECTION = KeySection(
    partitions={"EVALDS": _in_dataset},
    in_experiment={"EVALDS": _dataset_link},
    in_workspace={"EVALDS": _dataset_entry},
)
