"""The documentation site in a browser: it can be read, searched and found through, and is alone."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SECTIONS = ["Start", "Use", "Operate", "Understand", "Decide", "Contribute"]
PATIENCE_MS = 30_000


class Quiet(SimpleHTTPRequestHandler):
    """Serves files without a log."""

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make docs` builds it."""
    pytest.importorskip("material", reason="run by make e2e")
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    handler = functools.partial(Quiet, directory=str(site))
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


class Reader:
    """A page, what it asked of whom, and what went wrong on it."""

    def __init__(self, page: Any):
        self.page = page
        self.asked: list[str] = []
        self.troubles: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.on("request", lambda request: self.asked.append(request.url))
        page.on("pageerror", lambda error: self.troubles.append(str(error)))
        page.on("response", self._note)

    def keep(self, name: str) -> None:
        folder = os.environ.get("SCREENSHOTS")
        if folder:
            self.page.screenshot(path=Path(folder) / f"site-{name}.png")

    def _note(self, response: Any) -> None:
        if response.status >= 400:
            self.troubles.append(f"{response.status} {response.url}")


@pytest.fixture
def reader(chromium: Any) -> Iterator[Reader]:
    context = chromium.new_context(viewport={"width": 1280, "height": 800}, color_scheme="light")
    reading = Reader(context.new_page())
    yield reading
    assert reading.troubles == []
    context.close()


def test_no_page_names_a_script_style_font_or_picture_of_another_site(site):
    loaded = re.compile(
        r"""<(?:script|img|iframe|source)[^>]+src=["']?(https?:)?//|"""
        r"""<link[^>]+rel=["']?(?:stylesheet|preload|preconnect|icon)["']?[^>]+href=["']?https?://"""
    )
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    assert [page.name for page in pages if loaded.search(page.read_text())] == []
    foreign = re.compile(r"url\(['\"]?(https?:)?//")
    assert [css.name for css in site.rglob("*.css") if foreign.search(css.read_text())] == []


def test_the_first_page_teaches_in_order_and_warns_of_expiry(reader, address):
    reader.page.goto(f"{address}/index.html")
    tabs = reader.page.locator(".md-tabs__link").all_inner_texts()
    assert [tab.strip() for tab in tabs] == SECTIONS
    assert reader.page.get_by_text("Some data expires by default").is_visible()
    assert reader.page.locator("img[src$='ui-charts.png']").evaluate("i => i.naturalWidth") > 500
    reader.keep("home")


def test_nothing_is_asked_of_other_sites(reader, address):
    for page in ("index.html", "aws.html", "cli.html", "adr/index.html"):
        reader.page.goto(f"{address}/{page}", wait_until="networkidle")
    assert [url for url in reader.asked if not url.startswith(address)] == []


@pytest.mark.parametrize("by", ["server", "disk"])
def test_the_search_finds(reader, address, site, by):
    start = f"{address}/index.html" if by == "server" else (site / "index.html").as_uri()
    reader.page.goto(start)
    reader.page.locator(".md-search__input").first.click()
    reader.page.locator(".md-search__input").first.press_sequentially("keep-forever", delay=20)
    titles = reader.page.locator(".md-search-result__item h1")
    # The results change with each key that is pressed.
    titles.filter(has_text=re.compile("expires|command line", re.IGNORECASE)).first.wait_for()
    outside = [url for url in reader.asked if not url.startswith((address, "file:", "data:"))]
    assert outside == []
    if by == "server":
        reader.keep("search")


def test_code_is_coloured_and_can_be_copied(reader, address):
    reader.page.goto(f"{address}/quickstart.html")
    block = reader.page.locator(".highlight", has_text="import mlflow").first
    colours = block.locator("span").evaluate_all("all => all.map(s => getComputedStyle(s).color)")
    assert len(set(colours)) > 2
    block.hover()
    assert block.locator("button.md-clipboard, .md-code__button").count() >= 1
    reader.keep("quickstart")


def test_there_is_a_dark_mode(reader, address):
    reader.page.goto(f"{address}/aws.html")
    ground = "getComputedStyle(document.body).backgroundColor"
    light = reader.page.evaluate(ground)
    reader.page.locator("label[for='__palette_1']").click()
    reader.page.wait_for_function(f"{ground} !== '{light}'")
    assert reader.page.locator("body").get_attribute("data-md-color-scheme") == "slate"
    assert reader.page.locator("img[src$='aws.svg']").evaluate("i => i.naturalWidth") > 500
    reader.keep("aws-dark")


def test_a_decision_record_has_its_neighbours_beside_it(reader, address):
    reader.page.goto(f"{address}/adr/0007-two-lives-of-a-run.html")
    assert reader.page.locator(".md-nav a[href*='0001-single-table']").count() >= 1
    reader.keep("decision")
