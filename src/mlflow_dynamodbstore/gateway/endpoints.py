"""Endpoints: names that callers use, routed to model definitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from boto3.dynamodb.conditions import Attr, ConditionBase
from mlflow.entities import (
    ExperimentTag,
    FallbackConfig,
    GatewayEndpoint,
    GatewayEndpointModelConfig,
    GatewayEndpointTag,
    RoutingStrategy,
)
from mlflow.entities.gateway_endpoint import GatewayModelLinkageType
from mlflow.entities.lifecycle_stage import LifecycleStage
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import (
    INVALID_PARAMETER_VALUE,
    RESOURCE_DOES_NOT_EXIST,
)
from mlflow.utils.mlflow_tags import (
    MLFLOW_EXPERIMENT_IS_GATEWAY,
    MLFLOW_EXPERIMENT_SOURCE_ID,
    MLFLOW_EXPERIMENT_SOURCE_TYPE,
)
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.gateway import model_definitions
from mlflow_dynamodbstore.gateway.base import (
    REVISION,
    USES,
    GatewayItems,
    check_one_of,
    exists_already,
    made,
    not_found,
)
from mlflow_dynamodbstore.gateway.config_cache import EndpointConfigCache
from mlflow_dynamodbstore.gateway.endpoint_items import (
    ENTITY,
    GUARDRAILS,
    MAPPINGS,
    TAG,
    EndpointRecord,
    endpoint_links,
    new_mappings,
    stored_fallback,
    uses_of,
)
from mlflow_dynamodbstore.gateway.model_definitions import ModelDefinitions
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import gateway as gateway_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.shared.conditions import ABSENT, PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.table.contract import (
    MAX_TRANSACTION,
    Delete,
    Patch,
    Put,
    Query,
    TransactWrite,
)
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

ANY_STAGE = {LifecycleStage.ACTIVE, LifecycleStage.DELETED}


class Endpoints:
    """The endpoints of a workspace, and their tags."""

    def __init__(
        self,
        context: Context,
        experiment_lookup: ExperimentLookup,
        gateway_items: GatewayItems,
        model_definitions: ModelDefinitions,
        endpoint_config_cache: EndpointConfigCache,
        get_or_create_experiment: Callable[[str, list[ExperimentTag]], str],
    ) -> None:
        self.context = context
        self.table = context.table
        self.experiment_lookup = experiment_lookup
        self.gateway_items = gateway_items
        self.model_definitions = model_definitions
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
            raise MlflowException(
                "Endpoint must have at least one model configuration", INVALID_PARAMETER_VALUE
            )
        workspace = self.context.workspace()
        endpoint_id = f"e-{ids.new_id()}"
        mappings = new_mappings(endpoint_id, model_configs, created_by, get_current_time_millis())
        self.check_room_for_definitions(uses_of(mappings))
        key = gateway_keys.endpoint_key(endpoint_id, workspace)
        has_fallback = fallback_config or any(map(_is_fallback, model_configs))
        item: Item = {
            "PK": key.pk,
            "SK": key.sk,
            "endpoint_id": endpoint_id,
            "name": name,
            MAPPINGS: mappings,
            GUARDRAILS: [],
            "routing": routing_strategy.value if routing_strategy else None,
            "fallback": stored_fallback(fallback_config) if has_fallback else None,
            "usage_tracking": usage_tracking,
            REVISION: 0,
            **made(created_by),
        }
        guard = gateway_keys.endpoint_name_guard(name, workspace)

        def attempt() -> GatewayEndpoint:
            seen = self._definitions_seen(mappings, [guard])
            _check_all_found(mappings, seen, workspace)
            if guard in seen:
                raise _name_taken(name)
            experiment = self._experiment_for(experiment_id, usage_tracking, name, endpoint_id)
            own = item if experiment is None else {**item, "experiment_id": experiment[0]}
            self.table.transact(
                [
                    Put(own),
                    _name(guard, endpoint_id),
                    *self.definition_uses(Counter(), uses_of(mappings)),
                ]
            )
            found = {**seen, **({} if experiment is None else {experiment[1]: {}})}
            return EndpointRecord(own, found).to_entity()

        return optimistically(f"Endpoint '{name}'", attempt)

    def get_gateway_endpoint(
        self, endpoint_id: str | None = None, name: str | None = None
    ) -> GatewayEndpoint:
        check_one_of(endpoint_id=endpoint_id, name=name)
        return self.endpoint(endpoint_id, name).to_entity()

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
            before = self.endpoint(endpoint_id)
            now = get_current_time_millis()
            own: Item = {**changes, "updated_at": now}
            seen: dict[Key, Item] = dict(before.found)
            together: list[TransactWrite] = []
            needed = bool(usage_tracking) and before.experiment_id is None
            experiment = self._experiment_for(
                experiment_id, needed, name or before.item["name"], endpoint_id
            )
            if experiment is not None:
                own["experiment_id"], seen[experiment[1]] = experiment[0], {}
            if model_configs is not None:
                own[MAPPINGS] = new_mappings(endpoint_id, model_configs, updated_by, now)
                seen |= self._definitions_seen(own[MAPPINGS])
                _check_each_found(own[MAPPINGS], seen, self.context.workspace())
                together += self.definition_uses(uses_of(before.mappings), uses_of(own[MAPPINGS]))
            if name is not None and name != before.item["name"]:
                own["name"] = name
                together += self._endpoint_renamed(before, name)
            return EndpointRecord(
                self.change_endpoint(before.item, own, together), seen
            ).to_entity()

        endpoint = optimistically(f"Endpoint '{endpoint_id}'", attempt)
        self.endpoint_config_cache.invalidate()
        return endpoint

    def delete_gateway_endpoint(self, endpoint_id: str) -> None:
        """Delete an endpoint with its mappings, bindings, tags and uses of guardrails."""
        optimistically(f"Endpoint '{endpoint_id}'", lambda: self._delete_endpoint(endpoint_id))
        self.endpoint_config_cache.invalidate()

    def list_gateway_endpoints(
        self, provider: str | None = None, secret_id: str | None = None
    ) -> list[GatewayEndpoint]:
        return [
            record.to_entity()
            for record in self._endpoint_records()
            if any(
                (not provider or definition["provider"] == provider)
                and (not secret_id or definition.get("secret_id") == secret_id)
                for _, definition in record.definitions()
            )
        ]

    def set_gateway_endpoint_tag(self, endpoint_id: str, tag: GatewayEndpointTag) -> None:
        self._tag_endpoint(endpoint_id, Update(set={TAG + tag.key: tag.value}))

    def delete_gateway_endpoint_tag(self, endpoint_id: str, key: str) -> None:
        self._tag_endpoint(endpoint_id, Update(remove=(TAG + key,)))

    # --- reading --------------------------------------------------------------------------------

    def endpoint_key(self, endpoint_id: str) -> Key:
        return gateway_keys.endpoint_key(endpoint_id, self.context.workspace())

    def endpoint_item(self, endpoint_id: str, entity: str = ENTITY) -> Item:
        """An endpoint's own item alone."""
        item = self.table.get(self.endpoint_key(endpoint_id))
        if item is None:
            raise not_found(entity, endpoint_id=endpoint_id)
        return item

    def endpoint(
        self, endpoint_id: str | None, name: str | None = None, *, with_secrets: bool = False
    ) -> EndpointRecord:
        """An endpoint with all that it leads to, by its id or its name."""
        workspace = self.context.workspace()
        if endpoint_id:
            start, named = (
                gateway_keys.endpoint_key(endpoint_id, workspace),
                {"endpoint_id": endpoint_id},
            )
        else:
            start = gateway_keys.endpoint_name_guard(name or "", workspace)
            named = {"name": str(name)}
        found = self.gateway_items.follow(
            start, endpoint_links(workspace, with_secrets=with_secrets)
        )
        item = next((item for item in found.values() if MAPPINGS in item), None)
        if item is None:
            raise not_found(ENTITY, **named)
        return EndpointRecord(item, found)

    def _endpoint_items(self) -> Iterator[Item]:
        """The endpoints' own items, the oldest first."""
        partition = access_keys.workspace_pk(self.context.workspace())
        return self.table.items(Query(partition, where=gateway_keys.ENDPOINTS.on()))

    def _endpoint_records(self) -> list[EndpointRecord]:
        """All endpoints with what they lead to."""
        links = endpoint_links(self.context.workspace())
        items = list(self._endpoint_items())
        found = self.table.get_many(key for item in items for key in links(item))
        return [EndpointRecord(item, found) for item in items]

    def _definitions_seen(
        self, mappings: Iterable[Item], others: Iterable[Key] = ()
    ) -> dict[Key, Item]:
        """The model definitions of mappings, and some other items."""
        wanted = (
            self.model_definitions.definition_key(mapping["definition_id"]) for mapping in mappings
        )
        return self.table.get_many([*others, *wanted])

    # --- changing -------------------------------------------------------------------------------

    def change_endpoint(
        self, before: Item, changes: Item, together: Sequence[TransactWrite] = ()
    ) -> Item:
        """Change an endpoint as it was read, and other items together with it."""
        update = Update(set={**changes, REVISION: before[REVISION] + 1})
        key = self.table.schema.key_of(before)
        if together:
            self.table.transact([Patch(key, update, _unchanged(before)), *together])
        else:
            self.table.update(key, update, condition=_unchanged(before))
        return update.apply(before)

    def _tag_endpoint(self, endpoint_id: str, update: Update) -> None:
        self.gateway_items.update_found(
            self.endpoint_key(endpoint_id), update, not_found(ENTITY, endpoint_id=endpoint_id)
        )

    def _endpoint_renamed(self, before: EndpointRecord, name: str) -> list[TransactWrite]:
        workspace = self.context.workspace()
        guard = gateway_keys.endpoint_name_guard(name, workspace)
        if self.table.get(guard) is not None:
            raise _name_taken(name)
        old = gateway_keys.endpoint_name_guard(before.item["name"], workspace)
        return [_name(guard, before.endpoint_id), Delete(old)]

    def definition_uses(self, before: Counter[str], after: Counter[str]) -> list[TransactWrite]:
        """Let model definitions count those who use them; what is used cannot be deleted."""
        changed = {n: after[n] - before[n] for n in {*before, *after} if after[n] != before[n]}
        self.check_room_for_definitions(changed)
        return [
            Patch(
                self.model_definitions.definition_key(n),
                Update(add={USES: by}),
                condition=PRESENT,
            )
            for n, by in sorted(changed.items())
        ]

    def check_room_for_definitions(self, definitions: Iterable[str]) -> None:
        """A transaction holds the endpoint, two guards of names, and the definitions."""
        most = MAX_TRANSACTION - 3
        if len(list(definitions)) > most:
            raise MlflowException(
                f"An endpoint can have at most {most} different model definitions, and be changed "
                "in as many at once.",
                INVALID_PARAMETER_VALUE,
            )

    def _experiment_for(
        self, given: str | None, needed: bool, name: str, endpoint_id: str
    ) -> tuple[str, Key] | None:
        """The experiment for the traces of an endpoint; made for it when none was given."""
        if given is not None:
            key = self.table.schema.key_of(self.experiment_lookup.get(given))
            return str(experiment_keys.experiment_id_of(key.pk)), key
        if not needed:
            return None
        made_for = self.get_or_create_experiment(
            f"gateway/{name}",
            [
                ExperimentTag(MLFLOW_EXPERIMENT_SOURCE_TYPE, "GATEWAY"),
                ExperimentTag(MLFLOW_EXPERIMENT_SOURCE_ID, endpoint_id),
                ExperimentTag(MLFLOW_EXPERIMENT_IS_GATEWAY, "true"),
            ],
        )
        return made_for, experiment_keys.experiment_key(made_for)

    def _delete_endpoint(self, endpoint_id: str) -> None:
        # The endpoint is read first: whoever binds it after that raises its revision.
        endpoint = self.endpoint_item(endpoint_id)
        guard = gateway_keys.endpoint_name_guard(endpoint["name"], self.context.workspace())
        writes: list[TransactWrite] = [
            Delete(self.table.schema.key_of(endpoint), condition=_unchanged(endpoint)),
            Delete(guard),
            *self.definition_uses(uses_of(endpoint[MAPPINGS]), Counter()),
        ]
        bound = [Delete(key) for key in self._bindings_of(endpoint_id)]
        # What a transaction cannot hold goes before. Should we stop then, the endpoint is there.
        room = MAX_TRANSACTION - len(writes)
        self.table.write(bound[room:])
        self.table.transact([*writes, *bound[:room]])

    def _bindings_of(self, endpoint_id: str) -> list[Key]:
        query = Query(
            access_keys.workspace_pk(self.context.workspace()),
            where=gateway_keys.bindings().on(),
            filter=Attr("endpoint_id").eq(endpoint_id),
        )
        return [self.table.schema.key_of(item) for item in self.table.items(query)]


