"""What an item is and what it hangs on, told from its key: for upkeep that walks the whole table.

Everything in the table is either a thing of its own (an experiment, a registered model, a setting)
or belongs to others that must be there too. :func:`anatomy` names the kind of thing and the keys of
its owners. A kind that it does not know has no owners, so that upkeep leaves it alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from mlflow_dynamodbstore.keys.access import USER_META
from mlflow_dynamodbstore.keys.base import DEFAULT_WORKSPACE, join, key_text
from mlflow_dynamodbstore.keys.encoding import is_cut
from mlflow_dynamodbstore.keys.experiments import EXPERIMENT_META, experiment_key
from mlflow_dynamodbstore.keys.pattern_types import Anatomy, Reader
from mlflow_dynamodbstore.keys.ranks import MODEL_NAME
from mlflow_dynamodbstore.keys.registry import MODEL_META, model_key, model_version
from mlflow_dynamodbstore.keys.sections import AREAS
from mlflow_dynamodbstore.table.values import Item, Key

UNKNOWN = "Unknown"

_PART = "PART"
_GENERATION = re.compile("[0-9a-f]{12}")
_NUMBER = re.compile("[0-9]{4}")


_EXPERIMENT_KINDS: Mapping[str, str] = {
    "TAG": "Experiment tag",
    "NAME_REV": "Reversed name",
    "RESEALED": "Mark of resealing",
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
_TRACE_KINDS: Mapping[str, str] = {
    "TAG": "Trace tag",
    "SPANS": "Spans",
    "ASSESS": "Assessment",
    "ISSUE": "Reference to an issue",
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
    "FILL": "Origin of the table",
}
_WORKSPACE_KINDS: Mapping[str, str] = {
    "WS": "Workspace",
    "WEBHOOK": "Webhook",
    "ROLENAME": "Role name",
}


def anatomy(item: Item) -> Anatomy:
    """What an item is and hangs on. A name that was cut in the key is read from the item."""
    pk, sk = str(item["PK"]), str(item["SK"])
    part = _part_of(sk)
    if part is not None:
        head_sk, generation = part
        head = anatomy({**item, "SK": head_sk})
        return replace(
            head, entity="Part of a large value", head=Key(pk, head_sk), generation=generation
        )
    words, read = sk.split("#"), _PARTITIONS.get(pk.partition("#")[0])
    found = None if read is None else read(pk, words, item)
    return found or Anatomy(UNKNOWN)


def _part_of(sk: str) -> tuple[str, str] | None:
    """The sort key that a part lies beside, and its generation; None for what is no part.

    Names of metrics and params may be ``PART`` too, so kinds that hold no large value are out.
    """
    words = sk.split("#")
    if len(words) < 5 or words[-3] != _PART or words[0] in ("RANK", "FTS", "FTS_REV"):
        return None
    if not (_GENERATION.fullmatch(words[-2]) and _NUMBER.fullmatch(words[-1])):
        return None
    return join(*words[:-3]), words[-2]


# --- experiments --------------------------------------------------------------------------------


def _in_experiment(pk: str, words: list[str], item: Item) -> Anatomy | None:
    if (read := _MORE_IN_EXPERIMENT.get(words[0])) is not None:
        return read(pk, words, item)
    meta = Key(pk, EXPERIMENT_META)
    kind = words[0]
    if kind == "E":
        return _of_experiment(meta, words)
    if kind == "D":
        return Anatomy("Dataset", (meta,))
    if kind == "DCTX":
        return Anatomy("Use of a dataset", (meta, Key(pk, join("D", words[1]))))
    if kind == "DLINK":
        return Anatomy("Dataset link", *_below(meta, "R", words[1]))
    if kind == "TSA":
        return Anatomy("Session assessed", *_below(meta, "T", words[1]))
    if kind in ("RANK", "FTS", "FTS_REV"):
        return _search_entry(meta, words)
    named = {"R": ("Run", _RUN_KINDS), "LM": ("Logged model", _LOGGED_MODEL_KINDS)}
    named["T"] = ("Trace", _TRACE_KINDS)
    if kind not in named:
        return None
    own, kinds = named[kind]
    if len(words) == 2:
        return Anatomy(own, (meta,), key_text(words[1]))
    below = kinds.get(words[2])
    return None if below is None else Anatomy(below, *_below(meta, kind, words[1]))


def _of_experiment(meta: Key, words: list[str]) -> Anatomy | None:
    if words[1] == "META":
        return Anatomy("Experiment")
    entity = _EXPERIMENT_KINDS.get(words[1])
    return None if entity is None else Anatomy(entity, (meta,))


def _search_entry(meta: Key, words: list[str]) -> Anatomy:
    if words[0] == "RANK":
        entity = "Metric rank" if words[1] == "m" else "Param rank"
        return _entry(entity, meta, words[-1], None)
    if words[0] == "FTS":
        return _entry("Full-text entry", meta, words[4], key_text(words[3]))
    return _entry("Full-text entry, reversed", meta, words[2], key_text(words[1]))


def _entry(entity: str, meta: Key, run_piece: str, text_field: str | None) -> Anatomy:
    owners, owner_id = _below(meta, "R", run_piece)
    return Anatomy(entity, owners, owner_id, run=owners[-1], text_field=text_field)


def _below(meta: Key, kind: str, piece: str) -> tuple[tuple[Key, ...], str | None]:
    """The owners of what hangs on a run, trace or logged model, and the id of that."""
    return (meta, Key(meta.pk, join(kind, piece))), key_text(piece)


# --- models, workspaces, users, the table itself ------------------------------------------------


def _in_model(pk: str, words: list[str], item: Item) -> Anatomy | None:
    del item
    meta = Key(pk, MODEL_META)
    if words[1] == "META":
        return Anatomy("Registered model")
    if words[1] != "V":
        entity = _MODEL_KINDS.get(words[1])
        return None if entity is None else Anatomy(entity, (meta,))
    if len(words) == 3:
        return Anatomy("Model version", (meta,))
    return Anatomy("Model version tag", (meta, Key(pk, join(*words[:3]))))


def _of_run_in_registry(pk: str, words: list[str], item: Item) -> Anatomy:
    pieces = pk.split("#")
    workspace = key_text(pieces[1]) if len(pieces) == 3 else DEFAULT_WORKSPACE
    name = str(item["name"]) if is_cut(words[1]) else key_text(words[1])
    meta = model_key(str(name), str(workspace))
    return Anatomy("Run's version", (meta, Key(meta.pk, model_version(int(words[2])))))


def _in_workspace(pk: str, words: list[str], item: Item) -> Anatomy | None:
    kind = words[0]
    if (read := _MORE_IN_WORKSPACE.get(kind)) is not None:
        return read(pk, words, item)
    if kind == "EXPNAME":
        return Anatomy("Experiment name", (experiment_key(str(item["experiment_id"])),))
    if kind == "RMNAME":
        name = str(item["name"]) if is_cut(words[1]) else key_text(words[1])
        return Anatomy("Model name", (model_key(str(name), _workspace_of(pk)),))
    if kind in ("FTS", "FTS_REV"):
        return _name_entry(pk, words, item)
    entity = _WORKSPACE_KINDS.get(kind)
    return None if entity is None else Anatomy(entity)


def _name_entry(pk: str, words: list[str], item: Item) -> Anatomy:
    """A full-text entry of the name of an experiment or of a registered model."""
    forward = words[0] == "FTS"
    entity = "Full-text entry" if forward else "Full-text entry, reversed"
    field, piece = (words[3], words[4]) if forward else (words[1], words[2])
    named = str(item["entity_id"]) if is_cut(piece) else str(key_text(piece))
    is_model = key_text(field) == MODEL_NAME
    owner = model_key(named, _workspace_of(pk)) if is_model else experiment_key(named)
    return Anatomy(entity, (owner,), owner_id=named, text_field=key_text(field))


def _workspace_of(pk: str) -> str:
    return str(key_text(pk.partition("#")[2]))


def _of_user(pk: str, words: list[str], item: Item) -> Anatomy | None:
    del item
    if words[1] == "META":
        return Anatomy("User")
    if words[1] == "FAILED":
        return Anatomy("Failed logins")  # of anybody, also of a name that nobody has
    entity = _USER_KINDS.get(words[1])
    return None if entity is None else Anatomy(entity, (Key(pk, USER_META),))


def _of_role(pk: str, words: list[str], item: Item) -> Anatomy | None:
    del item
    if words[1] == "META":
        return Anatomy("Role")
    entity = _ROLE_KINDS.get(words[1])
    return None if entity is None else Anatomy(entity, (Key(pk, join("RL", "META")),))


def _grant(pk: str, words: list[str], item: Item) -> Anatomy:
    del pk, words, item
    return Anatomy("User with a grant for one thing")


def _of_trace(pk: str, words: list[str], item: Item) -> Anatomy | None:
    if words != ["T", "LOC"]:
        return None
    piece = pk.partition("#")[2]
    meta = experiment_key(str(item["experiment_id"]))
    return Anatomy("Trace locator", *_below(meta, "T", piece))


def _assessment_of_run(pk: str, words: list[str], item: Item) -> Anatomy:
    del pk, item
    locator = Key(join("TRACE", words[1]), join("T", "LOC"))
    return Anatomy("Assessment of a run", (locator,), key_text(words[1]))


def _in_config(pk: str, words: list[str], item: Item) -> Anatomy | None:
    del pk, item
    entity = _CONFIG_KINDS.get(words[0])
    return None if entity is None else Anatomy(entity)


_MORE_IN_EXPERIMENT = {word: read for area in AREAS for word, read in area.in_experiment.items()}
_MORE_IN_WORKSPACE = {word: read for area in AREAS for word, read in area.in_workspace.items()}
_PARTITIONS: Mapping[str, Reader] = {
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
    **{word: read for area in AREAS for word, read in area.partitions.items()},
}
