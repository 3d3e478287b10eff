"""Events are logged, but never more of them than people can read."""

import logging

import pytest

from ottla.coordinator.events import MemberJoined
from ottla.runtime.event_log import MAX_LINES, EventLog
from ottla.testing import FakeClock


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> EventLog:
    caplog.set_level(logging.INFO)
    return EventLog(FakeClock())


def test_an_event_is_one_line_with_its_fields(
    log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    event = MemberJoined(group="g", member="m-1")
    log(event)
    (record,) = caplog.records
    assert (record.levelname, record.getMessage()) == ("INFO", "group g: m-1 joins")
    assert record.__dict__["event"] is event


def test_a_flood_of_events_is_summed_up_in_one_line(
    log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(1000):
        log(MemberJoined(group="g", member=f"m-{number}"))
    assert len(caplog.records) == MAX_LINES
    assert log.counts == {"member_joined": 1000}
    log.sum_up()
    assert caplog.messages[MAX_LINES:] == ["980 more in 0 s: member joined"]
    log(MemberJoined(group="g", member="m"))
    assert caplog.messages[-1] == "group g: m joins"


def test_what_is_counted_elsewhere_is_summed_up_when_it_has_grown(
    log: EventLog, caplog: pytest.LogCaptureFixture
) -> None:
    totals = {"segments rolled": 3, "segments deleted": 0}
    log.start(lambda: dict(totals))
    totals["segments rolled"] = 5
    log.sum_up()
    totals["segments deleted"] = 1
    log.stop()
    assert caplog.messages == ["in 0 s: segments rolled: 2", "in 0 s: segments deleted: 1"]


def test_events_are_counted_where_none_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    log = EventLog(FakeClock())
    log(MemberJoined(group="g", member="m"))
    assert not caplog.records
    assert log.counts == {"member_joined": 1}
