"""Label schemas: the questions that reviewers of an experiment's traces are asked.

Every experiment has a default question. It is created when label schemas are first listed, and can
be neither changed nor deleted.
"""

from __future__ import annotations

import logging
from typing import Any

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
from mlflow.store.entities.paged_list import PagedList
from mlflow.utils.time import get_current_time_millis

from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import reviews as review_keys
from mlflow_dynamodbstore.keys.experiments import experiment_pk
from mlflow_dynamodbstore.reviews.label_schema_records import (
    input_attributes,
    label_schema_id_of,
    label_schema_item,
    label_schema_of,
)
from mlflow_dynamodbstore.reviews.newest_first import RequestedPage, page_of_ranges
from mlflow_dynamodbstore.reviews.reviewed_experiments import (
    LABEL_SCHEMA_PREFIX,
    ReviewedExperiments,
)
from mlflow_dynamodbstore.reviews.unique_names import NameTaken, UniqueNames
from mlflow_dynamodbstore.shared.bounded_cache import BoundedCache
from mlflow_dynamodbstore.shared.conditions import PRESENT
from mlflow_dynamodbstore.shared.context import Context
from mlflow_dynamodbstore.shared.optimistic import optimistically
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.shared.refusals import invalid, not_found
from mlflow_dynamodbstore.shared.search.pages import validate_max_results
from mlflow_dynamodbstore.table.values import Item

_logger = logging.getLogger(__name__)


class LabelSchemas:
    """The label schemas of experiments."""

    def __init__(self, context: Context, reviewed_experiments: ReviewedExperiments) -> None:
        self.table = context.table
        self.reviewed_experiments = reviewed_experiments
        self._names = UniqueNames(
            context.table, review_keys.label_schema_name, label_schema_id_of, _name_taken
        )
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
        experiment_id = self.reviewed_experiments.active_id(experiment_id)
        return self._create(
            experiment_id,
            name=name,
            type=LabelSchemaType(str(type)),
            input=input,
            instruction=instruction,
            enable_comment=enable_comment,
        )

    def _create(self, experiment_id: str, **fields: Any) -> LabelSchema:
        now = get_current_time_millis()
        schema = LabelSchema(
            schema_id=LABEL_SCHEMA_PREFIX + ids.new_id(experiment_id),
            experiment_id=experiment_id,
            created_at=now,
            updated_at=now,
            **fields,
        )
        self._names.create(label_schema_item(schema))
        return schema

    def get_label_schema(self, schema_id: str) -> LabelSchema:
        return label_schema_of(self._get_item(schema_id))

    def _get_item(self, schema_id: str) -> Item:
        item = self._find(schema_id)
        if item is None:
            raise not_found(f"Label schema with id '{schema_id}' not found.")
        return item

    def _find(self, schema_id: str) -> Item | None:
        experiment_id = self.reviewed_experiments.id_in(schema_id, LABEL_SCHEMA_PREFIX)
        if experiment_id is None:
            return None
        return self.table.get(review_keys.label_schema_key(experiment_id, schema_id))

    def get_label_schema_by_name(self, experiment_id: str, name: str) -> LabelSchema:
        experiment_id = self.reviewed_experiments.active_id(experiment_id)
        schema_id = self._names.find(experiment_id, name)
        item = None if schema_id is None else self._find(schema_id)
        if item is None:
            raise not_found(
                f"Label schema with name '{name}' not found for experiment '{experiment_id}'."
            )
        return label_schema_of(item)

    def list_label_schemas(
        self, experiment_id: str, max_results: int = 100, page_token: str | None = None
    ) -> PagedList[LabelSchema]:
        validate_max_results(max_results)
        wanted = RequestedPage(max_results, page_token)
        _ = wanted.after  # a bad token is refused before the default question is written
        experiment_id = self.reviewed_experiments.active_id(experiment_id)
        self._ensure_default_question(experiment_id)
        found, token = page_of_ranges(
            self.table,
            experiment_pk(experiment_id),
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

        def attempt() -> LabelSchema:
            item = self._get_item(schema_id)
            validate_schema_for_update(existing=label_schema_of(item), input=input, **given)  # type: ignore[arg-type]
            changes: Item = {key: value for key, value in given.items() if value is not None}
            if input is not None:
                changes |= input_attributes(input)
            changes["updated"] = get_current_time_millis()
            return label_schema_of(self._names.change(item, changes, PRESENT))

        return optimistically(f"Label schema '{schema_id}'", attempt)

    def delete_label_schema(self, schema_id: str) -> None:
        def attempt() -> None:
            item = self._find(schema_id)
            if item is None:
                _logger.debug("There is no label schema with id '%s' to delete.", schema_id)
                return
            if item["is_default"]:
                raise invalid("The experiment's default question cannot be deleted.")
            self._names.remove(item)

        optimistically(f"Label schema '{schema_id}'", attempt)

    def _ensure_default_question(self, experiment_id: str) -> None:
        """Create the default question of an experiment, unless its name is taken."""
        if self._have_default_question.get(experiment_id):
            return
        if self._names.find(experiment_id, DEFAULT_LABEL_SCHEMA_NAME) is None:
            try:
                self._create(
                    experiment_id,
                    name=DEFAULT_LABEL_SCHEMA_NAME,
                    type=LabelSchemaType.FEEDBACK,
                    input=InputText(),
                    instruction=DEFAULT_LABEL_SCHEMA_INSTRUCTION,
                    is_default=True,
                )
            except NameTaken:
                _logger.debug("Another call created the default question of '%s'.", experiment_id)
        self._have_default_question.put(experiment_id, True)


def _name_taken(item: Item, name: str) -> NameTaken:
    return NameTaken(
        f"Label schema with name '{name}' already exists for experiment '{experiment_id_of(item)}'."
    )
