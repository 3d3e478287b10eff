"""A year of departures as a page to look at: delays by hour, a map of routes, the latest flights.

Run it with `python -m examples.departures`. The flights are read from the log of `make run`, or
are put into a log here first. The page is one HTML file, with its pictures drawn into it. The
notebook `departures.ipynb` draws them too, of a Delta table that a stream fills meanwhile.
"""

import argparse
import csv
import html
import io
from collections.abc import Iterator, Sequence
from itertools import islice
from math import cos, radians
from pathlib import Path
from typing import Any

import duckdb
import pyarrow.json

import ottla
from examples.flights_data import PARTITIONS, TOPIC, FlightMessage, data_file, flights

BATCH = 10_000
BOARD = 12
"""Flights on the board of the latest departures."""

BY_HOUR = """
    SELECT hour, avg(dep_delay) AS mean, quantile_cont(dep_delay, 0.9) AS late, count(*) AS flights
    FROM flights WHERE dep_delay IS NOT NULL AND hour >= 5 GROUP BY hour ORDER BY hour"""
ROUTES = "SELECT origin, dest, count(*) AS flights FROM flights GROUP BY ALL ORDER BY flights"
LATEST = f"""
    SELECT time_hour, carrier || ' ' || flight, origin, dest, dep_delay FROM flights
    ORDER BY time_hour DESC, carrier, flight LIMIT {BOARD}"""

WEST, EAST, SOUTH, NORTH = -125.0, -66.0, 24.0, 50.0
WIDTH, HEIGHT = 900, 420

PICTURES = """
:root { color-scheme: light dark; --text: #1f2328; --quiet: #59636e; --back: #fff; --bar: #218bff;
  --late: #b6d9ff; --route: #bf3989; --dot: #d1d9e0; --rule: #d1d9e0 }
@media (prefers-color-scheme: dark) { :root { --text: #f0f6fc; --quiet: #9198a1; --back: #0d1117;
  --bar: #388bfd; --late: #1b3f73; --route: #f778ba; --dot: #3d444d; --rule: #3d444d } }
svg { width: 100%; height: auto }
text { font-size: 13px; fill: var(--quiet) } text.name { fill: var(--text); font-weight: 600 }
.bar { fill: var(--bar) } .late { fill: var(--late) } .dot { fill: var(--dot) }
.route { stroke: var(--route); fill: none } .rule { stroke: var(--rule) }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .25rem .75rem
  .25rem 0; border-bottom: 1px solid var(--rule) } td.n, th.n { text-align: right }
"""
PAGE = """
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--back);
  max-width: 940px; margin: 2rem auto; padding: 0 1rem }
h2 { margin: 2.5rem 0 .5rem } p, .quiet { color: var(--quiet) }
"""


class Picture(str):
    """Elements of HTML, which a notebook shows with their style."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<style>{PICTURES}</style>{self}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data-dir", type=Path, default=Path("demo-data"))
    parser.add_argument("--flights", type=int, help="only so many, for a quick look")
    given = parser.parse_args()
    log_directory, page = given.data_dir / "log", given.data_dir / "departures.html"
    with ottla.open(log_directory) as log:
        if TOPIC not in log.topics():
            fill(log, islice(flights(), given.flights))
        table = read(log)
    connection = duckdb.connect()
    connection.register("flights", table)
    page.write_text(page_of(connection, table.num_rows))
    print(f"{table.num_rows:,} flights, drawn in {page}")


def fill(log: ottla.Log, found: Iterator[FlightMessage]) -> None:
    if TOPIC not in log.topics():
        # The flights are of 2013: retention by time must not count them as old.
        log.create_topic(TOPIC, partitions=PARTITIONS, config={"retention.ms": -1})
    while batch := list(islice(found, BATCH)):
        for partition in range(PARTITIONS):
            rows = [(one.key, one.value) for one in batch if one.partition == partition]
            log.append_many(TOPIC, rows, partition=partition)


def read(log: ottla.Log) -> Any:
    """An Arrow table with a column for each field of the JSON values."""
    values = log.scan(TOPIC).to_arrow()["value"].to_pylist()
    return pyarrow.json.read_json(io.BytesIO(b"\n".join(values)))


def page_of(flights: duckdb.DuckDBPyConnection, count: int) -> str:
    routes = flights.sql(ROUTES).fetchall()
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>Departures from New York, 2013</title><style>{PICTURES}{PAGE}</style>
<h1>Departures from New York, 2013</h1>
<p>{count:,} flights, read from the topic {TOPIC} in {PARTITIONS} partitions.</p>
<h2>Delays by hour</h2>
<p>Mean delay of a departure in minutes, and below which nine of ten stay (the pale bar).</p>
{delays(flights)}
<h2>Routes</h2>
<p>{len(routes)} routes of {len({one for one, _, _ in routes})} airports; a broad line is a busy
one. Each dot is an airport.</p>
{route_map(flights)}
<h2>Latest departures</h2>
{board(flights)}
</html>
"""


