"""The body of an ASGI request, and a request whose body was read before."""

from __future__ import annotations

from starlette.types import Message, Receive


async def read_body(receive: Receive) -> bytes:
    """The whole body of a request."""
    message = await receive()
    if not message.get("more_body", False):
        body: bytes = message.get("body", b"")
        return body
    pieces = [message.get("body", b"")]
    while message.get("more_body", False):
        message = await receive()
        pieces.append(message.get("body", b""))
    return b"".join(pieces)


def with_body(body: bytes, receive: Receive) -> Receive:
    """What another app is given to read a body that was read before."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return messages.pop() if messages else await receive()

    return again
