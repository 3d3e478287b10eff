"""Draws the house: the rooms of `src/ottla`, their sizes, and which room imports which.

The page and its drawing stay as they are while they are true: sizes within a quarter, rooms and
imports exactly (`is_true`). So a changed line changes no document.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src" / "ottla"
PAGE = ROOT / "docs" / "explanation" / "house.md"
DRAWING = PAGE.with_suffix(".svg")

IMPORT = re.compile(r"^\s*(?:from|import) ottla\.(\w+)", re.MULTILINE)
ROW = re.compile(r"^\| `(\w+)` \| ([\d,]+) \| ([\d,]+) \| (.*) \|$", re.MULTILINE)
ENTRY = "__main__"

TOLERANCE = 0.25
"""How far a size on the page may be from the truth."""

LEAST_LINES = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A folder of `src/ottla`, or a file beside the folders; lines to the hundred."""

    name: str
    lines: int
    files: int
    imports: frozenset[str]

    def is_like(self, truth: "Room") -> bool:
        allowed = max(2 * LEAST_LINES, TOLERANCE * truth.lines)
        return (
            self.imports == truth.imports
            and abs(self.lines - truth.lines) <= allowed
            and abs(self.files - truth.files) <= max(3, TOLERANCE * truth.files)
        )


def rooms_of_code() -> dict[str, Room]:
    """What the code says."""
    texts: dict[str, list[str]] = {}
    for path in sorted(SOURCES.rglob("*.py")):
        name = path.relative_to(SOURCES).parts[0].removesuffix(".py")
        if name not in ("__init__", ENTRY):
            texts.setdefault(name, []).append(path.read_text())
    return {
        name: Room(
            name=name,
            lines=max(LEAST_LINES, round(sum(one.count("\n") for one in files), -2)),
            files=len(files),
            imports=frozenset(IMPORT.findall("".join(files))) & texts.keys() - {name},
        )
        for name, files in texts.items()
    }


def rooms_of_page(text: str) -> dict[str, Room]:
    """What the page's table says."""
    return {
        name: Room(
            name=name,
            lines=int(lines.replace(",", "")),
            files=int(files.replace(",", "")),
            imports=frozenset(re.findall(r"`(\w+)`", imports)),
        )
        for name, lines, files, imports in ROW.findall(text)
    }


def is_true(page: Mapping[str, Room], code: Mapping[str, Room]) -> bool:
    """Whether the page may stay as it is."""
    return page.keys() == code.keys() and all(page[name].is_like(code[name]) for name in code)


def floors(rooms: Iterable[str]) -> list[list[str]]:
    """The rooms from the roof down, as the import contract orders them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    contracts = project["tool"]["importlinter"]["contracts"]
    (layers,) = [one["layers"] for one in contracts if one.get("containers") == ["ottla"]]
    known = set(rooms)
    named = [[name for name in re.findall(r"\w+", layer) if name in known] for layer in layers]
    return [floor for floor in named if floor]


def page_text(rooms: Mapping[str, Room]) -> str:
    names = [name for floor in floors(rooms) for name in floor]
    rows = [
        f"| `{room.name}` | {room.lines:,} | {room.files:,} | "
        f"{', '.join(f'`{one}`' for one in names if one in room.imports) or 'nothing'} |"
        for room in (rooms[name] for name in names)
    ]
    return "\n".join([HEAD, *rows, ""])


HEAD = """# The house

<!-- made by `make docs` from src/ottla and pyproject.toml -->

![The rooms of Ottla from the roof down, with the imports between them](house.svg)

A room is a folder of `src/ottla`; the width of its box shows the size of its code. Rooms import
downward only, and `make check` fails otherwise. The drawing leaves out arrows that follow from
others; the table lists all imports. `ARCHITECTURE.md`, beside the README, describes what each room
does, and how requests flow through the rooms. Sizes are accurate to within a quarter.

