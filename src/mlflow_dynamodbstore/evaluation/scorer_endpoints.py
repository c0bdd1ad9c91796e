"""Gateway endpoints in serialized scorers.

A scorer names its endpoint, and names can change. It is therefore stored with the endpoint's id
instead, and shown with the name that the endpoint has when it is read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import Any, Protocol

from mlflow.entities import GatewayEndpoint
from mlflow.entities.gateway_endpoint import GatewayResourceType
from mlflow.entities.scorer import ScorerVersion
from mlflow.exceptions import MlflowException
from mlflow.genai.scorers.scorer_utils import (
    build_gateway_model,
    extract_endpoint_ref,
    extract_model_from_serialized_scorer,
    is_gateway_model,
    update_model_in_serialized_scorer,
)

from mlflow_dynamodbstore.mlflow_compat.scorers import serialized_scorer
from mlflow_dynamodbstore.shared.plain_values import shown

SCORER = GatewayResourceType.SCORER.value


def scorer_data(serialized: str) -> dict[str, Any]:
    """What a serialized scorer holds. Raises MLflow's error for what is none."""
    try:
        data = json.loads(serialized)
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise MlflowException.invalid_parameter_value(
            f"Invalid scorer {shown(serialized)}: it must be an object in JSON."
        )
    return data


def endpoint_ref(serialized: str) -> str | None:
    """The id or name of the gateway endpoint that a serialized scorer uses, or None."""
    model = extract_model_from_serialized_scorer(scorer_data(serialized))
    return extract_endpoint_ref(str(model)) if is_gateway_model(model) else None


def with_endpoint(serialized: str, ref: str | None) -> str:
    """A serialized scorer with another gateway endpoint, or without a model if there is none."""
    data = scorer_data(serialized)
    model = None if ref is None else build_gateway_model(ref)
    return json.dumps(update_model_in_serialized_scorer(data, model))


class EndpointDirectory(Protocol):
    """Who knows the gateway endpoints: the store, as MLflow's own scorers ask it."""

    def get_gateway_endpoint(
        self, endpoint_id: str | None = None, name: str | None = None
    ) -> GatewayEndpoint: ...

    def list_gateway_endpoints(self) -> list[GatewayEndpoint]: ...


class ScorerEndpoints:
    """Names and ids of the gateway endpoints that scorers use."""

    def __init__(self, directory: EndpointDirectory) -> None:
        self.directory = directory

    def endpoint_id_of(self, name: str) -> str:
        """The id of the endpoint of a name; raises MLflow's error when there is none."""
        return str(self.directory.get_gateway_endpoint(name=name).endpoint_id)

    def resolve_endpoint_in_scorer(self, scorer_version: ScorerVersion) -> ScorerVersion:
        serialized = serialized_scorer(scorer_version)
        ref = endpoint_ref(serialized)
        if ref is None:
            return scorer_version
        return ScorerVersion(
            experiment_id=scorer_version.experiment_id,
            scorer_name=scorer_version.scorer_name,
            scorer_version=scorer_version.scorer_version,
            serialized_scorer=with_endpoint(serialized, self._endpoint_name(ref)),
            creation_time=scorer_version.creation_time,
            scorer_id=scorer_version.scorer_id,
        )

    def endpoint_names(self) -> Callable[[str], str | None]:
        """A function from endpoint ids to names; its first call lists all endpoints."""

        @cache
        def names() -> dict[str, str | None]:
            return {one.endpoint_id: one.name for one in self.directory.list_gateway_endpoints()}

        return lambda endpoint_id: names().get(endpoint_id)

    def _endpoint_name(self, endpoint_id: str) -> str | None:
        try:
            return self.directory.get_gateway_endpoint(endpoint_id=endpoint_id).name
        except MlflowException:
            return None  # it was deleted