def board(flights: duckdb.DuckDBPyConnection) -> Picture:
    """A table of the latest departures."""
    rows = "".join(_board_row(*row) for row in flights.sql(LATEST).fetchall())
    head = '<tr><th>Hour (UTC)<th>Flight<th>From<th>To<th class="n">Delay</tr>'
    return Picture(f"<table>{head}{rows}</table>")


def _airports() -> Iterator[tuple[str, float, float]]:
    with data_file("airports.csv").open(encoding="utf-8") as rows:
        for row in csv.DictReader(rows):
            yield row["faa"], float(row["lon"]), float(row["lat"])


def delays(flights: duckdb.DuckDBPyConnection) -> Picture:
    """Bars of the mean delay of each hour, and of that below which nine of ten flights stay."""
    by_hour = flights.sql(BY_HOUR).fetchall()
    height, bottom, left = 240, 210, 40
    most = max(max(late, mean) for _, mean, late, _ in by_hour)
    scale, step = (bottom - 20) / most, (WIDTH - left) / len(by_hour)
    parts = []
    for minutes in range(0, int(most) + 1, 20):
        y = bottom - minutes * scale
        parts.append(f'<line class="rule" x1="{left}" x2="{WIDTH}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{minutes}</text>')
    for number, (hour, mean, late, count) in enumerate(by_hour):
        x, width = left + number * step + 6, step - 12
        title = f"{hour}:00, {count:,} flights: {mean:.1f} min, nine of ten below {late:.0f} min"
        bars = "".join(
            f'<rect class="{kind}" x="{x:.1f}" width="{width:.1f}" '
            f'y="{bottom - max(value, 0) * scale:.1f}" height="{max(value, 0) * scale:.1f}"/>'
            for kind, value in (("late", late), ("bar", mean))
        )
        parts.append(f"<g><title>{title}</title>{bars}</g>")
        middle = x + width / 2
        parts.append(f'<text x="{middle:.1f}" y="{bottom + 18}" text-anchor="middle">{hour}</text>')
    return _svg("Delays by hour", height, parts)


def route_map(flights: duckdb.DuckDBPyConnection) -> Picture:
    """Longitudes are shortened as in the middle of the map."""
    routes = flights.sql(ROUTES).fetchall()
    inside = {
        name: _place(longitude, latitude)
        for name, longitude, latitude in _airports()
        if WEST < longitude < EAST and SOUTH < latitude < NORTH
    }
    parts = [f'<circle class="dot" cx="{x:.1f}" cy="{y:.1f}" r="1.5"/>' for x, y in inside.values()]
    busiest = max(count for _, _, count in routes)
    for origin, destination, count in routes:
        if origin in inside and destination in inside:
            (x, y), (to_x, to_y) = inside[origin], inside[destination]
            share = count / busiest
            title = f"{origin} to {destination}: {count:,} flights"
            # A bow, so that lines of neighbours stay apart.
            middle = f"{(x + to_x) / 2:.1f},{(y + to_y) / 2 - abs(x - to_x) / 8:.1f}"
            parts.append(
                f'<path class="route" d="M{x:.1f},{y:.1f} Q{middle} {to_x:.1f},{to_y:.1f}" '
                f'stroke-width="{0.3 + 3.7 * share:.2f}" opacity="{0.25 + 0.6 * share:.2f}">'
                f"<title>{title}</title></path>"
            )
    named: list[tuple[float, float]] = []
    for _, name, _ in sorted(routes, key=lambda one: -one[2])[:14]:
        if name in inside and not _is_near(inside[name], named):
            x, y = inside[name]
            named.append((x, y))
            parts.append(f'<text class="name" x="{x:.1f}" y="{y + 14:.1f}">{name}</text>')
    return _svg("A map of routes", HEIGHT, parts)


def _is_near(place: tuple[float, float], others: Sequence[tuple[float, float]]) -> bool:
    """Whether a name there would lie on another one."""
    return any(abs(place[0] - x) < 34 and abs(place[1] - y) < 14 for x, y in others)


def _place(longitude: float, latitude: float) -> tuple[float, float]:
    middle = cos(radians((SOUTH + NORTH) / 2))
    scale = min(WIDTH / ((EAST - WEST) * middle), HEIGHT / (NORTH - SOUTH))
    left = (WIDTH - (EAST - WEST) * middle * scale) / 2
    return left + (longitude - WEST) * middle * scale, (NORTH - latitude) * scale


def _svg(title: str, height: int, parts: Sequence[str]) -> Picture:
    inner = "\n".join(parts)
    head = f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}">'
    return Picture(f"{head}\n{inner}\n</svg>")


def _board_row(hour: Any, flight: str, origin: str, dest: str, delay: int | None) -> str:
    late = "cancelled" if delay is None else f"{delay} min" if delay > 0 else "on time"
    cells = "".join(f"<td>{html.escape(str(one))}" for one in (hour, flight, origin, dest))
    return f'<tr>{cells}<td class="n">{late}</tr>'


if __name__ == "__main__":
    main()
