"""Run our tests, and MLflow's own, on several releases of MLflow; print and write a table.

``make matrix`` builds an environment for each release below ``.matrix/`` and runs the tests there.
MLflow's own store tests need a runner for them, named by ``CONFORMANCE`` (a folder with ``run.sh``)
and ``CONF_MLFLOW_TESTS``; without it only our own tests run. A test of MLflow's that its own SQL
store does not pass on a release is not counted there.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import venv
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".matrix"
PAGE = ROOT / "docs" / "releases.md"
RELEASES = ("3.15.2", "3.16.1", "3.17.2")
# What a release of MLflow can break: the stores, the plugin and the command line.
STORES = (
    "auth evaluation gateway jobs mcp mlflow_compat registry reviews traces tracking workspaces"
)
TESTS = [f"tests/{name}" for name in STORES.split()] + ["tests/test_plugin.py", "tests/cli"]
FACTORIES = {
    f"CONF_{kind.upper()}_FACTORY": f"conformance.factories:make_{kind}"
    for kind in ("tracking", "registry", "workspace", "jobs", "auth")
}


class Result(NamedTuple):
    """What one release gave."""

    release: str
    passed: int
    failed: int
    skipped: int
    theirs: int | None = None
    counted: int | None = None


def environment(release: str) -> Path:
    """The Python of an environment with a release of MLflow and this package."""
    folder = FOLDER / release
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    print(f"MLflow {release}: installing", flush=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, f"mlflow=={release}", "--editable", f"{ROOT}[dev]"], check=True)
    return python


def own_tests(python: Path, release: str, tests: list[str], jobs: str) -> Result:
    """Run our tests; a test that needs what the release lacks skips itself."""
    print(f"MLflow {release}: our tests", flush=True)
    done = subprocess.run(
        [python, "-m", "pytest", "-q", "-n", jobs, "-p", "no:cacheprovider", *tests],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    last = done.stdout.strip().splitlines()[-1]
    counted = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped|error)", last)}
    if done.returncode:
        print(done.stdout)
    failed = counted.get("failed", 0) + counted.get("error", 0)
    return Result(release, counted.get("passed", 0), failed, counted.get("skipped", 0))


def mlflows_tests(python: Path, release: str, runner: Path, jobs: str) -> tuple[int, int]:
    """How many of MLflow's store tests ours pass, of those that its own SQL store passes."""
    passed = {}
    for name, factories in (("sql", {}), ("ours", FACTORIES)):
        print(f"MLflow {release}: MLflow's tests on {name}", flush=True)
        out = FOLDER / f"{release}-{name}"
        paths = {"CONF_PYTHON": str(python), "CONF_OUT": str(out), "PYTHONPATH": str(ROOT)}
        subprocess.run(
            ["bash", runner / "run.sh", "-n", jobs],
            env={**os.environ, **paths, **factories},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        results = json.loads((out / "results.json").read_text("utf-8"))
        passed[name] = {test for test, outcome in results.items() if outcome["outcome"] == "passed"}
    return len(passed["ours"] & passed["sql"]), len(passed["sql"])


def table(results: list[Result]) -> str:
    """The results as a table of the documentation."""
    rows = ["| MLflow | our tests | MLflow's store tests |", "| --- | --- | --- |"]
    for one in results:
        ours = f"{one.passed:,} passed, {one.failed:,} failed, {one.skipped:,} skipped"
        theirs = "" if one.counted is None else f"{one.theirs:,} of {one.counted:,}"
        rows.append(f"| {one.release} | {ours} | {theirs} |")
    return "\n".join(rows)


def main() -> int:
    """Run the matrix; 0 when nothing failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", nargs="+", default=list(RELEASES))
    parser.add_argument("--tests", nargs="+", default=TESTS)
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--write", action="store_true", help="write the table to docs/releases.md")
    given = parser.parse_args()
    runner = os.environ.get("CONFORMANCE")
    results = []
    for release in given.releases:
        python = environment(release)
        result = own_tests(python, release, given.tests, given.jobs)
        if runner:
            theirs, counted = mlflows_tests(python, release, Path(runner).resolve(), given.jobs)
            result = result._replace(theirs=theirs, counted=counted)
        results.append(result)
    print(table(results))
    if given.write:
        text = PAGE.read_text("utf-8")
        made = re.sub(
            r"(?<=<!-- matrix -->\n).*?(?=<!-- end -->)",
            table(results) + "\n",
            text,
            flags=re.DOTALL,
        )
        PAGE.write_text(made, "utf-8")
    return 1 if any(one.failed or one.theirs != one.counted for one in results) else 0


if __name__ == "__main__":
    sys.exit(main())
