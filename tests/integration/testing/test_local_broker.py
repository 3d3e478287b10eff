"""`ottla.testing.LocalBroker`, as the tests of an application use it."""

import re
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

import ottla
from ottla.base.errors import ApiError, OttlaError, StorageError, UserError
from ottla.client.consumer.errors import CommitFailedError
from ottla.testing import LocalBroker
from ottla.testing.pytest_plugin import SETTINGS
from tests.support.patience import PATIENCE_S

DAY_MS = 86_400_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[LocalBroker]:
    with LocalBroker(tmp_path / "broker", SETTINGS) as found:
        yield found


def test_a_failed_assertion_is_shown_at_the_line_of_the_test(broker: LocalBroker) -> None:
    with pytest.raises(AssertionError) as caught:
        broker.assert_produced("t", value="tea")
    (shown,) = caught.traceback.filter(caught)
    assert shown.path == Path(__file__)


def producer(broker: LocalBroker, **settings: object) -> Producer:
    return Producer({"bootstrap.servers": broker.address, "linger.ms": 0, **settings})


def delivered(broker: LocalBroker, value: bytes, **settings: object) -> KafkaError | None:
    """What a client hears of one record."""
    heard: list[KafkaError | None] = []
    sender = producer(broker, **settings)
    sender.produce("t", value, on_delivery=lambda error, _: heard.append(error))
    sender.flush(PATIENCE_S)
    return heard[0]


def test_what_a_client_sends_is_there_and_what_is_there_a_client_reads(broker: LocalBroker) -> None:
    assert broker.records("t") == []
    assert delivered(broker, b'{"tea": 1}') is None
    broker.produce("t", "text", key="k", headers=[("h", b"1")])
    first, second = broker.records("t")
    assert (first.json, second.text, second.key) == ({"tea": 1}, "text", b"k")
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "g",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe(["t"])
    assert [one.value() for one in consumer.consume(2, PATIENCE_S)] == [b'{"tea": 1}', b"text"]
    consumer.close()


def test_an_assertion_finds_records_by_text_json_headers_and_functions(broker: LocalBroker) -> None:
    broker.produce("t", '{"a": 1}', key="k", headers=[("h", b"1"), ("i", None)])
    broker.produce("t", None, key="gone")
    (found,) = broker.assert_produced("t", value={"a": 1}, key="k", headers={"h": "1"})
    assert found.offset == 0
    broker.assert_produced("t", value=None, key=b"gone", count=1)
    broker.assert_produced("t", value=lambda data: data is None)
    broker.assert_produced("t", count=2)
    with pytest.raises(AssertionError) as raised:
        broker.assert_produced("t", value="b", count=1)
    assert "t should have 1 records with value 'b', and 0 of its 2 match" in str(raised.value)
    assert "t-0 at 1: key b'gone', value None" in str(raised.value)
    broker.create_topic("empty")
    with pytest.raises(AssertionError, match="no records"):
        broker.assert_produced("empty")


def test_an_assertion_about_a_topic_that_is_not_there_suggests_the_nearest(
    broker: LocalBroker,
) -> None:
    broker.create_topic("orders")
    with pytest.raises(AssertionError, match=r"there is no topic ordrs; did you mean orders\?"):
        broker.assert_produced("ordrs", value="tea")


def test_an_assertion_waits_for_a_record_that_comes(broker: LocalBroker) -> None:
    sender = producer(broker, **{"linger.ms": 100})
    sender.produce("t", b"late")
    broker.assert_produced("t", value="late", within_s=PATIENCE_S)


def test_days_that_pass_delete_what_is_too_old(broker: LocalBroker) -> None:
    broker.create_topic("t", config={"retention.ms": 7 * DAY_MS})
    broker.produce("t", "old")
    broker.advance(days=6)
    assert [one.value for one in broker.records("t")] == [b"old"]
    broker.produce("t", "new")
    broker.advance(days=8)
    assert broker.records("t") == []
    with pytest.raises(TypeError, match=r"takes milliseconds, .* not fortnights"):
        broker.advance(fortnights=1)


def test_time_that_passes_ends_the_session_of_a_consumer(broker: LocalBroker) -> None:
    broker.produce("t", "v")
    lost: list[TopicPartition] = []
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "heartbeat.interval.ms": 100,
        }
    )
    consumer.subscribe(["t"], on_lost=lambda _, partitions: lost.extend(partitions))
    assert consumer.consume(1, PATIENCE_S)
    broker.advance(minutes=5)
    while not lost:
        consumer.poll(0.1)
    consumer.close()


def test_time_that_passes_ends_offsets_that_a_group_has_left(broker: LocalBroker) -> None:
    broker.produce("t", "v")
    place = ottla.TopicPartition("t", 0)
    with ottla.Consumer(broker.address, "g", settings={"auto.offset.reset": "earliest"}) as one:
        one.subscribe("t")
        assert one.poll(PATIENCE_S) is not None
        broker.advance(days=30)
        with pytest.raises(CommitFailedError):  # The session has ended too.
            one.commit(offsets={place: 1})
    with ottla.Admin(broker.log) as admin:
        admin.alter_group_offsets("g", {place: 1})
        broker.advance(days=6)
        assert admin.group_offsets("g")[place].offset == 1
        broker.advance(days=2)
        assert admin.list_groups() == []


