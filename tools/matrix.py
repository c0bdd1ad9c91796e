"""Run our tests, and MLflow's own, on several releases of MLflow and Pythons; print a table.

``make matrix`` builds an environment for each release and each Python below ``.matrix/`` and runs
the tests there. MLflow's own store tests need a runner for them, named by ``CONFORMANCE`` (a folder
with ``run.sh``) and ``CONF_MLFLOW_TESTS``; without it only our own tests run. A test of MLflow's
that its own SQL store does not pass either is not counted. On the newest release they run on AWS's
DynamoDB Local too, where it is installed. The last result of each is kept in
``.matrix/results.json``, so that a table can be made of several runs: ``--parts`` says what runs.

Temporary files are in memory where the system has such a folder: most tests wait for the disk.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # for tests.engines

from tests.engines import dynamodb_local_server, find_dynamodb_local  # noqa: E402

FOLDER = ROOT / ".matrix"
RESULTS = FOLDER / "results.json"
PAGE = ROOT / "docs" / "releases.md"
RELEASES = ("3.15.2", "3.16.1", "3.17.2")
# Our tests on a release: all but those that need a browser, those that never meet MLflow, and those
# that repeat on another engine what ran on a file.
WITHOUT_MLFLOW = ("deploy", "keys", "table", "test_architecture.py", "test_docs.py")
ON_FILES = ["-k", "not dynoxide and not moto"]
TESTS = ["tests", *ON_FILES]
TESTS += [f"--ignore=tests/{name}" for name in ("browser", "test_packaging.py", *WITHOUT_MLFLOW)]
TESTS += ["--ignore-glob=tests/versioned/test_[!m]*"]  # test_mlflow.py, test_machine.py are left
PARTS = ("ours", "mlflow", "local")
"""What runs on a release: our tests, MLflow's store tests on files and on DynamoDB Local."""
NOT_RUN = "not run"
DESCRIBED = "all that meet MLflow, on files"
# What a Python can break: the engines, the large stores, the server and the plugin.
PYTHON_TESTS = [
    *(f"tests/{name}" for name in ("table", "tracking", "registry", "traces", "versioned")),
    *("tests/test_serve.py", "tests/test_plugin.py"),
]
# What MLflow's tests need beyond ours. Without them, tests fail on MLflow's store too, uncounted.
PACKAGES = "httpx httpx2 pytest-asyncio"
FACTORIES = {
    f"CONF_{kind.upper()}_FACTORY": f"conformance.factories:make_{kind}"
    for kind in ("tracking", "registry", "workspace", "jobs", "auth")
}


class Result(NamedTuple):
    """What one release, or one Python, gave."""

    name: str
    tests: str
    passed: int
    failed: int
    skipped: int
    theirs: int | None = None
    counted: int | None = None


def environment(name: str, release: str, interpreter: str) -> Path:
    """The Python of an environment with a release of MLflow and this package."""
    folder = FOLDER / name
    python, done = folder / "bin" / "python", folder / "installed"
    packages = PACKAGES if "CONFORMANCE" in os.environ else ""
    wanted = f"{(ROOT / 'pyproject.toml').read_text('utf-8')}# {packages}\n"
    if done.exists() and done.read_text("utf-8") == wanted:
        return python
    if not python.exists():
        subprocess.run([interpreter, "-m", "venv", folder], check=True)
    print(f"{name}: installing", flush=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    ours = ["--editable", f"{ROOT}[dev]", *packages.split()]
    subprocess.run([*pip, f"mlflow=={release}", *ours], check=True)
    done.write_text(wanted, "utf-8")
    return python


def variables() -> dict[str, str]:
    """The environment of the tests."""
    memory = Path("/dev/shm")  # noqa: S108 - each run has a folder of its own there
    temporary = {"TMPDIR": str(memory)} if os.access(memory, os.W_OK) else {}
    return {**os.environ, **temporary, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}


def own_tests(python: Path, name: str, tests: list[str], jobs: str) -> Result:
    """Run our tests; a test that needs what the release lacks skips itself."""
    print(f"{name}: our tests", flush=True)
    log = FOLDER / f"{name}-tests.log".replace(" ", "-")
    with log.open("w", encoding="utf-8") as written:
        done = subprocess.run(
            [python, "-m", "pytest", "-q", "-n", jobs, "-p", "no:cacheprovider", *tests],
            cwd=ROOT,
            env=variables(),
            stdout=written,
            check=False,
        )
    text = log.read_text("utf-8")
    last = text.strip().splitlines()[-1]
    counted = {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|skipped|error)", last)}
    if done.returncode:
        print(text)
    failed = counted.get("failed", 0) + counted.get("error", 0)
    passed, skipped = counted.get("passed", 0), counted.get("skipped", 0)
    described = DESCRIBED if tests == TESTS else " ".join(f"`{test}`" for test in tests)
    return Result(name, described, passed, failed, skipped)


def mlflows_tests(
    python: Path, name: str, runner: Path, jobs: str, uri: str = ""
) -> tuple[int, int]:
    """How many of MLflow's store tests ours pass, of those that are counted.

    They run on files, or on tables at another ``uri``. What fails on ours runs on MLflow's SQL
    store too; what fails there as well is not counted.
    """
    run = {**variables(), "CONF_PYTHON": str(python)}
    if uri:
        run["CONFORMANCE_URI"] = uri

    def outcomes(side: str, factories: dict[str, str], *chosen: str) -> dict[str, bool]:
        print(f"{name}: MLflow's tests on {side}", flush=True)
        out = FOLDER / f"{name}-{side}".replace(" ", "-")
        subprocess.run(
            ["bash", runner / "run.sh", *chosen, "-n", jobs],
            env={**run, **factories, "CONF_OUT": str(out)},
            stdout=subprocess.DEVNULL,
            check=True,
        )
        results = json.loads((out / "results.json").read_text("utf-8"))
        return {test: one["outcome"] == "passed" for test, one in results.items()}

    ours = outcomes("ours", FACTORIES)
    failing = {test for test, passed in ours.items() if not passed}
    counted = len(ours) - len(failing)
    if failing:
        files = {test.partition("::")[0] for test in failing}
        names = {re.split(r"\W", test.rpartition("::")[2])[0] for test in failing}
        control = outcomes("sql", {}, *sorted(files), "-k", " or ".join(sorted(names)))
        real = {test for test in failing if control[test]}
        for test in sorted(real):
            print(f"{name}: fails on ours alone: {test}")
        counted += len(real)
        if uncounted := len(failing - real):
            print(f"{name}: {uncounted} tests fail on MLflow's store too and are not counted")
    return len(ours) - len(failing), counted


def keep(result: Result) -> None:
    """Keep a result in place of the last one of the same name."""
    kept = {one.name: one for one in results()} | {result.name: result}
    FOLDER.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(list(kept.values()), indent=1) + "\n", "utf-8")


