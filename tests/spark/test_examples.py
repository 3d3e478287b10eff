"""The examples do what they say: what Spark finds is what plain Python finds in the same input."""

import json
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest
from examples import activity, changes, metrics
from examples.activity_data import Request, made_up_requests, parse_request, read_requests

import ottla
from ottla.spark.session import LocalSession
from tests.integration.cli.support import ENVIRONMENT, QUICK_JAVA
from tests.support import SHARED

IDLE_MS = 30 * 60 * 1000


def page_and_status(line: str) -> tuple[str, int]:
    request, status = line.split('"')[1], line.split('"')[2].split()[0]
    return request.split()[1], int(status)


def sessions(requests: list[Request]) -> Counter[str]:
    """How many sessions each visitor had."""
    found: Counter[str] = Counter()
    last: dict[str, int] = {}
    for one in sorted(requests, key=lambda request: request.time_ms):
        if one.time_ms - last.get(one.visitor, -IDLE_MS) >= IDLE_MS:
            found[one.visitor] += 1
        last[one.visitor] = one.time_ms
    return found


def check_activity(found: activity.Found, requests: list[Request]) -> None:
    assert found.request_count == len(requests)
    assert found.unreadable_count == 0
    assert found.session_count == sessions(requests).total()
    looked_up = [(page_and_status(one.line), one.visitor) for one in requests]
    hits = [(page, visitor) for (page, status), visitor in looked_up if 200 <= status < 300]
    counts = Counter(page for page, _ in hits)
    most = sorted(counts.items(), key=lambda one: (-one[1], one[0]))[: activity.SHOWN]
    assert [(page, count) for page, count, _ in found.pages] == most
    for page, _, visitors in found.pages:
        assert visitors == len({visitor for other, visitor in hits if other == page})
    assert found.sessions == sorted(found.sessions, key=lambda one: -one[2])


def test_sessions_and_top_pages_of_made_up_requests(
    local_session: LocalSession, tmp_path: Path
) -> None:
    requests = list(made_up_requests())
    assert activity.write(tmp_path, requests[:1000]) == 1000
    assert activity.write(tmp_path, requests) == len(requests) - 1000, "the rest of it"
    check_activity(activity.find(local_session.spark, tmp_path), requests)


@pytest.mark.skipif(SHARED is None, reason="the access log is not here")
def test_sessions_and_top_pages_of_a_real_access_log(
    local_session: LocalSession, tmp_path: Path
) -> None:
    assert SHARED is not None
    requests = list(read_requests(SHARED / "data" / "apache_logs.gz"))
    assert len(requests) == 10_000
    activity.write(tmp_path, requests)
    check_activity(activity.find(local_session.spark, tmp_path), requests)


def test_a_line_that_is_no_request_is_counted(local_session: LocalSession, tmp_path: Path) -> None:
    requests = list(made_up_requests())[:3]
    broken = Request("192.0.2.1", requests[0].time_ms, "what is this?")
    activity.write(tmp_path, [*requests, broken])
    found = activity.find(local_session.spark, tmp_path)
    assert (found.request_count, found.unreadable_count) == (4, 1)
    with pytest.raises(ValueError, match="time data"):
        parse_request("what is this?")


def test_the_latest_state_out_of_a_change_log_stays_when_it_is_compacted(
    local_session: LocalSession, tmp_path: Path
) -> None:
    wanted: changes.State = {}
    for customer, row in changes.changes():
        if row is None:
            del wanted[customer]
        else:
            wanted[customer] = row
    changes.write(tmp_path, list(changes.changes()))
    assert changes.latest(local_session.spark, tmp_path) == (wanted, changes.CHANGES)
    changes.compact(tmp_path)
    state, count = changes.latest(local_session.spark, tmp_path)
    assert state == wanted
    assert len(wanted) <= count < changes.CHANGES / 5


@pytest.mark.skipif(find_spec("grpc") is None, reason="pip install 'pyspark[pipelines]'")
def test_a_pipelines_project_fills_its_tables_from_the_log(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    result = subprocess.run(
        [sys.executable, "-m", "examples.pipeline", "--data-dir", str(tmp_path)],
        capture_output=True,
        text=True,
        # At a free port: Spark Connect otherwise listens at 15002, which another run may have.
        env={**ENVIRONMENT, **QUICK_JAVA, "COLUMNS": "200", "SPARK_TESTING": "1"},
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    requests = list(made_up_requests())
    table = pq.read_table(tmp_path / "tables" / "requests")
    assert table.num_rows == len(requests)
    found = Counter(zip(table["visitor"].to_pylist(), table["page"].to_pylist(), strict=True))
    assert found == Counter((one.visitor, page_and_status(one.line)[0]) for one in requests)
    days = pq.read_table(tmp_path / "tables" / "days").to_pylist()
    assert sum(one["requests"] for one in days) == len(requests)
    (missing,) = pq.read_table(tmp_path / "tables" / "missing").to_pylist()
    assert missing == {
        "page": "/old",
        "requests": sum(page_and_status(one.line) == ("/old", 404) for one in requests),
    }
    assert "days" in result.stdout


def test_an_example_says_how_it_is_used() -> None:
    for name in ("activity", "changes", "metrics", "pipeline"):
        result = subprocess.run(
            [sys.executable, "-m", f"examples.{name}", "--help"],
            capture_output=True,
            text=True,
            env=ENVIRONMENT,
            cwd=Path(__file__).parents[2],
            check=False,
        )
        assert result.returncode == 0, result.stderr
        assert "--data-dir" in result.stdout


def test_averages_of_each_second_are_those_of_the_figures_in_the_log(
    local_session: LocalSession, tmp_path: Path
) -> None:
    watched = metrics.watch(local_session.spark, tmp_path, 5.0)
    with ottla.open(tmp_path / "log") as log:
        records = list(log.read(metrics.TOPIC))
    late, taken = records[-1], records[:-1]
    assert watched.late_count == 1
    assert late.timestamp_ms < min(one.timestamp_ms for one in taken)
    by_second: dict[tuple[str, int], list[float]] = {}
    for one in taken:
        figure = json.loads(one.value or b"")
        by_second.setdefault((figure["name"], one.timestamp_ms // 1000), []).append(figure["value"])
    seconds = sorted({second for _, second in by_second})
    assert len(watched.seconds) >= 2, "the watermark has passed a second of both figures"
    wanted = [
        (name, by_second[name, second])
        for second in seconds
        for name in ("cpu %", "memory %")
        if (name, second) in by_second
    ]
    for told, (name, values) in zip(watched.seconds, wanted, strict=False):
        assert (told.name, told.samples, told.largest) == (name, len(values), max(values))
        assert told.average == pytest.approx(sum(values) / len(values))
