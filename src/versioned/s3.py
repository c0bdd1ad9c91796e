"""A storage in S3, or in anything that speaks its protocol.

Large content goes up in parts, a few at a time, so that memory stays bounded whatever its size. A
download that breaks goes on where it stopped.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import datetime
from threading import Lock
from typing import Any
from urllib.parse import urlencode, urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
    ReadTimeoutError,
    ResponseStreamingError,
)

from versioned.content import CHUNK, Content, Progress, no_progress
from versioned.errors import (
    AccessDenied,
    ContentMissing,
    LocationMissing,
    Unavailable,
    Unusable,
    VersionedError,
)
from versioned.storage import StoredObject

_MAKING = Lock()  # using a client is safe in several threads; making two from one session is not
PART = 8 * 1024 * 1024
PARTS_AT_ONCE = 3
MAX_PARTS = 10_000
RESUMES = 5
_IDENTITY = ".versioned/identity.json"
_BROKEN_STREAM = (IncompleteReadError, ReadTimeoutError, ResponseStreamingError)
_ABSENT = {"NoSuchKey", "404", "NotFound"}
_TAKEN = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}
_DENIED = {
    "AccessDenied",
    "403",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
}


class S3Storage:
    """Keys are objects below a prefix of a bucket.

    ``session`` is a ``boto3.Session``; by default a new one follows the usual AWS chain. Nothing
    is shared with other storages, so each keeps to its own credentials.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        session: Any = None,
        endpoint_url: str | None = None,
        region: str | None = None,
    ):
        self.bucket = bucket
        self.prefix = f"{prefix}/" if prefix else ""
        self.endpoint_url = endpoint_url
        self.region = region
        self._session = session
        self._made: Any = None

    @property
    def uri(self) -> str:
        options = {"endpoint_url": self.endpoint_url, "region": self.region}
        query = urlencode({name: value for name, value in options.items() if value})
        return f"s3://{self.bucket}/{self.prefix.rstrip('/')}" + (f"?{query}" if query else "")

    def identity(self) -> str | None:
        try:
            return str(json.loads(b"".join(self.read(_IDENTITY)))["identity"])
        except ContentMissing:
            return None

    def claim(self, identity: str) -> str:
        body = json.dumps({"identity": identity}) + "\n"
        with self._named():
            try:
                self._client.put_object(**self._at(_IDENTITY), Body=body.encode(), IfNoneMatch="*")
            except ClientError as error:
                if _code(error) not in _TAKEN:
                    raise
        return self.identity() or identity

    def size(self, key: str) -> int | None:
        with self._named():
            try:
                return int(self._client.head_object(**self._at(key))["ContentLength"])
            except ClientError as error:
                if _code(error) not in _ABSENT:
                    raise
                return None

    def write(self, key: str, content: Content, progress: Progress = no_progress) -> None:
        with self._named():
            if content.size <= PART:
                self._put(key, content)
                progress(content.size)
            else:
                self._put_in_parts(key, content, progress)

    def read(self, key: str) -> Iterator[bytes]:
        offset, total, same, broken = 0, None, dict[str, str](), 0
        while total is None or offset < total:
            with self._named(key):
                response = self._client.get_object(**self._at(key), **same)
            total = total or int(response["ContentLength"])
            try:
                with self._named(key):
                    for chunk in response["Body"].iter_chunks(CHUNK):
                        offset += len(chunk)
                        yield chunk
            except Unavailable as error:
                broken += 1
                if not isinstance(error.__cause__, _BROKEN_STREAM) or broken > RESUMES:
                    raise
            if offset == total:
                return
            same = {"IfMatch": response["ETag"], "Range": f"bytes={offset}-"}

    def delete(self, key: str) -> None:
        with self._named():
            self._client.delete_object(**self._at(key))

    def list(self, folder: str) -> Iterator[StoredObject]:
        with self._named():
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self.bucket, Prefix=f"{self.prefix}{folder}/"
            )
            for page in pages:
                for found in page.get("Contents", ()):
                    key = found["Key"].removeprefix(self.prefix)
                    yield StoredObject(key, found["Size"], found["LastModified"])

    def unfinished(self, folder: str, before: datetime) -> Iterator[str]:
        with self._named():
            pages = self._client.get_paginator("list_multipart_uploads").paginate(
                Bucket=self.bucket, Prefix=f"{self.prefix}{folder}/"
            )
            for page in pages:
                for upload in page.get("Uploads", ()):
                    if upload["Initiated"] < before:
                        yield f"{upload['Key'].removeprefix(self.prefix)}?{upload['UploadId']}"

    def discard(self, unfinished: str) -> None:
        key, _, upload = unfinished.partition("?")
        with self._named():
            try:
                self._client.abort_multipart_upload(**self._at(key), UploadId=upload)
            except ClientError as error:
                if _code(error) != "NoSuchUpload":  # finished or discarded by somebody else
                    raise

    # --- writing ---------------------------------------------------------------------------------

    def _put(self, key: str, content: Content) -> None:
        checksum = base64.b64encode(bytes.fromhex(content.sha256)).decode()
        body = b"".join(content.chunks())
        self._client.put_object(**self._at(key), Body=body, ChecksumSHA256=checksum)

    def _put_in_parts(self, key: str, content: Content, progress: Progress) -> None:
        upload = self._client.create_multipart_upload(**self._at(key))["UploadId"]
        try:
            parts = self._send_parts(key, upload, content, progress)
            self._client.complete_multipart_upload(
                **self._at(key), UploadId=upload, MultipartUpload={"Parts": parts}
            )
        except BaseException:
            self.discard(f"{key}?{upload}")
            raise

    def _send_parts(
        self, key: str, upload: str, content: Content, progress: Progress
    ) -> Sequence[dict[str, Any]]:
        def send(number: int, body: bytes) -> dict[str, Any]:
            sent = self._client.upload_part(
                **self._at(key), UploadId=upload, PartNumber=number, Body=body
            )
            progress(len(body))
            # What the service computed for the part comes back to it, if it computes any.
            sums = {name: sent[name] for name in sent if name in ("ETag", "ChecksumCRC32")}
            return {"PartNumber": number, **sums}

        sending: set[Future[dict[str, Any]]] = set()
        parts: list[dict[str, Any]] = []
        with ThreadPoolExecutor(PARTS_AT_ONCE, thread_name_prefix="s3-part") as pool:
            for number, body in enumerate(content.chunks(_part_size(content.size)), start=1):
                sending.add(pool.submit(send, number, body))
                if len(sending) >= PARTS_AT_ONCE:
                    done, sending = wait(sending, return_when=FIRST_COMPLETED)
                    parts += [future.result() for future in done]
            parts += [future.result() for future in sending]
        return sorted(parts, key=lambda part: int(part["PartNumber"]))

    # --- plumbing --------------------------------------------------------------------------------

    @property
    def _client(self) -> Any:
        if self._made is None:
            with _MAKING:
                self._made = self._made or self._make_client()
        return self._made

    def _make_client(self) -> Any:
        session = self._session or boto3.session.Session()
        options: dict[str, Any] = {"retries": {"mode": "standard", "max_attempts": 5}}
        given: dict[str, Any] = {}
        if self.endpoint_url:
            options["s3"] = {"addressing_style": "path"}
            given["endpoint_url"] = self.endpoint_url
            if _is_local(self.endpoint_url) and session.get_credentials() is None:
                # An emulator asks for a signature, whoever made it.
                given |= {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
        region = self.region or session.region_name or ("us-east-1" if self.endpoint_url else None)
        return session.client("s3", region_name=region, config=Config(**options), **given)

    def _at(self, key: str) -> dict[str, str]:
        return {"Bucket": self.bucket, "Key": self.prefix + key}

    @contextmanager
    def _named(self, key: str | None = None) -> Iterator[None]:
        """Turn an error of the service into one of ours that says where and what to do."""
        try:
            yield
        except ClientError as error:
            raise self._translated(error, key) from error
        except (NoCredentialsError, PartialCredentialsError) as error:
            raise AccessDenied(
                f"no AWS credentials for s3://{self.bucket}: set AWS_PROFILE, or run `aws login`"
            ) from error
        except BotoCoreError as error:
            raise Unavailable(f"s3://{self.bucket} gave no answer: {error}") from error

    def _translated(self, error: ClientError, key: str | None) -> VersionedError:
        code = _code(error)
        where = f"s3://{self.bucket}/{self.prefix}"
        if code == "NoSuchBucket":
            return LocationMissing(
                f"the bucket {self.bucket} does not exist: create it, for example with "
                f"`aws s3 mb s3://{self.bucket}`"
            )
        if key is not None and code in _ABSENT:
            return ContentMissing(f"{where}{key} is not there")
        if code in _DENIED:
            return AccessDenied(f"{where} cannot be used with these credentials: {error}")
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        kind = Unavailable if status >= 500 or code == "SlowDown" else Unusable
        return kind(f"{where} refused a request: {error}")


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))


def _part_size(size: int) -> int:
    """Parts of 8 MB, larger only where 10,000 of them would not reach (above 80 GB)."""
    needed = -(-size // MAX_PARTS)
    return max(PART, -(-needed // CHUNK) * CHUNK)


def _is_local(url: str) -> bool:
    return urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
