"""Endpoints as read from the table, and as MLflow shows them.

An endpoint's own item holds its mappings to model definitions, its guardrails and its tags, so they
change and are deleted together. Each tag is an attribute (``t:<key>``), so setting one does not
depend on the rest of the item.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mlflow.entities import (
    FallbackConfig,
    GatewayEndpoint,
    GatewayEndpointModelConfig,
    GatewayEndpointModelMapping,
    GatewayEndpointTag,
    RoutingStrategy,
)
from mlflow.entities.gateway_endpoint import FallbackStrategy, GatewayModelLinkageType

from mlflow_dynamodbstore.gateway.items import References
from mlflow_dynamodbstore.gateway.model_definitions import to_definition
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.shared.refusals import already_exists
from mlflow_dynamodbstore.table.values import Item, Key

ENTITY = "GatewayEndpoint"
MAPPINGS = "mappings"
GUARDRAILS = "guardrails"
TAG = "t:"


@dataclass(frozen=True)
class EndpointRecord:
    """An endpoint's own item, and the items that it refers to."""

    item: Item
    found: Mapping[Key, Item]

    @property
    def endpoint_id(self) -> str:
        return str(self.item["endpoint_id"])

    @property
    def mappings(self) -> list[Item]:
        return list(self.item[MAPPINGS])

    @property
    def experiment_id(self) -> str | None:
        """The experiment of the endpoint's traces, or None when it does not exist."""
        experiment_id = self.item.get("experiment_id")
        if experiment_id is None or experiment_keys.experiment_key(experiment_id) not in self.found:
            return None
        return str(experiment_id)

    def definition(self, definition_id: str) -> Item | None:
        """A model definition that the endpoint refers to."""
        sk = gateway_keys.model_definition_key(definition_id).sk
        return self.found.get(Key(self.item["PK"], sk))

    def definitions(self) -> Iterator[tuple[Item, Item]]:
        """The endpoint's mappings with their model definitions."""
        for mapping in self.mappings:
            if (definition := self.definition(mapping["definition_id"])) is not None:
                yield mapping, definition

    def to_mapping(self, mapping: Item) -> GatewayEndpointModelMapping:
        definition = self.definition(mapping["definition_id"])
        return GatewayEndpointModelMapping(
            mapping_id=mapping["mapping_id"],
            endpoint_id=self.endpoint_id,
            model_definition_id=mapping["definition_id"],
            model_definition=None if definition is None else to_definition(definition),
            weight=mapping["weight"],
            linkage_type=GatewayModelLinkageType(mapping["linkage"]),
            fallback_order=mapping["order"],
            created_at=mapping["created_at"],
            created_by=mapping["created_by"],
        )

    def to_entity(self) -> GatewayEndpoint:
        item = self.item
        return GatewayEndpoint(
            endpoint_id=self.endpoint_id,
            name=item["name"],
            created_at=item["created_at"],
            last_updated_at=item["updated_at"],
            model_mappings=[self.to_mapping(mapping) for mapping in self.mappings],
            tags=[GatewayEndpointTag(key, value) for key, value in sorted(tags_of(item).items())],
            created_by=item["created_by"],
            last_updated_by=item["updated_by"],
            routing_strategy=routing_of(item),
            fallback_config=fallback_of(item),
            experiment_id=self.experiment_id,
            usage_tracking=item["usage_tracking"],
            workspace=access_keys.workspace_of(item["PK"]),
        )


def endpoint_references(workspace: str, *, with_secrets: bool = False) -> References:
    """From the guard of a name to the endpoint, to its model definitions, to their secrets."""

    def references(item: Item) -> Iterable[Key]:
        if MAPPINGS in item:
            if item.get("experiment_id") is not None:
                yield experiment_keys.experiment_key(item["experiment_id"])
            for mapping in item[MAPPINGS]:
                yield gateway_keys.model_definition_key(mapping["definition_id"], workspace)
        elif "model_name" in item:
            if with_secrets and item.get("secret_id") is not None:
                yield gateway_keys.secret_key(item["secret_id"], workspace)
        elif "endpoint_id" in item:
            yield gateway_keys.endpoint_key(item["endpoint_id"], workspace)

    return references


def new_mappings(
    endpoint_id: str,
    configs: Iterable[GatewayEndpointModelConfig],
    by: str | None,
    now: int,
    *,
    existing: Iterable[Item] = (),
) -> list[Item]:
    """The mappings of an endpoint: the existing ones, and those of some configurations."""
    mappings = list(existing)
    taken = {(mapping["definition_id"], mapping["linkage"]) for mapping in mappings}
    for config in configs:
        attached = (config.model_definition_id, config.linkage_type.value)
        if attached in taken:
            raise already_exists(
                f"Model definition '{config.model_definition_id}' is already attached to "
                f"endpoint '{endpoint_id}'"
            )
        taken.add(attached)
        mappings.append(
            {
                "mapping_id": f"m-{ids.new_id()}",
                "definition_id": config.model_definition_id,
                "weight": float(config.weight),
                "linkage": config.linkage_type.value,
                "order": config.fallback_order,
                "created_at": now,
                "created_by": by,
            }
        )
    return mappings


def uses_of(mappings: Iterable[Item]) -> Counter[str]:
    """How many of the mappings use each model definition."""
    return Counter(str(mapping["definition_id"]) for mapping in mappings)


def stored_fallback(config: FallbackConfig | None) -> Item:
    """A fallback configuration as stored."""
    strategy = config.strategy if config else None
    return {
        "strategy": strategy.value if strategy else None,
        "max_attempts": config.max_attempts if config else None,
    }


def fallback_of(item: Item) -> FallbackConfig | None:
    """The fallback configuration of an endpoint."""
    stored = item["fallback"]
    if stored is None:
        return None
    return FallbackConfig(
        strategy=FallbackStrategy(stored["strategy"]) if stored["strategy"] else None,
        max_attempts=stored["max_attempts"],
    )


def routing_of(item: Item) -> RoutingStrategy | None:
    """The routing strategy of an endpoint."""
    return RoutingStrategy(item["routing"]) if item["routing"] else None


def tags_of(item: Item) -> dict[str, str | None]:
    """The tags of an endpoint."""
    return {name.removeprefix(TAG): value for name, value in item.items() if name.startswith(TAG)}
