"""Entities as the JSON that MLflow answers with, without the protobuf messages between.

A field that protobuf leaves out because it is not set is left out here. What comes by the thousand,
metrics, params and tags, is written as text: an object for each took twice as long to make and to
encode.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from json.encoder import encode_basestring_ascii as quoted
from typing import Any

from mlflow.entities import Experiment, Metric, Run, RunInfo

from mlflow_dynamodbstore.mlflow_compat.server_app import message_to_dict

Object = dict[str, Any]
Text = str
"""JSON without white space, in ASCII."""

# Nothing that is answered contains itself.
to_json = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def double(value: float) -> Text:
    """A number as protobuf writes it."""
    if math.isfinite(value):
        return float.__repr__(float(value))
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def metric(found: Metric) -> Text:
    """A metric of a run, or of its history."""
    made = _point(found)
    if found.model_id:
        made += f',"model_id":{quoted(found.model_id)}'
    if found.dataset_name:
        made += f',"dataset_name":{quoted(found.dataset_name)}'
    if found.dataset_digest:
        made += f',"dataset_digest":{quoted(found.dataset_digest)}'
    if found.run_id:
        made += f',"run_id":{quoted(found.run_id)}'
    return f"{{{made}}}"


def metric_of_run(found: Any) -> Text:
    """A metric of one of several runs."""
    return f'{{{_point(found)},"run_id":{quoted(found.run_id)}}}'


def _point(found: Any) -> Text:
    return (
        f'"key":{quoted(found.key)},"value":{double(found.value)},'
        f'"timestamp":{found.timestamp},"step":{found.step}'
    )


def run_info(info: RunInfo) -> Object:
    """The own facts of a run."""
    made: Object = {"run_uuid": info.run_id, "run_id": info.run_id}
    if info.run_name is not None:
        made["run_name"] = info.run_name
    made["experiment_id"] = info.experiment_id
    made["user_id"] = info.user_id
    made["status"] = info.status
    made["start_time"] = info.start_time
    if info.end_time:
        made["end_time"] = info.end_time
    if info.artifact_uri:
        made["artifact_uri"] = info.artifact_uri
    made["lifecycle_stage"] = info.lifecycle_stage
    return made


def run(found: Run) -> Text:
    """A run with its params, tags, latest metrics, inputs and outputs."""
    data = []
    # MLflow keeps the whole metrics under this name, which its own conversion reads.
    if metrics := vars(found.data)["_metric_objs"]:
        data.append(f'"metrics":{array(map(metric, metrics))}')
    if found.data.params:
        data.append(f'"params":{_pairs(found.data.params)}')
    if found.data.tags:
        data.append(f'"tags":{_pairs(found.data.tags)}')
    made = f'"info":{to_json(run_info(found.info))},"data":{{{",".join(data)}}}'
    if found.inputs:
        inputs = found.inputs
        empty = not inputs.dataset_inputs and not inputs.model_inputs
        made += f',"inputs":{"{}" if empty else to_json(message_to_dict(inputs.to_proto()))}'
    if found.outputs:
        outputs = found.outputs
        empty = not outputs.model_outputs
        made += f',"outputs":{"{}" if empty else to_json(message_to_dict(outputs.to_proto()))}'
    return f"{{{made}}}"


def experiment(found: Experiment) -> Object:
    """An experiment with its tags."""
    made: Object = {
        "experiment_id": found.experiment_id,
        "name": found.name,
        "artifact_location": found.artifact_location,
        "lifecycle_stage": found.lifecycle_stage,
    }
    if found.last_update_time:
        made["last_update_time"] = found.last_update_time
    if found.creation_time:
        made["creation_time"] = found.creation_time
    if found.tags:
        made["tags"] = [{"key": key, "value": value} for key, value in found.tags.items()]
    if found.workspace is not None:
        made["workspace"] = found.workspace
    if found.effective_trace_archival_retention is not None:
        made["effective_trace_archival_retention"] = found.effective_trace_archival_retention
    return made


def array(texts: Iterable[Text]) -> Text:
    """A list of things."""
    return f"[{','.join(texts)}]"


def page(name: str, texts: Iterable[Text], token: str | None) -> Text:
    """A list of things, left out if it is empty, and where it goes on."""
    made = []
    if (things := array(texts)) != "[]":
        made.append(f'"{name}":{things}')
    if token:
        made.append(f'"next_page_token":{quoted(token)}')
    return f"{{{','.join(made)}}}"


def _pairs(values: Mapping[str, str]) -> Text:
    return array(
        [f'{{"key":{quoted(key)},"value":{quoted(value)}}}' for key, value in values.items()]
    )
