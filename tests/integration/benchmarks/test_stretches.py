"""What `make fairness` finds fault with: an API without a row, a long stretch, a refusal."""

from array import array
from pathlib import Path
from time import thread_time

import pytest
from click.testing import CliRunner

from benchmarks import append
from benchmarks.__main__ import main
from benchmarks.fairness import Burden
from benchmarks.measuring import Scale
from benchmarks.probe import Wait
from benchmarks.report import Report
from benchmarks.stretches import LONG_MS, Recorder, Row, Times, Tried, judged, tried
from benchmarks.wire import frame_of
from ottla.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest
from ottla.server.dispatching.request_context import RequestContext
from ottla.server.dispatching.turns import MAX_ELEMENTS
from ottla.server.handlers import describe_groups
from tests.support.serving import open_broker, serving

SPENT_S = 0.02
WAITS = [Wait(all_s=0.1, served_s=0.001)]


def row_of(api: str, cpu_ms: float, *, in_loop_ms: float = 0.1) -> Row:
    row = Row(api)
    times = Times(array("d", [0.5, cpu_ms]), array("d", [0.6, 2 * cpu_ms]))
    row.add(Burden(name=f"{api}, topics", frame=b""), Tried(times, in_loop_ms, in_loop_ms), WAITS)
    row.limit_ms = LONG_MS
    return row


@pytest.mark.slow
def test_short_stretches_are_no_failure_however_long_they_took_on_the_wall() -> None:
    report = judged("a broker", [row_of("FETCH", 4.9), row_of("PRODUCE", 1.0)])
    assert [one[0] for one in report.rows] == ["FETCH", "PRODUCE"]
    assert report.failures == []


@pytest.mark.slow
def test_a_long_stretch_is_a_failure_in_a_slice_and_in_a_round() -> None:
    report = judged("a broker", [row_of("FETCH", 5.1), row_of("PRODUCE", 1.0, in_loop_ms=5.2)])
    assert [one.partition(":")[0] for one in report.failures] == [
        "FETCH, topics",
        "PRODUCE, topics",
    ]


def test_an_api_without_a_request_is_a_failure() -> None:
    report = judged("a broker", [row_of("FETCH", 1.0), Row("METADATA")])
    assert report.failures == ["METADATA has no request, and so no row"]


def test_a_refused_request_is_a_failure_beside_one_that_was_taken() -> None:
    row = row_of("FETCH", 1.0)
    row.refused["FETCH, topics.partitions"] = 1
    (failure,) = judged("a broker", [row]).failures
    assert failure.startswith("FETCH, topics.partitions: the request was refused")


def test_the_command_fails_where_a_table_does(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: Scale) -> list[Report]:
        return [judged("a broker", [row_of("FETCH", 1.0), Row("METADATA")])]

    monkeypatch.setattr(append, "run", run)
    result = CliRunner().invoke(main, ["append"])
    assert result.exit_code == 1
    assert "FAILED: METADATA has no request, and so no row" in result.output


@pytest.mark.slow
def test_a_handler_that_does_not_give_way_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def describe(group_id: str, _: RequestContext) -> DescribedGroup:
        until_s = thread_time() + SPENT_S
        while thread_time() < until_s:
            pass
        return DescribedGroup(group_id=group_id)

    burden = Burden(
        name="DESCRIBE_GROUPS",
        frame=frame_of(DescribeGroupsRequest(groups=["g"] * 3), 5),
        elements=3,
    )
    with serving(open_broker(tmp_path / "data")) as server:
        recorder = Recorder()
        with recorder.recording(server):
            found = tried(recorder, server, burden)
            assert found is not None
            monkeypatch.setattr(describe_groups, "_describe", describe)
            slow = tried(recorder, server, burden)
    assert slow is not None
    assert slow.cpu_ms >= SPENT_S * 1000
    assert sum(one >= SPENT_S * 1000 for one in slow.slices.cpu) == 3, "each of the three"


@pytest.mark.slow
def test_a_request_that_is_refused_shows_nothing(tmp_path: Path) -> None:
    frame = frame_of(DescribeGroupsRequest(groups=[""] * (MAX_ELEMENTS + 1)), 5)
    burden = Burden(name="DESCRIBE_GROUPS", frame=frame, elements=MAX_ELEMENTS + 1)
    with serving(open_broker(tmp_path / "data")) as server:
        recorder = Recorder()
        with recorder.recording(server):
            assert tried(recorder, server, burden) is None