| room | lines | files | imports |
|---|---|---|---|"""


# The drawing

GAP, LANE, MARGIN = 18.0, 10.0, 20.0
HEIGHT, FLOOR = 44.0, 92.0
NARROWEST, LINES_PER_PIXEL = 84.0, 60.0
SWEEPS = 24

STYLE = """<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328; text-anchor: middle; }
.size { font-size: 11px; fill: #59636e; }
rect { fill: #eef4fb; stroke: #4a7ab5; rx: 5px; }
path { fill: none; stroke: #8894a2; }
marker path { fill: #8894a2; stroke: none; }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3; }
.size { fill: #9198a1; }
rect { fill: #17263a; stroke: #5b8fd0; }
path { stroke: #6b7683; }
marker path { fill: #6b7683; }
}
</style>
<marker id="tip" markerWidth="8" markerHeight="8" refX="7" refY="4" orient="auto">
<path d="M0,1 L8,4 L0,7 Z"/></marker>"""


@dataclass(slots=True)
class Slot:
    """A place in a floor: a room, or a lane that an arrow takes through it."""

    key: tuple[str, str]
    floor: int
    width: float
    x: float = 0.0
    """Of its centre."""


def shown_arrows(rooms: Mapping[str, Room]) -> list[tuple[str, str]]:
    """The imports that do not follow from others."""
    reach: dict[str, set[str]] = {}

    def below(name: str) -> set[str]:
        if name not in reach:
            reach[name] = set()
            reach[name] = {far for one in rooms[name].imports for far in {one, *below(one)}}
        return reach[name]

    return [
        (name, one)
        for name in sorted(rooms)
        for one in sorted(rooms[name].imports)
        if not any(one in below(other) for other in rooms[name].imports - {one})
    ]


def drawing(rooms: Mapping[str, Room]) -> str:
    """The drawing as SVG, readable on light and on dark ground."""
    order = floors(rooms)
    floor_of = {name: number for number, floor in enumerate(order) for name in floor}
    slots = {
        (name, ""): Slot(
            (name, ""), floor_of[name], NARROWEST + rooms[name].lines / LINES_PER_PIXEL
        )
        for name in rooms
    }
    paths = []
    for source, target in shown_arrows(rooms):
        keys = [(source, "")]
        for floor in range(floor_of[source] + 1, floor_of[target]):
            # Arrows to the same room share a lane.
            lane = (f"{floor}", target)
            slots.setdefault(lane, Slot(lane, floor, LANE))
            keys.append(lane)
        paths.append([*keys, (target, "")])
    place(slots, paths, len(order))
    width = max(one.x + one.width / 2 for one in slots.values()) + MARGIN
    height = 2 * MARGIN + FLOOR * (len(order) - 1) + HEIGHT
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}">',
            STYLE,
            *(arrow([slots[key] for key in keys]) for keys in paths),
            *(box(slots[name, ""], rooms[name]) for floor in order for name in floor),
            "</svg>\n",
        ]
    )


def place(
    slots: Mapping[tuple[str, str], Slot], paths: list[list[tuple[str, str]]], floor_count: int
) -> None:
    """Gives every slot its x: near its neighbours above and below, side by side in its floor."""
    near: dict[tuple[str, str], list[Slot]] = {key: [] for key in slots}
    for keys in paths:
        for upper, lower in pairwise(keys):
            near[upper].append(slots[lower])
            near[lower].append(slots[upper])
    by_floor = [[one for one in slots.values() if one.floor == n] for n in range(floor_count)]
    for _ in range(SWEEPS):
        for floor in by_floor:
            wanted = {
                one.key: sum(other.x for other in near[one.key]) / max(1, len(near[one.key]))
                for one in floor
            }
            spread(floor, wanted)
    left = min(one.x - one.width / 2 for one in slots.values())
    for one in slots.values():
        one.x += MARGIN - left


def spread(floor: list[Slot], wanted: Mapping[tuple[str, str], float]) -> None:
    """Puts slots side by side, as near as can be to where they are wanted."""
    floor.sort(key=lambda one: (wanted[one.key], one.key))
    x = 0.0
    for one in floor:
        one.x = x + one.width / 2
        x += one.width + GAP
    shift = sum(wanted[one.key] - one.x for one in floor) / len(floor)
    for one in floor:
        one.x += shift


def arrow(slots: list[Slot]) -> str:
    """A line from the first slot's foot to the last one's head, through the lanes between."""
    points = [(slots[0].x, top(slots[0]) + HEIGHT)]
    for lane in slots[1:-1]:
        points += [(lane.x, top(lane)), (lane.x, top(lane) + HEIGHT)]
    points.append((slots[-1].x, top(slots[-1])))
    steps = [f"M{points[0][0]:.0f},{points[0][1]:.0f}"]
    for (x, y), (next_x, next_y) in pairwise(points):
        middle = (y + next_y) / 2
        steps.append(f"C{x:.0f},{middle:.0f} {next_x:.0f},{middle:.0f} {next_x:.0f},{next_y:.0f}")
    return f'<path d="{" ".join(steps)}" marker-end="url(#tip)"/>'


def box(slot: Slot, room: Room) -> str:
    x, y = slot.x - slot.width / 2, top(slot)
    return (
        f'<rect x="{x:.0f}" y="{y:.0f}" width="{slot.width:.0f}" height="{HEIGHT:.0f}"/>'
        f'<text x="{slot.x:.0f}" y="{y + 19:.0f}">{room.name}</text>'
        f'<text class="size" x="{slot.x:.0f}" y="{y + 35:.0f}">{room.lines:,} lines</text>'
    )


def top(slot: Slot) -> float:
    return MARGIN + FLOOR * slot.floor


def write() -> None:
    """Writes page and drawing, with new sizes only where they are no longer true."""
    code = rooms_of_code()
    page = rooms_of_page(PAGE.read_text()) if PAGE.exists() else {}
    rooms = page if is_true(page, code) else code
    PAGE.write_text(page_text(rooms))
    DRAWING.write_text(drawing(rooms))
