"""AWS Signature Version 4 for one kind of request: a JSON body posted to DynamoDB.

botocore's signer serves every service and kind of request, and takes about as long as sending the
request. This one knows its few headers and keeps the day's signing key. A test compares its
signatures with botocore's.
"""

from __future__ import annotations

import hmac
import time
from hashlib import sha256
from typing import Any
from urllib.parse import quote, urlsplit

CONTENT_TYPE = "application/x-amz-json-1.0"
SERVICE = "dynamodb"
_DEFAULT_PORTS = {"http": 80, "https": 443}


class Signer:
    """Makes the headers of requests to one endpoint.

    ``credentials`` is botocore's object, which renews temporary credentials when they are read.
    ``skew`` is how many seconds the endpoint's clock is ahead of ours.
    """

    def __init__(self, credentials: Any, region: str, url: str) -> None:
        self._credentials = credentials
        self._region = region
        self._host = host_header(url)
        self._path = quote(urlsplit(url).path or "/", safe="/~")
        self._key: tuple[str, str, bytes] = ("", "", b"")
        self.skew = 0.0

    def headers(self, target: str, payload: bytes) -> dict[str, str]:
        """The headers of a request, signed as of now."""
        credentials = self._credentials.get_frozen_credentials()
        now = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(time.time() + self.skew))
        headers = {"Content-Type": CONTENT_TYPE, "X-Amz-Date": now, "X-Amz-Target": target}
        canonical = f"content-type:{CONTENT_TYPE}\nhost:{self._host}\nx-amz-date:{now}\n"
        signed = "content-type;host;x-amz-date"
        if credentials.token:
            # HTTP drops blanks at the ends of a header, and the signature counts runs of them once.
            headers["X-Amz-Security-Token"] = credentials.token.strip()
            canonical += f"x-amz-security-token:{' '.join(credentials.token.split())}\n"
            signed += ";x-amz-security-token"
        canonical += f"x-amz-target:{target}\n"
        signed += ";x-amz-target"

        digest = sha256(payload).hexdigest()
        request = f"POST\n{self._path}\n\n{canonical}\n{signed}\n{digest}"
        scope = f"{now[:8]}/{self._region}/{SERVICE}/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{sha256(request.encode()).hexdigest()}"
        key = self._signing_key(now[:8], credentials.secret_key)
        signature = hmac.digest(key, text.encode(), "sha256").hex()
        headers["Authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, "
            f"SignedHeaders={signed}, Signature={signature}"
        )
        return headers

    def _signing_key(self, day: str, secret: str) -> bytes:
        # A tuple is assigned at once, so threads need no lock.
        kept_day, kept_secret, key = self._key
        if (kept_day, kept_secret) != (day, secret):
            key = f"AWS4{secret}".encode()
            for part in (day, self._region, SERVICE, "aws4_request"):
                key = hmac.digest(key, part.encode(), "sha256")
            self._key = (day, secret, key)
        return key


def host_header(url: str) -> str:
    """The Host header that the HTTP client sends for a URL."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if ":" in host:
        host = f"[{host}]"
    if parts.port is None or parts.port == _DEFAULT_PORTS.get(parts.scheme):
        return host
    return f"{host}:{parts.port}"
