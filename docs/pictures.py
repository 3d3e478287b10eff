"""Draws the pictures of the documents: SVG that is readable on a light page and on a dark one."""

from collections.abc import Iterable, Iterator
from pathlib import Path

PLACE = Path(__file__).resolve().parent / "pictures"

STYLE = """<style>
text { font: 14px system-ui, sans-serif; fill: #24292f }
.quiet { fill: #57606a; font-size: 12px }
.box { fill: #ddf4ff; stroke: #0969da }
.old { fill: #f6f8fa; stroke: #8c959f }
.new { fill: #dafbe1; stroke: #1a7f37; stroke-dasharray: 4 3 }
.gone { fill: #ffebe9; stroke: #cf222e }
.line { stroke: #57606a; fill: none }
.tip { fill: #57606a }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .quiet { fill: #9198a1 }
  .box { fill: #0c2d6b; stroke: #4493f8 } .old { fill: #212830; stroke: #656c76 }
  .new { fill: #0f3d1f; stroke: #3fb950 } .gone { fill: #5d0f12; stroke: #f85149 }
  .line { stroke: #9198a1 } .tip { fill: #9198a1 }
}
</style>"""

CELL = 46


def pictures() -> dict[str, str]:
    """File names, and what is in them."""
    return {
        "partitions.svg": _partitions(),
        "transaction.svg": _transaction(),
        "load.svg": _load(),
    }


def write() -> None:
    PLACE.mkdir(exist_ok=True)
    for name, text in pictures().items():
        (PLACE / name).write_text(text)


def _svg(width: int, height: int, title: str, parts: Iterable[str]) -> str:
    inner = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'role="img" aria-label="{title}">\n<title>{title}</title>\n{STYLE}\n{inner}\n</svg>\n'
    )


def _box(x: int, y: int, text: str, kind: str = "box", width: int = CELL - 6) -> str:
    middle = x + width // 2
    return (
        f'<rect class="{kind}" x="{x}" y="{y}" width="{width}" height="34" rx="4"/>'
        f'<text x="{middle}" y="{y + 22}" text-anchor="middle">{text}</text>'
    )


def _label(x: int, y: int, text: str, *, anchor: str = "start", quiet: bool = False) -> str:
    kind = ' class="quiet"' if quiet else ""
    return f'<text{kind} x="{x}" y="{y}" text-anchor="{anchor}">{text}</text>'


def _arrow(x: int, y: int, to_x: int, to_y: int) -> str:
    """Down, up or to the right."""
    tips = {
        (True, False): f"{to_x},{to_y} {to_x - 8},{to_y - 5} {to_x - 8},{to_y + 5}",
        (False, True): f"{to_x},{to_y} {to_x - 5},{to_y - 8} {to_x + 5},{to_y - 8}",
        (False, False): f"{to_x},{to_y} {to_x - 5},{to_y + 8} {to_x + 5},{to_y + 8}",
    }
    tip = tips[to_x > x, to_y > y]
    return (
        f'<line class="line" x1="{x}" y1="{y}" x2="{to_x}" y2="{to_y}"/>'
        f'<polygon class="tip" points="{tip}"/>'
    )


def _row(x: int, y: int, offsets: Iterable[int], kind: str = "box") -> Iterator[str]:
    for number, offset in enumerate(offsets):
        yield _box(x + number * CELL, y, str(offset), kind)


def _partitions() -> str:
    """Two partitions, and where a group is in each."""
    left, parts = 130, []
    for y, name, count, read in ((30, "orders-0", 2, 1), (120, "orders-1", 2, 2)):
        parts.append(_label(left - 20, y + 22, name, anchor="end"))
        parts += _row(left, y, range(count))
        parts.append(_box(left + count * CELL, y, str(count), "new"))
        at = left + read * CELL + CELL // 2 - 3
        parts += [_arrow(at, y + 68, at, y + 38)]
        parts.append(_label(at + 10, y + 64, f"committed offset of kitchen: {read}", quiet=True))
    parts.append(_label(left + 4 * CELL, 52, "the next record is added here", quiet=True))
    title = "Two partitions as rows of numbered records; each new record is added at the right end"
    return _svg(520, 200, title, parts)


def _transaction() -> str:
    """What readers see of a transaction that is open, committed and aborted."""
    left, parts = 190, []
    rows = (
        (30, "open", [(0, "old"), (1, "new"), (2, "new")], "", 1),
        (100, "committed", [(0, "old"), (1, "box"), (2, "box")], "commit", 4),
        (170, "aborted", [(0, "old"), (1, "gone"), (2, "gone")], "abort", 4),
    )
    for y, name, cells, marker, stable in rows:
        parts.append(_label(left - 20, y + 22, name, anchor="end"))
        parts += [_box(left + at * CELL, y, str(at), kind) for at, kind in cells]
        if marker:
            parts.append(_box(left + 3 * CELL, y, marker, "old", 70))
        seen = {"open": "0", "committed": "0, 1, 2", "aborted": "0"}[name]
        words = f"read_committed sees {seen}; last stable offset {stable}"
        parts.append(_label(left + 5 * CELL, y + 22, words, quiet=True))
    title = "A transaction in one partition while it is open, when committed, and when aborted"
    return _svg(740, 220, title, parts)


def _load() -> str:
    """A topic into a table."""
    parts = [_label(20, 22, "partitions"), _label(300, 22, "Spark tasks"), _label(500, 22, "table")]
    for number in range(3):
        y = 40 + number * 56
        parts += _row(20, y, range(4), "box")
        parts.append(_arrow(20 + 4 * CELL + 6, y + 17, 296, y + 17))
        parts.append(_box(300, y, f"task {number}", "old", 90))
        parts.append(_arrow(394, y + 17, 496, y + 17))
        parts.append(_box(500, y, "Parquet", "new", 90))
    parts.append(_arrow(545, 190, 545, 226))
    parts.append(_box(470, 230, "commit: offsets 0 to 3", "box", 180))
    words = "no reader sees a file before the commit; a killed load leaves none"
    parts.append(_label(20, 252, words, quiet=True))
    title = "A load: each task reads a range of a partition and writes a file; one commit shows all"
    return _svg(680, 280, title, parts)
