"""Logged models: create, get, finalize, tag, measure, delete."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from mlflow.entities import (
    LoggedModel,
    LoggedModelParameter,
    LoggedModelStatus,
    LoggedModelTag,
    Metric,
)
from mlflow.entities.lifecycle_stage import LifecycleStage
from mlflow.exceptions import MlflowException
from mlflow.utils.time import get_current_time_millis
from mlflow.utils.uri import append_to_uri_path

from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import indexes as index_keys
from mlflow_dynamodbstore.keys import logged_models as logged_model_keys
from mlflow_dynamodbstore.mlflow_compat.runs import generate_random_name
from mlflow_dynamodbstore.mlflow_compat.validation import validate_logged_model_name
from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.bulk import batched
from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.experiment_lookup import ExperimentLookup
from mlflow_dynamodbstore.shared.full_partitions import spare_attributes, suppressed_if_full
from mlflow_dynamodbstore.shared.places import ARTIFACTS_FOLDER, RunPlace, experiment_id_of
from mlflow_dynamodbstore.shared.policies import SOFT_DELETED_RETENTION
from mlflow_dynamodbstore.shared.refusals import invalid, not_found
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, Query
from mlflow_dynamodbstore.table.errors import CollectionFull, ConditionFailed
from mlflow_dynamodbstore.table.schema import MLFLOW_TABLE
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import TTL, Item, Key
from mlflow_dynamodbstore.tracking.model_records import (
    MEASURED,
    MODEL_EXISTS,
    MORE,
    LoggedModelPlace,
    ModelRecord,
    logged_model_place_of,
    new_texts,
    read_children,
    remove_text,
    set_texts,
    texts_on,
)
from mlflow_dynamodbstore.tracking.run_models import RunModels

SCHEMA_VERSION = MLFLOW_TABLE.versions.current("EXP/LM")
MODELS_FOLDER = "models"
WRITE_PAGE = 500
MEASURED_SECONDS = 60.0

R = TypeVar("R")


class LoggedModels:
    """The logged models of an experiment."""

    def __init__(
        self, context: Context, experiment_lookup: ExperimentLookup, run_models: RunModels
    ) -> None:
        self.table = context.table
        self.policies = context.policies
        self.experiment_lookup = experiment_lookup
        self.run_models = run_models
        self._measured: BoundedCache[str, LoggedModelPlace] = BoundedCache(seconds=MEASURED_SECONDS)

    def create_logged_model(
        self,
        experiment_id: str,
        name: str | None = None,
        source_run_id: str | None = None,
        tags: list[LoggedModelTag] | None = None,
        params: list[LoggedModelParameter] | None = None,
        model_type: str | None = None,
    ) -> LoggedModel:
        validate_logged_model_name(name)
        experiment = self.experiment_lookup.get_active(experiment_id)
        home = experiment_id_of(experiment)
        name = name or str(generate_random_name())
        values = {"TAG": _texts(tags), "PARAM": _texts(params)}
        given = _given(model_type=model_type, source_run_id=source_run_id)

        def begin(volume: int) -> LoggedModel:
            place = LoggedModelPlace(home, ids.new_model_id(home, volume=volume), volume)
            return self._write_new(place, experiment, name, values, given)

        return self.experiment_lookup.volumes.place(home, None, begin)

    def _write_new(
        self,
        place: LoggedModelPlace,
        experiment: Item,
        name: str,
        values: Mapping[str, dict[str, str]],
        given: Item,
    ) -> LoggedModel:
        """Write a new logged model."""
        now = get_current_time_millis()
        texts = new_texts(place, values)  # type: ignore[arg-type]  # the two kinds there are
        item: Item = {
            "PK": place.pk,
            "SK": place.key.sk,
            "v": SCHEMA_VERSION,
            "name": name,
            "artifact_location": append_to_uri_path(
                experiment["artifact_location"],
                MODELS_FOLDER,
                place.model_id,
                ARTIFACTS_FOLDER,
            ),
            "created": now,
            "updated": now,
            "status": LoggedModelStatus.PENDING.to_int(),
            "lifecycle": LifecycleStage.ACTIVE,
            **given,
            **texts.attributes,
            **index_keys.logged_model_index(
                model_id=place.model_id,
                experiment_id=place.experiment_id,
                lifecycle=LifecycleStage.ACTIVE,
                creation_time=now,
            ),
        }
        self.run_models.write_with_entry(item, texts.children)
        return ModelRecord(item, [put.item for put in texts.children]).to_entity()

    def get_logged_model(self, model_id: str, allow_deleted: bool = False) -> LoggedModel:
        record = self._apply(model_id, self._read)
        if not allow_deleted and record.item["lifecycle"] == LifecycleStage.DELETED:
            raise model_not_found(model_id)
        return record.to_entity()

    def finalize_logged_model(self, model_id: str, status: LoggedModelStatus) -> LoggedModel:
        changes = {"status": status.to_int(), "updated": get_current_time_millis()}
        item = self._update(model_id, Update(set=changes))
        return ModelRecord(item, read_children(self.table, item)).to_entity()

    # --- tags and params ------------------------------------------------------------------------

    def set_logged_model_tags(self, model_id: str, tags: list[LoggedModelTag]) -> None:
        values = _texts(tags)
        if not values:
            self._get_item(model_id)
            return
        self._apply(model_id, lambda place: set_texts(self.table, place, "TAG", values))

    def delete_logged_model_tag(self, model_id: str, key: str) -> None:
        if not self._apply(model_id, lambda place: remove_text(self.table, place, "TAG", key)):
            raise not_found(f"No tag with key {key!r} found for model with ID {model_id!r}.")

    def log_logged_model_params(self, model_id: str, params: list[LoggedModelParameter]) -> None:
        """Add params to a model. A param that has a value keeps it, and may be logged again."""
        item = self._get_item(model_id)
        known = self._params_of(item)
        values = _texts(params)
        _check_unchanged(model_id, values, known)
        new = {name: value for name, value in values.items() if name not in known}
        if new:
            place = logged_model_place_of(item)
            after = set_texts(self.table, place, "PARAM", new, keep=True)
            if after is None:
                raise model_not_found(model_id)
            _check_unchanged(model_id, values, texts_on(after, "PARAM"))

    def _params_of(self, item: Item) -> dict[str, str]:
        if MORE not in item:
            return texts_on(item, "PARAM")
        place = logged_model_place_of(item)
        query = Query(place.pk, where=logged_model_keys.logged_model_params(place.model_id).on())
        return ModelRecord(item, list(self.table.items(query))).params

    # --- metrics --------------------------------------------------------------------------------

    def log_model_metrics(self, run: RunPlace, metrics: Sequence[Metric]) -> None:
        """Write the values that a run measured on logged models."""
        places = {m.model_id: self._mark_measured(m.model_id) for m in metrics if m.model_id}
        if not places:
            return
        items = [places[m.model_id].metric(run, m) for m in metrics if m.model_id]
        self.table.write([Put(item) for item in {item["SK"]: item for item in items}.values()])

    def _mark_measured(self, model_id: str) -> LoggedModelPlace:
        """Mark a model that has metrics, unless that was done a moment ago."""
        known = self._measured.get(model_id)
        if known is not None and self.experiment_lookup.is_in_workspace(known.experiment_id):
            return known
        place = logged_model_place_of(self._update(model_id, Update(set={MEASURED: True})))
        self._measured.put(model_id, place)
        return place

    # --- deleting -------------------------------------------------------------------------------

    def delete_logged_model(self, model_id: str) -> None:
        item = self._get_item(model_id)
        ttl = self.policies.expiry(SOFT_DELETED_RETENTION)
        deleted = LifecycleStage.DELETED
        changes: Item = {
            "lifecycle": deleted,
            "updated": get_current_time_millis(),
            "lsi1sk": index_keys.lsi1_logged_model(model_id, deleted, item["created"]),
            **_given(ttl=ttl),
        }
        try:
            self._update(model_id, Update(set=changes))
        except CollectionFull:
            place = logged_model_place_of(item)
            spare = spare_attributes(model_id, place.experiment_id, place.volume)
            self._update(model_id, Update(set=changes, remove=spare))
        if ttl is not None:
            with suppressed_if_full("what belongs to a deleted model is left to cleanup"):
                self._expire_children(item, ttl)

    def _expire_children(self, item: Item, ttl: int) -> None:
        expiry = Update(set={TTL: ttl})
        for chunk in batched(self._child_keys(item), WRITE_PAGE):
            self.table.write([Patch(k, expiry, condition=PRESENT) for k in chunk])

    def hard_delete_logged_model(self, model_id: str) -> None:
        """Remove a logged model and all that belongs to it, for good."""
        item = self._get_item(model_id)
        # The model last: until then a second call finds it and continues.
        for chunk in batched(self._child_keys(item), WRITE_PAGE):
            self.table.write([Delete(key) for key in chunk])
        self.table.write(self.run_models.removals(item))
        self.table.delete(self.table.schema.key_of(item))
        self._measured.forget(model_id)

    def get_deleted_logged_models(self, older_than: int = 0) -> list[str]:
        """The ids of logged models deleted at least ``older_than`` milliseconds ago."""
        latest = get_current_time_millis() - older_than
        return [
            logged_model_place_of(item).model_id
            for item in self.experiment_lookup.items_in_all(
                index_keys.logged_models_by_lifecycle(LifecycleStage.DELETED)
            )
            if item["updated"] <= latest
        ]

    def _child_keys(self, item: Item) -> Iterable[Key]:
        place = logged_model_place_of(item)
        below = logged_model_keys.logged_model_children(place.model_id)
        query = Query(place.pk, where=below.on(), keys_only=True)
        return (self.table.schema.key_of(found) for found in self.table.items(query))

    # --- finding a model ------------------------------------------------------------------------

    def _apply(self, model_id: str, action: Callable[[LoggedModelPlace], R | None]) -> R:
        """What ``action`` returns where a model lies; raises when it returns None everywhere."""
        for place in self._places_of(model_id):
            if self.experiment_lookup.is_in_workspace(place.experiment_id):
                answer = action(place)
                if answer is not None:
                    return answer
        raise model_not_found(model_id)

    def _places_of(self, model_id: str) -> Iterator[LoggedModelPlace]:
        """The places that our own ids name, then the one that GSI1 names for imported ids."""
        guesses = [
            LoggedModelPlace(home.experiment_id, model_id, home.volume)
            for home in ids.homes_of(model_id)
        ]
        yield from guesses
        query = Query(index_keys.logged_model_locator(model_id), index="GSI1", limit=1)
        page = self.table.query(query)
        if page.items and (place := logged_model_place_of(page.items[0])) not in guesses:
            yield place

    def _get_item(self, model_id: str) -> Item:
        """A logged model's own item, whatever its lifecycle stage."""
        return self._apply(model_id, lambda place: self.table.get(place.key))

    def _read(self, place: LoggedModelPlace) -> ModelRecord | None:
        """A logged model with all that lies below it, in one range read."""
        within = logged_model_keys.logged_model_and_children(place.model_id)
        items = list(self.table.items(Query(place.pk, where=within.on())))
        if not items or items[0]["SK"] != place.key.sk:
            return None
        return ModelRecord(items[0], items[1:])

    def _update(self, model_id: str, update: Update) -> Item:
        """Change a logged model's own item; returns it as it is now."""

        def change(place: LoggedModelPlace) -> Item | None:
            try:
                return self.table.update(place.key, update, condition=MODEL_EXISTS, returns="new")
            except ConditionFailed:
                return None

        return self._apply(model_id, change)


def _texts(pairs: Sequence[LoggedModelTag | LoggedModelParameter] | None) -> dict[str, str]:
    return {pair.key: pair.value for pair in pairs or []}


def _given(**attributes: str | int | None) -> Item:
    return {name: value for name, value in attributes.items() if value is not None}


def _check_unchanged(model_id: str, values: Mapping[str, str], known: Mapping[str, str]) -> None:
    changed = {name: known[name] for name, v in values.items() if known.get(name, v) != v}
    if changed:
        raise invalid(
            f"Changing param values is not allowed. Params {changed} were already logged for "
            f"model with ID {model_id!r}."
        )


def model_not_found(model_id: str) -> MlflowException:
    """MLflow's error for a logged model that does not exist."""
    return not_found(f"Logged model with ID '{model_id}' not found.")
