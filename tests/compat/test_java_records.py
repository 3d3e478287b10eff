"""Apache Kafka's Java client produces and consumes by assignment, as its users do."""

import itertools
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.record.partitioner import partition_for_key
from tests.compat.java import array_list, duration, java_class, kafka, needs_java_client, wait
from tests.compat.java_clients import (
    POLL_S,
    closing,
    consumer,
    create_topic,
    java_map,
    place,
    producer,
    read_to_end,
    read_values,
    record,
    send_all,
)
from tests.integration.cli.support import serving
from tests.support.patience import PATIENCE_S

pytestmark = [pytest.mark.slow, needs_java_client]

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
names = (f"topic-{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("java") / "data") as (address, _):
        yield address


@pytest.fixture
def topic(address: str) -> str:
    name = next(names)
    create_topic(address, name)
    return name


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_records_come_back_as_they_were_sent(
    address: str, topic: str, acks: str, compression: str
) -> None:
    sent = [record(topic, f"{one}" * 30, key=f"k{one}" if one % 2 else None) for one in range(50)]
    for number, one in enumerate(sent):
        one.headers().add("number", java_class("java.lang.String")(str(number)).getBytes())
        one.headers().add("nothing", None)
    settings = {"acks": acks, "compression_type": compression, "linger_ms": 20}
    told = send_all(address, sent, enable_idempotence=acks == "all", **settings)
    assert [one.hasOffset() for one in told] == [acks != "0"] * 50
    found = read_to_end(address, topic)
    while len(found) < 50:  # Nobody has waited for what nobody acknowledges.
        found = read_to_end(address, topic)
    assert list(map(plain, found)) == list(map(plain, sent))
    if acks != "0":
        assert [one.offset() for one in told] == [one.offset() for one in found] == list(range(50))


def plain(one: Any) -> tuple[Any, ...]:
    headers = [(h.key(), None if h.value() is None else bytes(h.value())) for h in one.headers()]
    return one.key(), one.value(), headers


def test_a_batch_of_many_records_and_a_record_of_many_bytes_are_kept(
    address: str, topic: str
) -> None:
    values = [f"{one:06}" * 10 for one in range(10_000)] + ["x" * 900_000]
    send_all(address, [record(topic, one) for one in values], linger_ms=50, batch_size=500_000)
    assert read_values(address, topic) == values


def test_a_record_that_is_too_large_for_the_topic_is_refused_by_kafkas_name(address: str) -> None:
    name = next(names)
    create_topic(address, name, max_message_bytes="1000")
    with pytest.raises(kafka("common.errors.RecordTooLargeException")):
        send_all(address, [record(name, "x" * 5000)])


def test_the_partitioner_chooses_as_ours_does(address: str) -> None:
    name = next(names)
    create_topic(address, name, 7)
    keys = ["", "a", "key", "drüben", *(f"user-{one}" for one in range(200))]
    told = send_all(address, [record(name, "v", key=one) for one in keys])
    assert [one.partition() for one in told] == [partition_for_key(one.encode(), 7) for one in keys]


def test_offsets_are_found_by_time_and_at_both_ends(address: str, topic: str) -> None:
    send_all(address, [record(topic, "v", timestamp_ms=1000 + 10 * one) for one in range(20)])
    with closing(consumer(address)) as reader:
        places = array_list([place(topic)])
        (here,) = places
        assert reader.beginningOffsets(places)[here] == 0
        assert reader.endOffsets(places)[here] == 20
        asked = java_map({here: java_class("java.lang.Long").valueOf(1095)})
        found = reader.offsetsForTimes(asked)[here]
        assert (found.offset(), found.timestamp()) == (10, 1100)
        later = java_map({here: java_class("java.lang.Long").valueOf(9999)})
        assert reader.offsetsForTimes(later)[here] is None
        reader.assign(places)
        reader.seek(here, 17)
        assert [one.offset() for one in poll_some(reader)] == [17, 18, 19]
        assert reader.currentLag(here).getAsLong() == 0


def poll_some(reader: Any) -> list[Any]:
    """What the first poll brings that brings anything."""
    while True:
        found = list(reader.poll(duration(POLL_S)))
        if found:
            return found


def test_a_seek_after_the_end_gets_an_error(address: str, topic: str) -> None:
    with closing(consumer(address, auto_offset_reset="none")) as reader:
        reader.assign(array_list([place(topic)]))
        reader.seek(place(topic), 5)
        with pytest.raises(kafka("clients.consumer.OffsetOutOfRangeException")):
            poll_some(reader)


def test_an_incremental_fetch_session_brings_what_comes_later(address: str) -> None:
    """And follows when partitions are paused, resumed and taken away."""
    name = next(names)
    create_topic(address, name, 3)
    with closing(consumer(address)) as reader, closing(producer(address)) as writer:
        reader.assign(array_list([place(name, one) for one in range(3)]))
        for turn in range(4):
            for one in range(3):
                wait(writer.send(record(name, f"{turn}", partition=one)))
            seen: list[Any] = []
            while len(seen) < 3:
                seen += poll_some(reader)
            assert sorted(one.partition() for one in seen) == [0, 1, 2]
            assert {one.value() for one in seen} == {str(turn)}
        reader.pause(array_list([place(name, 0)]))
        for one in range(3):
            wait(writer.send(record(name, "paused", partition=one)))
        seen = []
        while len(seen) < 2:
            seen += poll_some(reader)
        assert sorted(one.partition() for one in seen) == [1, 2]
        reader.resume(array_list([place(name, 0)]))
        assert [one.partition() for one in poll_some(reader)] == [0]
        reader.assign(array_list([place(name, 2)]))
        reader.seekToBeginning(array_list([place(name, 2)]))
        assert len(poll_some(reader)) == 5


def test_an_idempotent_producer_continues_after_the_broker_was_killed(tmp_path: Path) -> None:
    """What was acknowledged is there, each once and in order."""
    data = tmp_path / "data"
    with serving(data) as (address, process):
        create_topic(address, "t")
        writer = producer(address, linger_ms=1)
        acknowledged = [writer.send(record("t", f"{one}")) for one in range(5000)]
        wait(acknowledged[20])
        process.send_signal(signal.SIGKILL)
        process.wait(PATIENCE_S)
    with serving(None, "-d", str(data), "--listen", address):
        acknowledged += [writer.send(record("t", f"{one}")) for one in range(5000, 5100)]
        offsets = [wait(one).offset() for one in acknowledged]
        with closing(writer):
            assert offsets == list(range(5100))
        assert read_values(address, "t") == [f"{one}" for one in range(5100)]
