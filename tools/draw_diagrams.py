"""Draw the diagrams of the documentation.

``python tools/draw_diagrams.py`` writes them into ``docs/images``; a test fails while one is stale.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

IMAGES = Path(__file__).parents[1] / "docs" / "images"
BLUE, GREEN, GREY, AMBER = "#3f51b5", "#2e7d32", "#607d8b", "#b26a00"


class Drawing:
    """Boxes, arrows and texts on a white ground."""

    def __init__(self, width: int, height: int):
        self._parts = [
            (
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                f'width="{width}" height="{height}" font-family="sans-serif" font-size="14">'
            ),
            (
                '<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" '
                'markerHeight="8" orient="auto-start-reverse"><path d="M0,0 L10,5 L0,10 z" '
                'fill="#455a64"/></marker></defs>'
            ),
            f'<rect width="{width}" height="{height}" rx="8" fill="#ffffff"/>',
        ]

    def box(self, x: int, y: int, width: int, height: int, *lines: str, color: str = BLUE) -> None:
        """A box; its first line is bold."""
        self._parts.append(
            f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6" fill="{color}" '
            f'fill-opacity="0.08" stroke="{color}" stroke-width="1.5"/>'
        )
        top = y + height / 2 - (len(lines) - 1) * 9 + 5
        for number, line in enumerate(lines):
            bold = number == 0
            self.text(x + width / 2, top + number * 18, line, bold=bold, size=14 if bold else 12)

    def arrow(self, *points: tuple[int, int], dashed: bool = False) -> None:
        """A line through some points, with a tip at its end."""
        path = " ".join(f"{x},{y}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="#455a64" stroke-width="1.5"{dash} '
            'marker-end="url(#tip)"/>'
        )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        bold: bool = False,
        size: int = 12,
        anchor: str = "middle",
    ) -> None:
        """A line of text."""
        escaped = text.replace("&", "&amp;").replace("<", "&lt;")
        weight = ' font-weight="bold"' if bold else ""
        self._parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}"{weight} '
            f'fill="#263238">{escaped}</text>'
        )

    def svg(self) -> str:
        """The whole drawing."""
        return "\n".join([*self._parts, "</svg>", ""])


def run_life() -> str:
    """The states of a run."""
    d = Drawing(860, 270)
    d.box(20, 70, 190, 70, "live", "params and tags are read", "from their own items", color=GREEN)
    d.box(335, 70, 190, 70, "logging", "a summary of all, and", "a log of new metrics", color=AMBER)
    d.box(650, 70, 190, 70, "sealed", "one summary, and", "ranks for searches")
    d.arrow((210, 95), (335, 95))
    d.text(272, 68, "params and tags")
    d.text(272, 84, "rest for ten seconds")
    d.arrow((525, 95), (650, 95))
    d.text(587, 68, "it ends, or rests")
    d.text(587, 84, "for an hour")
    d.arrow((400, 140), (400, 180), (150, 180), (150, 140))
    d.text(275, 172, "a param or a tag")
    d.arrow((710, 140), (710, 180), (460, 180), (460, 140))
    d.text(585, 172, "a metric")
    d.arrow((780, 140), (780, 235), (80, 235), (80, 140))
    d.text(430, 227, "a param or a tag")
    d.text(
        430, 34, "A summary is published only if nobody has changed the state meanwhile.", size=13
    )
    return d.svg()


def expiry() -> str:
    """When what expires, by default."""
    d = Drawing(860, 270)
    rows = [
        ("a trace", 30, "30 days", "invisible and gone, with its spans", BLUE),
        ("a deleted run", 90, "90 days", "cannot be restored any more", AMBER),
        ("history of a metric", 365, "365 days", "the last value stays", GREEN),
    ]
    d.text(20, 30, "By default", bold=True, size=14, anchor="start")
    for number, (what, days, after, end, color) in enumerate(rows):
        y = 50 + number * 60
        width = 60 + days
        d.text(20, y + 26, what, bold=True, size=13, anchor="start")
        d.box(180, y + 4, width, 36, after, color=color)
        d.text(188 + width, y + 26, end, anchor="start")
    d.text(
        20,
        250,
        "Experiments, runs, params, tags, last values, models: never.",
        anchor="start",
        size=13,
    )
    return d.svg()


def aws() -> str:
    """A server on AWS."""
    d = Drawing(860, 300)
    d.box(20, 110, 130, 70, "people", "browser, notebooks,", "training jobs", color=GREY)
    d.box(210, 110, 150, 70, "load balancer", "TLS certificate,", "port 443")
    d.box(
        420, 95, 170, 100, "MLflow's server", "ECS Fargate,", "two tasks or more,", "role: writer"
    )
    d.box(
        660,
        30,
        180,
        70,
        "DynamoDB table",
        "on demand, expiry and",
        "recovery switched on",
        color=GREEN,
    )
    d.box(660, 120, 180, 60, "S3 bucket", "artifacts", color=GREEN)
    d.box(660, 205, 180, 60, "CloudWatch", "logs and alarms", color=AMBER)
    d.arrow((150, 145), (210, 145))
    d.arrow((360, 145), (420, 145))
    d.arrow((590, 125), (660, 70))
    d.arrow((590, 147), (660, 149))
    d.arrow((590, 170), (660, 230))
    d.box(420, 225, 170, 50, "commands", "of an operator", color=GREY)
    d.arrow((590, 245), (625, 245), (625, 95), (660, 85), dashed=True)
    return d.svg()


def search() -> str:
    """How a search is answered."""
    d = Drawing(860, 190)
    d.box(15, 60, 140, 70, "filter and order", "as MLflow takes them", color=GREY)
    d.box(195, 60, 150, 70, "paths", "indexes that could", "answer")
    d.box(385, 60, 150, 70, "the cheapest path", "reads candidates,", "never too few")
    d.box(575, 60, 130, 70, "the filter", "judges each", "candidate", color=AMBER)
    d.box(745, 60, 100, 70, "a page", "in order", color=GREEN)
    for x, to in ((155, 195), (345, 385), (535, 575), (705, 745)):
        d.arrow((x, 95), (to, 95))
    d.arrow((795, 130), (795, 165), (460, 165), (460, 130))
    d.text(630, 182, "the page token says where the next page begins")
    d.text(640, 40, "live runs are read and merged in")
    return d.svg()


DRAWINGS: dict[str, Callable[[], str]] = {
    "run-life": run_life,
    "expiry": expiry,
    "aws": aws,
    "search": search,
}

if __name__ == "__main__":
    for name, draw in DRAWINGS.items():
        (IMAGES / f"{name}.svg").write_text(draw(), "utf-8")
        print(IMAGES / f"{name}.svg")
