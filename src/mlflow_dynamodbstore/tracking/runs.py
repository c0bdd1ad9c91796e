"""Runs: create, get, update, delete, restore."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from secrets import token_hex

from boto3.dynamodb.conditions import Attr
from mlflow.entities import Run, RunInfo, RunStatus, RunTag
from mlflow.entities.lifecycle_stage import LifecycleStage
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME
from mlflow.utils.uri import append_to_uri_path

from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import metric_log as log_keys
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.mlflow_compat.runs import generate_random_name, get_run_name_from_tags
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.conditions import ABSENT, IS_ACTIVE
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentFacts, ExperimentLookup
from mlflow_dynamodbstore.shared.full_partitions import spare_attributes, suppressed_if_full
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.shared.places import (
    ARTIFACTS_FOLDER,
    RunPlace,
    run_id_of,
    run_place_of,
)
from mlflow_dynamodbstore.shared.plain_values import optional_text, shown, text, whole_number
from mlflow_dynamodbstore.shared.policies import SOFT_DELETED_RETENTION
from mlflow_dynamodbstore.shared.refusals import invalid
from mlflow_dynamodbstore.shared.run_lookup import (
    RunFacts,
    RunLookup,
    check_run_is_active,
    run_not_found,
    start_time_of,
)
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, Query, is_full
from mlflow_dynamodbstore.table.counters import COUNTERS
from mlflow_dynamodbstore.table.errors import (
    CollectionFull,
    ConditionFailed,
    TableError,
    TransactionCancelled,
)
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import TTL, Item, Key
from mlflow_dynamodbstore.tracking import sealing, summaries
from mlflow_dynamodbstore.tracking.inputs import datasets_of
from mlflow_dynamodbstore.tracking.metric_log import MetricLog
from mlflow_dynamodbstore.tracking.records import (
    BEGUN_WITH,
    LIVE,
    SEALING,
    TERMINAL_STATUSES,
    RunContents,
    RunRecord,
    run_info,
)
from mlflow_dynamodbstore.tracking.run_admission import RunAdmission
from mlflow_dynamodbstore.tracking.run_expiry import RESTORING, date_run, redate_run

SCHEMA_VERSION = MLFLOW_TABLE.versions.current("EXP/R")
DELETE_PAGE = 500
PLACES = ("lsi3sk", "lsi4sk")
"""Attributes by which indexes list a run by status and by name."""


class Runs:
    """The runs of an experiment."""

    def __init__(
        self,
        context: Context,
        experiment_lookup: ExperimentLookup,
        run_lookup: RunLookup,
        run_admission: RunAdmission,
        metric_log: MetricLog,
    ) -> None:
        self.context = context
        self.table = context.table
        self.policies = context.policies
        self.experiment_lookup = experiment_lookup
        self.run_lookup = run_lookup
        self.run_admission = run_admission
        self.metric_log = metric_log

    def create_run(
        self,
        experiment_id: str,
        user_id: str,
        start_time: int,
        tags: list[RunTag] | None,
        run_name: str | None,
    ) -> Run:
        values = {tag.key: optional_text(tag.value, "a tag") for tag in tags or []}
        run_name = optional_text(run_name, "run_name")
        values[MLFLOW_RUN_NAME] = name = text(_name_of_new_run(tags or [], run_name), "a run name")
        user_id = user_id if user_id is None else text(user_id, "user_id")
        start_time = start_time if start_time is None else whole_number(start_time, "start_time")
        experiment = self.experiment_lookup.guess_active(experiment_id)
        volumes = self.experiment_lookup.volumes

        def begin(volume: int) -> Run | None:
            nonlocal experiment
            item = self._new_run(experiment, volume, user_id, start_time, name)
            # The entity is made first: what MLflow refuses (no user, no start time) is not written.
            run: Run = RunRecord(item, RunContents(tags=values)).to_entity({})
            tag_items = [run_place_of(item).tag(key, value) for key, value in values.items()]
            # All at once: cleanup removes a run that a crash has left without some of its tags.
            item[BEGUN_WITH] = len(tag_items)
            try:
                self.table.write([*map(Put, tag_items), Put(item, condition=ABSENT)])
                # A call that deletes the experiment marks it first and then looks for its runs, so
                # one of the two sees the other. What counts is that the experiment is active after
                # the run is written.
                now = ExperimentFacts.of(self.experiment_lookup.get_active(experiment_id))
            except (MlflowException, TableError) as error:
                if isinstance(error, MlflowException) or is_full(error):
                    self._remove_new(item, tag_items)
                raise
            if now == experiment and volumes.takes_more(now.experiment_id, volume):
                self.run_lookup.note(item)
                return run
            self._remove_new(item, tag_items)
            experiment = now
            return None

        while True:  # a second time is very rare
            run = volumes.place(experiment.experiment_id, None, begin)
            if run is not None:
                return run

    def _new_run(
        self, experiment: ExperimentFacts, volume: int, user_id: str, start_time: int, name: str
    ) -> Item:
        """The own item of a run that begins now."""
        run_id = ids.new_id(experiment.experiment_id, volume=volume)
        place = RunPlace(experiment.experiment_id, run_id, volume)
        status = RunStatus.to_string(RunStatus.RUNNING)
        return {
            "PK": place.pk,
            "SK": place.key.sk,
            "v": SCHEMA_VERSION,
            "name": name,
            "status": status,
            "start_time": start_time,
            "user": user_id,
            "artifact_uri": append_to_uri_path(
                experiment.artifact_location, run_id, ARTIFACTS_FOLDER
            ),
            "lifecycle": LifecycleStage.ACTIVE,
            "state": LIVE,
            "opened": int(self.table.clock()),
            "generation": 1,
            **index_keys.run_index(
                run_id=run_id,
                experiment_id=place.experiment_id,
                lifecycle=LifecycleStage.ACTIVE,
                start_time=start_time,
                status=status,
                name=name,
                live=True,
            ),
        }

    def _remove_new(self, item: Item, tag_items: Iterable[Item]) -> None:
        """Remove a run that was never returned."""
        self.table.delete(self.table.schema.key_of(item))
        self.table.write([Delete(self.table.schema.key_of(tag)) for tag in tag_items])

    def get_run(self, run_id: str) -> Run:
        record = sealing.read(self.table, self.run_lookup.get(run_id))
        return record.to_entity(datasets_of(self.table, [record]))

    def update_run_info(
        self,
        run_id: str,
        run_status: int | None,
        end_time: int | None,
        run_name: str | None,
    ) -> RunInfo:
        facts = self.run_lookup.facts(run_id)
        changes: Item = {}
        run_name = optional_text(run_name, "run_name")
        if end_time is not None:
            changes["end_time"] = whole_number(end_time, "end_time")
        status = None if run_status is None else _status_name(run_status)
        if status is not None:
            in_status = index_keys.lsi3_run(run_id, status, facts.start_time)
            changes.update({"status": status, "lsi3sk": in_status})
        if run_name:
            # A name does not change the status: a run that has ended is sealed again at once.
            status = status or str(self.run_lookup.get_active(run_id)["status"])
            changes.update({"name": run_name, "lsi4sk": index_keys.lsi4_run(run_id, run_name)})
        ends = status in TERMINAL_STATUSES
        update = (
            sealing.marking_update(SEALING, changes)
            if ends
            else sealing.live_update(run_id, self.table.clock(), changes)
        )

        def change() -> Item:
            if run_name:
                return self._update_with_name(facts.place, update, run_name)
            return self._update_active(facts.place, update, ends=ends)

        item = self.policies.beside(change) if ends else change()
        if ends:
            COUNTERS.run_ended(run_id)
            retired = self.metric_log.retire_writer(run_id)
            with suppressed_if_full(f"run {run_id} has ended and stays live"):
                sealing.finish(self.table, dict(item), self.policies.sealing_rules(), retired)
        return run_info(item)

    def _update_with_name(self, run: RunPlace, update: Update, name: str) -> Item:
        """As :meth:`_update_active`, with a name, which changes together with its tag."""
        tag = Put(run.tag(MLFLOW_RUN_NAME, name))
        try:
            self.table.transact([Patch(run.key, update, condition=IS_ACTIVE), tag])
        except TransactionCancelled as error:
            if not error.refused(0):
                raise
            refused = ConditionFailed(str(error), error.old(0))
            check_run_is_active(run.run_id, self._item_at_refusal(run, refused))
            raise
        item = self.table.get(run.key)
        if item is None:
            raise run_not_found(run.run_id)
        return item

    def _update_active(self, run: RunPlace, update: Update, *, ends: bool = False) -> Item:
        """Change a run's own item unless it is gone or deleted; returns it as it is now."""
        try:
            try:
                item = self.table.update(run.key, update, condition=IS_ACTIVE, returns="new")
            except CollectionFull:
                if not ends:
                    raise
                spare = spare_attributes(run.run_id, run.experiment_id, run.volume)
                smaller = replace(update, remove=(*update.remove, BEGUN_WITH, *spare))
                item = self.table.update(run.key, smaller, condition=IS_ACTIVE, returns="new")
        except ConditionFailed as error:
            check_run_is_active(run.run_id, self._item_at_refusal(run, error))
            raise
        assert item is not None
        return item

    # --- deleting and restoring -----------------------------------------------------------------

    def delete_run(self, run_id: str) -> None:
        facts = self.policies.beside(lambda: self.run_lookup.facts(run_id))
        ttl = self.policies.expiry(SOFT_DELETED_RETENTION)
        # The run first: from now on writers are refused, so the next step sees all its items.
        item = self._mark_deleted(facts, ttl)
        self.table.together(
            lambda: self._date(item, ttl), lambda: self.context.events.run_deleted(run_id)
        )

    def _date(self, run: Item, ttl: int | None) -> None:
        """Give what belongs to a run its expiry; without room for it, that is left to cleanup."""
        if ttl is None:
            return
        with suppressed_if_full("what belongs to a deleted run is left to cleanup"):
            date_run(self.table, run, ttl, self.policies.sealing_rules())

    def restore_run(self, run_id: str) -> None:
        self.restore(self.run_lookup.facts(run_id))

    def restore(self, facts: RunFacts) -> None:
        """Make a run active, unless it is; done again when another call deletes it meanwhile.

        The run changes last: if it came first, a crash would leave an active run whose items
        expire. It is marked before that, for calls that are dating its items.
        """
        token = token_hex(4)
        optimistically(f"Run {facts.place.run_id}", lambda: self._restore(facts, token))

    def _restore(self, facts: RunFacts, token: str) -> None:
        key, deleted = facts.place.key, Attr("lifecycle").eq(LifecycleStage.DELETED)
        mark = Update(set={RESTORING: token})
        try:
            item, below = self.policies.beside(
                lambda: self.table.together(
                    lambda: self.table.update(key, mark, condition=deleted, returns="new"),
                    lambda: self.table.read_for_redating(
                        facts.place.pk, run_keys.run_children_without_history(facts.place.run_id)
                    ),
                )
            )
        except ConditionFailed as error:
            self._item_at_refusal(facts.place, error)
            return  # it is active
        if item is not None and TTL in item:
            redate_run(self.table, item, None, self.policies.sealing_rules(), below)
        still_marked = Attr(RESTORING).eq(token)
        try:
            self.table.update(key, _update_to_active(facts, item), condition=still_marked)
        except ConditionFailed as error:
            self._item_at_refusal(facts.place, error)
            raise

    def _mark_deleted(self, facts: RunFacts, ttl: int | None) -> Item:
        """Give a run the stage and the expiry of a deleted one; returns it as it is now."""
        run, stage = facts.place, LifecycleStage.DELETED
        changes: Item = {
            "lifecycle": stage,
            "deleted_time": self.context.now_ms(),
            "lsi1sk": index_keys.lsi1_run(run.run_id, stage, facts.start_time),
        }
        if ttl is not None:
            changes[TTL] = ttl
        update = Update(set=changes, remove=(RESTORING,))
        exists = Attr("lifecycle").exists()
        try:
            try:
                item = self.table.update(run.key, update, condition=exists, returns="new")
            except CollectionFull:
                # The run gives up its places in indexes for it, until it is restored.
                smaller = replace(update, remove=(RESTORING, *PLACES))
                item = self.table.update(run.key, smaller, condition=exists, returns="new")
        except ConditionFailed as error:
            self._item_at_refusal(run, error)
            raise
        self.run_admission.forget(run.run_id)
        # Expired from this second on, where nothing is kept.
        return item or {"PK": run.pk, "SK": run.key.sk, "state": LIVE}

    def _item_at_refusal(self, run: RunPlace, refused: ConditionFailed) -> Item:
        """The run as it was when a change was refused; raises MLflow's error when it is gone."""
        if refused.old is None:
            self.run_lookup.forget(run.run_id)
            raise run_not_found(run.run_id) from refused
        return refused.old

    def _derived_keys(self, item: Item) -> list[Key]:
        """The keys of a run's RANK and FTS items, which were made from its summary."""
        summary = summaries.published(self.table, item)
        if summary is None:
            return []
        rules = self.policies.sealing_rules()
        return list(summaries.derived_keys(item["PK"], run_id_of(item), summary, rules))

    # --- for `mlflow gc` ------------------------------------------------------------------------

    def hard_delete_run(self, run_id: str) -> None:
        """Remove a run and all that belongs to it, for good."""
        item = self.run_lookup.get(run_id)
        # The run last: until then a second call finds it and continues.
        for chunk in batched(self._keys_of(item), DELETE_PAGE):
            self.table.write([Delete(key) for key in chunk])
        self.context.events.run_removed(run_id)
        self.table.delete(self.table.schema.key_of(item))
        self.context.events.run_removed(run_id)  # for references added meanwhile
        self.run_admission.forget(run_id)

    def _keys_of(self, item: Item) -> Iterator[Key]:
        """The keys of all that belongs to a run, history and search items included."""
        pk, run_id = str(item["PK"]), run_id_of(item)
        yield from self._derived_keys(item)
        for below in (
            run_keys.run_children(run_id),
            experiment_keys.dataset_links(run_id),
            log_keys.run_log(run_id),
        ):
            query = Query(pk, where=below.on(), keys_only=True)
            yield from (self.table.schema.key_of(found) for found in self.table.items(query))

    def get_deleted_runs(self, older_than: int = 0) -> list[str]:
        """The ids of runs deleted at least ``older_than`` milliseconds ago, in every experiment."""
        latest = self.context.now_ms() - older_than
        return [
            run_id_of(item)
            for item in self.experiment_lookup.items_in_all(
                index_keys.runs_by_lifecycle(LifecycleStage.DELETED)
            )
            if isinstance(at := item.get("deleted_time"), int) and at <= latest
        ]


