"""Finding things of a whole table by ids that others gave them, and filling these indexes.

A trace is found by the client's id of its request, a run by the digests of the datasets that it
used, a registered model by its aliases. Searches of MLflow's read the entries of the experiments
that they name; this reads those of the whole table from global indexes, which follow the table with
a delay. What an earlier release wrote has no entries until a backfill writes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from boto3.dynamodb.conditions import Attr

from mlflow_dynamodbstore.keys import access as access_keys
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import ranks as rank_keys
from mlflow_dynamodbstore.keys import registry as registry_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.keys import traces as trace_keys
from mlflow_dynamodbstore.registry.items import RegisteredModelPlace, name_of_guard
from mlflow_dynamodbstore.registry.records import Model
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.shared.experiment_items import OLD_LOOKUPS, OLD_TRACES
from mlflow_dynamodbstore.shared.names.claims import is_live
from mlflow_dynamodbstore.shared.places import experiment_id_of, trace_place_of
from mlflow_dynamodbstore.shared.volumes import Volumes
from mlflow_dynamodbstore.shared.workspaces import all_experiments, all_workspaces
from mlflow_dynamodbstore.table.contract import Check, Patch, Put, Query
from mlflow_dynamodbstore.table.errors import TransactionCancelled
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key
from mlflow_dynamodbstore.table.versions import upgrade_of
from mlflow_dynamodbstore.traces import items as trace_items
from mlflow_dynamodbstore.traces.paths import CLIENT_REQUEST
from mlflow_dynamodbstore.traces.time_indexes import OLD_TIME_INDEX, TIME_INDEX
from mlflow_dynamodbstore.tracking.inputs import dataset_key
from mlflow_dynamodbstore.upkeep.backfill import PAGE, BackfillProgress, Progress

INDEX = "GSI1"


class FoundTrace(NamedTuple):
    """A trace, and where it lies."""

    trace_id: str
    experiment_id: str
    request_time: int


class FoundRun(NamedTuple):
    """A run, and where it lies."""

    run_id: str
    experiment_id: str
    name: str
    lifecycle: str


def find_traces(table: Table, client_request_id: str) -> list[FoundTrace]:
    """The traces of all experiments with a client's id of their request, the oldest first."""
    entries = table.items(Query(index_keys.client_request(client_request_id), index=INDEX))
    keys = [Key(str(one["PK"]), trace_keys.trace_of_child(str(one["SK"]))) for one in entries]
    found = [
        FoundTrace(trace_place_of(item).trace_id, experiment_id_of(item), item["request_time"])
        for item in table.get_many(keys).values()
        if item.get(CLIENT_REQUEST) == client_request_id
    ]
    return sorted(found, key=lambda trace: (trace.request_time, trace.trace_id))


def find_runs(table: Table, digest: str) -> list[FoundRun]:
    """The runs of all experiments that used a dataset of a digest, by their ids."""
    entries = table.items(Query(index_keys.dataset_digest(digest), index=INDEX))
    run_ids = {
        Key(str(one["PK"]), run_keys.run(run_id)): run_id
        for one in entries
        for run_id in (rank_keys.ranked_run_of(str(one["gsi1sk"])),)
    }
    found = [
        FoundRun(run_ids[key], experiment_id_of(item), item["name"], item["lifecycle"])
        for key, item in table.get_many(run_ids).items()
    ]
    return sorted(found)


