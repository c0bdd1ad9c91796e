"""The file that tells which ids of an imported database became which."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click

from mlflow_dynamodbstore.cli.exits import Failure

MAP_FILE = "import-map.json"
_NUMBERED = ("experiments", "users", "roles")


@dataclass(frozen=True)
class NewIds:
    """The file that tells which ids became which."""

    path: Path
    source: str
    table: str

    def read(self, kind: str) -> dict[str, str]:
        """The new ids of a kind, from an earlier import into this table."""
        if not self.path.exists():
            return {}
        try:
            noted = json.loads(self.path.read_text())
        except ValueError as error:
            raise Failure(f"{self.path} is not a map of an import: {error}") from error
        if not isinstance(noted, dict) or noted.get("table") != self.table:
            raise Failure(
                f"{self.path} is not a map of an import into {self.table}; name another file "
                "with --map"
            )
        numbers = noted.get(kind, {})
        if not isinstance(numbers, dict):
            raise Failure(f"{self.path} is not a map of an import: {kind} is no object")
        return numbers

    def write(self, numbers: Mapping[str, Mapping[str, str]]) -> None:
        """Write the new ids; those of kinds that this source does not have stay."""
        kept = {kind: found for kind in _NUMBERED if (found := self.read(kind))}
        noted = {"source": self.source, "table": self.table, **kept, **numbers}
        self.path.write_text(json.dumps(noted, indent=2) + "\n")


def map_file(path: Path | None, *, renumbers: bool, writes: bool) -> Path:
    """Where the new ids are noted; refuses a file that could not be written in the end."""
    if path is not None and not renumbers:
        raise click.UsageError("--map needs --renumber, --prefix or --into-workspace")
    path = path or Path(MAP_FILE)
    if renumbers and writes:
        folder = path.absolute().parent
        if not folder.is_dir():
            raise Failure(f"{path} cannot be written: there is no folder {path.parent}")
        if not os.access(path if path.exists() else folder, os.W_OK):
            raise Failure(f"{path} cannot be written: name another file with --map")
    return path
