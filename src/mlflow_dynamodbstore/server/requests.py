"""The body of an ASGI request, and a request whose body was read before."""

from __future__ import annotations

from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive


async def read_body(receive: Receive) -> bytes:
    """The whole body of a request. Raises ``ClientDisconnect`` if the client left before its end.

    What has arrived until then looks like a request of its own: half a file, for example.
    """
    message = await _next(receive)
    if not message.get("more_body", False):
        body: bytes = message.get("body", b"")
        return body
    pieces = [message.get("body", b"")]
    while message.get("more_body", False):
        message = await _next(receive)
        pieces.append(message.get("body", b""))
    return b"".join(pieces)


async def _next(receive: Receive) -> Message:
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientDisconnect
    return message


def with_body(body: bytes, receive: Receive) -> Receive:
    """What another app is given to read a body that was read before."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again