def _unchanged(endpoint: Item) -> ConditionBase:
    return Attr(REVISION).eq(endpoint[REVISION])


def _is_fallback(config: GatewayEndpointModelConfig) -> bool:
    return bool(config.linkage_type == GatewayModelLinkageType.FALLBACK)


def _name(guard: Key, endpoint_id: str) -> Put:
    item: Item = {"PK": guard.pk, "SK": guard.sk, "endpoint_id": endpoint_id}
    return Put(item, condition=ABSENT)


def _name_taken(name: str) -> MlflowException:
    return exists_already(f"Endpoint with name '{name}' already exists")


def _missing(mappings: Iterable[Item], seen: dict[Key, Item], workspace: str) -> list[str]:
    """Model definitions that mappings name and that do not exist."""
    named = dict.fromkeys(str(mapping["definition_id"]) for mapping in mappings)
    return [n for n in named if gateway_keys.model_definition_key(n, workspace) not in seen]


def _check_all_found(mappings: Iterable[Item], seen: dict[Key, Item], workspace: str) -> None:
    if missing := _missing(mappings, seen, workspace):
        raise MlflowException(
            f"Model definitions not found: {', '.join(missing)}", RESOURCE_DOES_NOT_EXIST
        )


def _check_each_found(mappings: Iterable[Item], seen: dict[Key, Item], workspace: str) -> None:
    for definition_id in _missing(mappings, seen, workspace):
        raise not_found(model_definitions.ENTITY, model_definition_id=definition_id)
