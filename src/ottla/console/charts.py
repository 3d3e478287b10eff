"""A line chart over time, in drawing units that a template turns into SVG."""

from collections.abc import Sequence
from dataclasses import asdict

from ottla.base.values import dataclass
from ottla.console.pages import Fields

WIDTH, HEIGHT = 1000.0, 160.0
MOST_POINTS = 240


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart. `line` is the points attribute of a polyline; empty for fewer than two points."""

    line: str
    area: str
    least: int
    most: int
    began_ms: int
    ended_ms: int
    seconds: int

    def fields(self) -> Fields:
        return asdict(self)


def line_chart(points: Sequence[tuple[int, int]]) -> Chart:
    """Draws at least one point, each (time in milliseconds, value)."""
    kept = _thinned(points)
    began, ended = kept[0][0], kept[-1][0]
    most = max(value for _, value in kept)
    span, top = max(1, ended - began), max(1, most)
    placed = [
        (WIDTH * (at - began) / span, HEIGHT - (HEIGHT - 8) * value / top) for at, value in kept
    ]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed) if len(placed) > 1 else ""
    return Chart(
        line=line,
        area=f"0,{HEIGHT:.0f} {line} {WIDTH:.0f},{HEIGHT:.0f}" if line else "",
        least=min(value for _, value in kept),
        most=most,
        began_ms=began,
        ended_ms=ended,
        seconds=(ended - began) // 1000,
    )


def _thinned(points: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """At most as many points as a screen shows, including the last; the largest of each group."""
    if len(points) <= MOST_POINTS:
        return list(points)
    size = -(-len(points) // MOST_POINTS)
    chunks = [points[at : at + size] for at in range(0, len(points) - 1, size)]
    return [*(max(chunk, key=lambda one: one[1]) for chunk in chunks), points[-1]]
