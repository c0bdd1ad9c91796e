"""Keys of workspaces, users and the table's own settings.

A workspace's partition also holds a *guard* for each name in use. A guard is written in the same
transaction as what it names, which keeps names unique and lets consistent reads look them up and
list them; global indexes offer no consistent reads.
"""

from __future__ import annotations

from mlflow_dynamodbstore.keys.base import (
    DEFAULT_WORKSPACE,
    ID,
    KEY,
    LONE_NAME,
    NAME,
    PARTITION_NAME,
    Range,
    children,
    in_workspace,
    join,
    key_text,
    pieces_of,
    starting_text,
)
from mlflow_dynamodbstore.keys.encoding import bounded
from mlflow_dynamodbstore.table.values import Key

CONFIG_PK = "CONFIG"
WORKSPACE_META = "WS#META"
USER_META = "U#META"
USER_FAILURES = "U#FAILED"
FILL_STATE = "FILL#STATE"
"""In CONFIG: what the table is or was filled from, and how far that has come."""
SURVEYS = children("SURVEY")
"""In CONFIG: what was last counted in the table, how that grew, and what ``doctor`` found."""
EXPERIMENT_NAMES = children("EXPNAME")
MODEL_NAMES = children("RMNAME")
USER_EXPERIMENT_PERMISSIONS = children("U#PERM")
USER_MODEL_PERMISSIONS = children("U#RPERM")
SETTINGS = children("CFG")
WEBHOOKS = children("WEBHOOK")
WORKSPACES = children("WS")
"""In CONFIG: every workspace that was ever created or used."""


def workspace_pk(workspace: str) -> str:
    """The partition of a workspace."""
    return join("WORKSPACE", bounded(workspace, PARTITION_NAME))


def workspace_of(pk: str) -> str | None:
    """The workspace whose partition this is."""
    return key_text(pieces_of(pk, "WORKSPACE")[0])


def workspace_key(workspace: str) -> Key:
    """A workspace's own item."""
    return Key(workspace_pk(workspace), WORKSPACE_META)


def workspace_entry_key(workspace: str) -> Key:
    """A workspace in the list of :data:`WORKSPACES`."""
    return Key(CONFIG_PK, join("WS", bounded(workspace, LONE_NAME)))


def workspace_entry_of(sk: str) -> str | None:
    """The workspace that an entry of the list names; None when it was cut."""
    return key_text(pieces_of(sk, "WS")[0])


def experiment_name_guard(name: str, workspace: str = DEFAULT_WORKSPACE) -> Key:
    """The item that keeps an experiment's name unique."""
    return Key(workspace_pk(workspace), join("EXPNAME", bounded(name, LONE_NAME)))


def experiment_names_starting(text: str) -> Range:
    """The guards of experiment names that begin with a text; for a long text, of others too."""
    return starting_text("EXPNAME", text, LONE_NAME)


def model_name_guard(name: str, workspace: str = DEFAULT_WORKSPACE) -> Key:
    """The item that keeps a registered model's name unique."""
    return Key(workspace_pk(workspace), join("RMNAME", bounded(name, LONE_NAME)))


def model_names_starting(text: str) -> Range:
    """The guards of model names that begin with a text; for a long text, of others too."""
    return starting_text("RMNAME", text, LONE_NAME)


def guarded_name_of(sk: str) -> str | None:
    """The name that a guard protects; None when it was cut."""
    word, _, piece = sk.partition("#")
    if word not in ("EXPNAME", "RMNAME"):
        raise ValueError(f"not the guard of a name: {sk!r}")
    return key_text(piece)


def webhook_key(webhook_id: str, workspace: str = DEFAULT_WORKSPACE) -> Key:
    """A webhook of a workspace."""
    return Key(workspace_pk(workspace), join("WEBHOOK", bounded(webhook_id, ID)))


def user_pk(username: str) -> str:
    """The partition of a user."""
    return join("USER", bounded(username, PARTITION_NAME))


def user_key(username: str) -> Key:
    """A user's own item."""
    return Key(user_pk(username), USER_META)


def user_failures_key(username: str) -> Key:
    """The count of wrong passwords for a name, whether a user has it or not."""
    return Key(user_pk(username), USER_FAILURES)


def user_experiment_permission(experiment_id: str, workspace: str = DEFAULT_WORKSPACE) -> str:
    """A user's permission for an experiment."""
    return in_workspace("U#PERM", workspace, bounded(experiment_id, ID))


def user_model_permission(name: str, workspace: str = DEFAULT_WORKSPACE) -> str:
    """A user's permission for a registered model."""
    return in_workspace("U#RPERM", workspace, bounded(name, NAME))


def setting(key: str) -> str:
    """A setting of the whole table."""
    return join("CFG", bounded(key, KEY))


def setting_key(key: str) -> Key:
    """The whole key of a setting."""
    return Key(CONFIG_PK, setting(key))


def setting_of(sk: str) -> str | None:
    """The name of a setting."""
    return key_text(pieces_of(sk, "CFG")[0])


def settings_starting(text: str) -> Range:
    """The settings whose names begin with a text."""
    return starting_text("CFG", text, KEY)


def key_check_key(kind: str) -> Key:
    """The digest of the key that encrypts secrets of a kind, to check a process's key against."""
    return Key(CONFIG_PK, join("KEY", bounded(kind, KEY)))


def sequence_key(name: str) -> Key:
    """A counter that numbers such as experiment ids are drawn from."""
    return Key(CONFIG_PK, join("SEQ", bounded(name, KEY)))


def new_number_key(sequence: str, source: str, old: str) -> Key:
    """The number that an entity of an imported database got here; ``source`` is a digest."""
    return Key(
        CONFIG_PK, join("NUM", bounded(sequence, KEY), bounded(source, ID), bounded(old, ID))
    )


def new_numbers(sequence: str, source: str) -> Range:
    """The numbers that the entities of an imported database got here."""
    return children(_new_numbers_sk(sequence, source))


ALL_NEW_NUMBERS = children("NUM")
"""The new numbers of all imports."""


def _new_numbers_sk(sequence: str, source: str) -> str:
    return join("NUM", bounded(sequence, KEY), bounded(source, ID))


def old_number_of(sk: str) -> str:
    """The number that an entity had in the database it was imported from."""
    return str(key_text(pieces_of(sk, "NUM")[2]))


def survey_key(part: str) -> Key:
    """A part of :data:`SURVEYS`."""
    return Key(CONFIG_PK, join("SURVEY", bounded(part, KEY)))


def survey_part_of(sk: str) -> str:
    """Which part of :data:`SURVEYS` an item is."""
    return str(key_text(pieces_of(sk, "SURVEY")[0]))


def fill_state_key() -> Key:
    """The whole key of :data:`FILL_STATE`."""
    return Key(CONFIG_PK, FILL_STATE)
