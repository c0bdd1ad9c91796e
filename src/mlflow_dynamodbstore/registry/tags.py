"""Tags of models and of versions."""

from __future__ import annotations

from mlflow.entities.model_registry import ModelVersionTag, RegisteredModelTag

from mlflow_dynamodbstore.mlflow_compat.validation import (
    validate_model_version,
    validate_model_version_tag,
    validate_registered_model_tag,
    validate_tag_name,
)
from mlflow_dynamodbstore.registry.errors import model_not_found, version_not_found
from mlflow_dynamodbstore.registry.items import PROMPT_VERSIONS, marks_prompt
from mlflow_dynamodbstore.registry.model_reader import ModelReader
from mlflow_dynamodbstore.registry.records import Model, Version
from mlflow_dynamodbstore.shared.names.revisions import Change
from mlflow_dynamodbstore.shared.names.tags import Tags, as_texts
from mlflow_dynamodbstore.table.contract import Patch, Write
from mlflow_dynamodbstore.table.update import Update


class RegistryTags:
    """Setting and deleting tags."""

    def __init__(self, reader: ModelReader) -> None:
        self.reader = reader
        self.models = reader.models

    def set_registered_model_tag(self, name: str, tag: RegisteredModelTag) -> None:
        place = self.reader.place(name)
        values = as_texts([(tag.key, tag.value)])
        for key, value in values.items():
            validate_registered_model_tag(key, value)
        self.models.change(
            place, lambda model: place.tagging().setting(model.item, values), model_not_found
        )

    def delete_registered_model_tag(self, name: str, key: str) -> None:
        place = self.reader.place(name)
        validate_tag_name(key)
        self.models.change(
            place, lambda model: place.tagging().removing(model.item, key), model_not_found
        )

    def set_model_version_tag(self, name: str, version: str | int, tag: ModelVersionTag) -> None:
        place = self.reader.place(name)
        number = validate_model_version(version)
        values = as_texts([(tag.key, tag.value)])
        for key, value in values.items():
            validate_model_version_tag(key, value)

        def decide(model: Model) -> Change:
            before = self.reader.version(model, number)
            tagging = place.tagging(number).setting(before.item, values)
            return _version_change(model, before, tagging, {**before.tags, **values})

        self.models.change(place, decide, lambda _: version_not_found(name, version))

    def delete_model_version_tag(self, name: str, version: str | int, key: str) -> None:
        place = self.reader.place(name)
        number = validate_model_version(version)
        validate_tag_name(key)

        def decide(model: Model) -> Change | None:
            before = self.reader.version(model, number)
            tagging = place.tagging(number).removing(before.item, key)
            if tagging is None:
                return None
            after = {k: value for k, value in before.tags.items() if k != key}
            return _version_change(model, before, tagging, after)

        self.models.change(place, decide, lambda _: version_not_found(name, version))


def _version_change(model: Model, before: Version, tagging: Change, after: Tags) -> Change:
    """The change of a model that a change of a version's tags makes."""
    update = Update(set=tagging.set, remove=tuple(tagging.remove))
    writes: list[Write] = [Patch(model.place.version(before.number), update), *tagging.writes]
    change = Change(writes=writes, touches_versions=True)
    prompts = model.prompt_versions + marks_prompt(after) - marks_prompt(before.tags)
    if prompts != model.prompt_versions:
        change.set[PROMPT_VERSIONS] = prompts
    return change