def test_time_that_passes_aborts_a_transaction(broker: LocalBroker) -> None:
    broker.create_topic("t")
    sender = producer(broker, **{"transactional.id": "x"})
    sender.init_transactions(PATIENCE_S)
    sender.begin_transaction()
    sender.produce("t", b"never")
    sender.flush(PATIENCE_S)
    broker.advance(hours=1)
    with pytest.raises(KafkaException):
        sender.commit_transaction(PATIENCE_S)
    assert broker.records("t") == []


def test_compaction_leaves_the_last_of_each_key_when_time_passes(broker: LocalBroker) -> None:
    config = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.0}
    broker.create_topic("t", config=config)
    broker.produce("t", "1", key="a")
    broker.produce("t", "2", key="a")
    broker.advance(days=8)  # The active segment is too old for the next record.
    broker.produce("t", "3", key="b")
    broker.advance(hours=1)
    while [one.value for one in broker.records("t")] != [b"2", b"3"]:
        time.sleep(0.001)  # A thread compacts.


def test_an_error_is_answered_as_often_as_asked_for(broker: LocalBroker) -> None:
    broker.create_topic("t")
    broker.fail("produce", "TOPIC_AUTHORIZATION_FAILED", times=1)
    error = delivered(broker, b"refused")
    assert error is not None
    assert error.code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert delivered(broker, b"accepted") is None
    assert [one.value for one in broker.records("t")] == [b"accepted"]
    assert broker.requests("Produce") == 2


def test_a_client_tries_again_after_an_error_that_passes(broker: LocalBroker) -> None:
    broker.create_topic("t")
    broker.fail("PRODUCE", "NOT_ENOUGH_REPLICAS", times=2)
    assert delivered(broker, b"v", **{"retry.backoff.ms": 1}) is None
    assert [one.value for one in broker.records("t")] == [b"v"]
    assert broker.requests("produce") == 3


def test_a_lost_answer_makes_a_duplicate_but_for_idempotent_producers(broker: LocalBroker) -> None:
    broker.create_topic("t")
    for is_idempotent, count in ((False, 2), (True, 1)):
        broker.drop("produce", is_handled=True)
        value = b"idempotent" if is_idempotent else b"plain"
        assert delivered(broker, value, **{"enable.idempotence": is_idempotent}) is None
        broker.assert_produced("t", value=value, count=count)


def test_a_slow_api_holds_up_its_caller_alone(broker: LocalBroker) -> None:
    broker.create_topic("t")
    broker.delay("produce", 3600)
    slow = producer(broker)
    slow.produce("t", b"v")
    slow.poll(0)
    while not broker.requests("produce"):
        slow.poll(0.01)
    assert producer(broker).list_topics(timeout=PATIENCE_S).topics.keys() == {"t"}
    assert broker.records("t") == []
    broker.heal()
    broker.advance(hours=2)
    broker.assert_produced("t", count=1, within_s=PATIENCE_S)
    assert slow.flush(PATIENCE_S) == 0


def test_connections_that_are_dropped_come_again(broker: LocalBroker) -> None:
    host, port = broker.address.split(":")
    with socket.create_connection((host, int(port))) as connection:
        connection.settimeout(PATIENCE_S)
        broker.drop_connections()
        with suppress(ConnectionResetError):  # It may not have been accepted yet.
            assert connection.recv(1) == b""
    assert delivered(broker, b"v") is None


@pytest.mark.parametrize("breaks", ["fill", "fail_syncs"])
def test_a_broken_disk_is_said_and_the_log_can_be_opened_again(
    broker: LocalBroker, breaks: str
) -> None:
    broker.create_topic("t")
    broker.produce("t", "before")
    getattr(broker.disk, breaks)()

    def write() -> None:
        broker.produce("t", "lost")
        broker.log.flush()

    with pytest.raises(StorageError):
        write()
    broker.heal()
    broker.reopen()
    assert broker.records("t")[0].value == b"before"
    assert delivered(broker, b"after") is None


def test_a_crash_keeps_what_was_acknowledged(broker: LocalBroker) -> None:
    address = broker.address
    assert delivered(broker, b"kept") is None
    broker.crash()
    with pytest.raises(UserError, match="closed"):
        broker.records("t")
    broker.reopen()
    assert broker.address == address
    assert [one.value for one in broker.records("t")] == [b"kept"]
    broker.restart()
    assert delivered(broker, b"more") is None
    assert len(broker.records("t")) == 2


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda broker: broker.fail("brew", "NONE"), "the broker has no API brew"),
        (lambda broker: broker.fail("list_offset", "NONE"), "did you mean LIST_OFFSETS?"),
        (lambda broker: broker.fail("produce", "TEAPOT"), "Kafka has no error TEAPOT"),
        (
            lambda broker: broker.fail("produce", "NOT_LEADER"),
            "did you mean NOT_LEADER_OR_FOLLOWER",
        ),
        (lambda broker: broker.drop("produce", times=0), "whole number from 1 on, not 0"),
        (lambda broker: broker.delay("produce", "1"), "a number of seconds, not '1'"),
        (lambda broker: broker.produce("t", 5), "a value must be bytes or None, not int"),
    ],
)
def test_a_mistake_in_a_test_is_named(broker: LocalBroker, call: object, said: str) -> None:
    with pytest.raises(OttlaError, match=re.escape(said)):
        call(broker)  # type: ignore[operator]


def test_errors_reach_those_who_ask_in_the_same_process(broker: LocalBroker) -> None:
    from ottla.client.administration.admin import Admin

    broker.fail("create_topics", "POLICY_VIOLATION", times=1)
    with Admin(broker.log) as admin, pytest.raises((ApiError, UserError)):
        admin.create_topic("t")
    assert broker.log.topics() == {}
