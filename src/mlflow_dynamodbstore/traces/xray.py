"""AWS X-Ray as a source of spans: reads its segments and turns them into MLflow's spans.

A trace has the same 128-bit id in X-Ray and in MLflow: ``tr-<32 hex digits>`` is ``1-<8>-<24>``.
Attributes that MLflow has set on a span are in the segment's metadata, or in its annotations, in
whose names X-Ray writes ``_`` for a dot.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from mlflow.entities import Span
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import TEMPORARILY_UNAVAILABLE
from mlflow.tracing.constant import SpanAttributeKey

MOST_TRACES_AT_ONCE = 5
"""X-Ray's limit for one request."""

_OTEL_ID = re.compile("tr-([0-9a-f]{8})([0-9a-f]{24})")
_SEGMENT_ID = re.compile("[0-9a-f]{16}")
_DEFAULT_NAMESPACE = "default"
_MLFLOW_NAMES = {
    name.replace(".", "_"): name
    for name in (
        SpanAttributeKey.INPUTS,
        SpanAttributeKey.OUTPUTS,
        SpanAttributeKey.SPAN_TYPE,
        SpanAttributeKey.CHAT_USAGE,
        SpanAttributeKey.LLM_COST,
        SpanAttributeKey.MODEL,
        SpanAttributeKey.MODEL_PROVIDER,
        SpanAttributeKey.SESSION_ID,
        SpanAttributeKey.FUNCTION_NAME,
    )
}


class XRayClient(Protocol):
    """The part of boto3's client that is used."""

    def batch_get_traces(self, **request: Any) -> dict[str, Any]:
        """One page of up to five traces."""


class XRay:
    """The traces of one region."""

    def __init__(self, client: XRayClient):
        self._client = client

    @classmethod
    def in_region(cls, region: str) -> XRay:
        """X-Ray in a region, with the credentials of AWS's usual chain."""
        import boto3  # noqa: PLC0415 - needed only where X-Ray is

        return cls(boto3.client("xray", region_name=region))

    def spans_of(self, trace_ids: Sequence[str]) -> dict[str, list[Span]]:
        """The spans of up to five traces, by MLflow's id; those that X-Ray lacks are left out."""
        wanted = {xray_id(one): one for one in trace_ids}
        wanted.pop(None, None)
        found: dict[str, list[Span]] = {}
        for trace in self._pages([name for name in wanted if name is not None]):
            mlflow_id = wanted.get(trace["Id"])
            if mlflow_id is not None:
                documents = [json.loads(one["Document"]) for one in trace.get("Segments", [])]
                found.setdefault(mlflow_id, []).extend(spans_from(mlflow_id, documents))
        return {trace_id: spans for trace_id, spans in found.items() if spans}

    def _request(self, request: dict[str, Any]) -> dict[str, Any]:
        from botocore.exceptions import BotoCoreError, ClientError  # noqa: PLC0415

        try:
            return self._client.batch_get_traces(**request)
        except (BotoCoreError, ClientError) as error:
            raise MlflowException(
                f"AWS X-Ray did not return the spans: {error}",
                error_code=TEMPORARILY_UNAVAILABLE,
            ) from error

    def _pages(self, names: list[str]) -> Iterator[dict[str, Any]]:
        request: dict[str, Any] = {"TraceIds": names}
        while names:
            answer = self._request(request)
            yield from answer.get("Traces", [])
            if not answer.get("NextToken"):
                return
            request["NextToken"] = answer["NextToken"]


def xray_id(trace_id: str) -> str | None:
    """The id of a trace in X-Ray, or None when it has no valid one."""
    found = _OTEL_ID.fullmatch(trace_id)
    return None if found is None else f"1-{found[1]}-{found[2]}"


def spans_from(trace_id: str, documents: Iterable[Mapping[str, Any]]) -> list[Span]:
    """The segments of a trace and their subsegments, as spans."""
    spans = []
    for document in documents:
        for segment, parent in _flattened(document, document.get("parent_id")):
            if _SEGMENT_ID.fullmatch(str(segment.get("id"))):
                spans.append(_span(trace_id, segment, parent))
    return spans


def _flattened(
    segment: Mapping[str, Any], parent: str | None
) -> Iterator[tuple[Mapping[str, Any], str | None]]:
    """A segment and its subsegments, each with the id of its parent."""
    waiting = [(segment, parent)]
    while waiting:
        one, above = waiting.pop()
        yield one, above
        waiting += [(below, str(one.get("id"))) for below in one.get("subsegments") or []]


def _span(trace_id: str, segment: Mapping[str, Any], parent: str | None) -> Span:
    return Span.from_dict(
        {
            "trace_id": trace_id,
            "span_id": segment["id"],
            "parent_span_id": parent,
            "name": segment.get("name") or "segment",
            "start_time_unix_nano": _nanoseconds(segment["start_time"]),
            "end_time_unix_nano": _nanoseconds(segment.get("end_time")),
            "status": _status(segment),
            "attributes": {
                **_attributes(segment),
                SpanAttributeKey.REQUEST_ID: json.dumps(trace_id),
            },
            "events": [*_exception_events(segment)],
        }
    )


def _nanoseconds(seconds: float | None) -> int | None:
    """Nanoseconds from X-Ray's float of seconds, which is exact to the microsecond."""
    return None if seconds is None else round(seconds * 1_000_000) * 1000


def _status(segment: Mapping[str, Any]) -> dict[str, str]:
    if any(segment.get(flag) for flag in ("fault", "error", "throttle")):
        return {"code": "ERROR", "message": next((e["message"] for e in _exceptions(segment)), "")}
    return {"code": "UNSET" if segment.get("in_progress") else "OK", "message": ""}


def _attributes(segment: Mapping[str, Any]) -> dict[str, str]:
    """Annotations, metadata and X-Ray's own blocks; each value as JSON, as in MLflow's spans."""
    found: dict[str, Any] = {}
    for block in ("http", "aws", "sql", "service"):
        if segment.get(block):
            found[f"aws.xray.{block}"] = segment[block]
    for name, value in (segment.get("annotations") or {}).items():
        found[_MLFLOW_NAMES.get(name, name)] = value
    for namespace, values in (segment.get("metadata") or {}).items():
        for name, value in (values if isinstance(values, dict) else {}).items():
            found[name if namespace == _DEFAULT_NAMESPACE else f"{namespace}.{name}"] = value
    return {name: _as_json(value) for name, value in found.items()}


def _as_json(value: Any) -> str:
    """A value as JSON; a text that is JSON already comes from MLflow and stays unchanged."""
    if isinstance(value, str):
        try:
            json.loads(value)
        except ValueError:
            return json.dumps(value)
        return value
    return json.dumps(value)


def _exceptions(segment: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    cause = segment.get("cause")
    for one in (cause.get("exceptions") or []) if isinstance(cause, dict) else []:
        yield {"type": str(one.get("type", "")), "message": str(one.get("message", ""))}


def _exception_events(segment: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    time = _nanoseconds(segment.get("end_time") or segment["start_time"])
    for one in _exceptions(segment):
        yield {
            "name": "exception",
            "time_unix_nano": time,
            "attributes": {
                "exception.type": one["type"],
                "exception.message": one["message"],
            },
        }
