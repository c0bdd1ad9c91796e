"""Send one request and receive its answer, as plain JSON dicts.

:class:`DirectTransport` signs JSON itself and posts it through botocore's HTTP session, with
botocore's credentials. The rest of botocore (walking the service model over every value, building
headers, calling hooks) takes more time than everything else together. :class:`ClientTransport`
calls the ordinary client, for instrumentation that hooks into it; ``transport=botocore`` selects
it.
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
    """The request is larger than DynamoDB accepts; it was not sent."""


class Transport(Protocol):
    """Sends requests. Raises ``ServiceError``, ``AnswerCutShort``, ``PayloadTooLarge`` or one of
    botocore's own exceptions.
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
            raise PayloadTooLarge(f"a request of {len(payload)} bytes exceeds the limit of 16 MB")
        headers = self._signer.headers(_TARGET + operation, payload)
        headers["User-Agent"] = self._user_agent
        response = self._http.send(_Request(self._url, payload, headers))
        content: bytes = response.content
        if response.status_code >= 300:
            raise _error_answer(response.status_code, content)
        try:
            answer: Body = json.loads(content)
        except ValueError as error:
            raise AnswerCutShort("the answer is not complete JSON") from error
        return answer

    def close(self) -> None:
        self._http.close()


def to_json(body: Body) -> bytes:
    """The JSON of a request. Raises ``InvalidRequest`` for text that UTF-8 cannot encode."""
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), default=_base64)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise InvalidRequest(f"text cannot be stored: {error.reason}") from error


def _base64(value: Any) -> str:
    if not isinstance(value, bytes):
        raise InvalidRequest(f"a request cannot hold values of type {type(value).__name__}")
    return b2a_base64(value, newline=False).decode("ascii")


def _error_answer(status: int, content: bytes) -> ServiceError:
    """The error in an answer; the HTML page of a proxy has only a status."""
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
    """An error of the ordinary client as a ``ServiceError``."""
    answer: Body = error.response
    told = answer.get("Error", {})
    status = answer.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return ServiceError(str(told.get("Code", status)), told.get("Message", ""), status, answer)
