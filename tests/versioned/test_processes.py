"""Point 1 among processes, and what is left of one that is killed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import versioned
from tests.versioned.conftest import Backing

PROGRAMS = Path(__file__).parent / "programs"
LONG = os.environ.get("VERSIONED_LONG_TESTS") == "1"
PROCESSES = 8
EACH = 25 if LONG else 3
KILLS = 40 if LONG else 3


def start(program: str, *arguments: object) -> subprocess.Popen[str]:
    source = str(Path(versioned.__file__).parents[1])
    return subprocess.Popen(
        [sys.executable, str(PROGRAMS / program), *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": source},
    )


def test_eight_processes_publish_at_once_and_every_version_is_one_content(backing: Backing):
    backing.open().put("app", b"warm")
    racers = [
        start("publisher.py", backing.table_uri, backing.storage_uri, f"p{number}", EACH)
        for number in range(PROCESSES)
    ]
    for racer in racers:
        assert racer.stdout is not None
        assert racer.stdout.readline() == "ready\n"
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    told: dict[str, set[str]] = {}
    for racer in racers:
        output, _ = racer.communicate(timeout=120)
        assert racer.returncode == 0
        for line in output.splitlines():
            _, version, content = line.split()
            told.setdefault(version, set()).add(content)
    repo = backing.open()
    contents = PROCESSES * EACH + EACH
    assert {int(version) for version in told} == set(range(1, contents + 1))
    assert all(len(content) == 1 for content in told.values())
    for version, (content,) in told.items():
        assert repo.read("app", version) == content.encode()
    assert repo.verify().ok


def test_a_process_that_is_killed_loses_nothing_that_it_was_told_it_has(backing: Backing):
    rng = random.Random(7)
    kept: dict[str, str] = {}
    for _ in range(KILLS):
        process = start("restless.py", backing.table_uri, backing.storage_uri)
        assert process.stdout is not None
        lines = [process.stdout.readline()]
        time.sleep(rng.uniform(0, 0.3))
        process.send_signal(signal.SIGKILL)
        lines += process.stdout.readlines()
        process.communicate(timeout=20)
        for line in lines:
            words = line.split()
            if words[:1] == ["removing"]:
                kept.pop(words[1], None)
            elif line.endswith("\n"):
                assert words[1] not in kept
                kept[words[1]] = words[2]
    repo = backing.open()
    assert kept
    for version, sha256 in kept.items():
        assert repo.show("app", version).sha256 == sha256
    report = repo.verify()
    assert report.ok, report.problems
    repo.gc(grace=timedelta(0))
    assert repo.verify().ok
