"""Reading requests with httptools, which by itself takes heads of any size.

A client that sends a header without an end would fill the server's memory. The limit is the one of
h11, with which uvicorn reads requests where httptools is not installed.
"""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

LARGEST_HEAD = 64 * 1024
"""Bytes of a request's path and headers."""


class BoundedHttpToolsProtocol(HttpToolsProtocol):
    """Uvicorn's protocol on httptools; a request whose head is too large is answered with 400."""

    _in_head = False
    _unread = 0
    """Bytes of a head that has not ended, but for the piece in which it began."""

    def data_received(self, data: bytes) -> None:
        begun = self.headers if self._in_head else None
        super().data_received(data)
        if self._in_head and self.headers is begun:
            self._unread += len(data)
            if self._unread > LARGEST_HEAD and not self.transport.is_closing():
                self.send_400_response("The path and the headers of the request are too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head, self._unread = True, 0

    def on_headers_complete(self) -> None:
        self._in_head = False
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > LARGEST_HEAD:
            raise ValueError("the head is too large")  # uvicorn answers 400
        super().on_headers_complete()
