"""Records that say by headers when they are delivered, and which before others."""

import logging

import pytest

from ottla.broker.broker import Broker
from ottla.record.builder import RecordBatchBuilder
from tests.support.brokers import NOW_MS
from tests.support.share_asking import Member, acquired, begin, share_broker

RELEASE, ACCEPT = 2, 1


def append(broker: Broker, *headers: dict[str, str]) -> None:
    """A batch of records with these headers."""
    builder = RecordBatchBuilder()
    for its in headers:
        named = tuple((f"ottla.{name}", value.encode()) for name, value in its.items())
        builder.append(None, b"v", NOW_MS, named)
    partition = broker.topics.get("t").partition(0)
    broker.appends.append(partition, bytearray(builder.build()), now_ms=NOW_MS)
    broker.appends.write_out()


@pytest.fixture
def a() -> Member:
    broker = share_broker()
    begin(broker)
    broker.settings.groups.change("g", {"ottla.share.scheduling.enable": "true"})
    return Member(broker)


def test_records_of_a_higher_priority_are_delivered_first(a: Member) -> None:
    append(a.broker, {}, {"priority": "5"}, {}, {"priority": "5"}, {"priority": "-1"})
    append(a.broker, {"priority": "7"}, {})
    assert acquired(a.fetch()) == [(5, 5, 1)]
    assert acquired(a.fetch()) == [(1, 1, 1), (3, 3, 1)]
    assert acquired(a.fetch()) == [(0, 0, 1), (2, 2, 1), (6, 6, 1)]
    assert acquired(a.fetch()) == [(4, 4, 1)]
    assert acquired(a.fetch()) == []


def test_a_record_is_not_delivered_before_its_time_and_wakes_who_waits(a: Member) -> None:
    append(a.broker, {"deliver-at": str(NOW_MS + 300)}, {}, {"deliver-at": str(NOW_MS - 1)})
    assert acquired(a.fetch()) == [(1, 2, 1)]
    waiting = a.wait()
    a.pass_to(299, NOW_MS + 299)
    assert waiting.answer() is None
    a.pass_to(300, NOW_MS + 300)
    assert acquired(waiting.answer()) == [(0, 0, 1)]


def test_what_is_given_back_keeps_its_priority(a: Member) -> None:
    append(a.broker, {}, {"priority": "1"})
    assert acquired(a.fetch()) == [(1, 1, 1)]
    a.fetch([(1, 1, RELEASE)], max_records=0)
    assert acquired(a.fetch()) == [(1, 1, 2)]


def test_priority_counts_among_the_records_of_the_window(a: Member) -> None:
    a.broker.settings.groups.change(
        "g",
        {"ottla.share.scheduling.enable": "true", "share.partition.max.record.locks": "100"},
    )
    for _ in range(10):
        append(a.broker, *[{} for _ in range(11)], {"priority": "1"})
    first = acquired(a.fetch())
    assert first == [(one, one, 1) for one in range(11, 100, 12)]
    a.fetch([(one, one, ACCEPT) for one, _, _ in first], max_records=0)
    assert acquired(a.fetch(max_records=3, share_acquire_mode=1)) == [(107, 107, 1)]


def test_many_records_are_looked_into_in_several_rounds(a: Member) -> None:
    for _ in range(8):
        append(a.broker, *[{} for _ in range(99)], {"priority": "1"})
    waiting = a.wait(max_records=8)
    answers = [answer for _ in range(4) if (answer := waiting.answer()) is not None]
    assert acquired(*answers) == [(one, one, 1) for one in range(99, 800, 100)]


def test_a_header_that_is_no_number_is_told_once_and_ignored(
    a: Member, caplog: pytest.LogCaptureFixture
) -> None:
    append(a.broker, {"priority": "high"}, {"deliver-at": "tomorrow"})
    with caplog.at_level(logging.WARNING):
        assert acquired(a.fetch()) == [(0, 1, 1)]
    (line,) = caplog.messages
    assert "offset 0: the header ottla.priority is no integer" in line


def test_other_groups_get_records_in_their_order() -> None:
    broker = share_broker()
    begin(broker)
    append(broker, {"deliver-at": str(NOW_MS + 300)}, {"priority": "5"})
    assert acquired(Member(broker).fetch()) == [(0, 1, 1)]
