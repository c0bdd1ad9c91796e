"""A stand-in for a model provider: it answers chat completions as OpenAI's API does."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Provider:
    """Where it listens, what it was asked, and when and what it answers."""

    url: str
    asked: list[dict[str, Any]] = field(default_factory=list)
    seconds: float = 0.0
    answering: threading.Event = field(default_factory=threading.Event)
    result: Any = "yes"


@contextmanager
def running_provider() -> Iterator[Provider]:
    provider = Provider("")
    provider.answering.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            length = int(self.headers["Content-Length"])
            asked = json.loads(self.rfile.read(length))
            provider.asked.append(asked)
            time.sleep(provider.seconds)
            provider.answering.wait()
            body = json.dumps(_completion(str(asked.get("model")), provider.result)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    provider.url = f"http://127.0.0.1:{server.server_address[1]}/v1"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield provider
    server.shutdown()


def _completion(model: str, result: Any) -> dict[str, Any]:
    content = json.dumps({"result": result, "rationale": "It is polite."})
    message = {"role": "assistant", "content": content}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }
