"""On a terminal, what takes long shows that it is at work, and Ctrl-C says how to continue."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import mlflow_dynamodbstore
from mlflow_dynamodbstore.cli.common import RESUMES, UNCHANGED, Command
from mlflow_dynamodbstore.keys import runs as run_keys
from tests.cli.test_docs_cli import COMMANDS

# What is started in the background ignores Ctrl-C, and so does what it starts.
CALL = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from mlflow_dynamodbstore.cli import main
main()
"""
ENVIRONMENT = {
    "PYTHONPATH": str(Path(mlflow_dynamodbstore.__file__).parents[1]),
    "TERM": "xterm",
    "COLUMNS": "120",
}


@contextmanager
def on_a_terminal(*arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """A command whose error stream is a terminal, and the other end of that."""
    ours, theirs = pty.openpty()
    program = subprocess.Popen(
        [sys.executable, "-c", CALL, *arguments],
        env={**os.environ, **ENVIRONMENT},
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    os.close(theirs)
    try:
        yield program, ours
    finally:
        program.kill()
        program.communicate()
        os.close(ours)


def read_until(terminal: int, text: str) -> str:
    """What the terminal showed until a text, or until its end."""
    shown = b""
    while text.encode() not in shown:
        try:
            shown += os.read(terminal, 65_536)
        except OSError:  # the program has ended
            break
    return shown.decode()


def test_a_command_shows_its_progress_can_be_stopped_and_goes_on(run, store, uri):
    """A cleanup waits before its second look at an orphan, so it can be stopped in the middle."""
    store.table.put({"PK": "EXP#12", "SK": "E#TAG#team", "value": "x"})
    store.table.put({"PK": "EXP#12", "SK": run_keys.run_tag("a" * 32, "team"), "value": "x"})
    store.table.close()
    with on_a_terminal("ttl", "cleanup", "--grace", "600", "--uri", uri) as (program, terminal):
        shown = read_until(terminal, "second check in")
        assert "loading MLflow" in shown
        assert "looking for orphans" in shown
        program.send_signal(signal.SIGINT)
        said = read_until(terminal, RESUMES)
        assert RESUMES in said
        assert "Traceback" not in said
        assert program.wait(timeout=60) == 130
    assert run.json("ttl", "cleanup", "--grace", "0.1")["orphans"] >= 1
    assert run.json("ttl", "cleanup", "--grace", "0.1")["orphans"] == 0


def test_nothing_of_it_is_printed_where_nobody_watches(run):
    assert run("stats").stderr == ""


def test_every_command_that_writes_says_what_ctrl_c_leaves_behind():
    only_look = {
        *("alias show", "alias history", "compare", "config get", "config list", "doctor"),
        *(
            "alias find",
            "experiment volumes",
            "explain",
            "find runs",
            "find traces",
            "run datasets",
            "run models",
        ),
        *("fts list", "iam-policy", "primary-metric show", "stats", "tag list"),
        *("estimate", "experiment volumes", "ttl show", "workspace list"),
    }
    unchanged = {
        name
        for name, command in COMMANDS.items()
        if isinstance(command, Command) and command.stopped == UNCHANGED
    }
    assert unchanged == only_look
