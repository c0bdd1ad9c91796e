"""Ways to damage the file of a table, as a bad disk does."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

PAGE_BYTES = 4096


def flip(path: Path, near: bytes, *, at: int = 0, with_: int = 0xFF) -> None:
    """Flip bits of one byte, counted from the only place where some bytes are in the file."""
    content = bytearray(path.read_bytes())
    assert content.count(near) == 1, content.count(near)
    content[content.index(near) + at] ^= with_
    path.write_bytes(content)


def overwrite_page(path: Path, holding: bytes) -> None:
    """Fill the page that holds some bytes with others."""
    content = bytearray(path.read_bytes())
    begin = content.index(holding) // PAGE_BYTES * PAGE_BYTES
    content[begin : begin + PAGE_BYTES] = b"\xff" * PAGE_BYTES
    path.write_bytes(content)


def change_rows(path: Path, statement: str, *values: Any) -> None:
    """Change rows behind the table's back."""
    connection = sqlite3.connect(path)
    with connection:
        connection.execute(statement, values)
    connection.close()
