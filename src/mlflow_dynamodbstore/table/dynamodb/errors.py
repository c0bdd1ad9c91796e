"""Errors of botocore and of DynamoDB as errors of a table."""

from __future__ import annotations

import re
from difflib import get_close_matches
from http import HTTPStatus

from botocore import exceptions as boto
from botocore.loaders import Loader

from mlflow_dynamodbstore.table.dynamodb.codec import decode_item
from mlflow_dynamodbstore.table.dynamodb.transport import (
    AnswerCutShort,
    Body,
    PayloadTooLarge,
    ServiceError,
    service_error,
)
from mlflow_dynamodbstore.table.errors import (
    AccessDenied,
    BadTableURI,
    CollectionFull,
    ConditionFailed,
    InvalidRequest,
    ItemTooLarge,
    Refusal,
    RefusalCode,
    TableError,
    TableMissing,
    Throttled,
    TransactionCancelled,
    Unavailable,
)
from mlflow_dynamodbstore.table.location import Location

REQUEST_ERRORS = (
    ServiceError,
    AnswerCutShort,
    PayloadTooLarge,
    boto.BotoCoreError,
    boto.ClientError,
)
"""What sending a request may raise, and :func:`translate` takes."""

_THROTTLED = {
    "ProvisionedThroughputExceededException",
    "ThrottlingException",
    "Throttling",
    "RequestLimitExceeded",
    "LimitExceededException",
    # Of other services and of gateways; botocore repeats these for every service.
    "BandwidthLimitExceeded",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "ThrottledException",
    "TooManyRequestsException",
    # A running transaction or replication holds the item: this request did nothing, and will soon
    # succeed.
    "TransactionConflictException",
    "ReplicatedWriteConflictException",
}
_TIMED_OUT = {"RequestTimeout", "RequestTimeoutException", "PriorRequestNotComplete"}
_DENIED = {
    "AccessDenied",
    "AccessDeniedException",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "IncompleteSignatureException",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidIdentityToken",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "MissingAuthenticationTokenException",
    "NotAuthorized",
    "OptInRequired",
    "RequestExpired",
    "RequestTimeTooSkewed",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
_REASONS = {
    "ConditionalCheckFailed": RefusalCode.CONDITION_FAILED,
    "TransactionConflict": RefusalCode.CONFLICT,
    "ThrottlingError": RefusalCode.THROTTLED,
    "ProvisionedThroughputExceeded": RefusalCode.THROTTLED,
    "RequestLimitExceeded": RefusalCode.THROTTLED,
    "ItemCollectionSizeLimitExceeded": RefusalCode.COLLECTION_FULL,
}
_NO_CREDENTIALS = (
    boto.NoCredentialsError,
    boto.PartialCredentialsError,
    boto.CredentialRetrievalError,
    boto.NoAuthTokenError,
    boto.TokenRetrievalError,
    boto.ProfileNotFound,
    boto.RefreshWithMFAUnsupportedError,
    boto.MetadataRetrievalError,
    boto.SSOError,
)
_NEVER_SENT = (
    boto.EndpointConnectionError,
    boto.ConnectTimeoutError,
    boto.ProxyConnectionError,
    boto.SSLError,
)
_CERTIFICATES = "AWS_CA_BUNDLE names a file with the certificates to trust"


def translate(error: Exception, location: Location, *, write: bool) -> TableError:
    """The table's error for one of ``REQUEST_ERRORS``; ``write``: the request was a write."""
    if isinstance(error, boto.ClientError):
        error = service_error(error)
    if isinstance(error, ServiceError):
        return _translate_answer(error, location, write=write)
    if isinstance(error, (*_NO_CREDENTIALS, *_NEVER_SENT)) and _is_unknown(location):
        return BadTableURI(_unknown_region(location.region))
    if isinstance(error, _NO_CREDENTIALS):
        why = str(error).rstrip(".")
        return AccessDenied(f"no usable AWS credentials for {location}: {why}. {_advice(location)}")
    if isinstance(error, PayloadTooLarge):
        return InvalidRequest(str(error))
    if isinstance(error, _NEVER_SENT):
        advice = f" ({_CERTIFICATES})" if isinstance(error, boto.SSLError) else ""
        return Unavailable(f"{location} cannot be reached: {error}{advice}")
    return Unavailable(f"no answer came from {location}: {error}", maybe_applied=write)


def _translate_answer(error: ServiceError, location: Location, *, write: bool) -> TableError:
    code, said = error.code, f"{error.message or 'no message'} ({error.code})"
    if code == "ConditionalCheckFailedException":
        old = error.body.get("Item")
        return ConditionFailed(old=decode_item(old) if old else None)
    if code == "TransactionCanceledException":
        return _cancelled(error)
    if code == "TransactionInProgressException":
        # The first try with this token is still running; its result is not known yet.
        return Unavailable(said, maybe_applied=True)
    if code in _THROTTLED or error.status == HTTPStatus.TOO_MANY_REQUESTS:
        return Throttled(said)
    if code == "ItemCollectionSizeLimitExceededException":
        return CollectionFull(said)
    if code == "ResourceNotFoundException":
        return table_missing(location)
    if code in _DENIED:
        return AccessDenied(f"{location} refused the credentials: {said}. {_advice(location)}")
    if code == "ValidationException" and _is_item_size(error.message):
        return ItemTooLarge(said)
    if code in _TIMED_OUT or error.status >= 500 or error.status == HTTPStatus.REQUEST_TIMEOUT:
        return Unavailable(f"{location} failed: {said}", maybe_applied=write)
    return InvalidRequest(said)


def table_missing(location: Location) -> TableMissing:
    """The error for a table that is not there, with the command that creates it."""
    command = f"mlflow-dynamodbstore --name {location.table} --region {location.region} deploy"
    where = location.region if location.kind == "aws" else location.endpoint
    return TableMissing(
        f"there is no table {location.table!r} at {where}; create it with: {command}"
    )


def _is_unknown(location: Location) -> bool:
    """Whether this release of botocore does not know the region of a table on AWS."""
    return location.kind == "aws" and location.region not in _regions()


def _regions() -> list[str]:
    # Not by a session, which would read the profile that may be what is wrong.
    endpoints = Loader().load_data("endpoints")
    return [region for partition in endpoints["partitions"] for region in partition["regions"]]


def _unknown_region(region: str) -> str:
    near = get_close_matches(region, _regions())
    # Two letters that changed places are likelier than a wrong letter.
    near = [known for known in near if sorted(known) == sorted(region)] or near
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"{region!r} is not an AWS region that this release of botocore knows{hint}"


def _cancelled(error: ServiceError) -> TransactionCancelled | InvalidRequest:
    reasons: list[Refusal | None] = []
    for reason in error.body.get("CancellationReasons") or _named_reasons(error.message):
        code, message = reason.get("Code") or "None", reason.get("Message") or ""
        if code == "None":
            reasons.append(None)
            continue
        known = RefusalCode.ITEM_TOO_LARGE if _is_item_size(message) else _REASONS.get(code)
        if known is None:  # the operation itself is invalid
            return InvalidRequest(f"operation {len(reasons)}: {message or 'no message'} ({code})")
        old = reason.get("Item")
        reasons.append(Refusal(known, message, decode_item(old) if old else None))
    return TransactionCancelled(reasons)


def _named_reasons(message: str) -> list[Body]:
    """The reasons that a message lists, ``[None, ConditionalCheckFailed]``, without the items."""
    listed = re.search(r"\[([\w, ]+)\]", message)
    return [{"Code": code.strip()} for code in listed[1].split(",")] if listed else []


def _is_item_size(message: str) -> bool:
    """Whether the size of an item is what failed to validate; the code does not tell."""
    text = message.lower()
    return "item size" in text and "exceeded" in text


def _advice(location: Location) -> str:
    if not location.is_aws:
        return "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY to what this endpoint accepts."
    return (
        "Check them with `aws sts get-caller-identity`, sign in again if they have expired, and "
        "make sure that they allow the dynamodb actions on this table."
    )
