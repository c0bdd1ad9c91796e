"""Label schemas as items of the table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from mlflow.genai.label_schemas.label_schemas import (
    InputCategorical,
    InputNumeric,
    InputPassFail,
    InputText,
    InputType,
    LabelSchema,
    LabelSchemaType,
)

from mlflow_dynamodbstore.keys import reviews as review_keys
from mlflow_dynamodbstore.shared.places import experiment_id_of
from mlflow_dynamodbstore.table.values import Item

_INPUTS: Mapping[str, type[Any]] = {
    "pass_fail": InputPassFail,
    "categorical": InputCategorical,
    "numeric": InputNumeric,
    "text": InputText,
}
_INPUT_TYPES = {kind: word for word, kind in _INPUTS.items()}


def label_schema_item(schema: LabelSchema) -> Item:
    """A new label schema's item."""
    assert schema.experiment_id is not None
    assert schema.schema_id is not None
    assert schema.created_at is not None
    key = review_keys.label_schema_key(schema.experiment_id, schema.schema_id)
    return {
        "PK": key.pk,
        "SK": key.sk,
        "name": schema.name,
        "type": str(schema.type),
        "instruction": schema.instruction,
        "enable_comment": schema.enable_comment,
        "created_by": schema.created_by,
        "created": schema.created_at,
        "updated": schema.created_at,
        "is_default": schema.is_default,
        "lsi1sk": review_keys.lsi1_label_schema(schema.schema_id, schema.created_at),
        **input_attributes(schema.input),
    }


def input_attributes(given: InputType) -> Item:
    """The kind of answer a label schema asks for; as JSON, since bounds may be any number."""
    return {"input_type": _INPUT_TYPES[type(given)], "input": json.dumps(asdict(given))}  # type: ignore[call-overload]


def label_schema_of(item: Item) -> LabelSchema:
    """The label schema that an item holds."""
    return LabelSchema(
        name=item["name"],
        type=LabelSchemaType(item["type"]),
        input=_INPUTS[item["input_type"]](**json.loads(item["input"])),
        instruction=item["instruction"],
        enable_comment=item["enable_comment"],
        schema_id=label_schema_id_of(item),
        experiment_id=experiment_id_of(item),
        created_by=item["created_by"],
        created_at=item["created"],
        updated_at=item["updated"],
        is_default=item["is_default"],
    )


def label_schema_id_of(item: Item) -> str:
    """The id of the label schema that an item holds."""
    return str(review_keys.label_schema_id_of(str(item["SK"])))
