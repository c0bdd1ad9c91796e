"""A server with a sample in it, and a browser to look at it with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.browser.demo import Demo, run_demo
from tests.e2e.processes import Server, running_server

if TYPE_CHECKING:
    from tests.browser.sample import Sample

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
# A page knows nothing but what a user has clicked away once, and the half of MLflow it belongs to.
SETTINGS = """
localStorage.clear();
sessionStorage.clear();
localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true');
localStorage.setItem('mlflow.assistant.panelOpen_v1', 'false');
localStorage.setItem('mlflow.detectIssues.guidanceShown_v1', 'true');
localStorage.setItem('mlflow.workflowType_v1', '"%s"');
"""
# A server without users answers 404 to these, whatever its store; the pages ask all the same.
OF_USERS = ("/mlflow/users/current", "/mlflow/users/list")
# What MLflow's pages say when they cannot show something.
COMPLAINTS = ("Page Not Found", "Something went wrong", "An error occurred", "Failed to")
PATIENCE_MS = 30_000


class Browsed:
    """A page that notes what goes wrong while it is looked at."""

    def __init__(self, page: Any, url: str):
        self.page = page
        self.troubles: list[str] = []
        self._url = url
        page.set_default_timeout(PATIENCE_MS)
        page.on("response", self._note)
        page.on("pageerror", lambda error: self.troubles.append(str(error)))

    def open(self, path: str) -> Any:
        self.page.goto(f"{self._url}/#{path}")
        return self.page

    def sees(self, *texts: str) -> None:
        """Wait until each of these texts can be seen."""
        for text in texts:
            self.page.get_by_text(text).locator("visible=true").first.wait_for()

    def keep(self, name: str) -> None:
        """Keep a picture where ``SCREENSHOTS`` names a folder for them."""
        folder = os.environ.get("SCREENSHOTS")
        if folder:
            self.page.wait_for_timeout(1500)  # charts move into their place
            self.page.screenshot(path=Path(folder) / f"ui-{name}.png")

    def complaints(self) -> list[str]:
        """What the page says about errors, in its text and in its banners."""
        text = self.page.inner_text("body")
        banners = [banner.inner_text() for banner in self.page.get_by_role("alert").all()]
        return [said for said in COMPLAINTS if said in text] + [
            banner for banner in banners if "error" in banner.lower()
        ]

    def _note(self, response: Any) -> None:
        if response.status >= 400 and not response.url.endswith(OF_USERS):
            self.troubles.append(f"{response.status} {response.url}")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """Debian's Chromium, or another that ``CHROMIUM`` names."""
    program = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if program is None:
        pytest.skip("no browser found: apt install chromium, or set CHROMIUM")
    playwright = pytest.importorskip("playwright.sync_api", reason="run by make e2e")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=program, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server that `make serve` starts, on an embedded table."""
    with running_server(tmp_path_factory.mktemp("browser") / "data") as started:
        yield started


@pytest.fixture(scope="session")
def demo(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Demo:
    """What `mlflow demo` has put into the server, and what it said meanwhile."""
    return run_demo(server.url, tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="session")
def sample(server: Server) -> Sample:
    """What was put into the server for the pages to show."""
    from tests.browser.sample import fill

    return fill(server.url)


@pytest.fixture(scope="session")
def halves(chromium: Any) -> Iterator[Callable[[str], Any]]:
    """A browser's profile for each of MLflow's two halves, which loads the UI's scripts once."""
    kept: dict[str, Any] = {}

    def profile(half: str) -> Any:
        if half not in kept:
            kept[half] = chromium.new_context(viewport={"width": 1280, "height": 800})
            kept[half].add_init_script(SETTINGS % half)
        return kept[half]

    yield profile
    for context in kept.values():
        context.close()


@pytest.fixture
def browse(halves: Callable[[str], Any], server: Server) -> Callable[[str], Any]:
    """Opens a page in one of MLflow's two halves."""

    @contextmanager
    def opened(half: str = "machine_learning") -> Iterator[Browsed]:
        seen = Browsed(halves(half).new_page(), server.url)
        try:
            yield seen
            assert not seen.complaints()
        finally:
            seen.page.close()
        assert not seen.troubles

    return opened
