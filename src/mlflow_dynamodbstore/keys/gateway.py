"""Keys of the AI gateway, whose items lie in the partition of their workspace.

Guards keep names unique, as for experiments.
"""

from __future__ import annotations

from mlflow_dynamodbstore.keys.access import workspace_pk
from mlflow_dynamodbstore.keys.base import (
    DEFAULT_WORKSPACE,
    ID,
    LONE_NAME,
    SHORT_KEY,
    WORD,
    Range,
    children,
    join,
)
from mlflow_dynamodbstore.keys.encoding import bounded
from mlflow_dynamodbstore.keys.experiments import experiment_key
from mlflow_dynamodbstore.keys.section_types import Describer, ItemDescription, KeySection
from mlflow_dynamodbstore.table.values import Item, Key

SECRETS = children("GWSECRET")
MODEL_DEFINITIONS = children("GWMODEL")
ENDPOINTS = children("GWENDPOINT")
BUDGETS = children("GWBUDGET")
GUARDRAILS = children("GWGUARDRAIL")
TRACED_EXPERIMENTS = children("GWTRACED")


def secret_key(secret_id: str, workspace: str = DEFAULT_WORKSPACE) -> Key:
    """A secret."""
    return _key(workspace, "GWSECRET", bounded(secret_id, ID))


def secret_name_guard(name: str, workspace: str = DEFAULT_WORKSPACE) -> Key:
    """The item that keeps a secret's name unique."""
    return _key(workspace, "GWSECRETNAME", bounded(name, LONE_NAME))


def model_definition_key(definition_id: str, workspace: str = DEFAULT_WORKSPACE) -> Key:
    """A model definition."""
    return _key(workspace, "GWMODEL", bounded(definition_id, ID))


def model_definition_name_guard(name: str, workspace: str = DEFAULT_WORKSPACE) -> Key:
    """The item that keeps a model definition's name unique."""
    return _key(workspace, "GWMODELNAME", bounded(name, LONE_NAME))


def endpoint_key(endpoint_id: str, workspace: str = DEFAULT_WORKSPACE) -> Key:
    """An endpoint."""
    return _key(workspace, "GWENDPOINT", bounded(endpoint_id, ID))


def endpoint_name_guard(name: str, workspace: str = DEFAULT_WORKSPACE) -> Key:
    """The item that keeps an endpoint's name unique."""
    return _key(workspace, "GWENDPOINTNAME", bounded(name, LONE_NAME))


def binding_key(
    resource_type: str, resource_id: str, endpoint_id: str, workspace: str = DEFAULT_WORKSPACE
) -> Key:
    """Notes that a resource uses an endpoint."""
    return _key(workspace, *_bound(resource_type, resource_id), bounded(endpoint_id, ID))


def bindings(resource_type: str | None = None, resource_id: str | None = None) -> Range:
    """The bindings of a resource, of a resource type, or all."""
    if resource_type is None:
        return children("GWBIND")
    if resource_id is None:
        return children(join("GWBIND", bounded(resource_type, WORD)))
    return children(join(*_bound(resource_type, resource_id)))


def budget_key(policy_id: str, workspace: str = DEFAULT_WORKSPACE) -> Key:
    """A budget policy."""
    return _key(workspace, "GWBUDGET", bounded(policy_id, ID))


def guardrail_key(guardrail_id: str, workspace: str = DEFAULT_WORKSPACE) -> Key:
    """A guardrail."""
    return _key(workspace, "GWGUARDRAIL", bounded(guardrail_id, ID))


def traced_experiment_key(experiment_id: str, workspace: str = DEFAULT_WORKSPACE) -> Key:
    """Notes that an experiment holds traces of gateway calls."""
    return _key(workspace, "GWTRACED", bounded(experiment_id, ID))


def _key(workspace: str, *pieces: str) -> Key:
    return Key(workspace_pk(workspace), join(*pieces))


def _bound(resource_type: str, resource_id: str) -> tuple[str, str, str]:
    return "GWBIND", bounded(resource_type, WORD), bounded(resource_id, SHORT_KEY)


def _independent(kind: str) -> Describer:
    """Describes items that belong to nothing else."""

    def describe(_pk: str, words: list[str], _item: Item) -> ItemDescription | None:
        return ItemDescription(kind) if len(words) == 2 else None

    return describe


def _owned(kind: str, word: str, attribute: str) -> Describer:
    """Describes items, such as guards of names, whose owner's id is in an attribute."""

    def describe(pk: str, _words: list[str], item: Item) -> ItemDescription | None:
        return ItemDescription(kind, (Key(pk, join(word, bounded(str(item[attribute]), ID))),))

    return describe


def _traced_experiment(_pk: str, _words: list[str], item: Item) -> ItemDescription | None:
    owner = experiment_key(str(item["experiment_id"]))
    return ItemDescription("Experiment of gateway calls", (owner,))


SECTION = KeySection(
    in_workspace={
        "GWSECRET": _independent("Gateway secret"),
        "GWSECRETNAME": _owned("Gateway secret name", "GWSECRET", "secret_id"),
        "GWMODEL": _independent("Gateway model definition"),
        "GWMODELNAME": _owned("Gateway model definition name", "GWMODEL", "definition_id"),
        "GWENDPOINT": _independent("Gateway endpoint"),
        "GWENDPOINTNAME": _owned("Gateway endpoint name", "GWENDPOINT", "endpoint_id"),
        "GWBIND": _owned("Gateway endpoint binding", "GWENDPOINT", "endpoint_id"),
        "GWBUDGET": _independent("Gateway budget policy"),
        "GWGUARDRAIL": _independent("Gateway guardrail"),
        "GWTRACED": _traced_experiment,
    },
)
