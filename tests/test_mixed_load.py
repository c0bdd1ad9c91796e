"""Under mixed load memory, descriptors and the log stay as they are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tools.mixed_load import MB, THREADS, Sample, complaints, run

TOOL = Path(__file__).parents[1] / "tools" / "mixed_load.py"


def samples(memory=0, descriptors=0, log=0):
    """A minute of samples; the arguments tell what each grows by in a second."""
    return [
        Sample(n, 300 * MB + memory * n, 20 + descriptors * n, 4 * MB + log * n, calls=n)
        for n in range(60)
    ]


def test_what_stays_the_same_is_well():
    assert complaints(samples()) == []


@pytest.mark.parametrize(("what", "by"), [("memory", 5 * MB), ("descriptors", 1), ("log", 2 * MB)])
def test_what_grows_is_told(what, by):
    (complaint,) = complaints(samples(**{what: by}))
    assert "grew" in complaint


def test_a_short_run_shows_no_growth():
    ended = subprocess.run(
        [sys.executable, TOOL, "--minutes", "0.2", "--interval", "0.2"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    last = json.loads(ended.stdout.splitlines()[-1])
    assert (ended.returncode, last["wrong"]) == (0, []), ended.stderr
    assert last["calls"] > 0


def test_a_rate_bounds_how_much_is_done(tmp_path):
    done, wrong = run(tmp_path / "mlflow.ddb", seconds=3, interval=0.2, rate=8)
    assert wrong == []
    assert 0 < done[-1].calls <= 8 * 3 + THREADS
