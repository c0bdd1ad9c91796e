"""A bridge from ASGI to a WSGI app that takes one hop to a thread for most requests.

The bridge that MLflow has hops for the start of an answer, for each of its pieces and for its end.
Each time it waits for two threads to take turns. Here a thread makes the answer and takes its first
piece. An answer that declares its length and is complete with this piece is sent at once. A longer
one of a known length is read in large parts, and a stream without one is sent piece by piece.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive, Scope, Send

from mlflow_dynamodbstore.mlflow_compat.server_app import build_environ
from mlflow_dynamodbstore.server.requests import read_body
from mlflow_dynamodbstore.server.threads import Threads

PART_BYTES = 256 * 1024
BODY_ENDS = "wsgi.input_terminated"
"""What tells Flask that the body ends. It takes a chunked one, of no declared length, for empty."""

ExcInfo = tuple[type[BaseException], BaseException, TracebackType | None]
WSGIApp = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Bridge:
    """An ASGI app that passes requests to a WSGI app."""

    def __init__(self, wsgi: WSGIApp, threads: Threads) -> None:
        self._wsgi = wsgi
        self._threads = threads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            # WSGI has no websockets. Closing one before it is accepted is answered with 403.
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1000})
            return
        try:
            environ = build_environ(scope, await read_body(receive))
        except ClientDisconnect:
            return  # nobody waits for an answer
        environ[BODY_ENDS] = True
        exchange = Exchange(self._wsgi, environ)
        body = await self._threads.run(exchange.part)
        await send(exchange.start())
        if not exchange.is_complete:
            body = await self._stream(exchange, body, receive, send)
        await send({"type": "http.response.body", "body": body})
        exchange.raise_error()

    async def _stream(self, exchange: Exchange, body: bytes, receive: Receive, send: Send) -> bytes:
        """Send an answer but for its last part, which is returned; end if the client leaves."""
        left = asyncio.ensure_future(receive())  # after the body, nothing else can come
        try:
            while not exchange.is_complete:
                await send({"type": "http.response.body", "body": body, "more_body": True})
                if left.done():
                    await self._threads.run(exchange.close)
                    return b""
                body = await self._threads.run(exchange.part)
        finally:
            left.cancel()
        return body


class Exchange:
    """One request to a WSGI app, and its answer part by part."""

    def __init__(self, wsgi: WSGIApp, environ: dict[str, Any]) -> None:
        self._wsgi = wsgi
        self._environ = environ
        self._pieces: Iterable[bytes] | None = None
        self._iterator: Iterator[bytes] = iter(())
        self._status = 0
        self._headers: list[tuple[bytes, bytes]] | None = None
        self._length: int | None = None  # bytes that the answer declares and that are to come
        self._error: ExcInfo | None = None
        self.is_complete = False

    def part(self) -> bytes:
        """The next part of the answer. It is called in a thread."""
        if self._pieces is None:
            self._pieces = self._wsgi(self._environ, self._start_response)
            self._iterator = iter(self._pieces)
        try:
            return self._read()
        except BaseException:
            self.close()
            raise

    def _read(self) -> bytes:
        part: list[bytes] = []
        size = 0
        for piece in self._iterator:
            part.append(piece)
            size += len(piece)
            if self._length is None or size >= min(PART_BYTES, self._length):
                break
        else:
            self.close()
        if self._length is not None:
            self._length -= size
            if self._length <= 0 and not self.is_complete:
                self.close()
        return part[0] if len(part) == 1 else b"".join(part)

    def close(self) -> None:
        """Let the app close its answer, whether all of it was read or not."""
        self.is_complete = True
        close = getattr(self._pieces, "close", None)
        if close is not None:
            close()

    def start(self) -> Message:
        """The message that begins the answer."""
        if self._headers is None:
            raise RuntimeError("the app has answered without a status")
        return {
            "type": "http.response.start",
            "status": self._status,
            "headers": self._headers,
        }

    def raise_error(self) -> None:
        """Raise the error that the app has answered with, for the log."""
        if self._error is not None:
            raise self._error[1].with_traceback(self._error[2])

    def _start_response(
        self, status: str, headers: list[tuple[str, str]], exc_info: ExcInfo | None = None
    ) -> None:
        self._error = exc_info
        if self._headers is not None:
            return
        self._status = int(status.partition(" ")[0])
        self._headers = [
            (name.strip().encode("ascii").lower(), value.strip().encode("ascii"))
            for name, value in headers
        ]
        lengths = [value for name, value in self._headers if name == b"content-length"]
        if len(lengths) == 1 and lengths[0].isdigit():
            self._length = int(lengths[0])