class LookupBackfill:
    """Writes the entries of what an earlier release wrote."""

    def __init__(self, table: Table, progress: Progress = lambda _: None) -> None:
        self._table = table
        self._volumes = Volumes(table)
        self._progress = progress

    def backfill(self) -> BackfillProgress:
        """Write the missing entries, experiment by experiment. It can be interrupted and repeated.

        Every process must use this release: what an earlier one writes meanwhile gets no entries.
        """
        experiments = all_experiments(self._table)
        workspaces = all_workspaces(self._table)
        done = BackfillProgress(places_in_all=len(experiments) + len(workspaces))
        for some in batched(experiments, PAGE):
            metas = self._table.get_many(map(experiment_keys.experiment_key, some))
            for meta in metas.values():
                if OLD_LOOKUPS in meta:
                    self._fill(meta, done)
            done.places += len(some)
            self._progress(done)
        for workspace in workspaces:
            self._index_aliases(workspace, done)
            done.places += 1
            self._progress(done)
        return done

    def _fill(self, meta: Item, done: BackfillProgress) -> None:
        """Write the entries of one experiment, and note that they are complete."""
        for pk in self._volumes.partitions(experiment_id_of(meta)):
            for links in batched(self._dataset_links(pk), PAGE):
                self._index_links(links, done)
            for trace in self._traces(meta, pk):
                self._index_trace(trace, done)
        other = {name: value for name, value in upgrade_of(meta).items() if name != OLD_LOOKUPS}
        complete = Patch(
            self._table.schema.key_of(meta), Update(set=other, remove=(OLD_LOOKUPS,)), PRESENT
        )
        self._table.write([complete])

    def _dataset_links(self, pk: str) -> Iterator[Item]:
        links = self._table.items(Query(pk, where=experiment_keys.DATASET_LINKS.on()))
        return (link for link in links if "gsi1pk" not in link)

    def _index_links(self, links: Sequence[Item], done: BackfillProgress) -> None:
        datasets = self._table.get_many({dataset_key(str(link["dataset"])) for link in links})
        patches = []
        for link in links:
            dataset = datasets.get(dataset_key(str(link["dataset"])))
            run_id = experiment_keys.dataset_link_run(str(link["SK"]))
            if dataset is not None and run_id is not None:
                index = index_keys.dataset_link_index(run_id=run_id, digest=dataset["digest"])
                key = self._table.schema.key_of(link)
                patches.append(Patch(key, Update(set={**index}), PRESENT))
        self._count(patches, done)

    def _traces(self, meta: Item, pk: str) -> Iterator[Item]:
        """The traces in a volume of an experiment with a client's id of their request."""
        index = OLD_TIME_INDEX if OLD_TRACES in meta else TIME_INDEX
        where = index_keys.traces_by_time().on(self._table.schema.by_name[index].sk)
        traces = self._table.items(Query(pk, where, index=index, limit=PAGE))
        return (trace for trace in traces if CLIENT_REQUEST in trace)

    def _index_trace(self, trace: Item, done: BackfillProgress) -> None:
        """Write the entry of one trace, unless the trace is gone or has another id by now."""
        given = str(trace[CLIENT_REQUEST])
        place, ttl = trace_place_of(trace), trace_items.ttl_of(trace)
        same = Check(place.key, Attr(CLIENT_REQUEST).eq(given))
        done.entities += 1
        try:
            self._table.transact([same, Put(trace_items.client_request_item(place, given, ttl))])
        except TransactionCancelled as cancelled:
            if not cancelled.any_refused:
                raise
        else:
            done.entries += 1

    def _index_aliases(self, workspace: str, done: BackfillProgress) -> None:
        pk = access_keys.workspace_pk(workspace)
        guards = self._table.items(Query(pk, where=access_keys.MODEL_NAMES.on()))
        places = (RegisteredModelPlace(name_of_guard(guard), workspace) for guard in guards)
        for some in batched(places, PAGE):
            metas = self._table.get_many(place.key for place in some)
            models = [Model(p, metas[p.key]) for p in some if is_live(metas.get(p.key))]
            self._count(list(self._alias_patches(models)), done)

    def _alias_patches(self, models: Iterable[Model]) -> Iterator[Patch]:
        aliases = {
            Key(model.place.pk, registry_keys.model_alias(alias)): (model.place, alias)
            for model in models
            for alias in model.aliases
        }
        for key, item in self._table.get_many(aliases).items():
            place, alias = aliases[key]
            if "gsi3pk" not in item:
                yield Patch(key, Update(set=place.alias_index(alias)), PRESENT)

    def _count(self, patches: Sequence[Patch], done: BackfillProgress) -> None:
        outcomes = self._table.write(list(patches))
        done.entities += len(patches)
        done.entries += sum(outcome.status == "applied" for outcome in outcomes)
