"""Send one request and receive its answer, as plain JSON dicts.

:class:`DirectTransport` signs JSON itself and posts it through botocore's HTTP session, with
botocore's credentials. The rest of botocore (walking the service model over every value, building
headers, calling hooks) takes more time than everything else together. :class:`ClientTransport`
calls the ordinary client, for instrumentation that hooks into it; ``transport=botocore`` selects
it.
"""

from __future__ import annotations

import json
import logging
import time
from binascii import b2a_base64, crc32
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, Protocol, TypeAlias

from botocore import xform_name
from botocore.exceptions import ClientError
from botocore.httpsession import URLLib3Session

from mlflow_dynamodbstore.table.dynamodb.signing import Signer
from mlflow_dynamodbstore.table.errors import InvalidRequest

Body: TypeAlias = dict[str, Any]

MAX_PAYLOAD_BYTES = 16 * 1024 * 1024
LEAST_SKEW = 60.0
"""Seconds; AWS takes signatures that are five minutes off."""
_TARGET = "DynamoDB_20120810."
_SKEWED = frozenset(
    {"InvalidSignatureException", "RequestExpired", "RequestTimeTooSkewed", "SignatureDoesNotMatch"}
)
"""What a signature with a wrong time is refused with, and one with a wrong key too."""

_logger = logging.getLogger(__name__)


class ServiceError(Exception):
    """The endpoint answered with an error; ``body`` is the whole answer."""

    def __init__(self, code: str, message: str, status: int, body: Body) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message
        self.status = status
        self.body = body


class AnswerCutShort(Exception):
    """The connection ended in the middle of an answer, or the answer is damaged."""


class PayloadTooLarge(Exception):
    """The request is larger than DynamoDB accepts; it was not sent."""


class Transport(Protocol):
    """Sends requests. Raises ``ServiceError``, ``AnswerCutShort``, ``PayloadTooLarge`` or one of
    botocore's own exceptions.
    """

    date: str
    """The time in the header of the last answer; empty before the first."""

    def call(self, operation: str, body: Body) -> Body:
        """Send one request and wait for its answer."""

    def close(self) -> None:
        """Close the connections that are not in use."""


class ClientTransport:
    """Requests through an ordinary client."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.date = ""

    def call(self, operation: str, body: Body) -> Body:
        try:
            answer: Body = getattr(self._client, xform_name(operation))(**body)
        except ClientError as error:
            raise service_error(error) from error
        self.date = answer.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date", "")
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
        self.date = ""

    def call(self, operation: str, body: Body) -> Body:
        payload = to_json(body)
        if len(payload) > MAX_PAYLOAD_BYTES:
            raise PayloadTooLarge(f"a request of {len(payload)} bytes exceeds the limit of 16 MB")
        assumed_skew = self._signer.skew
        response = self._send(operation, payload)
        if response.status_code < 300:
            return _answer(response)
        error = _error_answer(response.status_code, response.content)
        if not (error.code in _SKEWED and self._learn_skew(response, assumed_skew)):
            raise error
        response = self._send(operation, payload)
        if response.status_code >= 300:
            raise _error_answer(response.status_code, response.content)
        return _answer(response)

    def _send(self, operation: str, payload: bytes) -> Any:
        headers = self._signer.headers(_TARGET + operation, payload)
        headers["User-Agent"] = self._user_agent
        response = self._http.send(_Request(self._url, payload, headers))
        self.date = response.headers.get("Date", "")
        return response

    def _learn_skew(self, response: Any, assumed: float) -> bool:
        """Take over the time of a refusal; False if it is the one that was signed with.

        Several threads may find out at the same time.
        """
        try:
            there = parsedate_to_datetime(response.headers.get("Date", "")).timestamp()
        except ValueError:
            return False
        skew = there - time.time()
        if abs(skew - assumed) < LEAST_SKEW:
            return False
        if abs(skew - self._signer.skew) >= LEAST_SKEW:
            self._signer.skew = skew
            _logger.warning("this machine's clock is off by %.0f seconds; please set it", -skew)
        return True

    def close(self) -> None:
        self._http.close()


def _answer(response: Any) -> Body:
    """The body of an answer. Raises ``AnswerCutShort`` for one that was damaged on the way."""
    content: bytes = response.content
    checksum = response.headers.get("x-amz-crc32")
    # We ask for no compression; of a compressed answer the checksum is not that of its content.
    is_checked = checksum is not None and "Content-Encoding" not in response.headers
    if is_checked and str(crc32(content)) != checksum:
        raise AnswerCutShort("the answer does not have the checksum that its header gives")
    try:
        answer: Body = json.loads(content)
    except ValueError as error:
        raise AnswerCutShort("the answer is not complete JSON") from error
    return answer


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
