"""A server with a sample in it, and a browser to look at it with."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.e2e.processes import running_server

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
# What a user has clicked away once, and the half of MLflow that a page belongs to.
SETTINGS = """
localStorage.setItem('mlflow.assistant.fab.autoOpenedOnFirstLoad_v1', 'true');
localStorage.setItem('mlflow.assistant.panelOpen_v1', 'false');
localStorage.setItem('mlflow.workflowType_v1', '"%s"');
"""
# Evaluation datasets are not stored yet; the page of traces asks for them and does without.
NOT_STORED_YET = "/mlflow/datasets/search"
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

    def _note(self, response: Any) -> None:
        if response.status >= 500 and NOT_STORED_YET not in response.url:
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
def served(chromium: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Sample]]:
    """The address of a server on an embedded table, and what was put into it."""
    from tests.browser.sample import fill

    data = tmp_path_factory.mktemp("browser") / "data"
    with running_server(data) as server:
        yield server.url, fill(server.url)


@pytest.fixture
def sample(served: tuple[str, Sample]) -> Sample:
    return served[1]


@pytest.fixture
def browse(chromium: Any, served: tuple[str, Sample]) -> Callable[[str], Any]:
    """Opens a browser that knows nothing, in one of MLflow's two halves."""

    @contextmanager
    def opened(half: str = "machine_learning") -> Iterator[Browsed]:
        context = chromium.new_context(viewport={"width": 1280, "height": 800})
        context.add_init_script(SETTINGS % half)
        seen = Browsed(context.new_page(), served[0])
        try:
            yield seen
        finally:
            context.close()
        assert not seen.troubles

    return opened
