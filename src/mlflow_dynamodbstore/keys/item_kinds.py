"""What an item is and which items it belongs to, told from its key: for work on whole tables.

An item either stands for itself (an experiment, a registered model, a setting) or belongs to other
items, which must exist too. :func:`describe_item` names its kind and the keys of its owners. An
item of an unknown kind has no owners, so upkeep never removes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from mlflow_dynamodbstore.keys import (
    evaluation_datasets,
    gateway,
    issues,
    jobs,
    mcp,
    metric_log,
    reviews,
    scorers,
)
from mlflow_dynamodbstore.keys.access import USER_META, workspace_of
from mlflow_dynamodbstore.keys.base import DEFAULT_WORKSPACE, join, key_text
from mlflow_dynamodbstore.keys.encoding import is_cut
from mlflow_dynamodbstore.keys.experiments import (
    EXPERIMENT_META,
    experiment_key,
    first_volume,
    volume_pk,
)
from mlflow_dynamodbstore.keys.grants import ROLE_META
from mlflow_dynamodbstore.keys.ranks import MODEL_NAME
from mlflow_dynamodbstore.keys.registry import MODEL_META, model_key, model_version
from mlflow_dynamodbstore.keys.section_types import (
    Describer,
    ItemDescription,
    KeySection,
    described,
)
from mlflow_dynamodbstore.table.values import Item, Key

UNKNOWN = "Unknown"
SECTIONS: tuple[KeySection, ...] = (
    evaluation_datasets.SECTION,
    scorers.SECTION,
    issues.SECTION,
    gateway.SECTION,
    jobs.SECTION,
    mcp.SECTION,
    metric_log.SECTION,
    reviews.SECTION,
)

_GENERATION = re.compile("[0-9a-f]{12}")
_PART_NUMBER = re.compile("[0-9]{4}")
_SEARCH_ENTRIES = ("RANK", "FTS", "FTS_REV")

_EXPERIMENT_KINDS: Mapping[str, str] = {
    "TAG": "Experiment tag",
    "NAME_REV": "Reversed name",
    "RESEALED": "Mark of resealing",
    "TEXTS": "Time of full-text entries",
}
_RUN_KINDS: Mapping[str, str] = {
    "METRIC": "Latest metric",
    "MHIST": "Metric history",
    "PARAM": "Parameter",
    "TAG": "Run tag",
    "INPUT": "Dataset input",
    "INPUT_LM": "Model input",
    "LM": "Logged model of a run",
    "OUTPUT": "Model output",
}
_LOGGED_MODEL_KINDS: Mapping[str, str] = {
    "TAG": "Logged model tag",
    "PARAM": "Logged model parameter",
    "METRIC": "Logged model metric",
}
SPANS = "Spans"
_TRACE_KINDS: Mapping[str, str] = {
    "TAG": "Trace tag",
    "CLIENT": "Client's request",
    "SPANS": SPANS,
    "ASSESS": "Assessment",
    "ISSUE": "Reference to an issue",
}
_WITH_CHILDREN: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "R": ("Run", _RUN_KINDS),
    "LM": ("Logged model", _LOGGED_MODEL_KINDS),
    "T": ("Trace", _TRACE_KINDS),
}
_MODEL_KINDS: Mapping[str, str] = {
    "TAG": "Model tag",
    "ALIAS": "Model alias",
    "ALIASHIST": "Alias history",
}
_USER_KINDS: Mapping[str, str] = {
    "PERM": "Experiment permission",
    "RPERM": "Registry permission",
    "GRANT": "Grant",
    "ROLE": "Role of a user",
}
_ROLE_KINDS: Mapping[str, str] = {"PERM": "Grant of a role", "USER": "User of a role"}
_CONFIG_KINDS: Mapping[str, str] = {
    "CFG": "Configuration entry",
    "SEQ": "Counter",
    "WS": "Entry of a workspace",
    "UID": "Entry of a user",
    "KEY": "Check of a key",
    "NUM": "New number",
    "SURVEY": "Survey",
    "FILL": "Origin of the table",
}
_WORKSPACE_KINDS: Mapping[str, str] = {
    "WS": "Workspace",
    "WEBHOOK": "Webhook",
    "ROLENAME": "Role name",
}


def describe_item(item: Item) -> ItemDescription:
    """What an item is and belongs to. A name that was cut in the key is read from the item."""
    pk, sk = str(item["PK"]), str(item["SK"])
    part = _part_of(sk)
    if part is not None:
        head_sk, generation = part
        head = describe_item({**item, "SK": head_sk})
        return replace(
            head, kind="Part of a large value", head=Key(pk, head_sk), generation=generation
        )
    describe = _PARTITIONS.get(pk.partition("#")[0])
    found = None if describe is None else describe(pk, sk.split("#"), item)
    return found or ItemDescription(UNKNOWN)


def _part_of(sk: str) -> tuple[str, str] | None:
    """The sort key that a part lies beside, and the part's generation; None for other items.

    A metric or param may be named ``PART``, so items that never hold a large value are left out.
    """
    words = sk.split("#")
    if len(words) < 5 or words[-3] != "PART" or words[0] in _SEARCH_ENTRIES:
        return None
    if not (_GENERATION.fullmatch(words[-2]) and _PART_NUMBER.fullmatch(words[-1])):
        return None
    return join(*words[:-3]), words[-2]


# --- experiments --------------------------------------------------------------------------------


def _in_experiment(pk: str, words: list[str], item: Item) -> ItemDescription | None:
    kind = words[0]
    if (describe := _MORE_IN_EXPERIMENT.get(kind)) is not None:
        return describe(pk, words, item)
    meta = Key(first_volume(pk), EXPERIMENT_META)
    if kind == "E":
        if words[1] == "META":
            return ItemDescription("Experiment")
        return described(_EXPERIMENT_KINDS.get(words[1]), meta)
    if kind == "D":
        return ItemDescription("Dataset", (meta,))
    if kind == "DCTX":
        return ItemDescription("Use of a dataset", (meta, Key(pk, join("D", words[1]))))
    if kind == "DLINK":
        return ItemDescription("Dataset link", *_owners(pk, meta, "R", words[1]))
    if kind == "TSA":
        return ItemDescription("Session assessed", *_owners(pk, meta, "T", words[1]))
    if kind in _SEARCH_ENTRIES:
        return _search_entry(pk, meta, words)
    if kind not in _WITH_CHILDREN:
        return None
    own, kinds = _WITH_CHILDREN[kind]
    if len(words) == 2:
        return ItemDescription(own, (meta,), key_text(words[1]))
    child = kinds.get(words[2])
    return None if child is None else ItemDescription(child, *_owners(pk, meta, kind, words[1]))


def _search_entry(pk: str, meta: Key, words: list[str]) -> ItemDescription:
    text_field = None
    if words[0] == "RANK":
        kind, run_piece = "Metric rank" if words[1] == "m" else "Param rank", words[-1]
    elif words[0] == "FTS":
        kind, run_piece, text_field = "Full-text entry", words[4], key_text(words[3])
    else:
        kind, run_piece, text_field = "Full-text entry, reversed", words[2], key_text(words[1])
    owners, owner_id = _owners(pk, meta, "R", run_piece)
    return ItemDescription(kind, owners, owner_id, run=owners[-1], text_field=text_field)


def _owners(pk: str, meta: Key, kind: str, piece: str) -> tuple[tuple[Key, ...], str | None]:
    """The owners of what belongs to a run, trace or logged model in a volume, and its id."""
    return (meta, Key(pk, join(kind, piece))), key_text(piece)


# --- models, workspaces, users, the table itself ------------------------------------------------


def _in_model(pk: str, words: list[str], _item: Item) -> ItemDescription | None:
    meta = Key(pk, MODEL_META)
    if words[1] == "META":
        return ItemDescription("Registered model")
    if words[1] != "V":
        return described(_MODEL_KINDS.get(words[1]), meta)
    if len(words) == 3:
        return ItemDescription("Model version", (meta,))
    return ItemDescription("Model version tag", (meta, Key(pk, join(*words[:3]))))


def _of_run_in_registry(pk: str, words: list[str], item: Item) -> ItemDescription:
    pieces = pk.split("#")
    workspace = key_text(pieces[1]) if len(pieces) == 3 else DEFAULT_WORKSPACE
    meta = model_key(_name(words[1], item), str(workspace))
    return ItemDescription("Run's version", (meta, Key(meta.pk, model_version(int(words[2])))))


def _in_workspace(pk: str, words: list[str], item: Item) -> ItemDescription | None:
    kind = words[0]
    if (describe := _MORE_IN_WORKSPACE.get(kind)) is not None:
        return describe(pk, words, item)
    if kind == "EXPNAME":
        return ItemDescription("Experiment name", (experiment_key(str(item["experiment_id"])),))
    if kind == "RMNAME":
        owner = model_key(_name(words[1], item), str(workspace_of(pk)))
        return ItemDescription("Model name", (owner,))
    if kind in ("FTS", "FTS_REV"):
        return _name_entry(pk, words, item)
    return described(_WORKSPACE_KINDS.get(kind))


def _name_entry(pk: str, words: list[str], item: Item) -> ItemDescription:
    """A full-text entry of the name of an experiment or of a registered model."""
    forward = words[0] == "FTS"
    kind = "Full-text entry" if forward else "Full-text entry, reversed"
    field, piece = (words[3], words[4]) if forward else (words[1], words[2])
    named = _name(piece, item, "entity_id")
    is_model = key_text(field) == MODEL_NAME
    owner = model_key(named, str(workspace_of(pk))) if is_model else experiment_key(named)
    return ItemDescription(kind, (owner,), owner_id=named, text_field=key_text(field))


def _name(piece: str, item: Item, attribute: str = "name") -> str:
    """The name in a piece of a key; one that was cut stands in the item."""
    return str(item[attribute]) if is_cut(piece) else str(key_text(piece))


def _of_user(pk: str, words: list[str], _item: Item) -> ItemDescription | None:
    if words[1] == "META":
        return ItemDescription("User")
    if words[1] == "FAILED":
        return ItemDescription("Failed logins")  # also for a name that no user has
    return described(_USER_KINDS.get(words[1]), Key(pk, USER_META))


def _of_role(pk: str, words: list[str], _item: Item) -> ItemDescription | None:
    if words[1] == "META":
        return ItemDescription("Role")
    return described(_ROLE_KINDS.get(words[1]), Key(pk, ROLE_META))


def _grant(_pk: str, _words: list[str], _item: Item) -> ItemDescription:
    return ItemDescription("User with a grant for one thing")


def _of_trace(pk: str, words: list[str], item: Item) -> ItemDescription | None:
    if words != ["T", "LOC"]:
        return None
    if "experiment_id" not in item:
        return ItemDescription("Links to a trace to come")
    experiment_id, volume = str(item["experiment_id"]), item.get("volume", 0)
    home, meta = volume_pk(experiment_id, volume), experiment_key(experiment_id)
    return ItemDescription("Trace locator", *_owners(home, meta, "T", pk.partition("#")[2]))


def _assessment_of_run(_pk: str, words: list[str], _item: Item) -> ItemDescription:
    locator = Key(join("TRACE", words[1]), join("T", "LOC"))
    return ItemDescription("Assessment of a run", (locator,), key_text(words[1]))


def _in_config(_pk: str, words: list[str], _item: Item) -> ItemDescription | None:
    return described(_CONFIG_KINDS.get(words[0]))


_MORE_IN_EXPERIMENT = {w: d for section in SECTIONS for w, d in section.in_experiment.items()}
_MORE_IN_WORKSPACE = {w: d for section in SECTIONS for w, d in section.in_workspace.items()}
_PARTITIONS: Mapping[str, Describer] = {
    "EXP": _in_experiment,
    "RM": _in_model,
    "RMRUN": _of_run_in_registry,
    "WORKSPACE": _in_workspace,
    "USER": _of_user,
    "ROLE": _of_role,
    "GRANT": _grant,
    "TRACE": _of_trace,
    "RUNASSESS": _assessment_of_run,
    "CONFIG": _in_config,
    **{word: describe for section in SECTIONS for word, describe in section.partitions.items()},
}
