"""Plots as SVG, written by hand: bars against a logarithmic axis, and lines that grow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

WIDTH = 900
LEFT = 300
RIGHT = 70
ROW = 24
TOP = 64
LABEL_HEIGHT = 15
COLORS = ("#1f77b4", "#d2691e", "#2e8b57", "#7b5ea7")
GREY = "#8a8f98"


class Bar(NamedTuple):
    """A value with two marks to compare it with: the lesser and the greater demand."""

    title: str
    value: float
    first: float | None
    goal: float | None


class Line(NamedTuple):
    """A named series of points."""

    title: str
    points: Sequence[tuple[float, float]]


class Axis:
    """A logarithmic axis over a span of pixels, a little wider than its values."""

    def __init__(self, values: Sequence[float], begin: float, end: float):
        self._low = math.log10(min(values)) - 0.05
        self._high = math.log10(max(values)) + 0.05
        self._begin, self._scale = begin, (end - begin) / (self._high - self._low)

    def at(self, value: float) -> float:
        return self._begin + (math.log10(value) - self._low) * self._scale

    def ticks(self) -> list[float]:
        """The powers of ten on it."""
        return [10.0**n for n in range(math.ceil(self._low), math.floor(self._high) + 1)]


def bars(title: str, explained: str, rows: Sequence[Bar], unit: str) -> str:
    """One bar a row, with a grey line at the first target and a black one at the goal."""
    values = [each for bar in rows for each in bar[1:] if each]
    # From a power of ten on, since bars begin there.
    least = 10.0 ** math.floor(math.log10(min(*values, 1.0)))
    axis = Axis([*values, least], LEFT, WIDTH - RIGHT)
    bottom = TOP + ROW * len(rows)
    parts = [_text(16, 24, title, size=16, weight="bold"), _text(16, 44, explained, fill=GREY)]
    for tick in axis.ticks():
        parts.append(_line(axis.at(tick), TOP, axis.at(tick), bottom, "#e3e5e8"))
        parts.append(_text(axis.at(tick), bottom + 16, _number(tick) + unit, anchor="middle"))
    for number, bar in enumerate(rows):
        y = TOP + ROW * number
        parts.append(_text(LEFT - 8, y + 16, bar.title, anchor="end"))
        if bar.value:
            wide = max(1.0, axis.at(bar.value) - LEFT)
            parts.append(
                f'<rect x="{LEFT}" y="{y + 5}" width="{wide:.1f}" height="14" fill="{COLORS[0]}"/>'
            )
        label = _number(bar.value) + unit
        places = [each for each in bar[1:] if each]
        beside = max([axis.at(each) for each in places] or [LEFT]) + 6
        parts.append(_text(beside, y + 16, label))
        for mark, color in ((bar.first, GREY), (bar.goal, "#111")):
            if mark:
                parts.append(_line(axis.at(mark), y + 2, axis.at(mark), y + 22, color, 2.5))
    return _svg(bottom + 28, parts)


def growth(title: str, explained: str, lines: Sequence[Line], below: str, unit: str = " ms") -> str:
    """Lines over two logarithmic axes, each named at its last point."""
    bottom, right = 360, WIDTH - 250
    sizes = sorted({x for line in lines for x, _ in line.points})
    x_axis = Axis(sizes, 70, right)
    y_axis = Axis([y for line in lines for _, y in line.points] + [1.0], bottom, TOP)
    parts = [_text(16, 24, title, size=16, weight="bold"), _text(16, 44, explained, fill=GREY)]
    for tick in sizes:
        parts.append(_text(x_axis.at(tick), bottom + 18, _number(tick), anchor="middle"))
        parts.append(_line(x_axis.at(tick), TOP, x_axis.at(tick), bottom, "#e3e5e8"))
    for tick in y_axis.ticks():
        parts.append(_text(62, y_axis.at(tick) + 4, _number(tick) + unit, anchor="end"))
        parts.append(_line(70, y_axis.at(tick), right, y_axis.at(tick), "#e3e5e8"))
    parts.append(_text((70 + right) / 2, bottom + 38, below, anchor="middle", fill=GREY))
    labelled: list[float] = []
    for line, color in zip(lines, COLORS, strict=False):
        places = [(x_axis.at(x), y_axis.at(y)) for x, y in line.points]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{color}" stroke-width="2.5"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{color}"/>' for x, y in places]
        x, y = places[-1]
        while any(abs(y - other) < LABEL_HEIGHT for other in labelled):
            y += LABEL_HEIGHT
        labelled.append(y)
        label = f"{line.title}: {_number(line.points[-1][1])}{unit}"
        parts.append(_text(x + 10, y + 4, label, fill=color))
    return _svg(bottom + 52, parts)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.2g}"


def _line(x1: float, y1: float, x2: float, y2: float, color: str, wide: float = 1) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" '
        f'stroke="{color}" stroke-width="{wide}"/>'
    )


def _text(x: float, y: float, text: str, **style: object) -> str:
    size, anchor = style.get("size", 12), style.get("anchor", "start")
    weight, fill = style.get("weight", "normal"), style.get("fill", "#24292f")
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" '
        f'font-weight="{weight}" fill="{fill}">{escape(text)}</text>'
    )


def _svg(height: float, parts: Sequence[str]) -> str:
    # Without a background the text could not be read where a page is dark.
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:.0f}" '
        'font-family="system-ui, sans-serif">'
        f'<rect width="{WIDTH}" height="{height:.0f}" fill="#ffffff"/>'
    )
    return "\n".join([head, *parts, "</svg>"]) + "\n"
