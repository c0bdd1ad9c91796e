"""Entities as the JSON that MLflow answers with, without the protobuf messages between.

A field that protobuf leaves out because it is not set is left out here.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from mlflow.entities import Experiment, Metric, Run, RunInfo

from mlflow_dynamodbstore.mlflow_compat.server_app import message_to_dict

Object = dict[str, Any]


def double(value: float) -> float | str:
    """A number as protobuf writes it."""
    if math.isfinite(value):
        return float(value)
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def metric(found: Metric) -> Object:
    """A metric of a run, or of its history."""
    made: Object = {
        "key": found.key,
        "value": double(found.value),
        "timestamp": found.timestamp,
        "step": found.step,
    }
    if found.model_id:
        made["model_id"] = found.model_id
    if found.dataset_name:
        made["dataset_name"] = found.dataset_name
    if found.dataset_digest:
        made["dataset_digest"] = found.dataset_digest
    if found.run_id:
        made["run_id"] = found.run_id
    return made


def metric_of_run(found: Any) -> Object:
    """A metric of one of several runs."""
    return {
        "key": found.key,
        "value": double(found.value),
        "timestamp": found.timestamp,
        "step": found.step,
        "run_id": found.run_id,
    }


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


def run(found: Run) -> Object:
    """A run with its params, tags, latest metrics, inputs and outputs."""
    made: Object = {"info": run_info(found.info)}
    data: Object = {}
    # MLflow keeps the whole metrics under this name, which its own conversion reads.
    if metrics := vars(found.data)["_metric_objs"]:
        data["metrics"] = [metric(one) for one in metrics]
    if found.data.params:
        data["params"] = _pairs(found.data.params)
    if found.data.tags:
        data["tags"] = _pairs(found.data.tags)
    made["data"] = data
    if found.inputs:
        inputs = found.inputs
        empty = not inputs.dataset_inputs and not inputs.model_inputs
        made["inputs"] = {} if empty else message_to_dict(inputs.to_proto())
    if found.outputs:
        outputs = found.outputs
        made["outputs"] = {} if not outputs.model_outputs else message_to_dict(outputs.to_proto())
    return made


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
        made["tags"] = _pairs(found.tags)
    if found.workspace is not None:
        made["workspace"] = found.workspace
    if found.effective_trace_archival_retention is not None:
        made["effective_trace_archival_retention"] = found.effective_trace_archival_retention
    return made


def page(name: str, found: Iterable[Object], token: str | None) -> Object:
    """A list of things, left out if it is empty, and where it goes on."""
    made: Object = {}
    if things := list(found):
        made[name] = things
    if token:
        made["next_page_token"] = token
    return made


def _pairs(values: Mapping[str, str]) -> list[Object]:
    return [{"key": key, "value": value} for key, value in values.items()]
