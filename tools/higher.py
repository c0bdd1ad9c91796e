"""Run MLflow's tests of its client, server, tracing and command line on SQLite and on our stores.

MLflow's tests open SQLite databases. ``conformance/higher/redirect`` makes MLflow open our stores
wherever a test, or a server that a test starts, names one. Each group of tests runs twice: as it
is, and redirected. What passes on SQLite is counted; what then fails on ours must stand in
``conformance/higher/differences.json`` with its reason.

``make higher MLFLOW_TESTS=DIR`` takes a folder that holds the ``tests`` and ``pyproject.toml`` of
the release of MLflow, as ``git archive`` makes it. The last outcomes of each group are kept, so
the table can be made of several runs, and a control on SQLite need not run again.
"""

from __future__ import annotations

import argparse
import ast
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
REDIRECT = HIGHER / "redirect"
DIFFERENCES = HIGHER / "differences.json"
PAGE = ROOT / "docs" / "releases.md"
RELEASE = "3.15.2"
GROUPS = (
    "tracking",
    "tracing",
    "genai",
    "genai/judges",
    "genai/scorers",
    "server",
    "server/auth",
    "server/jobs",
    "cli",
)
"""Folders of MLflow's tests; a group that lies in another one is not part of that."""
TEST_BY_TEST = ("tests/server/auth/test_auth.py",)
"""Long files, here with a server for each test, whose tests are given out one by one."""
SIDES = ("sqlite", "ours")
TIMEOUT = 180  # seconds of a test; what waits longer waits for the network or for Docker
SERIAL_PATHS = "_XDIST_SERIAL_PATHS"  # in MLflow's tests/conftest.py
# What MLflow's tests import beyond MLflow and what our own tests need. Newer releases of FastAPI
# trace themselves: a server in the process of a test sends its spans to itself, and waits.
PACKAGES = (
    "PyJWT aiohttp dspy fastapi<0.140 fastmcp httpx httpx2 huey langchain-core litellm openai "
    "opentelemetry-exporter-otlp plotly polars prometheus-flask-exporter psutil pytest-asyncio uv"
)
Outcomes = dict[str, tuple[str, str, bool]]
"""Of each test: its outcome, its message, whether it opened a database or started a process."""


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


def redirected(python: Path, folder: Path) -> Path:
    """The Python of an environment on top of another, in which ``sqlite:`` opens our stores.

    Some tests start servers with a ``PYTHONPATH`` of their own, so it cannot be set there.
    """
    redirected_python = folder / "bin" / "python"
    if redirected_python.exists():
        return redirected_python  # another run may be using it
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True)
    libraries, ours = (library_folder(redirected_python), library_folder(python))
    lines = [ROOT / "src", REDIRECT, ours]
    (libraries / "redirect.pth").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    for script in (python.parent).iterdir():
        if script.is_file() and script.read_bytes().startswith(f"#!{python}\n".encode()):
            _, _, text = script.read_text("utf-8").partition("\n")
            copy = folder / "bin" / script.name
            copy.write_text(f"#!{redirected_python}\n{text}", "utf-8")
            copy.chmod(0o755)
    return redirected_python


def library_folder(python: Path) -> Path:
    """Where the packages of an environment lie."""
    asked = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(subprocess.check_output([python, "-c", asked], text=True).strip())


