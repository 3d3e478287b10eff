"""A line chart over time, in drawing units that a template turns into SVG."""

from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise

from ottla.base.values import dataclass
from ottla.console.pages import Fields

WIDTH, HEIGHT = 1000.0, 160.0
MOST_POINTS = 240
DOT = 2.0
GAP_MS = 60_000
"""No line crosses a longer time in which nobody looked, or no console ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart. `lines` are the points attributes of polylines, with a gap between one and the next;
    none for fewer than two points.
    """

    lines: tuple[str, ...]
    areas: tuple[str, ...]
    least: int
    most: int
    began_ms: int
    ended_ms: int
    seconds: int

    def fields(self) -> Fields:
        return asdict(self)


def line_chart(points: Sequence[tuple[int, int]]) -> Chart:
    """Draws at least one point, each (time in milliseconds, value)."""
    began, ended = points[0][0], points[-1][0]
    most = max(value for _, value in points)
    span, top = max(1, ended - began), max(1, most)
    runs = []
    for run in _runs(points) if len(points) > 1 else ():
        placed = [
            (WIDTH * (at - began) / span, HEIGHT - (HEIGHT - 8) * value / top)
            for at, value in _thinned(run, max(2, MOST_POINTS * len(run) // len(points)))
        ]
        if len(placed) == 1:
            # A line of one point is not drawn.
            x, y = placed[0]
            placed = [(max(0.0, x - DOT), y), (min(WIDTH, x + DOT), y)]
        runs.append(placed)
    lines = tuple(" ".join(f"{x:.1f},{y:.1f}" for x, y in run) for run in runs)
    areas = tuple(
        f"{run[0][0]:.1f},{HEIGHT:.0f} {line} {run[-1][0]:.1f},{HEIGHT:.0f}"
        for run, line in zip(runs, lines, strict=True)
    )
    return Chart(
        lines=lines,
        areas=areas,
        least=min(value for _, value in points),
        most=most,
        began_ms=began,
        ended_ms=ended,
        seconds=(ended - began) // 1000,
    )


def _runs(points: Sequence[tuple[int, int]]) -> list[Sequence[tuple[int, int]]]:
    """The points between gaps."""
    ends = [
        number
        for number in range(1, len(points))
        if points[number][0] - points[number - 1][0] > GAP_MS
    ]
    return [points[start:end] for start, end in pairwise([0, *ends, len(points)])]


def _thinned(points: Sequence[tuple[int, int]], most: int) -> list[tuple[int, int]]:
    """At most about as many points as a screen shows, including the last; the largest of each
    group.
    """
    if len(points) <= most:
        return list(points)
    size = -(-len(points) // most)
    chunks = [points[at : at + size] for at in range(0, len(points) - 1, size)]
    return [*(max(chunk, key=lambda one: one[1]) for chunk in chunks), points[-1]]
