"""Mistakes in calls of our clients are answered with one line that names the fix."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

import ottla
from tests.support.mistakes import Call, check_unknown_argument, open_log, refusal

__all__ = ["open_log"]

T0 = ("orders", 0)


PLACE = 'a partition is (TOPIC, NUMBER), such as ("orders", 0)'
PLACES = 'partitions are a list such as [("orders", 0)]'
OFFSETS = 'offsets are a dictionary such as {("orders", 0): 17}'

CONSUMER: list[tuple[Call, str]] = [
    (lambda c: c.subscribe(b"orders"), "a topic's name or a list of names, not b'orders'"),
    (lambda c: c.subscribe([1]), "a topic's name or a list of names, not [1]"),
    (lambda c: c.subscribe(None), "a topic's name or a list of names, not None"),
    (lambda c: c.assign("orders"), PLACES),
    (lambda c: c.assign(["orders"]), PLACE),
    (lambda c: c.assign([("orders", -1)]), PLACE),
    (lambda c: c.assign([("orders", "0")]), PLACE),
    (lambda c: c.assign([("orders", 1 << 31)]), PLACE),
    (lambda c: c.assign({T0: 1 << 63}), "an offset has 64 bits"),
    (lambda c: c.assign({T0: -1}), "an offset is not negative: -1"),
    (lambda c: c.seek("orders", 0), PLACE),
    (lambda c: c.seek(T0, -5), "an offset is not negative: -5"),
    (lambda c: c.seek(T0, 1.5), "an offset is a whole number, not float"),
    (lambda c: c.pause([T0]), PLACE),
    (lambda c: c.resume([T0]), PLACE),
    (lambda c: c.position([T0]), PLACE),
    (lambda c: c.lag("orders"), PLACE),
    (lambda c: c.committed(T0), PLACE),
    (lambda c: c.end_offsets("orders"), PLACES),
    (lambda c: c.beginning_offsets([b"orders"]), PLACE),
    (lambda c: c.commit(offsets=[T0]), OFFSETS),
    (lambda c: c.commit(offsets={T0: "1"}), "an offset is a whole number, not str"),
    (lambda c: c.commit(offsets={T0: -1}), "an offset is not negative: -1"),
    (lambda c: c.commit_async(offsets={"orders": 1}), PLACE),
    (lambda c: c.commit({T0: 1}), "commit takes a record that was read, or offsets="),
    (lambda c: c.seek_to_time(datetime.now(UTC)), "int(time.timestamp() * 1000)"),
    (lambda c: c.offsets_for_times({T0: 1.5}), "a whole number of milliseconds since 1970"),
    (lambda c: c.offsets_for_times([T0]), "times are a dictionary of partitions and milliseconds"),
    (lambda c: (c.assign([("orders", 7)]), c.poll(1)), "no partition orders-7; the topic has 2"),
    (lambda c: c.subscribe("orders", on_assign=5), "a listener is a function of partitions, not 5"),
    (lambda c: c.subscribe(pattern="("), "(: not a regular expression"),
    (lambda c: c.subscribe(pattern=5), "a pattern is a regular expression such as '^order.*'"),
    (lambda c: (c.assign([T0]), c.poll("1")), "a time to wait is a number of seconds, not '1'"),
    (lambda c: (c.assign([T0]), c.poll(-1)), "not negative: -1; None waits without limit"),
    (lambda c: (c.assign([T0]), c.consume("1")), "a number of records is a whole number from 0"),
    (lambda c: c.consume(1 << 70), "a number of records is a whole number from 0"),
    (lambda c: c.consume(1, timedelta(seconds=1)), "timeout.total_seconds()"),
    (lambda c: c.streams(0), "a number of streams is a whole number from 1 on, not 0"),
    (lambda c: c.partitions_for_topic(5), "a topic's name is a str, not int"),
]


@pytest.mark.parametrize(("call", "answer"), CONSUMER)
def test_a_consumer_says_how_to_write_what_was_meant(
    log: ottla.Log, call: Call, answer: str
) -> None:
    with ottla.Consumer(log, "kitchen") as consumer:
        assert answer in refusal(call, consumer)


NO_NAME = 'transactions need a name: create the producer with settings={"transactional.id": NAME}'

PRODUCER: list[tuple[Call, str]] = [
    (lambda p: p.send(b"orders", b"tea"), "a topic's name is a str, not bytes"),
    (lambda p: p.produce(None, b"tea"), "a topic's name is a str, not NoneType"),
    (lambda p: p.flush("1"), "a time to wait is a number of seconds, not '1'"),
    (lambda p: p.close(timedelta(seconds=1)), "timeout.total_seconds()"),
    (lambda p: p.begin_transaction(), NO_NAME),
    (lambda p: p.init_transactions(), NO_NAME),
    (lambda p: p.transaction().__enter__(), NO_NAME),
]


@pytest.mark.parametrize(("call", "answer"), PRODUCER)
def test_a_producer_says_how_to_write_what_was_meant(
    log: ottla.Log, call: Call, answer: str
) -> None:
    with ottla.Producer(log) as producer:
        assert answer in refusal(call, producer)


@pytest.mark.parametrize(
    ("offsets", "group", "answer"),
    [
        ([T0], "kitchen", OFFSETS),
        ({T0: -1}, "kitchen", "an offset is not negative: -1"),
        ({T0: "1"}, "kitchen", "an offset is a whole number, not str"),
        ({T0: 1}, None, "offsets belong to a group: pass the ottla.Consumer that read the records"),
        ({T0: 1}, "", "or the name of a group without members, not ''"),
        ({T0: 1}, ottla.Consumer, "not <class"),
    ],
)
def test_offsets_of_a_transaction_are_checked_before_anything_is_sent(
    log: ottla.Log, offsets: Any, group: Any, answer: str
) -> None:
    with ottla.Producer(log, settings={"transactional.id": "till"}) as producer:
        producer.begin_transaction()
        assert answer in refusal(lambda p: p.send_offsets_to_transaction(offsets, group), producer)


@pytest.mark.parametrize("acks", [0, 1, "0", "1"])
def test_idempotence_that_is_asked_for_needs_all_replicas_and_the_default_gives_way(
    log: ottla.Log, acks: object
) -> None:
    with ottla.Producer(log, settings={"acks": acks}) as producer:
        producer.send("orders", b"tea")
    with pytest.raises(ottla.UserError, match=r"enable\.idempotence=true needs acks=all"):
        ottla.Producer(log, settings={"acks": acks, "enable.idempotence": True})


OTHERS: list[Call] = [
    lambda admin: admin.delete_topics("orders"),
    lambda admin: admin.describe_topics("orders"),
]


@pytest.mark.parametrize("call", OTHERS)
def test_one_name_is_not_read_letter_by_letter(log: ottla.Log, call: Call) -> None:
    with ottla.Admin(log) as admin:
        assert "topics takes a list of strings" in refusal(call, admin)
        assert "strings and whole numbers" in refusal(lambda a: a.create_topics(["x"]), admin)


def test_a_simple_consumer_says_what_a_position_is(log: ottla.Log) -> None:
    with ottla.SimpleConsumer(log) as simple:
        assert "ottla.FetchPosition(" in refusal(lambda s: s.multifetch([("orders", 0, 0)]), simple)
        assert "not negative: -1" in refusal(lambda s: s.fetch("orders", 0, -1), simple)
        assert PLACE in refusal(lambda s: s.offsets_before("orders", -1), simple)
        assert "ottla.FetchPosition(" in refusal(lambda s: s.multifetch(5), simple)
        assert "a number of bytes" in refusal(lambda s: s.fetch("orders", max_bytes="1"), simple)
        many: Any = 1.5
        assert "a number of offsets" in refusal(
            lambda s: s.offsets_before("orders", max_count=many), simple
        )
        now: Any = datetime.now(UTC)
        assert "time.timestamp()" in refusal(lambda s: s.offsets_before("orders", 0, now), simple)


@pytest.mark.parametrize(
    "kind", [ottla.Producer, ottla.Consumer, ottla.SimpleConsumer, ottla.Admin]
)
@pytest.mark.parametrize("target", [{"bootstrap.servers": "localhost:9092"}, ["h:1"], None])
def test_settings_in_place_of_a_target_are_answered_with_what_a_target_is(
    kind: Any, target: Any
) -> None:
    answer = refusal(kind, target)
    assert "a target is an open log, a directory or HOST:PORT" in answer
    assert "settings={NAME: VALUE}" in answer


@pytest.mark.parametrize("kind", [ottla.Producer, ottla.Consumer])
def test_settings_that_are_arguments_here_are_named(log: ottla.Log, kind: Any) -> None:
    brokers = {"bootstrap.servers": "localhost:9092"}
    assert "name the brokers as the target" in refusal(lambda _: kind(log, settings=brokers), None)
    assert "settings are a dictionary" in refusal(lambda _: kind(log, settings=["acks"]), None)


@pytest.mark.parametrize("group", ["", 5])
def test_a_group_has_a_name(log: ottla.Log, group: Any) -> None:
    assert "a group is a name" in refusal(lambda _: ottla.Consumer(log, group), None)


def test_numbers_of_numpy_are_whole_numbers(log: ottla.Log) -> None:
    place = ("orders", np.int64(0))
    with ottla.Consumer(log, "kitchen") as consumer:
        consumer.assign({place: np.int64(0)})  # type: ignore[dict-item]
        consumer.commit(offsets={place: np.int64(1)})  # type: ignore[dict-item]
        assert consumer.committed([ottla.TopicPartition("orders", 0)]) == {T0: 1}


def test_a_client_that_is_closed_connects_to_nobody(log: ottla.Log) -> None:
    simple, admin = ottla.SimpleConsumer(log), ottla.Admin(log)
    simple.fetch("orders")
    simple.close()
    admin.close()
    for call in (lambda _: simple.fetch("orders"), lambda _: admin.list_topics()):
        assert refusal(call, None) == "this client is closed; create another"


KEYWORDS: list[tuple[Call, str]] = [
    (lambda log: ottla.Producer(log, linger_ms=5), 'settings={"linger.ms": VALUE}'),  # type: ignore[call-arg]
    (lambda log: ottla.aio.Producer(log, acks=1), 'settings={"acks": VALUE}'),  # type: ignore[call-arg]
    (lambda log: ottla.Consumer(log, group_id="kitchen"), "Consumer has no argument 'group_id'"),  # type: ignore[call-arg]
    (lambda log: ottla.aio.Admin(log, client_id="c"), 'settings={"client.id": VALUE}'),  # type: ignore[call-arg]
    (lambda log: ottla.Admin(log).create_topic("a", num_partitions=2), "did you mean partitions?"),  # type: ignore[call-arg]
]


@pytest.mark.parametrize(("call", "answer"), KEYWORDS)
def test_unknown_arguments_are_answered_with_what_may_be_meant(
    log: ottla.Log, call: Call, answer: str
) -> None:
    check_unknown_argument(call, log, answer)


IN_A_ROW: list[tuple[Call, str]] = [
    (lambda log: ottla.Producer(log, {"acks": 1}), "Producer takes target; name settings=..., "),  # type: ignore[misc]
    (lambda log: ottla.aio.Producer(log, {}), "Producer takes target; name settings=..., "),  # type: ignore[misc]
    (lambda log: ottla.Consumer(log, "k", {}), "Consumer takes target, group; name settings=..., "),  # type: ignore[misc]
    (lambda log: ottla.SimpleConsumer(log, {}), "SimpleConsumer takes target; name settings=..., "),  # type: ignore[misc]
    (lambda log: log.scan("orders", [0]), "Log.scan takes topic; name partitions=..., "),
    (lambda log: log.create_topic("a", {}, 1, 2), "Log.create_topic takes "),
]


@pytest.mark.parametrize(("call", "answer"), IN_A_ROW)
def test_arguments_in_a_row_are_answered_with_those_to_name(
    log: ottla.Log, call: Call, answer: str
) -> None:
    check_unknown_argument(call, log, answer)


def test_a_consumer_that_is_closed_refuses_every_call(log: ottla.Log) -> None:
    consumer = ottla.Consumer(log, "kitchen")
    consumer.assign({T0: 0})  # type: ignore[dict-item]
    consumer.close()
    consumer.close()
    calls: list[Call] = [
        lambda c: c.subscribe("orders"),
        lambda c: c.unsubscribe(),
        lambda c: c.assign([T0]),
        lambda c: c.assignment(),
        lambda c: c.position(T0),
        lambda c: c.seek(T0, 0),
        lambda c: c.pause(T0),
        lambda c: c.resume(T0),
        lambda c: c.paused(),
        lambda c: c.lag(T0),
        lambda c: c.poll(0),
        lambda c: c.consume(1, 0),
        lambda c: c.commit(),
        lambda c: c.commit_async(),
        lambda c: c.committed([T0]),
        lambda c: c.end_offsets([T0]),
        lambda c: c.topics(),
        lambda c: c.partitions_for_topic("orders"),
    ]
    for call in calls:
        assert refusal(call, consumer) == "this consumer is closed; create another"
    assert list(consumer) == []
