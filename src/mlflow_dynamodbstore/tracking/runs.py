"""Runs: create, get, update, delete, restore."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from boto3.dynamodb.conditions import Attr
from mlflow.entities import Run, RunInfo, RunStatus, RunTag
from mlflow.entities.lifecycle_stage import LifecycleStage
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME, _get_run_name_from_tags
from mlflow.utils.name_utils import _generate_random_name
from mlflow.utils.uri import append_to_uri_path

from mlflow_dynamodbstore import ids, keys
from mlflow_dynamodbstore.policies import SOFT_DELETED_RETENTION
from mlflow_dynamodbstore.table.contract import Delete, Put, Query
from mlflow_dynamodbstore.table.errors import ConditionFailed
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import TTL, Item, Key
from mlflow_dynamodbstore.tracking import sealing
from mlflow_dynamodbstore.tracking.base import (
    TrackingBase,
    batched,
    check_run_is_active,
    run_not_found,
    start_time_of,
)
from mlflow_dynamodbstore.tracking.inputs import datasets_of
from mlflow_dynamodbstore.tracking.items import RunPlace, experiment_id_of, run_id_of
from mlflow_dynamodbstore.tracking.records import (
    LIVE,
    SEALED,
    TERMINAL_STATUSES,
    RunContents,
    RunRecord,
    run_info,
)

SCHEMA_VERSION = MLFLOW_TABLE.versions.current("EXP/R")
DELETE_PAGE = 500


class Runs(TrackingBase):
    """The runs of an experiment."""

    def create_run(
        self,
        experiment_id: str,
        user_id: str,
        start_time: int,
        tags: list[RunTag] | None,
        run_name: str | None,
    ) -> Run:
        experiment = self._active_experiment(experiment_id)
        values = {tag.key: tag.value for tag in tags or []}
        values[MLFLOW_RUN_NAME] = name = _chosen_name(tags or [], run_name)
        run_id = ids.new_id(experiment_id_of(experiment))
        place = RunPlace(experiment_id_of(experiment), run_id)
        now = self.table.clock()
        item: Item = {
            "PK": place.pk,
            "SK": place.key.sk,
            "v": SCHEMA_VERSION,
            "name": name,
            "status": RunStatus.to_string(RunStatus.RUNNING),
            "start_time": start_time,
            "user": user_id,
            "artifact_uri": append_to_uri_path(
                str(experiment["artifact_location"]), run_id, self.ARTIFACTS_FOLDER_NAME
            ),
            "lifecycle": LifecycleStage.ACTIVE,
            "state": LIVE,
            "opened": int(now),
            "generation": 1,
            **keys.run_index(
                run_id=run_id,
                experiment_id=place.experiment_id,
                lifecycle=LifecycleStage.ACTIVE,
                start_time=start_time,
                status=RunStatus.to_string(RunStatus.RUNNING),
                name=name,
                live=True,
            ),
        }
        # The entity is made first: what MLflow refuses (no user, no start time) is not written.
        run = RunRecord(item, RunContents(tags=values)).to_entity({})
        # Tags before the run: a crash leaves tags of a run that does not exist, never a run
        # without its tags.
        self.table.write(
            [Put(place.tag(key, value)) for key, value in values.items()],
            then=[Put(item, condition=Attr("PK").not_exists())],
        )
        self._note(item)
        return run

    def get_run(self, run_id: str) -> Run:
        record = sealing.read(self.table, self._run_item(run_id))
        return record.to_entity(datasets_of(self.table, [record]))

    def update_run_info(
        self,
        run_id: str,
        run_status: int | None,
        end_time: int | None,
        run_name: str | None,
    ) -> RunInfo:
        facts = self._facts(run_id)
        changes: Item = {}
        if run_name:
            self._active_run_item(run_id)
            self.table.put(facts.place.tag(MLFLOW_RUN_NAME, run_name))
            changes.update({"name": run_name, "lsi4sk": keys.lsi4_run(run_id, run_name)})
        if end_time is not None:
            changes["end_time"] = end_time
        status = None if run_status is None else RunStatus.to_string(run_status)
        if status is not None:
            in_status = keys.lsi3_run(run_id, status, facts.start_time)
            changes.update({"status": status, "lsi3sk": in_status})
        if status in TERMINAL_STATUSES:
            item = self._update_active(facts.place, sealing.marked_sealing(changes))
            sealing.finish(self.table, dict(item), self.policies.sealing_rules())
        else:
            live = sealing.marked_live(run_id, self.table.clock(), changes)
            item = self._update_active(facts.place, live)
        return run_info(item)

    def _update_active(self, run: RunPlace, update: Update) -> Item:
        """Change a run's own item unless it is gone or deleted; returns it as it is now."""
        active = Attr("lifecycle").eq(LifecycleStage.ACTIVE)
        try:
            item = self.table.update(run.key, update, condition=active, returns="new")
        except ConditionFailed as error:
            if error.old is None:
                self._known_facts.forget(run.run_id)
                raise run_not_found(run.run_id) from error
            check_run_is_active(run.run_id, error.old)
            raise
        assert item is not None
        return item

    # --- deleting and restoring -----------------------------------------------------------------

    def delete_run(self, run_id: str) -> None:
        item = self._run_item(run_id)
        ttl = self.policies.expiry(SOFT_DELETED_RETENTION)
        # The run first: from here on writers are refused, so what follows sees all there is.
        self._mark_deleted(item, ttl)
        if ttl is not None:
            self._redate_children(item, ttl)
        self._delete_assessments_of_run(run_id)

    def restore_run(self, run_id: str) -> None:
        item = self._run_item(run_id)
        if item["lifecycle"] != LifecycleStage.ACTIVE:
            self._restore(item)

    def _restore(self, item: Item) -> None:
        # The run last: were it first, a crash would leave an active run whose items expire.
        if TTL in item:
            self._redate_children(item, None)
        self._mark_active(item)

    def _mark_deleted(self, item: Item, ttl: int | None) -> None:
        run_id = run_id_of(item)
        changes: Item = {
            "lifecycle": LifecycleStage.DELETED,
            "deleted_time": self._now_ms(),
            "lsi1sk": keys.lsi1_run(run_id, LifecycleStage.DELETED, start_time_of(item)),
        }
        if ttl is not None:
            changes[TTL] = ttl
        self._update_existing(run_id, item, Update(set=changes))
        self._admitted.forget(run_id)

    def _mark_active(self, item: Item) -> None:
        run_id = run_id_of(item)
        changes: Item = {
            "lifecycle": LifecycleStage.ACTIVE,
            "lsi1sk": keys.lsi1_run(run_id, LifecycleStage.ACTIVE, start_time_of(item)),
        }
        self._update_existing(run_id, item, Update(set=changes, remove=("deleted_time", TTL)))

    def _update_existing(self, run_id: str, item: Item, update: Update) -> None:
        try:
            self.table.update(
                self.table.schema.key_of(item), update, condition=Attr("lifecycle").exists()
            )
        except ConditionFailed as error:
            raise run_not_found(run_id) from error

    def _derived(self, item: Item) -> list[Key]:
        """The RANK and FTS items of a sealed run; a live one has none that count."""
        if item["state"] != SEALED:
            return []
        record = sealing.read(self.table, item)
        rules = self.policies.sealing_rules()
        return list(sealing.derived_keys(item["PK"], record.run_id, record.contents, rules))

    def _redate_children(self, item: Item, ttl: int | None) -> None:
        """Give a run's items this expiry, or none; history keeps the expiry of its own."""
        self.table.redate(str(item["PK"]), keys.run_but_history(run_id_of(item)), ttl)

    # --- for `mlflow gc` ------------------------------------------------------------------------

    def _hard_delete_run(self, run_id: str) -> None:
        """Remove a run and all that belongs to it, for good."""
        item = self._run_item(run_id)
        # The run last: until then a second try finds it and goes on.
        for chunk in batched(self._everything_of(item), DELETE_PAGE):
            self.table.write([Delete(key) for key in chunk])
        self.table.delete(self.table.schema.key_of(item))
        self._admitted.forget(run_id)

    def _everything_of(self, item: Item) -> Iterator[Key]:
        """The keys of all that belongs to a run, history and search items included."""
        pk, run_id = str(item["PK"]), run_id_of(item)
        yield from self._derived(item)
        for below in (keys.run_children(run_id), keys.dataset_links(run_id)):
            query = Query(pk, where=below.on(), keys_only=True)
            yield from (self.table.schema.key_of(found) for found in self.table.items(query))

    def _get_deleted_runs(self, older_than: int = 0) -> list[str]:
        """The ids of runs deleted at least ``older_than`` milliseconds ago, in every experiment."""
        latest = self._now_ms() - older_than
        return [
            run_id_of(item)
            for item in self._in_all_experiments(keys.runs_by_lifecycle(LifecycleStage.DELETED))
            if isinstance(at := item.get("deleted_time"), int) and at <= latest
        ]


def _chosen_name(tags: Iterable[RunTag], run_name: str | None) -> str:
    """The name of a new run: the argument, the tag, or a random one; the two may not differ."""
    tagged: str | None = _get_run_name_from_tags(tags)
    if run_name and tagged and run_name != tagged:
        raise MlflowException(
            "Both 'run_name' argument and 'mlflow.runName' tag are specified, but with "
            f"different values (run_name='{run_name}', mlflow.runName='{tagged}').",
            INVALID_PARAMETER_VALUE,
        )
    return run_name or tagged or str(_generate_random_name())