def missing_places(run: Item) -> Item:
    """The places in indexes that a deleted run has given up because its partition was full."""
    if "lsi4sk" in run:
        return {}
    run_id = run_id_of(run)
    return {
        "lsi3sk": index_keys.lsi3_run(run_id, run["status"], start_time_of(run)),
        "lsi4sk": index_keys.lsi4_run(run_id, run["name"]),
    }


def _update_to_active(facts: RunFacts, run: Item | None) -> Update:
    """The change that makes a deleted run active."""
    stage, run_id = LifecycleStage.ACTIVE, facts.place.run_id
    changes: Item = {
        "lifecycle": stage,
        "lsi1sk": index_keys.lsi1_run(run_id, stage, facts.start_time),
    }
    if run is not None:
        changes.update(missing_places(run))
    return Update(set=changes, remove=("deleted_time", TTL, RESTORING))


def _name_of_new_run(tags: Iterable[RunTag], run_name: str | None) -> str:
    """The name of a new run: the argument or the tag, which may not differ, or a random one."""
    tagged: str | None = get_run_name_from_tags(tags)
    if run_name and tagged and run_name != tagged:
        raise invalid(
            "Both 'run_name' argument and 'mlflow.runName' tag are specified, but with "
            f"different values (run_name='{run_name}', mlflow.runName='{tagged}')."
        )
    return run_name or tagged or str(generate_random_name())


def _status_name(status: int) -> str:
    if status not in RunStatus.all_status():
        raise MlflowException.invalid_parameter_value(f"Invalid run status {shown(status)}.")
    name: str = RunStatus.to_string(status)
    return name
