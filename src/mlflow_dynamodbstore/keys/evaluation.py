"""Keys of evaluation datasets, scorers and issues.

Experiments share an evaluation dataset, so it has a partition of its own, an entry in the list of
its workspace, and a link in every experiment that uses it. Scorers and issues lie in the partition
of their experiment; each has a locator, because MLflow also asks for them by id alone.
"""

from __future__ import annotations

from mlflow_dynamodbstore.keys.access import workspace_pk
from mlflow_dynamodbstore.keys.base import (
    DEFAULT_WORKSPACE,
    ID,
    KEY,
    NAME,
    Range,
    children,
    join,
    key_text,
    pieces_of,
)
from mlflow_dynamodbstore.keys.encoding import bounded, ordered_version, version_of
from mlflow_dynamodbstore.keys.experiments import EXPERIMENT_META, experiment_key, experiment_pk
from mlflow_dynamodbstore.keys.section_types import ItemDescription, KeySection, Pattern, described
from mlflow_dynamodbstore.keys.traces import trace_issue
from mlflow_dynamodbstore.table.values import Item, Key

DATASET_META = "V#META"
DATASET_SCHEMA = "V#SCHEMA"
"""The fields that the records of a dataset have."""
DATASET_TAGS = children("V#TAG")
DATASET_EXPERIMENTS = children("V#EXP")
DATASET_RECORDS = children("V#REC")
DATASETS = children("EVALDS")
"""The entries of datasets in a workspace, or the links to them in an experiment."""

SCORERS = children("S")
ONLINE_PK = "ONLINE"
"""The partition that lists all scorers that score new traces."""
ONLINE_SCORERS = children("S")

ISSUES = children("I")
"""The issues of an experiment; in LSI5, the references to them from traces."""
WITH_ISSUES_PK, WITH_SCORERS_PK = "ISSUES", "SCORERS"
"""The partitions that list all experiments that have issues, or scorers."""
LISTED_EXPERIMENTS = children("E")

_LOCATOR = "S#LOC"
_ISSUE_LOCATOR = "I#LOC"


# --- evaluation datasets ------------------------------------------------------------------------


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


# --- scorers ------------------------------------------------------------------------------------


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


# --- issues -------------------------------------------------------------------------------------


def issue(issue_id: str) -> str:
    """An issue."""
    return join("I", bounded(issue_id, ID))


def issue_key(experiment_id: str, issue_id: str) -> Key:
    """The whole key of an issue."""
    return Key(experiment_pk(experiment_id), issue(issue_id))


def issue_id_of(sk: str) -> str | None:
    """The issue that a sort key, of the table or of LSI5, belongs to."""
    return key_text(pieces_of(sk, "I")[0])


def is_issue(sk: str) -> bool:
    """Whether a sort key among the issues is that of an issue, not of a part of one."""
    return len(pieces_of(sk, "I")) == 1


def issue_locator_key(issue_id: str) -> Key:
    """The item that names an issue's experiment, in a partition of its own."""
    return Key(join("ISSUE", bounded(issue_id, ID)), _ISSUE_LOCATOR)


def listed_experiment(experiment_id: str) -> str:
    """An experiment in a list of those that have issues, or scorers."""
    return join("E", bounded(experiment_id, ID))


def with_issues_key(experiment_id: str) -> Key:
    """An experiment in the list of those that have issues."""
    return Key(WITH_ISSUES_PK, listed_experiment(experiment_id))


def with_scorers_key(experiment_id: str) -> Key:
    """An experiment in the list of those that have or had scorers."""
    return Key(WITH_SCORERS_PK, listed_experiment(experiment_id))


def listed_experiment_of(sk: str) -> str | None:
    """The experiment that an entry of such a list names."""
    return key_text(pieces_of(sk, "E")[0])


def lsi5_issue(issue_id: str, trace_id: str, assessment_id: str) -> str:
    """A reference to an issue from a trace, by issue."""
    pieces = (bounded(issue_id, ID), bounded(trace_id, ID), bounded(assessment_id, ID))
    return join("I", *pieces)


def reference_of(lsi5sk: str) -> tuple[str, str]:
    """The sort keys of the issue that a reference names, and of the trace that refers to it."""
    issue_piece, trace_piece, _ = pieces_of(lsi5sk, "I")
    return join("I", issue_piece), join("T", trace_piece)


# --- what an item is ----------------------------------------------------------------------------

_DATASET_KINDS = {
    "SCHEMA": "Schema of an evaluation dataset",
    "TAG": "Evaluation dataset tag",
    "EXP": "Experiment of an evaluation dataset",
    "HASH": "Inputs of a record",
    "REC": "Record",
}


def _without(prefix: str, piece: str) -> str | None:
    """An id without its prefix, so that it tells when it was made."""
    text = key_text(piece)
    return None if text is None else text.removeprefix(prefix)


def _in_dataset(pk: str, words: list[str], _item: Item) -> ItemDescription | None:
    if words == ["V", "META"]:
        return ItemDescription("Evaluation dataset")
    owners = [Key(pk, DATASET_META)]
    if words[1] == "EXP":
        owners.append(Key(join("EXP", words[2]), EXPERIMENT_META))
    owner_id = _without("d-", pk.partition("#")[2])
    return described(_DATASET_KINDS.get(words[1]), *owners, owner_id=owner_id)


