"""Registered models: create, get, update, rename, delete, latest versions."""

from __future__ import annotations

from mlflow.entities.model_registry import ModelVersion, RegisteredModel, RegisteredModelTag
from mlflow.entities.model_registry.model_version_stages import ALL_STAGES, get_canonical_stage
from mlflow.prompt.constants import IS_PROMPT_TAG_KEY
from mlflow.prompt.registry_utils import handle_resource_already_exist_error, has_prompt_tag
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.mlflow_compat.validation import (
    validate_model_renaming,
    validate_registered_model_tag,
)
from mlflow_dynamodbstore.registry.errors import model_not_found, name_taken
from mlflow_dynamodbstore.registry.items import described, new_meta
from mlflow_dynamodbstore.registry.model_reader import ModelReader
from mlflow_dynamodbstore.registry.records import Model, read_with_versions
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.names import claims
from mlflow_dynamodbstore.shared.names.claims import NameTakenError
from mlflow_dynamodbstore.shared.names.revisions import Change
from mlflow_dynamodbstore.shared.names.tags import LONG_TAG, TAG, as_texts
from mlflow_dynamodbstore.shared.search.name_index import NameIndex
from mlflow_dynamodbstore.shared.workspaces import WorkspacesInUse
from mlflow_dynamodbstore.table.contract import Patch
from mlflow_dynamodbstore.table.update import Update


class RegisteredModels:
    """The models of a workspace."""

    def __init__(
        self,
        context: Context,
        reader: ModelReader,
        name_index: NameIndex,
        workspaces: WorkspacesInUse,
    ) -> None:
        self.table = context.table
        self.reader = reader
        self.models = reader.models
        self.name_index = name_index
        self.workspaces = workspaces

    def create_registered_model(
        self,
        name: str,
        tags: list[RegisteredModelTag] | None = None,
        description: str | None = None,
        deployment_job_id: str | None = None,  # noqa: ARG002 - used on Databricks only
    ) -> RegisteredModel:
        place = self.reader.place(name)
        values = as_texts((tag.key, tag.value) for tag in tags or [])
        for key, value in values.items():
            validate_registered_model_tag(key, value)
        meta = new_meta(place, get_current_time_millis(), description)
        tagging = place.tagging().setting(meta, values)
        meta.update(tagging.set)
        self.workspaces.note(place.workspace)
        self.name_index.enter(place.workspace, name, name)
        try:
            created = self.models.create(place, meta, tagging.writes)
        except NameTakenError as taken:
            is_prompt = bool(
                {TAG + IS_PROMPT_TAG_KEY, LONG_TAG + IS_PROMPT_TAG_KEY} & {*taken.meta}
            )
            handle_resource_already_exist_error(name, is_prompt, has_prompt_tag(tags))
        self.name_index.enter(place.workspace, name, name)
        (model,) = self.reader.with_long_tags([created])
        return model.entity([])

    def get_registered_model(self, name: str) -> RegisteredModel:
        return self._entity(self.reader.model(name))

    def _entity(self, model: Model) -> RegisteredModel:
        (model,) = self.reader.with_long_tags([model])
        return model.entity(self.reader.versions_of(model, model.latest.values()).values())

    def get_latest_versions(self, name: str, stages: list[str] | None = None) -> list[ModelVersion]:
        model = self.reader.model(name)
        wanted = {get_canonical_stage(stage) for stage in stages or ALL_STAGES}
        numbers = [number for stage, number in model.latest.items() if stage in wanted]
        found = self.reader.versions_of(model, numbers)
        return [v.entity(model.aliases_of(number)) for number, v in found.items()]

    def update_registered_model(
        self,
        name: str,
        description: str | None,
        deployment_job_id: str | None = None,  # noqa: ARG002 - used on Databricks only
    ) -> RegisteredModel:
        update = described(description, get_current_time_millis())
        changed = self.models.change(
            self.reader.place(name),
            lambda _: Change(dict(update.set), list(update.remove)),
            model_not_found,
        )
        return self._entity(changed)

    # --- renaming and deleting ------------------------------------------------------------------

    def rename_registered_model(self, name: str, new_name: str) -> RegisteredModel:
        validate_model_renaming(new_name)
        source, target = self.reader.place(name), self.reader.place(new_name)
        now = get_current_time_millis()
        if source == target:
            touched = self.models.change(
                source, lambda model: self._touched(model, now), model_not_found
            )
            return self._entity(touched)
        is_there = self.models.find(source) is not None
        try:
            meta = claims.move(self.table, source, target, now) if is_there else None
        except NameTakenError as taken:
            raise name_taken(new_name) from taken
        self.models.forget(source)
        if meta is None:
            raise model_not_found(name)
        return self._entity(self.models.remembered(target, meta))

    def _touched(self, model: Model, now: int) -> Change:
        """Renaming a model to its own name changes the time of its last change, nothing else."""
        _, versions = read_with_versions(self.table, model.place)
        patches = [
            Patch(model.place.version(v.number), Update(set={"updated": now})) for v in versions
        ]
        return Change(set={"updated": now}, writes=[*patches], touches_versions=True)

    def delete_registered_model(self, name: str) -> None:
        self.models.remove(self.reader.place(name), model_not_found)