def results() -> list[Result]:
    """The last result of each release and each Python."""
    if not RESULTS.exists():
        return []
    return [Result(*one) for one in json.loads(RESULTS.read_text("utf-8"))]


def kept(name: str) -> Result:
    """The last result of a name, or one of nothing."""
    return next((one for one in results() if one.name == name), Result(name, NOT_RUN, 0, 0, 0))


def table(of: list[Result]) -> str:
    """Results as a table of the documentation."""
    rows = ["| on | our tests | passed | failed | skipped | MLflow's store tests |"]
    rows.append("| --- | --- | --- | --- | --- | --- |")
    for one in sorted(of):
        numbers = f"{one.passed:,} | {one.failed:,} | {one.skipped:,}"
        ours = f"{one.tests} | {'| |' if one.tests == NOT_RUN else numbers}"
        theirs = "" if one.counted is None else f"{one.theirs:,} of {one.counted:,}"
        rows.append(f"| {one.name} | {ours} | {theirs} |")
    return "\n".join(rows)


def main() -> int:
    """Run the matrix; 0 when nothing failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--releases", nargs="*", default=list(RELEASES))
    parser.add_argument("--pythons", nargs="*", default=[], help="interpreters, as python3.12")
    parser.add_argument("--tests", nargs="+")
    parser.add_argument("--on-files", action="store_true", help="leave out the other engines")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument(
        "--environment",
        action="append",
        default=[],
        metavar="NAME=PYTHON",
        help="an environment to use as it is, for instance 3.15.2=/opt/mlflow-3.15.2/bin/python",
    )
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--write", action="store_true", help="write the table to docs/releases.md")
    given = parser.parse_args()
    runner = os.environ.get("CONFORMANCE")
    ready = dict(one.split("=", 1) for one in given.environment)
    failed = False
    for release in given.releases:
        name = f"MLflow {release}"
        python = Path(ready.get(release) or environment(release, release, sys.executable))
        result = kept(name)
        if "ours" in given.parts:
            chosen = [*given.tests, *(ON_FILES if given.on_files else ())] if given.tests else TESTS
            ours = own_tests(python, name, chosen, given.jobs)
            result = ours._replace(theirs=result.theirs, counted=result.counted)
        if runner and "mlflow" in given.parts:
            theirs, counted = mlflows_tests(python, name, Path(runner).resolve(), given.jobs)
            result = result._replace(theirs=theirs, counted=counted)
        failed |= bool(result.failed) or result.theirs != result.counted
        keep(result)
        on_local = "local" in given.parts and release == RELEASES[-1]
        if runner and on_local and find_dynamodb_local() is not None:
            name += ", DynamoDB Local"
            with dynamodb_local_server(heap="3g") as host:
                uri = f"dynamodb://{host}/{{name}}"
                scores = mlflows_tests(python, name, Path(runner).resolve(), given.jobs, uri)
            failed |= scores[0] != scores[1]
            keep(Result(name, NOT_RUN, 0, 0, 0, *scores))
    for interpreter in given.pythons:
        folder = Path(interpreter).name
        python = Path(ready.get(folder) or environment(folder, RELEASES[-1], interpreter))
        result = own_tests(python, folder, given.tests or PYTHON_TESTS, given.jobs)
        failed |= bool(result.failed)
        keep(result)
    print(table(results()))
    if given.write:
        text = PAGE.read_text("utf-8")
        made = re.sub(
            r"(?<=<!-- matrix -->\n).*?(?=<!-- end -->)",
            table(results()) + "\n",
            text,
            flags=re.DOTALL,
        )
        PAGE.write_text(made, "utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
