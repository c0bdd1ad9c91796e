"""Run MLflow's tests of its client, server, tracing and command line on SQLite and on our stores.

MLflow's tests open SQLite databases. ``conformance/higher/redirect`` makes MLflow open our stores
wherever a test, or a server that a test starts, names one. Each group of tests runs twice: as it
is, and redirected. What passes on SQLite is counted; what then fails on ours must stand in
``conformance/higher/differences.json`` with its reason.

``make higher MLFLOW_TESTS=DIR`` takes a folder that holds the ``tests`` and ``pyproject.toml`` of
the release of MLflow, as ``git archive`` makes it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import venv
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / ".matrix"
HIGHER = ROOT / "conformance" / "higher"
DIFFERENCES = HIGHER / "differences.json"
PAGE = ROOT / "docs" / "releases.md"
RELEASE = "3.15.2"
GROUPS = ("tracking", "tracing", "genai", "server", "cli")
SIDES = ("sqlite", "ours")
# What MLflow's tests import beyond MLflow and what our own tests need.
PACKAGES = (
    "PyJWT aiohttp dspy fastmcp httpx httpx2 huey langchain-core litellm openai "
    "opentelemetry-exporter-otlp plotly polars prometheus-flask-exporter psutil pytest-asyncio uv"
)
Outcomes = dict[str, tuple[str, str]]


def environment(release: str) -> Path:
    """The Python of an environment with a release of MLflow and what its tests need."""
    folder = FOLDER / f"higher-{release}"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    print(f"MLflow {release}: installing", flush=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wanted = [f"mlflow[auth]=={release}", "--editable", f"{ROOT}[dev]", *PACKAGES.split()]
    subprocess.run([*pip, *wanted], check=True)
    return python


class Tests:
    """MLflow's tests, and how they are run."""

    def __init__(self, python: Path, folder: Path, out: Path, jobs: str) -> None:
        self.python, self.folder, self.out, self.jobs = python, folder, out, jobs
        out.mkdir(parents=True, exist_ok=True)

    def variables(self, side: str) -> dict[str, str]:
        """The environment of one side; servers that tests start inherit it."""
        paths = [str(ROOT / "src"), str(HIGHER)]
        if side == "ours":
            paths.append(str(HIGHER / "redirect"))
        return {
            **os.environ,
            "PATH": os.pathsep.join([str(self.python.parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join(paths),
            "MLFLOW_DISABLE_TELEMETRY": "true",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # without it, litellm asks the network
        }

    def check_redirection(self) -> None:
        """Make sure that ``sqlite:`` opens what each side says."""
        opened = (
            "from mlflow.tracking._tracking_service.utils import _get_store\n"
            "import pathlib, tempfile\n"
            "path = pathlib.Path(tempfile.mkdtemp(), 'a.db')\n"
            "print(type(_get_store(f'sqlite:///{path}')).__name__)"
        )
        for side, expected in zip(SIDES, ("SqlAlchemyStore", "DynamoDBTrackingStore"), strict=True):
            found = subprocess.run(
                [self.python, "-W", "ignore", "-c", opened],
                env=self.variables(side),
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            ).stdout.split()[-1]
            if found != expected:
                raise SystemExit(f"{side}: sqlite: opens {found} instead of {expected}")

    def run(self, side: str, name: str, tests: list[str], *options: str) -> Outcomes:
        """Run tests on one side."""
        written = self.out / f"{side}-{name}.json"
        written.unlink(missing_ok=True)
        pytest = [self.python, "-m", "pytest", "-q", "--color=no", "--tb=short"]
        pytest += ["-p", "outcomes", "-p", "no:cacheprovider", "-o", "addopts=", "--timeout=120"]
        pytest += ["-W", "ignore::pytest.PytestRemovedIn10Warning"]
        pytest += ["--continue-on-collection-errors", f"--basetemp={self.out / side}-{name}-tmp"]
        with (self.out / f"{side}-{name}.log").open("w", encoding="utf-8") as log:
            subprocess.run(
                [*pytest, *options, *tests],
                cwd=self.folder,
                env={**self.variables(side), "OUTCOMES": str(written)},
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if not written.exists():
            raise SystemExit(f"{side}, {name}: the tests ended early; see {log.name}")
        return dict(json.loads(written.read_text("utf-8")).items())

    def group(self, side: str, group: str) -> Outcomes:
        """Run a group on one side: what may run in parallel, then what MLflow runs one by one."""
        print(f"tests/{group} on {side}", flush=True)
        tests = [f"tests/{group}"]
        parallel = ["--serial=exclude", "-n", self.jobs, "--dist=loadfile"]
        outcomes = self.run(side, f"{group}-parallel", tests, *parallel)
        return outcomes | self.run(side, f"{group}-serial", tests, "--serial=only")

    def again(self, side: str, group: str, tests: list[str]) -> Outcomes:
        """Run a few tests once more, one by one: some of MLflow's fail on a busy machine."""
        return self.run(side, f"{group}-again", tests) if tests else {}


def passed(outcomes: Outcomes) -> set[str]:
    """The tests that passed."""
    return {test for test, (outcome, _) in outcomes.items() if outcome == "passed"}


def reason(test: str, differences: dict[str, str]) -> str | None:
    """Why a test may fail on ours; entries are beginnings of test ids."""
    return next((why for start, why in differences.items() if test.startswith(start)), None)


def table(counts: dict[str, tuple[int, int]], differing: dict[str, str | None]) -> str:
    """The results as tables of the documentation."""
    rows = ["| group | pass on SQLite | of these on ours |", "| --- | --- | --- |"]
    rows += [f"| `tests/{name}` | {a:,} | {b:,} |" for name, (a, b) in counts.items()]
    whole = [sum(column) for column in zip(*counts.values(), strict=True)]
    rows.append(f"| all | {whole[0]:,} | {whole[1]:,} |")
    if reasons := Counter(why or "not explained" for why in differing.values()):
        rows += ["", "| tests | why they differ |", "| --- | --- |"]
        rows += [f"| {n} | {why} |" for why, n in reasons.most_common()]
    return "\n".join(rows)


def main() -> int:
    """Run the groups; 0 when every difference has its reason."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", type=Path, required=True, help="folder with MLflow's tests/")
    parser.add_argument("--release", default=RELEASE)
    parser.add_argument("--python", type=Path, help="an environment that is there already")
    parser.add_argument("--groups", nargs="+", default=list(GROUPS))
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--out", type=Path, default=FOLDER / "higher")
    parser.add_argument("--write", action="store_true", help="write the table to docs/releases.md")
    given = parser.parse_args()
    python = given.python or environment(given.release)
    tests = Tests(python.absolute(), given.tests.resolve(), given.out.resolve(), given.jobs)
    tests.check_redirection()
    known = json.loads(DIFFERENCES.read_text("utf-8"))
    counts, differing, seen = {}, {}, set()
    for group in given.groups:
        outcomes = {side: tests.group(side, group) for side in SIDES}
        counted = passed(outcomes["sqlite"])
        failing = sorted(counted - passed(outcomes["ours"]))
        failing = sorted(set(failing) - passed(tests.again("ours", group, failing)))
        counts[group] = len(counted), len(counted) - len(failing)
        differing |= {test: reason(test, known) for test in failing}
        seen |= set(outcomes["ours"])
        for test in failing:
            print(f"  {test}: {differing[test] or 'NOT EXPLAINED'}", flush=True)
    for start in known:
        if any(map(start.__eq__, seen)) and not any(t.startswith(start) for t in differing):
            print(f"no longer differs: {start}")
    print(table(counts, differing))
    if given.write:
        made = re.sub(
            r"(?<=<!-- higher -->\n).*?(?=<!-- end -->)",
            table(counts, differing) + "\n",
            PAGE.read_text("utf-8"),
            flags=re.DOTALL,
        )
        PAGE.write_text(made, "utf-8")
    return 1 if None in differing.values() else 0


if __name__ == "__main__":
    sys.exit(main())
