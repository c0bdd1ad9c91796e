"""A server as far away as AWS: a proxy in a process of its own that delays every request."""

from __future__ import annotations

import argparse
import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

MILLISECONDS = 6.0
"""What is added to each request: those of DynamoDB take 3 to 8 ms."""


@contextmanager
def delaying_proxy(address: str, milliseconds: float = MILLISECONDS) -> Iterator[str]:
    """A proxy in front of ``host:port`` that holds every request back; gives its ``host:port``."""
    command = [sys.executable, "-m", "bench.delay", address, str(milliseconds)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


async def serve(address: str, seconds: float) -> None:
    """Listen until the process ends; print the address first."""
    host, _, port = address.rpartition(":")

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(host, int(port))
        except OSError:
            writer.close()
            return
        await asyncio.gather(_pass_on(reader, back, seconds), _pass_on(there, writer, 0.0))

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    listening = server.sockets[0].getsockname()
    print(f"{listening[0]}:{listening[1]}", flush=True)
    await server.serve_forever()


async def _pass_on(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, seconds: float
) -> None:
    """Pass bytes on so many seconds after they came; a long request is not held back twice."""
    loop = asyncio.get_running_loop()
    arrived: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def receive() -> None:
        data = b"."
        while data:
            try:
                data = await reader.read(65536)
            except ConnectionError:
                data = b""
            arrived.put_nowait((loop.time() + seconds, data))

    receiving = asyncio.create_task(receive())
    with suppress(ConnectionError):
        while True:
            due, data = await arrived.get()
            await asyncio.sleep(due - loop.time())
            if not data:
                break
            writer.write(data)
            await writer.drain()
    receiving.cancel()
    writer.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address", help="host:port of the server")
    parser.add_argument("milliseconds", type=float)
    arguments = parser.parse_args()
    asyncio.run(serve(arguments.address, arguments.milliseconds / 1000))
