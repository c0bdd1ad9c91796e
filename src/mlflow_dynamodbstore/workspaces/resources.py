"""The resources of a workspace: listing, removing and moving them when the workspace is deleted.

Each resource is listed by an item in the partition of its workspace: experiments and registered
models by the guards of their names, webhooks and jobs by their own items. That item is removed
last, or with the rest, so that deleting the workspace again finishes an interrupted deletion.

A new kind of resource must be added to :data:`KINDS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.evaluation.datasets import move_dataset, remove_dataset
from mlflow_dynamodbstore.gateway.workspace_deletion import (
    ENTITY_KINDS,
    EntityKind,
    note_traced_experiment,
)
from mlflow_dynamodbstore.jobs.records import removals
from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import evaluation_datasets as dataset_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import jobs as job_keys
from mlflow_dynamodbstore.keys import mcp as mcp_keys
from mlflow_dynamodbstore.keys.base import DEFAULT_WORKSPACE, Range
from mlflow_dynamodbstore.mcp import places as mcp_places
from mlflow_dynamodbstore.registry.items import RegisteredModelPlace, name_of_guard
from mlflow_dynamodbstore.shared.bulk import empty_partition
from mlflow_dynamodbstore.shared.conditions import ABSENT
from mlflow_dynamodbstore.shared.experiment_items import NAMED_AT, name_of, name_rev_item
from mlflow_dynamodbstore.shared.names import claims
from mlflow_dynamodbstore.shared.policies import Policies
from mlflow_dynamodbstore.shared.search.name_index import NameIndex
from mlflow_dynamodbstore.shared.volumes import Volumes
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, Query
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item


class ResourceKind(ABC):
    """A kind of resource; ``label`` is its name in MLflow's messages."""

    label: str
    listed: Range  # the range of `items` in the partition of the workspace

    def items(self, table: Table, workspace: str) -> Iterator[Item]:
        """The items by which a workspace lists its resources."""
        return table.items(Query(access_keys.workspace_pk(workspace), where=self.listed.on()))

    def conflicts(self, table: Table, workspace: str) -> list[str]:
        """The names of a workspace that are in use in the default workspace, too."""
        taken = {self.name(item) for item in self.items(table, DEFAULT_WORKSPACE)}
        return [name for item in self.items(table, workspace) if (name := self.name(item)) in taken]

    @abstractmethod
    def name(self, item: Item) -> str:
        """The name of a resource."""

    @abstractmethod
    def remove(self, table: Table, workspace: str, item: Item) -> None:
        """Remove a resource for good."""

    @abstractmethod
    def move(self, table: Table, workspace: str, item: Item) -> None:
        """Move a resource to the default workspace.

        Raises ``TransactionCancelled`` or ``NameTakenError`` when its name is taken there.
        """


class ExperimentKind(ResourceKind):
    """Experiments; their partitions do not depend on the workspace."""

    label = "experiments"
    listed = access_keys.EXPERIMENT_NAMES

    def name(self, item: Item) -> str:
        return name_of(item)

    def remove(self, table: Table, workspace: str, item: Item) -> None:
        experiment_id = str(item["experiment_id"])
        for pk in Volumes(table).partitions(experiment_id):
            # META last: it lists the volumes.
            empty_partition(table, pk, keep=frozenset({experiment_keys.EXPERIMENT_META}))
        table.delete(experiment_keys.experiment_key(experiment_id))
        NameIndex(table, Policies(table)).leave(workspace, experiment_id, name_of(item))
        table.delete(table.schema.key_of(item))

    def move(self, table: Table, workspace: str, item: Item) -> None:
        experiment_id, name = str(item["experiment_id"]), name_of(item)
        names = NameIndex(table, Policies(table))
        names.enter(DEFAULT_WORKSPACE, experiment_id, name)
        note_traced_experiment(table, experiment_id, workspace, DEFAULT_WORKSPACE)
        index = index_keys.experiment_index(experiment_id=experiment_id, name=name)
        there = access_keys.experiment_name_guard(name)
        now = {NAMED_AT: index_keys.lsi2_named(experiment_id, int(table.clock() * 1000))}
        table.transact(
            [
                Patch(
                    experiment_keys.experiment_key(experiment_id),
                    Update(set={"workspace": DEFAULT_WORKSPACE, **index}),
                    condition=Attr("name").eq(name),
                ),
                Put({**item, "PK": there.pk, "SK": there.sk, **now}, condition=ABSENT),
                Put(name_rev_item(experiment_id, name, DEFAULT_WORKSPACE)),
                Delete(table.schema.key_of(item)),
            ]
        )
        names.enter(DEFAULT_WORKSPACE, experiment_id, name)
        names.leave(workspace, experiment_id, name)


class NamedPartitionKind(ResourceKind):
    """Resources with partitions whose keys name the workspace: moving them is copying them."""

    @abstractmethod
    def place(self, name: str, workspace: str) -> claims.NamedPartition:
        """Where a thing of a name lies."""

    def remove(self, table: Table, workspace: str, item: Item) -> None:
        place = self.place(self.name(item), workspace)
        meta = table.get(place.key)
        while meta is not None and claims.is_live(meta):
            try:
                claims.remove(table, place, meta)
            except ConditionFailed as changed:
                meta = changed.old
            else:
                return

    def move(self, table: Table, workspace: str, item: Item) -> None:
        name = self.name(item)
        claims.move(table, self.place(name, workspace), self.place(name, DEFAULT_WORKSPACE), None)


class RegisteredModelKind(NamedPartitionKind):
    """Registered models."""

    label = "registered_models"
    listed = access_keys.MODEL_NAMES

    def name(self, item: Item) -> str:
        return name_of_guard(item)

    def place(self, name: str, workspace: str) -> RegisteredModelPlace:
        return RegisteredModelPlace(name, workspace)


class McpServerKind(NamedPartitionKind):
    """MCP servers."""

    label = "mcp_servers"
    listed = mcp_keys.SERVER_NAMES

    def name(self, item: Item) -> str:
        return mcp_places.name_of_guard(item)

    def place(self, name: str, workspace: str) -> mcp_places.ServerPlace:
        return mcp_places.ServerPlace(name, workspace)


class WebhookKind(ResourceKind):
    """Webhooks; each is one item in the partition of the workspace."""

    label = "webhooks"
    listed = access_keys.WEBHOOKS

    def name(self, item: Item) -> str:
        return str(item["name"])

    def remove(self, table: Table, workspace: str, item: Item) -> None:
        del workspace
        table.delete(table.schema.key_of(item))

    def move(self, table: Table, workspace: str, item: Item) -> None:
        del workspace
        there = access_keys.webhook_key(str(item["webhook_id"]))
        moved = Put({**item, "PK": there.pk, "SK": there.sk})
        table.transact([moved, Delete(table.schema.key_of(item))])


class JobKind(ResourceKind):
    """Background jobs; each workspace has a partition for them. Their ids never conflict."""

    label = "jobs"

    def conflicts(self, table: Table, workspace: str) -> list[str]:
        del table, workspace
        return []

    def items(self, table: Table, workspace: str) -> Iterator[Item]:
        jobs = table.items(Query(job_keys.jobs_pk(workspace)))
        return (item for item in jobs if "job_id" in item)  # the others are parts of long texts

    def name(self, item: Item) -> str:
        return str(item["job_id"])

    def remove(self, table: Table, workspace: str, item: Item) -> None:
        del workspace
        table.delete(table.schema.key_of(item))
        table.write(removals(item))

    def move(self, table: Table, workspace: str, item: Item) -> None:
        del workspace
        there = job_keys.job_key(self.name(item))
        parts = table.get_many(removal.key for removal in removals(item))
        table.write([Put({**part, "PK": there.pk}) for part in parts.values()])
        moved = Put({**item, "PK": there.pk})
        table.transact([moved, Delete(table.schema.key_of(item))])
        table.write(removals(item))


class EvaluationDatasetKind(ResourceKind):
    """Evaluation datasets; their partitions do not depend on the workspace."""

    label = "evaluation_datasets"
    listed = dataset_keys.DATASETS

    def name(self, item: Item) -> str:
        return str(item["name"])

    def remove(self, table: Table, workspace: str, item: Item) -> None:
        remove_dataset(table, self._id(item), workspace)

    def move(self, table: Table, workspace: str, item: Item) -> None:
        del workspace
        move_dataset(table, self._id(item), item, DEFAULT_WORKSPACE)

    @staticmethod
    def _id(item: Item) -> str:
        return str(dataset_keys.dataset_entry_of(str(item["SK"])))


class GatewayKind(ResourceKind):
    """Resources of the AI gateway; they and their guards lie in the partition of the workspace."""

    def __init__(self, entities: EntityKind):
        self._entities = entities
        self.label = entities.label
        self.listed = entities.listed

    def name(self, item: Item) -> str:
        return str(item["SK"] if self._entities.guard is None else item["name"])

    def remove(self, table: Table, workspace: str, item: Item) -> None:
        self._entities.remove(table, workspace, item)

    def move(self, table: Table, workspace: str, item: Item) -> None:
        self._entities.move(table, workspace, item, DEFAULT_WORKSPACE)


KINDS: tuple[ResourceKind, ...] = (
    RegisteredModelKind(),
    ExperimentKind(),
    EvaluationDatasetKind(),
    WebhookKind(),
    *map(GatewayKind, ENTITY_KINDS),
    JobKind(),
    McpServerKind(),
)