def _dataset_entry(_pk: str, words: list[str], _item: Item) -> ItemDescription:
    owner = Key(join("EVALDS", words[1]), DATASET_META)
    return ItemDescription("Entry of an evaluation dataset", (owner,), _without("d-", words[1]))


def _dataset_link(pk: str, words: list[str], _item: Item) -> ItemDescription:
    owners = (Key(pk, EXPERIMENT_META), Key(join("EVALDS", words[1]), DATASET_META))
    return ItemDescription("Link to an evaluation dataset", owners, _without("d-", words[1]))


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


def _issue(pk: str, words: list[str], _item: Item) -> ItemDescription:
    return ItemDescription("Issue", (Key(pk, EXPERIMENT_META),), _without("iss-", words[1]))


def _issue_locator(pk: str, words: list[str], item: Item) -> ItemDescription | None:
    if words != ["I", "LOC"]:
        return None
    piece = pk.partition("#")[2]
    meta = experiment_key(str(item["experiment_id"]))
    owners = (meta, Key(meta.pk, join("I", piece)))
    return ItemDescription("Issue locator", owners, _without("iss-", piece))


def _listed_experiment(pk: str, words: list[str], _item: Item) -> ItemDescription:
    owner = Key(join("EXP", words[1]), EXPERIMENT_META)
    return ItemDescription(f"Experiment with {pk.lower()}", (owner,))


_DATASET, _SCORER, _ISSUE = "d-0197c9b7", "0197c9b8", "iss-0197c9b9"

SECTION = KeySection(
    patterns=(
        Pattern(
            "PK", "EVALDS#<dataset_id>", "Evaluation dataset partition", dataset_pk, (_DATASET,)
        ),
        Pattern("PK", "SCORER#<scorer_id>", "Scorer locator", scorer_locator_key, (_SCORER,)),
        Pattern("PK", "ONLINE", "Online scorers", lambda: ONLINE_PK),
        Pattern("SK", "V#META", "Evaluation dataset", lambda: DATASET_META),
        Pattern("SK", "V#SCHEMA", "Schema of an evaluation dataset", lambda: DATASET_SCHEMA),
        Pattern("SK", "V#TAG#<key>", "Evaluation dataset tag", dataset_tag, ("team",)),
        Pattern(
            "SK",
            "V#EXP#<experiment_id>",
            "Experiment of an evaluation dataset",
            dataset_experiment,
            ("7",),
        ),
        Pattern("SK", "V#HASH#<input_hash>", "Inputs of a record", dataset_input, ("9f2c",)),
        Pattern("SK", "V#REC#<record_id>", "Record", dataset_record, ("dr-0197c9b7",)),
        Pattern(
            "SK",
            "EVALDS#<dataset_id>",
            "Entry of an evaluation dataset",
            dataset_entry,
            (_DATASET,),
        ),
        Pattern("SK", "S#<scorer_name>", "Scorer", scorer, ("fluency",)),
        Pattern(
            "SK", "SV#<scorer_id>#<version>", "Version of a scorer", scorer_version, (_SCORER, 2)
        ),
        Pattern("SK", "S#LOC", "Scorer locator", scorer_locator_key, (_SCORER,)),
        Pattern(
            "SK",
            "S#<experiment_id>#<scorer_name>",
            "Online scorer",
            online_scorer,
            ("7", "fluency"),
        ),
        Pattern("PK", "ISSUE#<issue_id>", "Issue locator", issue_locator_key, (_ISSUE,)),
        Pattern("PK", "ISSUES", "Experiments with issues", lambda: WITH_ISSUES_PK),
        Pattern("PK", "SCORERS", "Experiments with scorers", lambda: WITH_SCORERS_PK),
        Pattern("SK", "I#<issue_id>", "Issue", issue, (_ISSUE,)),
        Pattern("SK", "I#LOC", "Issue locator", issue_locator_key, (_ISSUE,)),
        Pattern("SK", "E#<experiment_id>", "Listed experiment", listed_experiment, ("7",)),
        Pattern(
            "SK",
            "T#<trace_id>#ISSUE#<assessment_id>",
            "Reference to an issue",
            trace_issue,
            ("tr-5f3a", "a-77"),
        ),
        Pattern(
            "lsi5sk",
            "I#<issue_id>#<trace_id>#<assessment_id>",
            "Reference to an issue",
            lsi5_issue,
            (_ISSUE, "tr-5f3a", "a-77"),
        ),
    ),
    partitions={
        "EVALDS": _in_dataset,
        "SCORER": _scorer_locator,
        ONLINE_PK: _online_scorer,
        "ISSUE": _issue_locator,
        WITH_ISSUES_PK: _listed_experiment,
        WITH_SCORERS_PK: _listed_experiment,
    },
    in_experiment={"EVALDS": _dataset_link, "S": _scorer, "SV": _scorer_version, "I": _issue},
    in_workspace={"EVALDS": _dataset_entry},
)
