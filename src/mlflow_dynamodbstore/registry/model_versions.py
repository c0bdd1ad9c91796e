"""Model versions: create, get, update, move between stages, delete."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple
from urllib.parse import urlparse

from boto3.dynamodb.conditions import Attr
from mlflow.entities.model_registry import ModelVersion, ModelVersionTag
from mlflow.entities.model_registry.model_version_stages import (
    DEFAULT_STAGES_FOR_GET_LATEST_VERSIONS,
    STAGE_ARCHIVED,
    STAGE_NONE,
    get_canonical_stage,
)
from mlflow.exceptions import MlflowException
from mlflow.tracking.client import MlflowClient
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.keys import registry as registry_keys
from mlflow_dynamodbstore.mlflow_compat.registry import parse_model_uri
from mlflow_dynamodbstore.mlflow_compat.validation import (
    validate_model_version,
    validate_model_version_tag,
)
from mlflow_dynamodbstore.registry.alias_changes import forget_version
from mlflow_dynamodbstore.registry.errors import model_not_found, version_not_found
from mlflow_dynamodbstore.registry.items import (
    LAST_VERSION,
    LATEST,
    PROMPT_VERSIONS,
    RegisteredModelPlace,
    described,
    marks_prompt,
    new_version,
)
from mlflow_dynamodbstore.registry.model_reader import ModelReader
from mlflow_dynamodbstore.registry.records import Model, Version
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.names.revisions import Change
from mlflow_dynamodbstore.shared.names.tags import as_texts
from mlflow_dynamodbstore.table.contract import Delete, Patch, Put, Query
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key


class StageChange(NamedTuple):
    """A version that moves from one stage to another; None stands for a deleted version."""

    number: int
    source: str
    target: str | None


class ModelVersions:
    """The versions of a model."""

    def __init__(self, context: Context, reader: ModelReader, tracking_uri: str | None) -> None:
        self.table = context.table
        self.reader = reader
        self.models = reader.models
        self.tracking_uri = tracking_uri

    # --- creating -------------------------------------------------------------------------------

    def create_model_version(
        self,
        name: str,
        source: str,
        run_id: str | None = None,
        tags: list[ModelVersionTag] | None = None,
        run_link: str | None = None,
        description: str | None = None,
        local_model_path: str | None = None,  # noqa: ARG002 - used by remote registries only
        model_id: str | None = None,
    ) -> ModelVersion:
        place = self.reader.place(name)
        values = as_texts((tag.key, tag.value) for tag in tags or [])
        for key, value in values.items():
            validate_model_version_tag(key, value)
        storage_location, run_id = self._origin(source, run_id)
        if not run_id and model_id:
            run_id = self._client().get_logged_model(model_id).source_run_id
        now = get_current_time_millis()
        item: Item = {}

        def decide(model: Model) -> Change:
            nonlocal item
            number = model.last_version + 1
            item = new_version(
                place,
                number,
                now,
                source=source,
                storage_location=storage_location,
                run_id=run_id,
                run_link=run_link,
                description=description,
            )
            tagging = place.tagging(number).setting(item, values)
            item.update(tagging.set)
            change = Change(
                set={LAST_VERSION: number, "updated": now, LATEST + STAGE_NONE: number},
                writes=[Put(item), *tagging.writes],
            )
            if run_id:
                change.writes.insert(1, Put(place.run_link(run_id, number)))
            if marks_prompt(values):
                change.set[PROMPT_VERSIONS] = model.prompt_versions + 1
            return change

        model = self.models.change(place, decide, model_not_found)
        version = Version(place, model.last_version, item, values)
        self.reader.remember_version(model, version)
        return version.entity()

    def _origin(self, source: str, run_id: str | None) -> tuple[str | None, str | None]:
        """Where the files of a new version are, and the run that made them."""
        if urlparse(source).scheme != "models":
            return source, run_id
        uri = parse_model_uri(source)
        try:
            if uri.model_id is None:
                _, origin = self._model_and_version(uri.name, uri.version)  # type: ignore[arg-type]
                return origin.storage_location, run_id
            model = self._client().get_logged_model(uri.model_id)
        except Exception as error:
            raise MlflowException(
                f"Unable to fetch model from model URI source artifact location '{source}'."
                f"Error: {error}"
            ) from error
        return model.artifact_location, run_id or model.source_run_id

    def _client(self) -> MlflowClient:
        """A client of the tracking server that belongs to this registry."""
        return MlflowClient(tracking_uri=self.tracking_uri)

    # --- reading --------------------------------------------------------------------------------

    def get_model_version(self, name: str, version: str | int) -> ModelVersion:
        model, found = self._model_and_version(name, version)
        return found.entity(model.aliases_of(found.number))

    def get_model_version_download_uri(self, name: str, version: str | int) -> str | None:
        _, found = self._model_and_version(name, version)
        return found.storage_location

    def _model_and_version(self, name: str, version: str | int) -> tuple[Model, Version]:
        place = self.reader.place(name)
        number = validate_model_version(version)
        model = self.models.find(place)
        if model is None:
            raise version_not_found(name, version)
        return model, self.reader.version(model, number)

    # --- changing -------------------------------------------------------------------------------

    def update_model_version(
        self, name: str, version: str | int, description: str | None = None
    ) -> ModelVersion:
        update = described(description, get_current_time_millis())
        place = self.reader.place(name)
        number = validate_model_version(version)

        def decide(model: Model) -> Change:
            self.reader.version(model, number)
            return Change(writes=[Patch(place.version(number), update)], touches_versions=True)

        return self._changed_version(place, number, decide)

    def transition_model_version_stage(
        self, name: str, version: str | int, stage: str, archive_existing_versions: bool
    ) -> ModelVersion:
        target = get_canonical_stage(stage)
        if archive_existing_versions and target not in DEFAULT_STAGES_FOR_GET_LATEST_VERSIONS:
            raise MlflowException(
                "Model version transition cannot archive existing model versions "
                f"because '{stage}' is not an Active stage. Valid stages are "
                f"{DEFAULT_STAGES_FOR_GET_LATEST_VERSIONS}"
            )
        place = self.reader.place(name)
        number = validate_model_version(version)
        now = get_current_time_millis()

        def decide(model: Model) -> Change:
            moves = [StageChange(number, self.reader.version(model, number).stage, target)]
            if archive_existing_versions:
                others = self._versions_in_stage(place, target)
                moves += [StageChange(n, target, STAGE_ARCHIVED) for n in others if n != number]
            change = self._latest_after(model, moves)
            change.set["updated"] = now
            change.writes += [
                Patch(place.version(n), Update(set={"stage": to, "updated": now}))
                for n, _, to in moves
            ]
            return change

        return self._changed_version(place, number, decide)

    def delete_model_version(self, name: str, version: str | int) -> None:
        place = self.reader.place(name)
        number = validate_model_version(version)
        now = get_current_time_millis()

        def decide(model: Model) -> Change:
            gone = self.reader.version(model, number)
            change = self._latest_after(model, [StageChange(number, gone.stage, None)])
            change.set["updated"] = now
            change.writes.append(Delete(place.version(number)))
            if gone.run_id:
                link = place.run_link(gone.run_id, number)
                change.writes.append(Delete(Key(link["PK"], link["SK"])))
            forget_version(model, number, change, now)
            change.writes += [Delete(key) for key in gone.long_tag_keys]
            return change

        self.models.change(place, decide, lambda _: version_not_found(name, version))

    def _changed_version(
        self, place: RegisteredModelPlace, number: int, decide: Callable[[Model], Change]
    ) -> ModelVersion:
        """Change a version, and return it as it is then."""
        model = self.models.change(place, decide, lambda name: version_not_found(name, number))
        return self.reader.version(model, number).entity(model.aliases_of(number))

    # --- the latest version in each stage -------------------------------------------------------

    def _latest_after(self, model: Model, moves: list[StageChange]) -> Change:
        """The change of the latest version in each stage when versions move."""
        change = Change(touches_versions=True)
        moves = [move for move in moves if move.source != move.target]
        stages = {stage for move in moves for stage in (move.source, move.target) if stage}
        for stage in sorted(stages):
            leaving = {move.number for move in moves if move.source == stage}
            coming = [move.number for move in moves if move.target == stage]
            staying = self._latest_without(model, stage, leaving)
            if newest := max([staying, *coming]):
                change.set[LATEST + stage] = newest
            else:
                change.remove.append(LATEST + stage)
        return change

    def _latest_without(self, model: Model, stage: str, leaving: Collection[int]) -> int:
        """The latest version in a stage without those that leave it; 0 when there is none."""
        latest = model.latest.get(stage, 0)
        if latest not in leaving:
            return latest
        others = (n for n in self._versions_in_stage(model.place, stage) if n not in leaving)
        return next(others, 0)

    def _versions_in_stage(self, place: RegisteredModelPlace, stage: str) -> Iterable[int]:
        """The numbers of the versions in a stage, the newest first."""
        query = Query(
            place.pk,
            where=registry_keys.MODEL_VERSIONS.on(),
            descending=True,
            filter=Attr("stage").eq(stage),
        )
        return (registry_keys.model_version_of(item["SK"]) for item in self.table.items(query))
