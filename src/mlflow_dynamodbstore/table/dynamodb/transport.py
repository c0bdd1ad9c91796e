"""Sending one request and getting its answer, as plain JSON dicts.

Two ways, one face. :class:`DirectTransport` posts JSON that it signed itself through botocore's
HTTP session, with botocore's credentials: for DynamoDB the rest of botocore's path (walking the
service model over every value, building headers, calling hooks) takes more time than everything
else together. :class:`ClientTransport` calls the ordinary client, for those who need what hooks
into it, such as instrumentation; it is chosen with ``transport=botocore``.
"""

from __future__ import annotations

import json
from binascii import b2a_base64
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from botocore import xform_name
from botocore.exceptions import ClientError
from botocore.httpsession import URLLib3Session

from mlflow_dynamodbstore.table.dynamodb.signing import Signer
from mlflow_dynamodbstore.table.errors import InvalidRequest

Body: TypeAlias = dict[str, Any]

MAX_PAYLOAD_BYTES = 16 * 1024 * 1024
_TARGET = "DynamoDB_20120810."


class ServiceError(Exception):
    """The endpoint answered with an error; ``body`` is the whole answer."""

    def __init__(self, code: str, message: str, status: int, body: Body) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status
        self.body = body


class AnswerCutShort(Exception):
    """The connection ended in the middle of an answer."""


class PayloadTooLarge(Exception):
    """The request passes what DynamoDB takes at once; it was not sent."""


class Transport(Protocol):
    """Sends requests. What goes wrong comes as ``ServiceError``, ``AnswerCutShort``,
    ``PayloadTooLarge`` or one of botocore's own exceptions.
    """

    def call(self, operation: str, body: Body) -> Body:
        """Send one request and wait for its answer."""

    def close(self) -> None:
        """Close the connections that are not in use."""


class ClientTransport:
    """Requests through an ordinary client."""

    def __init__(self, client: Any) -> None:
        self._client = client

    def call(self, operation: str, body: Body) -> Body:
        try:
            answer: Body = getattr(self._client, xform_name(operation))(**body)
        except ClientError as error:
            raise service_error(error) from error
        return answer

    def close(self) -> None:
        self._client.close()


@dataclass
class _Request:
    """What botocore's HTTP session reads of a request."""

    url: str
    body: bytes
    headers: dict[str, str]
    method: str = "POST"
    stream_output: bool = False
    context: dict[str, Any] = field(default_factory=dict)


class DirectTransport:
    """Requests signed here and sent through botocore's HTTP session."""

    def __init__(self, http: URLLib3Session, signer: Signer, url: str, user_agent: str) -> None:
        self._http = http
        self._signer = signer
        self._url = url
        self._user_agent = user_agent

    def call(self, operation: str, body: Body) -> Body:
        payload = to_json(body)
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise PayloadTooLarge(f"a request of {len(payload)} bytes passes the limit of 16 MB")
        headers = self._signer.headers(_TARGET + operation, payload)
        headers["User-Agent"] = self._user_agent
        response = self._http.send(_Request(self._url, payload, headers))
        content: bytes = response.content
        if response.status_code >= 300:
            raise _error_answer(response.status_code, content)
        try:
            answer: Body = json.loads(content)
        except ValueError as error:
            raise AnswerCutShort("the answer is not whole JSON") from error
        return answer

    def close(self) -> None:
        self._http.close()


def to_json(body: Body) -> bytes:
    """A request on the wire. Raises ``InvalidRequest`` for text that UTF-8 cannot write."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), default=_base64)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"text cannot be stored: {error.reason}") from error


def _base64(value: Any) -> str:
    if not isinstance(value, bytes):
        raise InvalidRequest(f"a request holds no values of type {type(value).__name__}")
    return b2a_base64(value, newline=False).decode("ascii")


def _error_answer(status: int, content: bytes) -> ServiceError:
    """The error in an answer; a proxy's page of HTML has only its status."""
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    if not isinstance(body, dict):
        return ServiceError(str(status), content[:200].decode(errors="replace"), status, {})
    kind = str(body.get("__type", status))  # com.amazonaws.dynamodb.v20120810#ValidationException
    message = str(body.get("message") or body.get("Message") or "")
    return ServiceError(kind.rsplit("#", 1)[-1].split(":", 1)[0], message, status, body)


def service_error(error: ClientError) -> ServiceError:
    """The same error as the ordinary client tells it."""
    answer: Body = error.response
    told = answer.get("Error", {})
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return ServiceError(str(told.get("Code", status)), told.get("Message", ""), status, answer)