class Tests:
    """MLflow's tests, and how they are run."""

    def __init__(self, python: Path, folder: Path, out: Path, jobs: str) -> None:
        self.folder, self.out, self.jobs = folder, out, jobs
        out.mkdir(parents=True, exist_ok=True)
        environment = out / f"environment-{python.parents[1].name}"
        self.pythons = dict(zip(SIDES, (python, redirected(python, environment)), strict=True))

    def variables(self, side: str) -> dict[str, str]:
        """The environment of one side; servers that tests start inherit it."""
        return {
            **os.environ,
            "PATH": os.pathsep.join([str(self.pythons[side].parent), os.environ["PATH"]]),
            "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(HIGHER)]),
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
        for side, expected in zip(SIDES, ("SqlAlchemyStore", "TrackingStore"), strict=True):
            found = subprocess.run(
                [self.pythons[side], "-W", "ignore", "-c", opened],
                env={**self.variables(side), "PYTHONPATH": ""},
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
        pytest = [self.pythons[side], "-m", "pytest", "-q", "--color=no", "--tb=short"]
        pytest += ["-p", "outcomes", "-p", "patience", "-p", "no:cacheprovider", "-o", "addopts="]
        pytest += [f"--timeout={TIMEOUT}"]
        if side == "ours":
            pytest += ["-p", "sqlite_classes"]
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

    def group(self, side: str, group: str) -> None:
        """Run a group on one side: what may run in parallel, long files, then what may not.

        On ours only the files run that open a database or start a process in their control on
        SQLite. Others have nothing to do with a store.
        """
        name, tests, serial = file_name(group), [f"tests/{group}"], self.serial_paths(group)
        if side == "ours" and (control := self.kept("sqlite", group)):
            tests = sorted(files_with_stores(control))
            serial = [test for test in tests if test.startswith(tuple(serial))]
        print(f"tests/{group} on {side}", flush=True)
        tests += [f"--ignore=tests/{other}" for other in groups_within(group)]
        long = [one for one in TEST_BY_TEST if Path(one).parent == Path("tests", group)]
        tests += [f"--ignore={file}" for file in long]
        parallel = ["--serial=exclude", "-n", self.jobs]
        outcomes = self.run(side, f"{name}-parallel", tests, *parallel, "--dist=loadfile")
        if long:
            outcomes |= self.run(side, f"{name}-long", long, *parallel, "--dist=load")
        if serial:
            outcomes |= self.run(side, f"{name}-serial", serial, "--serial=only")
        self.keep(side, group, outcomes)

    def serial_paths(self, group: str) -> list[str]:
        """The files and folders of a group that MLflow does not run in parallel."""
        conftest = ast.parse((self.folder / "tests" / "conftest.py").read_text("utf-8"))
        paths = next(
            ast.literal_eval(node.value)
            for node in conftest.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == SERIAL_PATHS
        )
        others = tuple(f"tests/{other}/" for other in groups_within(group))
        inside = [path for path in paths if path.startswith(f"tests/{group}/")]
        return [path for path in inside if not path.startswith(others)]

    def again(self, group: str) -> None:
        """Run what passed on one side alone once more: some tests fail on a busy machine."""
        good = {side: passed(self.kept(side, group)) for side in SIDES}
        files = files_with_stores(self.kept("sqlite", group))
        good["sqlite"] = {test for test in good["sqlite"] if test.partition("::")[0] in files}
        for side, other in zip(SIDES, reversed(SIDES), strict=True):
            if tests := sorted(good[other] - good[side]):
                print(f"tests/{group} on {side}: {len(tests)} once more", flush=True)
                found = self.run(side, f"{file_name(group)}-again", tests)
                self.keep(side, group, self.kept(side, group) | found)

    def keep(self, side: str, group: str, outcomes: Outcomes) -> None:
        """Keep the outcomes of a group in place of the last ones."""
        path = self.out / f"{side}-{file_name(group)}.json"
        path.write_text(json.dumps(outcomes, indent=0, sort_keys=True), "utf-8")

    def kept(self, side: str, group: str) -> Outcomes:
        """The last outcomes of a group."""
        return kept(self.out, side, group)


def kept(out: Path, side: str, group: str) -> Outcomes:
    """The last outcomes of a group in a folder of outcomes."""
    path = out / f"{side}-{file_name(group)}.json"
    return dict(json.loads(path.read_text("utf-8"))) if path.exists() else {}


def file_name(group: str) -> str:
    """A group in the name of a file."""
    return group.replace("/", "-")


def groups_within(group: str) -> list[str]:
    """The groups that are folders of another one."""
    return [other for other in GROUPS if other.startswith(f"{group}/")]


def passed(outcomes: Outcomes) -> set[str]:
    """The tests that passed."""
    return {test for test, (outcome, *_) in outcomes.items() if outcome == "passed"}


def files_with_stores(outcomes: Outcomes) -> set[str]:
    """The files in which a test opens a database or starts a process."""
    return {test.partition("::")[0] for test, (_, _, opens) in outcomes.items() if opens}


def reason(test: str, differences: dict[str, str]) -> str | None:
    """Why a test may fail on ours; entries are beginnings of test ids."""
    return next((why for start, why in differences.items() if test.startswith(start)), None)


def table(counts: dict[str, tuple[int, int, int]], differing: dict[str, str | None]) -> str:
    """The results as tables of the documentation."""
    rows = ["| group | pass on SQLite | in files that open a store | of these on ours |"]
    rows.append("| --- | --- | --- | --- |")
    whole = tuple(sum(column) for column in zip(*counts.values(), strict=True))
    named = {f"`tests/{group}`": numbers for group, numbers in counts.items()} | {"all": whole}
    for name, numbers in named.items():
        rows.append(f"| {name} | {' | '.join(f'{number:,}' for number in numbers)} |")
    if reasons := Counter(why or "not explained" for why in differing.values()):
        rows += ["", "| tests | why they differ |", "| --- | --- |"]
        rows += [f"| {n} | {why} |" for why, n in reasons.most_common()]
    return "\n".join(rows)


def main() -> int:
    """Run the groups; 0 when every difference has its reason."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tests", type=Path, default=Path(), help="folder with MLflow's tests/")
    parser.add_argument("--release", default=RELEASE)
    parser.add_argument("--python", type=Path, help="an environment that is there already")
    parser.add_argument(
        "--groups", nargs="*", default=list(GROUPS), choices=GROUPS, help="none: only the table"
    )
    parser.add_argument("--sides", nargs="*", default=list(SIDES), choices=SIDES)
    parser.add_argument("--jobs", default="2")
    parser.add_argument("--out", type=Path, default=FOLDER / "higher")
    parser.add_argument("--write", action="store_true", help="write the table to docs/releases.md")
    given = parser.parse_args()
    if given.groups:
        python = given.python or environment(given.release)
        folders = given.tests.resolve(), given.out.resolve()
        tests = Tests(python.absolute(), *folders, given.jobs)
        tests.check_redirection()
        for group in given.groups:
            for side in given.sides:
                tests.group(side, group)
            tests.again(group)
    known = json.loads(DIFFERENCES.read_text("utf-8"))
    counts, differing, seen = {}, {}, set()
    for group in GROUPS:
        outcomes = {side: kept(given.out, side, group) for side in SIDES}
        if not all(outcomes.values()):
            continue
        files = files_with_stores(outcomes["sqlite"])
        counted = {test for test in passed(outcomes["sqlite"]) if test.partition("::")[0] in files}
        failing = sorted(counted - passed(outcomes["ours"]))
        all_passed = len(passed(outcomes["sqlite"]))
        counts[group] = all_passed, len(counted), len(counted) - len(failing)
        differing |= {test: reason(test, known) for test in failing}
        seen |= set(outcomes["ours"])
        for test in failing:
            print(f"  {test}: {differing[test] or 'NOT EXPLAINED'}", flush=True)
    for start in known:
        ran = any(test.startswith(start) for test in seen)
        if ran and not any(test.startswith(start) for test in differing):
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
