"""The screens in the documentation, made by the commands themselves.

``python -m tests.cli.screens`` writes them into the pages; a test compares them.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from click.testing import CliRunner
from mlflow.entities import Metric, Param, RunStatus, RunTag

from mlflow_dynamodbstore.cli import main
from mlflow_dynamodbstore.keys import experiments as experiment_keys
from mlflow_dynamodbstore.keys import ids
from mlflow_dynamodbstore.keys import runs as run_keys
from mlflow_dynamodbstore.table.table import Table
from mlflow_dynamodbstore.table.uri import open_engine
from mlflow_dynamodbstore.tracking.store import DynamoDBTrackingStore
from tests.places import run_place

DOCS = Path(__file__).parents[2] / "docs"
PAGES = (DOCS / "moving.md", DOCS / "operations.md")
WIDTH = "100"
SCREENS = (
    "copy dynamodb:///team.ddb --verify",
    "doctor",
    "stats",
    "ttl cleanup --dry-run",
    "ttl cleanup",
)

_BLOCK = re.compile(
    r"```console\n\$ mlflow-dynamodbstore (?P<command>[^\n]*)\n(?P<screen>.*?)```", re.DOTALL
)


def populate(uri: str) -> None:
    """Two experiments with runs, one run that nobody ended, and some that are gone."""
    table = Table(open_engine(uri))
    store = DynamoDBTrackingStore("", "s3://bucket/root", table=table)
    number = store.create_experiment("churn")
    for n in range(40):
        run = store.create_run(
            number, "ada", 1_700_000_000_000 + n, [RunTag("team", "blue")], f"run-{n:02}"
        )
        store.log_batch(
            run.info.run_id,
            [Metric("auc", 0.5 + n / 100, 1_700_000_000_000, step) for step in range(5)],
            [Param("depth", str(n % 7)), Param("rate", "0.1")],
            [],
        )
        if n:
            store.update_run_info(run.info.run_id, RunStatus.FINISHED, 1_700_000_100_000, None)
        else:
            key = run_place(run.info.run_id).key
            item = table.get(key)
            assert item is not None
            table.put({**item, "opened": 1_700_000_000})
    for n in range(12):
        gone = ids.new_id(number, now_ms=1_700_000_000_000 + n)
        for sk in (run_keys.run_tag(gone, "team"), run_keys.run_param(gone, "depth")):
            table.put({"PK": experiment_keys.experiment_pk(number), "SK": sk, "value": "x"})
    table.close()


def screens() -> dict[str, str]:
    """What the commands print about such a table."""
    os.environ["COLUMNS"] = WIDTH
    made, here = {}, Path.cwd()
    # Lines break at the width of the screen: a long path would break others than on the pages.
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        uri = f"dynamodb:///{Path(folder) / 'mlflow.ddb'}?synchronous=NORMAL"
        populate(uri)
        os.chdir(folder)
        try:
            for command in SCREENS:
                result = CliRunner().invoke(main, ["--uri", uri, *command.split()])
                lines = (line.rstrip() for line in result.stdout.splitlines())
                made[command] = "\n".join(lines) + "\n"
        finally:
            os.chdir(here)
    return made


def documented() -> dict[str, str]:
    """What the pages show."""
    found = (match for page in PAGES for match in _BLOCK.finditer(page.read_text()))
    return {m["command"]: m["screen"] for m in found if m["command"] in SCREENS}


def settled(screen: str) -> str:
    """A screen without what differs from one table to the next, and without the table's frame."""
    screen = re.sub(r"[^\w'.,:`$/=?-]+", " ", screen)
    screen = re.sub(r"dynamodb:\S+", "URI", screen)
    screen = re.sub(r"[0-9a-f]{32}", "ID", screen)
    screen = re.sub(r"\d+ ms", "N ms", screen)
    return re.sub(r"[\d,.]+ (B|KB|MB|GB)|\$[\d.]+", "N", screen)


def write() -> None:
    """Put the screens of now into the pages."""
    made = screens()

    def shorter(uri: re.Match[str]) -> str:
        return "dynamodb:///mlflow.ddb".ljust(len(uri[0]))

    def shown(found: re.Match[str]) -> str:
        if found["command"] not in made:
            return found[0]
        screen = re.sub(r"dynamodb:////\S+", shorter, made[found["command"]])
        return f"```console\n$ mlflow-dynamodbstore {found['command']}\n{screen}```"

    for page in PAGES:
        page.write_text(_BLOCK.sub(shown, page.read_text()))


if __name__ == "__main__":
    write()
