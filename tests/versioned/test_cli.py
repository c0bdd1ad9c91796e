"""The command line: the same verbs, tables for people, JSON for programs, telling codes."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

import versioned
from tests.versioned.conftest import Backing
from tests.versioned.test_content import damage
from versioned.cli import main
from versioned.cli.errors import EXIT_CODES
from versioned.errors import VersionedError

Run = Callable[..., Result]


@pytest.fixture
def environment(local: Backing) -> dict[str, str]:
    return {
        "VERSIONED_TABLE": local.table_uri,
        "VERSIONED_STORAGE": local.storage_uri,
        "VERSIONED_ACTOR": "ann",
    }


@pytest.fixture
def run(environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, code: int = 0, **options: Any) -> Result:
        result = CliRunner().invoke(main, arguments, env=environment, **options)
        assert result.exit_code == code, result.output
        return result

    return run


@pytest.fixture
def filled(run: Run, tmp_path: Path) -> Run:
    for content in ("one", "two"):
        Path(tmp_path, "app.zip").write_text(content)
        run("publish", "my-app", "app.zip", "--metadata", f"release={content}")
    run("alias", "put", "my-app", "prod", "1", "--reason", "first")
    return run


def from_json(result: Result) -> Any:
    return json.loads(result.stdout)


def lines(result: Result) -> list[str]:
    return result.stdout.splitlines()


def test_put_publish_and_get(run: Run, tmp_path: Path):
    Path("app.zip").write_bytes(b"content")
    assert "my-app/LATEST put: 7 B, sha256 ed7002b4" in run("put", "my-app", "app.zip").stdout
    assert "my-app/1 published" in run("publish", "my-app").stdout
    assert "my-app/1 is in copy.zip (7 B)" in run("get", "my-app/1", "--to", "copy.zip").stdout
    assert Path("copy.zip").read_bytes() == b"content"
    (tmp_path / "into").mkdir()
    assert from_json(run("get", "my-app", "--to", "into", "--json"))["path"] == "into/app.zip"


def test_standard_input_and_output(run: Run):
    run("publish", "my-app", "-", input=b"\0\1 content")
    assert run("get", "my-app/1", "--to", "-").stdout_bytes == b"\0\1 content"


def test_a_folder(run: Run, tmp_path: Path):
    (tmp_path / "model").mkdir()
    Path("model", "MLmodel").write_text("flavors: {}\n")
    run("publish", "my-model", "model")
    run("get", "my-model/1", "--to", "copy")
    assert Path("copy", "MLmodel").read_text() == "flavors: {}\n"


def test_publishing_what_is_not_latest_any_more_is_a_conflict(filled: Run):
    result = filled("publish", "my-app", "--expected-sha256", "0" * 64, code=4)
    assert "Error: LATEST of 'my-app' is" in result.stderr


def test_names_and_versions_as_tables(filled: Run):
    assert lines(filled("names")) == ["name", "my-app"]
    table = [line.split() for line in lines(filled("versions", "my-app"))]
    assert table[0] == ["version", "size", "sha256", "updated", "by"]
    assert [row[0] for row in table[1:]] == ["LATEST", "2", "1"]
    assert [row[-2:] for row in table[1:]] == [["ann", "release=two"], ["ann", "release=two"],
                                               ["ann", "release=one"]]  # fmt: skip
    assert lines(filled("versions", "my-app", "--oldest-first"))[2].startswith("1 ")


def test_lists_go_on_with_a_cursor(filled: Run):
    first = filled("versions", "my-app", "--limit", "2")
    assert len(lines(first)) == 3
    assert first.stderr.startswith("There is more: --cursor ")
    cursor = first.stderr.split()[-1]
    assert lines(filled("versions", "my-app", "--cursor", cursor))[1].startswith("1 ")
    page = from_json(filled("versions", "my-app", "--limit", "2", "--json"))
    assert ([row["version"] for row in page["items"]], page["cursor"]) == (["LATEST", "2"], cursor)
    filled("versions", "my-app", "--cursor", "wrong", code=2)


def test_everything_known_about_a_version_as_json(filled: Run):
    shown = from_json(filled("show", "my-app/1", "--json"))
    assert shown.pop("update_at").endswith("+00:00")
    assert shown == {
        "name": "my-app",
        "version": "1",
        "sha256": "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed",
        "size": 3,
        "filename": "app.zip",
        "is_folder": False,
        "is_deleted": False,
        "metadata": {"release": "one"},
        "by": "ann",
    }
    assert from_json(filled("show", "my-app@prod", "--json"))["version"] == "1"
    assert "sha256" in filled("show", "my-app").stdout


def test_the_life_of_a_canary(filled: Run):
    told = [
        filled("alias", "canary", "my-app", "prod", "2", "--weight", "20", "--by", "bob"),
        filled("alias", "promote", "my-app", "prod"),
        filled("alias", "rollback", "my-app", "prod", "--reason", "errors"),
        filled("alias", "abort", "my-app", "prod"),
        filled("alias", "rollback", "my-app", "prod", "--to", "1"),
    ]
    assert [result.stdout for result in told] == [
        "my-app@prod points at 1, 20 % to 2 (revision 2)\n",
        "my-app@prod points at 2 (revision 3)\n",
        "my-app@prod points at 1, 20 % to 2 (revision 4)\n",
        "my-app@prod points at 1 (revision 5)\n",
        "my-app@prod points at 1 (revision 5)\n",
    ]
    table = lines(filled("alias", "history", "my-app", "prod"))
    assert [row.split()[:2] for row in table[1:]] == [
        ["5", "abort"], ["4", "rollback"], ["3", "promote"], ["2", "canary"], ["1", "put"],
    ]  # fmt: skip
    assert "bob" in table[4]
    newest, *_ = from_json(filled("alias", "history", "my-app", "prod", "--json"))["items"]
    assert newest["before"] == {
        "version": "1",
        "secondary_version": "2",
        "secondary_version_weight": 20,
    }


def test_resolving_is_sticky(filled: Run):
    filled("alias", "canary", "my-app", "prod", "2", "--weight", "50")
    for key in ("a", "b", "c"):
        answers = {filled("resolve", "my-app", "prod", "--key", key).stdout for _ in range(2)}
        assert len(answers) == 1
        assert answers <= {"my-app/1\n", "my-app/2\n"}
        resolved = from_json(filled("resolve", "my-app", "prod", "--key", key, "--json"))
        assert {f"my-app/{resolved['version']}\n"} == answers


def test_aliases_are_shown_listed_and_deleted(filled: Run):
    assert "revision   1" in filled("alias", "get", "my-app", "prod").stdout
    assert lines(filled("alias", "list", "my-app"))[1].split()[:3] == ["prod", "1", "1"]
    filled("alias", "put", "my-app", "prod", "2", "--expected-revision", "0", code=4)
    assert filled("alias", "delete", "my-app", "prod").stdout == "my-app@prod is deleted\n"
    filled("alias", "get", "my-app", "prod", code=3)
    assert from_json(filled("alias", "rollback", "my-app", "prod", "--json"))["version"] == "1"
    assert from_json(filled("alias", "rollback", "my-app", "prod", "--to", "2", "--json")) == {
        "name": "my-app", "alias": "prod", "deleted": True,
    }  # fmt: skip


def test_deleting_undeleting_and_purging(filled: Run):
    assert "the alias 'prod' points at" in filled("delete", "my-app/1", code=4).stderr
    filled("alias", "put", "my-app", "prod", "2")
    assert "`versioned undelete` restores it" in filled("delete", "my-app/1").stdout
    filled("show", "my-app/1", code=3)
    assert from_json(filled("undelete", "my-app/1", "--json"))["is_deleted"] is False
    filled("purge", "my-app/1", "--yes", code=4)
    filled("delete", "my-app/1")
    filled("purge", "my-app/1", input="n\n", code=1)
    assert filled("purge", "my-app/1", input="y\n").stdout == "my-app/1 purged\n"
    assert "was purged" in filled("show", "my-app/1", code=3).stderr
    filled("alias", "delete", "my-app", "prod")
    assert from_json(filled("purge", "my-app", "--all", "--yes", "--json"))["purged"] == 2
    assert lines(filled("names")) == ["name"]


def test_gc(filled: Run):
    Path("app.zip").write_text("three")
    filled("put", "my-app", "app.zip")
    filled("publish", "my-app", "-", input=b"two")
    assert "0 B would be reclaimed" in filled("gc", "--dry-run").stdout
    assert (
        "5 B would be reclaimed from 1 contents"
        in filled("gc", "--dry-run", "--grace", "0s").stdout
    )
    collected = from_json(filled("gc", "--grace", "0s", "--json"))
    assert (collected["bytes"], collected["kept"], collected["dry_run"]) == (5, 2, False)
    filled("gc", "--grace", "soon", code=2)


def test_verify_ends_with_5_when_something_is_wrong(filled: Run, local: Backing):
    assert "3 versions, 2 contents, 6 B read: no problems" in filled("verify").stdout
    filled("purge", "my-app", "--all", "--yes", code=4)
    repo = local.open()
    repo.publish("other", b"right")
    filled("alias", "delete", "my-app", "prod")
    repo.purge_artifact("my-app")
    filled("gc", "--grace", "0s")
    damage(repo, b"wrong")
    result = filled("verify", code=5)
    assert "is damaged" in result.stdout
    assert result.stdout.endswith("1 problem\n")
    assert from_json(filled("verify", "--quick", "--json"))["ok"] is True
    assert "is damaged" in filled("get", "other/1", "--to", "copy", code=5).stderr
    assert not Path("copy").exists()


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["show", "nothing"], 3, "there is no artifact 'nothing'"),
        (["show", "a/b"], 2, "write my-app (its LATEST), my-app/3"),
        (["publish", "é", "app.zip"], 2, "1 to 128 letters"),
        (["publish", "my-app", "--metadata", "a=b"], 2, "metadata belongs to content"),
        (["put", "my-app", "app.zip", "--metadata", "a"], 2, "write it as key=value"),
        (["delete", "my-app@prod"], 2, "name the version itself"),
        (["alias", "promote", "my-app", "prod"], 4, "no secondary version"),
        (["alias", "canary", "my-app", "prod", "2", "--weight", "100"], 2, "from 0 to 99"),
        (["alias", "rollback", "my-app", "prod", "--to", "9"], 3, "no revision 9"),
        (["--storage", "ftp://x/y", "names"], 2, "s3://bucket/prefix or file:///folder"),
        (["--table", "mysql://x", "names"], 2, "dynamodb://us-east-1/"),
        (["versions", "nope"], 3, "there is no artifact 'nope'"),
        (["alias", "list", "nope"], 3, "there is no artifact 'nope'"),
        (["alias", "history", "my-app", "nope"], 3, "has no alias 'nope'"),
        (["verify", "nope"], 3, "there is no artifact 'nope'"),
        (["versions", "my-app", "--limit", "0"], 2, "a whole number from 1 to 10000"),
        (["versions", "my-app", "--cursor", "x"], 2, "is not a cursor of this listing"),
        (["alias", "put", "my-app", "prod", "9"], 3, "the newest is 2"),
        (["alias", "put", "my-app", "prod", "one"], 2, "a whole number from 1, or LATEST"),
        (["purge", "nope", "--all", "--yes"], 3, "there is no artifact 'nope'"),
        (["gc", "--grace", "soon"], 2, "write it as 90s, 30m, 12h or 7d"),
        (["names", "--namespace", "a b"], 2, "cannot name a namespace"),
        (["names", "--table", "mysql://x"], 2, "dynamodb://us-east-1/"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_an_error_is_one_sentence_and_a_code(arguments, code, message, filled: Run):
    result = filled(*arguments, code=code)
    assert message in result.stderr
    assert result.stderr.startswith("Error: ")
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("list", "did you mean `names` or `versions`?"),
        ("rollback", "did you mean `alias rollback`?"),
        ("publsh", "did you mean `publish`?"),
        ("frobnicate", "the commands are: alias, delete, gc"),
        ("alias nope", "the commands are: abort, canary"),
    ],
)
def test_a_command_that_does_not_exist_is_answered_with_one_that_does(typed, hint):
    said = CliRunner().invoke(main, typed.split())
    assert said.exit_code == 2
    assert hint in said.stderr


def test_an_option_of_the_repository_may_come_after_the_command(run: Run, environment):
    Path("app.zip").write_text("one")
    run("put", "my-app", "app.zip", "--namespace", "team")
    assert "my-app" in run("names", "--namespace", "team").stdout
    assert "my-app" not in run("names").stdout
    assert "my-app" in run("--namespace", "team", "names").stdout


def test_ctrl_c_leaves_nothing_half_done(environment: dict[str, str], tmp_path: Path, run: Run):
    run("init")
    ours, theirs = os.pipe()
    program = subprocess.Popen(
        [sys.executable, "-m", "versioned.cli", "publish", "endless", "-"],
        env={**os.environ, **environment, "PYTHONPATH": str(Path(versioned.__file__).parents[1])},
        stdin=ours,
        stderr=subprocess.PIPE,
        text=True,
    )
    # More than a pipe holds: when this is written, the program is reading.
    os.write(theirs, bytes(1_000_000))
    while program.poll() is None:
        # Python misses a signal that comes just before it begins to read; so do people.
        program.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            program.wait(timeout=10)  # a second signal may end a slow exit
    _, said = program.communicate()
    os.close(theirs)
    assert program.returncode == 130, said
    assert "run the same command again" in said
    assert from_json(run("names", "--json"))["items"] == []


def test_an_error_is_json_where_json_was_asked_for(filled: Run):
    told = json.loads(filled("show", "nothing", "--json", code=3).stderr)
    assert told["error"] == "ArtifactNotFound"
    assert told["exit_code"] == 3


def test_a_missing_setting_is_named(monkeypatch: pytest.MonkeyPatch):
    result = CliRunner().invoke(main, ["names"])
    assert result.exit_code == 2
    assert "--table (or VERSIONED_TABLE) is missing" in result.stderr
    result = CliRunner().invoke(main, ["--table", "dynamodb:///x.ddb", "names"])
    assert "--storage (or VERSIONED_STORAGE) is missing" in result.stderr


def test_a_folder_that_cannot_be_used_ends_with_6(run: Run, tmp_path: Path):
    Path("taken").write_text("a file")
    Path("app.zip").write_text("one")
    result = run("--storage", "taken", "put", "my-app", "app.zip", code=6)
    assert str(tmp_path / "taken") in result.stderr


def test_init_says_where_everything_is(run: Run, environment: dict[str, str]):
    told = from_json(run("init", "--json"))
    assert told == {"table": environment["VERSIONED_TABLE"],
                    "storage": environment["VERSIONED_STORAGE"]}  # fmt: skip


def test_every_class_of_errors_has_its_own_code():
    assert [code for code, _, _ in EXIT_CODES] == [1, 2, 3, 4, 5, 6]
    classes = {kind for _, kind, _ in EXIT_CODES}
    assert classes == {VersionedError, *VersionedError.__subclasses__()}


def commands(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))
        yield (*path, name)


@pytest.mark.parametrize("path", list(commands(main)), ids=" ".join)
def test_the_help_of_every_command_teaches_by_example(path):
    result = CliRunner().invoke(main, [*path, "--help"])
    assert result.exit_code == 0
    assert "Example" in result.output
    examples = [line for line in result.output.splitlines() if line.startswith("    versioned ")]
    examples += [line for line in result.output.splitlines() if "| versioned " in line]
    assert any(f"{' '.join(path)}" in line for line in examples)


@pytest.mark.parametrize("path", [p for p in commands(main) if p != ("alias",)], ids=" ".join)
def test_every_command_speaks_json(path):
    assert "--json" in CliRunner().invoke(main, [*path, "--help"]).output


def test_a_long_transfer_shows_a_bar_to_those_who_watch(
    environment: dict[str, str], tmp_path: Path
):
    (tmp_path / "large.bin").write_bytes(bytes(12_000_000))
    ours, theirs = pty.openpty()
    source = str(Path(versioned.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-m", "versioned.cli", "publish", "large", str(tmp_path / "large.bin")],
        env={**os.environ, **environment, "PYTHONPATH": source, "TERM": "xterm", "COLUMNS": "100"},
        stderr=theirs,
        stdout=subprocess.PIPE,
        check=True,
    )
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert b"large/1 published: 12.0 MB" in done.stdout
    assert "publishing large" in shown
    assert "12.0/12.0 MB" in shown


# --- a repository that is not there --------------------------------------------------------------

ARGUMENTS = {
    "alias abort": ["my-app", "prod"],
    "alias canary": ["my-app", "prod", "2", "--weight", "10"],
    "alias delete": ["my-app", "prod"],
    "alias get": ["my-app", "prod"],
    "alias history": ["my-app", "prod"],
    "alias list": ["my-app"],
    "alias promote": ["my-app", "prod"],
    "alias put": ["my-app", "prod", "1"],
    "alias rollback": ["my-app", "prod"],
    "delete": ["my-app/1"],
    "gc": [],
    "get": ["my-app/1"],
    "names": [],
    "purge": ["my-app/1", "--yes"],
    "resolve": ["my-app", "prod"],
    "show": ["my-app"],
    "undelete": ["my-app/1"],
    "verify": [],
    "versions": ["my-app"],
}
"""Every command but those that create a table, with arguments that would do on one."""


def test_every_command_is_named_here():
    named: list[str] = []
    for name, command in main.commands.items():
        below = command.commands if isinstance(command, click.Group) else None
        named += [name] if below is None else [f"{name} {one}" for one in below]
    assert sorted(named) == sorted([*ARGUMENTS, "init", "put", "publish"])


@pytest.mark.parametrize("command", ARGUMENTS)
def test_a_mistyped_path_creates_neither_a_file_nor_a_folder(
    command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    where = ["--table", "dynamodb:///folder/mistyped.ddb", "--storage", "mistyped"]
    said = CliRunner().invoke(main, [*where, *command.split(), *ARGUMENTS[command]])
    assert said.exit_code == 3, said.output
    assert "folder/mistyped.ddb. Check where it is" in said.output
    assert list(tmp_path.iterdir()) == []
