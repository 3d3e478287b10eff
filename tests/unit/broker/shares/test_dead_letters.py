"""Dead letters: what a share group gives up is noted in its topic, and then final."""

import logging
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.coordinator.share.records_in_flight import AcknowledgeType, DeliveryState
from ottla.metadata.deciding.topics import NewTopic
from ottla.record.batch import iter_batches
from ottla.record.record import Record, read_records
from ottla.storage.log.offsets import Isolation
from tests.support.brokers import at, disk
from tests.support.share_asking import Member, acquired, append, begin, share_broker

ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT
ENABLED = {"errors.deadletterqueue.group.enable": "true"}


def with_dead_letters(broker: Broker, **settings: str) -> Member:
    """A member of a group whose topic has one batch of five records."""
    begin(broker)
    values = {"errors.deadletterqueue.topic.name": "dlq.t", **settings}
    broker.settings.groups.change("g", values)
    append(broker, *(b"value %d" % one for one in range(5)))
    return Member(broker)


def letters(broker: Broker) -> list[Record]:
    found = (
        broker.topics.get("dlq.t")
        .partition(0)
        .log.reader.read(0, 1 << 20, Isolation.HIGH_WATERMARK)
    )
    assert found.records is not None
    return [
        record for batch in iter_batches(found.records.read()) for record in read_records(batch)
    ]


def headers(record: Record) -> dict[str, Any]:
    return {name.removeprefix("__dlq.errors."): value for name, value in record.headers}


def states(broker: Broker) -> list[str]:
    found = broker.shares.in_flight("g", (broker.topics.get("t").topic_id, 0), at(0.0))
    return [one.state.name for one in found]


def test_a_rejected_record_is_noted_with_its_place_and_the_reason() -> None:
    broker = share_broker()
    broker.admin.create_topic(NewTopic(name="dlq.t", overrides=ENABLED))
    a = with_dead_letters(broker)
    a.fetch()
    a.fetch([(0, 1, ACCEPT), (2, 2, REJECT), (3, 4, ACCEPT)], max_records=0)
    assert states(broker) == [DeliveryState.ARCHIVING.name]
    a.pass_to(1.0)
    assert states(broker) == []
    (letter,) = letters(broker)
    assert headers(letter) == {
        "topic": b"t",
        "partition": b"0",
        "offset": b"2",
        "group": b"g",
        "delivery.count": b"1",
        "message": b"Record was rejected by a member",
    }
    assert (letter.key, letter.value) == (None, None)


def test_a_record_that_was_delivered_too_often_is_copied_if_the_group_wants_it() -> None:
    broker = share_broker(errors_deadletterqueue_auto_create_topics_enable="true")
    copies = {"errors.deadletterqueue.copy.record.enable": "true"}
    a = with_dead_letters(broker, **copies, **{"share.delivery.count.limit": "2"})
    for _ in range(2):
        assert acquired(a.fetch())
        a.fetch([(0, 4, RELEASE)], max_records=0)
    a.pass_to(1.0)
    assert [one.value for one in letters(broker)] == [b"value %d" % one for one in range(5)]
    told = {(headers(one)["message"], headers(one)["delivery.count"]) for one in letters(broker)}
    assert told == {(b"Delivery count limit reached, after it was released", b"2")}
    assert acquired(a.fetch()) == []


@pytest.mark.parametrize(
    ("name", "overrides", "reason"),
    [
        ("dlq.t", {}, "errors.deadletterqueue.group.enable=true"),
        ("other", ENABLED, "does not begin with 'dlq.'"),
        (None, {}, "there is no topic dlq.t"),
    ],
)
def test_records_are_given_up_without_a_dead_letter_where_none_may_be_written(
    name: str | None, overrides: dict[str, str], reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker = share_broker()
    if name is not None:
        broker.admin.create_topic(NewTopic(name=name, overrides=dict(overrides)))
    a = with_dead_letters(broker, **{"errors.deadletterqueue.topic.name": name or "dlq.t"})
    a.fetch()
    with caplog.at_level(logging.ERROR):
        a.fetch([(0, 4, REJECT)], max_records=0)
        a.pass_to(1.0)
    assert states(broker) == []
    assert "share group g gives up t-0, offsets 0 to 4" in caplog.text
    assert reason in caplog.text


def test_a_restart_goes_on_with_dead_letters_that_were_not_written() -> None:
    file_system = disk("/d")
    broker = share_broker(file_system)
    broker.admin.create_topic(NewTopic(name="dlq.t", overrides=ENABLED))
    a = with_dead_letters(broker)
    a.fetch()
    a.fetch([(0, 4, REJECT)], max_records=0)
    broker.close()
    again = share_broker(file_system)
    again.settings.groups.change("g", {"errors.deadletterqueue.topic.name": "dlq.t"})
    b = Member(again)
    waiting = b.wait()
    for monotonic_ms in range(0, 400, 50):
        b.pass_to(monotonic_ms)
        waiting.answer()
    assert [headers(one)["offset"] for one in letters(again)] == [b"%d" % one for one in range(5)]
    assert states(again) == []
