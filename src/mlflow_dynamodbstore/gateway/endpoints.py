"""Endpoints: names that callers use, each routed to model definitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable

from mlflow.entities import (
    ExperimentTag,
    FallbackConfig,
    GatewayEndpoint,
    GatewayEndpointModelConfig,
    GatewayEndpointTag,
    RoutingStrategy,
)
from mlflow.entities.gateway_endpoint import GatewayModelLinkageType
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import (
    MLFLOW_EXPERIMENT_IS_GATEWAY,
    MLFLOW_EXPERIMENT_SOURCE_ID,
    MLFLOW_EXPERIMENT_SOURCE_TYPE,
)
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.gateway import model_definitions
from mlflow_dynamodbstore.gateway.bindings import bindings_of_endpoint
from mlflow_dynamodbstore.gateway.config_cache import EndpointConfigCache
from mlflow_dynamodbstore.gateway.endpoint_items import EndpointItems, check_room_for_definitions
from mlflow_dynamodbstore.gateway.endpoint_records import (
    ENTITY,
    GUARDRAILS,
    MAPPINGS,
    TAG,
    EndpointRecord,
    new_mappings,
    stored_fallback,
    uses_of,
)
from mlflow_dynamodbstore.gateway.items import (
    REVISION,
    check_given,
    check_one_of,
    new_guard,
    new_item,
    no_such,
    unchanged,
    update_existing,
)
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.mlflow_compat.validation import parse_experiment_id
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.shared.refusals import already_exists, invalid, not_found
from mlflow_dynamodbstore.table.contract import MAX_TRANSACTION, Delete, Put, TransactWrite
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key


class Endpoints:
    """The endpoints of a workspace, and their tags."""

    def __init__(
        self,
        context: Context,
        experiment_lookup: ExperimentLookup,
        endpoint_items: EndpointItems,
        endpoint_config_cache: EndpointConfigCache,
        get_or_create_experiment: Callable[[str, list[ExperimentTag]], str],
    ) -> None:
        self.context = context
        self.table = context.table
        self.experiment_lookup = experiment_lookup
        self.endpoint_items = endpoint_items
        self.endpoint_config_cache = endpoint_config_cache
        self.get_or_create_experiment = get_or_create_experiment

    def create_gateway_endpoint(
        self,
        name: str,
        model_configs: list[GatewayEndpointModelConfig],
        created_by: str | None = None,
        routing_strategy: RoutingStrategy | None = None,
        fallback_config: FallbackConfig | None = None,
        experiment_id: str | None = None,
        usage_tracking: bool = True,
    ) -> GatewayEndpoint:
        if not model_configs:
            raise invalid("Endpoint must have at least one model configuration")
        check_given(name=name)
        workspace = self.context.workspace()
        endpoint_id = f"e-{ids.new_id()}"
        mappings = new_mappings(endpoint_id, model_configs, created_by, get_current_time_millis())
        check_room_for_definitions(uses_of(mappings))
        key = gateway_keys.endpoint_key(endpoint_id, workspace)
        has_fallback = fallback_config or any(map(_is_fallback, model_configs))
        item: Item = {
            **new_item(key, created_by),
            "endpoint_id": endpoint_id,
            "name": name,
            MAPPINGS: mappings,
            GUARDRAILS: [],
            "routing": routing_strategy.value if routing_strategy else None,
            "fallback": stored_fallback(fallback_config) if has_fallback else None,
            "usage_tracking": usage_tracking,
            REVISION: 0,
        }
        guard = gateway_keys.endpoint_name_guard(name, workspace)

        def attempt() -> GatewayEndpoint:
            seen = self._read_definitions(mappings, [guard])
            if missing := _missing(mappings, seen, workspace):
                raise not_found(f"Model definitions not found: {', '.join(missing)}")
            if guard in seen:
                raise _name_taken(name)
            experiment = self._trace_experiment(experiment_id, usage_tracking, name, endpoint_id)
            own = item if experiment is None else {**item, "experiment_id": experiment}
            self.table.transact(
                [
                    Put(own),
                    new_guard(guard, endpoint_id=endpoint_id),
                    *self.endpoint_items.count_uses(Counter(), uses_of(mappings)),
                ]
            )
            if experiment is not None:
                seen[experiment_keys.experiment_key(experiment)] = {}
            return EndpointRecord(own, seen).to_entity()

        return optimistically(f"Endpoint '{name}'", attempt)

    def get_gateway_endpoint(
        self, endpoint_id: str | None = None, name: str | None = None
    ) -> GatewayEndpoint:
        check_one_of(endpoint_id=endpoint_id, name=name)
        return self.endpoint_items.get_record(endpoint_id=endpoint_id, name=name).to_entity()

    def update_gateway_endpoint(
        self,
        endpoint_id: str,
        name: str | None = None,
        updated_by: str | None = None,
        routing_strategy: RoutingStrategy | None = None,
        fallback_config: FallbackConfig | None = None,
        model_configs: list[GatewayEndpointModelConfig] | None = None,
        experiment_id: str | None = None,
        usage_tracking: bool | None = None,
    ) -> GatewayEndpoint:
        changes: Item = {}
        if updated_by:
            changes["updated_by"] = updated_by
        if routing_strategy is not None:
            changes["routing"] = routing_strategy.value
        if usage_tracking is not None:
            changes["usage_tracking"] = usage_tracking
        if fallback_config is not None or model_configs is not None:
            changes["fallback"] = stored_fallback(fallback_config)

        def attempt() -> GatewayEndpoint:
            before = self.endpoint_items.get_record(endpoint_id=endpoint_id)
            now = get_current_time_millis()
            own: Item = {**changes, "updated_at": now}
            seen = dict(before.found)
            together: list[TransactWrite] = []
            needed = bool(usage_tracking) and before.experiment_id is None
            experiment = self._trace_experiment(
                experiment_id, needed, name or before.item["name"], endpoint_id
            )
            if experiment is not None:
                own["experiment_id"] = experiment
                seen[experiment_keys.experiment_key(experiment)] = {}
            if model_configs is not None:
                own[MAPPINGS] = new_mappings(endpoint_id, model_configs, updated_by, now)
                seen |= self._read_definitions(own[MAPPINGS])
                if missing := _missing(own[MAPPINGS], seen, self.context.workspace()):
                    raise no_such(model_definitions.ENTITY, model_definition_id=missing[0])
                together += self.endpoint_items.count_uses(
                    uses_of(before.mappings), uses_of(own[MAPPINGS])
                )
            if name is not None and name != before.item["name"]:
                own["name"] = name
                together += self._renaming(before, name)
            after = self.endpoint_items.change(before.item, own, together)
            return EndpointRecord(after, seen).to_entity()

        endpoint = optimistically(f"Endpoint '{endpoint_id}'", attempt)
        self.endpoint_config_cache.invalidate()
        return endpoint

    def delete_gateway_endpoint(self, endpoint_id: str) -> None:
        """Delete an endpoint with its mappings, bindings, tags and guardrail configurations."""
        optimistically(f"Endpoint '{endpoint_id}'", lambda: self._delete(endpoint_id))
        self.endpoint_config_cache.invalidate()

    def list_gateway_endpoints(
        self, provider: str | None = None, secret_id: str | None = None
    ) -> list[GatewayEndpoint]:
        return [
            record.to_entity()
            for record in self.endpoint_items.list_records()
            if any(
                (not provider or definition["provider"] == provider)
                and (not secret_id or definition.get("secret_id") == secret_id)
                for _, definition in record.definitions()
            )
        ]

    def set_gateway_endpoint_tag(self, endpoint_id: str, tag: GatewayEndpointTag) -> None:
        self._update_tags(endpoint_id, Update(set={TAG + tag.key: tag.value}))

    def delete_gateway_endpoint_tag(self, endpoint_id: str, key: str) -> None:
        self._update_tags(endpoint_id, Update(remove=(TAG + key,)))

    # --- helpers --------------------------------------------------------------------------------

    def _update_tags(self, endpoint_id: str, update: Update) -> None:
        missing = no_such(ENTITY, endpoint_id=endpoint_id)
        update_existing(self.table, self.endpoint_items.key(endpoint_id), update, missing)

    def _read_definitions(
        self, mappings: Iterable[Item], others: Iterable[Key] = ()
    ) -> dict[Key, Item]:
        """The model definitions of mappings, and some other items."""
        workspace = self.context.workspace()
        wanted = (
            gateway_keys.model_definition_key(mapping["definition_id"], workspace)
            for mapping in mappings
        )
        return self.table.get_many([*others, *wanted])

    def _renaming(self, before: EndpointRecord, name: str) -> list[TransactWrite]:
        """The writes that replace the guard of an endpoint's name."""
        workspace = self.context.workspace()
        guard = gateway_keys.endpoint_name_guard(name, workspace)
        if self.table.get(guard) is not None:
            raise _name_taken(name)
        old = gateway_keys.endpoint_name_guard(before.item["name"], workspace)
        return [new_guard(guard, endpoint_id=before.endpoint_id), Delete(old)]

    def _trace_experiment(
        self, given: str | None, needed: bool, name: str, endpoint_id: str
    ) -> str | None:
        """The id of the experiment for an endpoint's traces; creates it when none is given."""
        if given is not None:
            parse_experiment_id(given)  # an empty one is not that of the default experiment
            experiment = self.experiment_lookup.get(given)
            return str(experiment_keys.experiment_id_of(str(experiment["PK"])))
        if not needed:
            return None
        return self.get_or_create_experiment(
            f"gateway/{name}",
            [
                ExperimentTag(MLFLOW_EXPERIMENT_SOURCE_TYPE, "GATEWAY"),
                ExperimentTag(MLFLOW_EXPERIMENT_SOURCE_ID, endpoint_id),
                ExperimentTag(MLFLOW_EXPERIMENT_IS_GATEWAY, "true"),
            ],
        )

    def _delete(self, endpoint_id: str) -> None:
        # The endpoint is read first: a binding made after that raises its revision.
        endpoint = self.endpoint_items.get(endpoint_id)
        guard = gateway_keys.endpoint_name_guard(endpoint["name"], self.context.workspace())
        writes: list[TransactWrite] = [
            Delete(self.table.schema.key_of(endpoint), condition=unchanged(endpoint)),
            Delete(guard),
            *self.endpoint_items.count_uses(uses_of(endpoint[MAPPINGS]), Counter()),
        ]
        bindings = bindings_of_endpoint(self.table, endpoint)
        unbound = [Delete(self.table.schema.key_of(binding)) for binding in bindings]
        # The bindings that the transaction has no room for are deleted before it, so that the
        # endpoint still exists if the process stops between the two.
        room = MAX_TRANSACTION - len(writes)
        self.table.write(unbound[room:])
        self.table.transact([*writes, *unbound[:room]])


def _is_fallback(config: GatewayEndpointModelConfig) -> bool:
    return bool(config.linkage_type == GatewayModelLinkageType.FALLBACK)


def _name_taken(name: str) -> MlflowException:
    return already_exists(f"Endpoint with name '{name}' already exists")


def _missing(mappings: Iterable[Item], seen: Container[Key], workspace: str) -> list[str]:
    """The ids of the model definitions that mappings name and that do not exist."""
    named = dict.fromkeys(str(mapping["definition_id"]) for mapping in mappings)
    return [n for n in named if gateway_keys.model_definition_key(n, workspace) not in seen]
