"""Label schemas: the questions that reviewers of an experiment's traces are asked.

Every experiment has a default question. It is made when label schemas are listed for the first
time, and can be neither changed nor deleted.
"""

from __future__ import annotations

import logging
from typing import Any

from mlflow.exceptions import MlflowException
from mlflow.genai.label_schemas.label_schemas import (
    InputText,
    InputType,
    LabelSchema,
    LabelSchemaType,
)
from mlflow.genai.label_schemas.validation import (
    DEFAULT_LABEL_SCHEMA_INSTRUCTION,
    DEFAULT_LABEL_SCHEMA_NAME,
    validate_schema_for_create,
    validate_schema_for_update,
)
from mlflow.protos.databricks_pb2 import (
    INVALID_PARAMETER_VALUE,
    RESOURCE_ALREADY_EXISTS,
    RESOURCE_DOES_NOT_EXIST,
)
from mlflow.store.entities.paged_list import PagedList
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import reviews as review_keys
from mlflow_dynamodbstore.keys.experiments import experiment_pk
from mlflow_dynamodbstore.reviews import unique_names
from mlflow_dynamodbstore.reviews.label_schema_records import (
    input_attributes,
    label_schema_id_of,
    label_schema_item,
    label_schema_of,
    name_guard,
)
from mlflow_dynamodbstore.reviews.newest_first import RequestedPage, page_of_ranges
from mlflow_dynamodbstore.reviews.reviewed_experiments import ReviewedExperiments
from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.shared.search.pages import validate_max_results
from mlflow_dynamodbstore.table.update import Update
from mlflow_dynamodbstore.table.values import Item, Key

_logger = logging.getLogger(__name__)

ID_PREFIX = "ls-"


class LabelSchemas:
    """What reviewers are asked."""

    def __init__(self, context: Context, reviewed_experiments: ReviewedExperiments) -> None:
        self.table = context.table
        self.reviewed_experiments = reviewed_experiments
        self._have_default_question: BoundedCache[str, bool] = BoundedCache()

    def create_label_schema(
        self,
        experiment_id: str,
        *,
        name: str,
        type: str,  # noqa: A002 - MLflow's name
        input: InputType,  # noqa: A002 - MLflow's name
        instruction: str | None = None,
        enable_comment: bool = False,
    ) -> LabelSchema:
        validate_schema_for_create(
            name=name,
            type=type,
            input=input,
            instruction=instruction,
            enable_comment=enable_comment,
        )
        home = self.reviewed_experiments.active_id(experiment_id)
        try:
            return self._create(
                home,
                name=name,
                type=LabelSchemaType(str(type)),
                input=input,
                instruction=instruction,
                enable_comment=enable_comment,
            )
        except unique_names.NameTaken as error:
            raise _name_is_taken(name, home) from error

    def _create(self, home: str, **fields: Any) -> LabelSchema:
        now = get_current_time_millis()
        schema_id = ID_PREFIX + ids.new_id(home)
        schema = LabelSchema(
            schema_id=schema_id, experiment_id=home, created_at=now, updated_at=now, **fields
        )
        item = label_schema_item(schema)
        unique_names.create(self.table, item, name_guard(item, schema.name), schema_id)
        return schema

    def get_label_schema(self, schema_id: str) -> LabelSchema:
        return label_schema_of(self._get_item(schema_id))

    def _get_item(self, schema_id: str) -> Item:
        item = self._find(schema_id)
        if item is None:
            raise MlflowException(
                f"Label schema with id '{schema_id}' not found.", RESOURCE_DOES_NOT_EXIST
            )
        return item

    def _find(self, schema_id: str) -> Item | None:
        home = self.reviewed_experiments.experiment_of(ID_PREFIX, schema_id)
        return (
            None if home is None else self.table.get(review_keys.label_schema_key(home, schema_id))
        )

    def get_label_schema_by_name(self, experiment_id: str, name: str) -> LabelSchema:
        home = self.reviewed_experiments.active_id(experiment_id)
        guard = self.table.get(Key(experiment_pk(home), review_keys.label_schema_name(name)))
        item = None if guard is None else self._find(str(guard["id"]))
        if item is None:
            raise MlflowException(
                f"Label schema with name '{name}' not found for experiment '{home}'.",
                RESOURCE_DOES_NOT_EXIST,
            )
        return label_schema_of(item)

    def list_label_schemas(
        self, experiment_id: str, max_results: int = 100, page_token: str | None = None
    ) -> PagedList[LabelSchema]:
        validate_max_results(max_results)
        wanted = RequestedPage(max_results, page_token)
        home = self.reviewed_experiments.active_id(experiment_id)
        self._ensure_default_question(home)
        found, token = page_of_ranges(
            self.table,
            experiment_pk(home),
            [review_keys.label_schemas_by_age],
            label_schema_id_of,
            wanted,
        )
        return PagedList([label_schema_of(item) for item in found], token)

    def update_label_schema(
        self,
        schema_id: str,
        *,
        name: str | None = None,
        instruction: str | None = None,
        enable_comment: bool | None = None,
        input: InputType | None = None,  # noqa: A002 - MLflow's name
    ) -> LabelSchema:
        given = {"name": name, "instruction": instruction, "enable_comment": enable_comment}
        changes: Item = {key: value for key, value in given.items() if value is not None}

        def attempt() -> LabelSchema:
            item = self._get_item(schema_id)
            validate_schema_for_update(existing=label_schema_of(item), input=input, **given)  # type: ignore[arg-type]
            if input is not None:
                changes.update(input_attributes(input))
            return label_schema_of(self._change(item, changes))

        return optimistically(f"Label schema '{schema_id}'", attempt)

    def _change(self, item: Item, changes: Item) -> Item:
        name = str(changes.get("name", item["name"]))
        guards = name_guard(item, str(item["name"])), name_guard(item, name)
        update = Update(set={**changes, "updated": get_current_time_millis()})
        try:
            return unique_names.change(
                self.table, item, update, guards, label_schema_id_of(item), PRESENT
            )
        except unique_names.NameTaken as error:
            raise _name_is_taken(name, experiment_id_of(item)) from error

    def delete_label_schema(self, schema_id: str) -> None:
        def attempt() -> None:
            item = self._find(schema_id)
            if item is None:
                _logger.debug("There is no label schema with id '%s' to delete.", schema_id)
                return
            if item["is_default"]:
                raise MlflowException(
                    "The experiment's default question cannot be deleted.",
                    INVALID_PARAMETER_VALUE,
                )
            unique_names.remove(self.table, item, name_guard(item, str(item["name"])))

        optimistically(f"Label schema '{schema_id}'", attempt)

    def _ensure_default_question(self, home: str) -> None:
        """Write the default question of an experiment, unless it is there or its name is taken."""
        if self._have_default_question.get(home):
            return
        guard = Key(experiment_pk(home), review_keys.label_schema_name(DEFAULT_LABEL_SCHEMA_NAME))
        if self.table.get(guard) is None:
            try:
                self._create(
                    home,
                    name=DEFAULT_LABEL_SCHEMA_NAME,
                    type=LabelSchemaType.FEEDBACK,
                    input=InputText(),
                    instruction=DEFAULT_LABEL_SCHEMA_INSTRUCTION,
                    is_default=True,
                )
            except unique_names.NameTaken:
                _logger.debug("Somebody else made the default question of '%s'.", home)
        self._have_default_question.put(home, True)


def _name_is_taken(name: str, experiment_id: str) -> MlflowException:
    return MlflowException(
        f"Label schema with name '{name}' already exists for experiment '{experiment_id}'.",
        RESOURCE_ALREADY_EXISTS,
    )
