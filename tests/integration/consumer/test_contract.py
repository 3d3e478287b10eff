"""What a consumer does, whichever way it reaches the log and however the application waits."""

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.client.consumer.errors import ClosedError, NoOffsetError
from ottla.client.consumer.records import CorruptBatchError, DeserializationError
from ottla.client.consumer.shared_cluster import UnknownTopicError
from ottla.record.builder import RecordBatchBuilder
from tests.integration.consumer.styles import Place, places, values
from tests.support.patience import PATIENCE_S

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture(params=["in process", "socket"])
def transport(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(params=["sync", "async"])
def place(tmp_path: Path, transport: str, request: pytest.FixtureRequest) -> Iterator[Place]:
    with places(tmp_path, transport, request.param) as found:
        yield found


@pytest.fixture(params=["classic", "consumer"])
def protocol(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_a_group_reads_all_partitions_and_continues_where_it_left_off(
    place: Place, protocol: str
) -> None:
    place.fill("t", 20, partitions=3)
    with place.consumer("g", group_protocol=protocol) as consumer:
        consumer.subscribe("t")
        seen = list(islice(consumer, 20))
        assert values(seen) == [b"%d" % number for number in range(20)]
        assert consumer.assignment() == {TopicPartition("t", number) for number in range(3)}
        assert {one.topic_partition: one.offset + 1 for one in seen} == {
            one: consumer.position(one) for one in consumer.assignment()
        }
    place.fill("t", 3, partitions=3)
    with place.consumer("g", group_protocol=protocol) as consumer:
        consumer.subscribe(["t"])
        assert values(consumer.consume(3, 10)) == [b"0", b"1", b"2"]
        assert consumer.poll(0.01) is None


def test_many_records_are_those_that_are_there_and_none_are_waited_for(place: Place) -> None:
    place.fill("t", 5, partitions=1)
    with place.consumer() as consumer:
        consumer.assign({T0: 0})
        assert values(consumer.poll_many(3, PATIENCE_S)) == [b"0", b"1", b"2"]
        assert values(consumer.poll_many(timeout=PATIENCE_S)) == [b"3", b"4"]
        assert consumer.poll_many(timeout=0.01) == []


def test_listeners_hear_what_is_assigned_and_revoked(place: Place, protocol: str) -> None:
    place.fill("t", 2, partitions=2)
    heard: list[tuple[str, list[TopicPartition]]] = []
    with place.consumer("g", group_protocol=protocol) as consumer:
        consumer.subscribe(
            "t",
            on_assign=lambda partitions: heard.append(("assign", partitions)),
            on_revoke=lambda partitions: heard.append(("revoke", partitions)),
        )
        consumer.consume(2, 10)
    assert heard == [("assign", [T0, T1]), ("revoke", [T0, T1])]


def test_offsets_kept_elsewhere_are_sought_when_partitions_are_assigned(place: Place) -> None:
    place.fill("t", 10)
    with place.consumer("g", enable_auto_commit=False) as consumer:
        consumer.subscribe("t", on_assign=lambda partitions: consumer.seek(partitions[0], 7))
        assert [one.offset for one in consumer.consume(3, 10)] == [7, 8, 9]


@pytest.mark.parametrize("topics", ["^a.*", re.compile("a[0-9]")])
def test_topics_are_found_by_an_expression(
    place: Place, protocol: str, topics: str | re.Pattern[str]
) -> None:
    for name in ("a1", "a2", "b1"):
        place.fill(name, 1)
    with place.consumer("g", group_protocol=protocol) as consumer:
        consumer.subscribe(topics)
        assert {one.topic for one in consumer.consume(2, 10)} == {"a1", "a2"}
        assert consumer.poll(0.01) is None


def test_without_a_group_a_subscription_reads_everything_and_nothing_is_committed(
    place: Place,
) -> None:
    place.fill("t", 4, partitions=2)
    with place.consumer() as consumer:
        consumer.subscribe("t")
        assert values(consumer.consume(4, 10)) == [b"0", b"1", b"2", b"3"]
        with pytest.raises(UserError, match="create it with group=NAME"):
            consumer.commit()


def test_assigned_partitions_begin_where_they_are_told(place: Place) -> None:
    place.fill("t", 10)
    with place.consumer() as consumer:
        consumer.assign({T0: 6})
        assert [one.offset for one in consumer.consume(2, 10)] == [6, 7]
        consumer.seek(T0, 1)
        assert consumer.poll(PATIENCE_S).offset == 1
        consumer.seek_to_end()
        assert consumer.position(T0) == 10
        consumer.seek_to_beginning(T0)
        assert consumer.poll(PATIENCE_S).offset == 0
        assert consumer.lag(T0) == 9


def test_a_loop_that_seeks_continues_from_there(place: Place) -> None:
    place.fill("t", 10)
    seen = []
    with place.consumer() as consumer:
        consumer.assign([T0])
        for record in consumer:
            seen.append(record.offset)
            if record.offset == 2 and seen.count(2) == 1:
                consumer.seek(T0, 1)
            if record.offset == 5:
                break
    assert seen == [0, 1, 2, 1, 2, 3, 4, 5]


def test_times_are_found(place: Place) -> None:
    place.log.create_topic("t")
    for number in range(5):
        place.log.append("t", b"%d" % number, timestamp_ms=1000 * number + 1000)
    with place.consumer() as consumer:
        consumer.assign([T0])
        consumer.seek_to_time(3000)
        assert consumer.poll(PATIENCE_S).timestamp == 3000
        consumer.seek_to_time(9999)
        assert consumer.position(T0) == 5
        assert consumer.offsets_for_times({T0: 1500}) == {T0: 1}
        assert consumer.offsets_for_times({T0: 9999}) == {T0: None}
        assert consumer.beginning_offsets([T0]) == {T0: 0}
        assert consumer.end_offsets([T0]) == {T0: 5}


def test_a_paused_partition_waits_and_continues_where_it_was(place: Place) -> None:
    place.fill("t", 20, partitions=2)
    with place.consumer() as consumer:
        consumer.assign([T0, T1])
        first = consumer.poll(PATIENCE_S)
        consumer.pause(first.topic_partition)
        assert consumer.paused() == {first.topic_partition}
        others = consumer.consume(10, 10)
        assert {one.topic_partition for one in others} == {T0, T1} - {first.topic_partition}
        assert consumer.poll(0.01) is None
        consumer.resume(first.topic_partition)
        assert [one.offset for one in consumer.consume(9, 10)] == list(range(1, 10))


def test_where_to_begin_without_an_offset_is_a_setting(place: Place) -> None:
    place.fill("t", 3)
    with place.consumer(auto_offset_reset="latest") as consumer:
        consumer.assign([T0])
        assert consumer.poll(0.01) is None
        place.fill("t", 1)
        assert consumer.poll(PATIENCE_S).offset == 3
    with place.consumer(auto_offset_reset="by_duration:PT1H") as consumer:
        place.log.create_topic("u")
        for age_ms in (10**7, 0):
            time_ms = place.log._clock.now_ms() - age_ms
            place.log.append("u", b"0", timestamp_ms=time_ms)
        consumer.assign([TopicPartition("u", 0)])
        assert consumer.poll(PATIENCE_S).offset == 1
    with place.consumer(auto_offset_reset="none") as consumer:
        consumer.assign([T0])
        with pytest.raises(NoOffsetError, match=r"t-0: .*auto\.offset\.reset=none"):
            consumer.poll(PATIENCE_S)


def test_an_offset_that_retention_passed_by_is_reset(place: Place) -> None:
    place.fill("t", 3)
    with place.consumer() as consumer:
        consumer.assign({T0: 1000})
        assert consumer.poll(PATIENCE_S).offset == 0


def test_offsets_are_committed_as_asked(place: Place, protocol: str) -> None:
    place.fill("t", 9)
    with place.consumer("g", enable_auto_commit=False, group_protocol=protocol) as consumer:
        consumer.subscribe("t")
        records = consumer.consume(5, 10)
        assert consumer.committed([T0]) == {T0: None}
        consumer.commit(records[1])
        assert consumer.committed([T0]) == {T0: 2}
        consumer.commit_async().result()
        assert consumer.committed([T0]) == {T0: 5}
        consumer.commit(offsets={T0: 3})
    with place.consumer("g", group_protocol=protocol) as consumer:
        consumer.subscribe("t")
        assert consumer.poll(PATIENCE_S).offset == 3


def test_a_commit_says_in_which_epoch_the_last_record_was_written(
    place: Place, protocol: str
) -> None:
    place.fill("t", 2)
    place.elect("t")
    place.fill("t", 2)
    with place.consumer("g", enable_auto_commit=False, group_protocol=protocol) as consumer:
        consumer.subscribe("t")
        records = consumer.consume(3, PATIENCE_S)
        assert [one.leader_epoch for one in records] == [0, 0, 1]
        consumer.commit(records[1])
        assert place.committed("g", "t") == (2, 0)
        consumer.commit()
        assert place.committed("g", "t") == (3, 1)
        consumer.pause(T0)
        consumer.resume(T0)
        consumer.commit(offsets={T0: 1})
        assert place.committed("g", "t") == (1, -1)
        consumer.commit()
        assert place.committed("g", "t") == (3, 1)
        assert consumer.poll(PATIENCE_S).value == b"1"
        consumer.commit()
        assert place.committed("g", "t") == (4, 1)


def test_automatic_commits_follow_what_was_handed_out(place: Place) -> None:
    place.fill("t", 9)
    with place.consumer("g", auto_commit_interval_ms=0, max_poll_records=1) as consumer:
        consumer.subscribe("t")
        consumer.consume(5, 10)
        consumer.commit(offsets={})  # In order: when it returns the others are done.
        assert consumer.committed([T0]) == {T0: 4}  # The fifth is being processed.


def test_the_record_that_an_application_fails_at_is_read_again(place: Place) -> None:
    place.fill("t", 3)

    def fail() -> None:
        with place.consumer("g") as consumer:
            consumer.subscribe("t")
            consumer.poll(PATIENCE_S)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with place.consumer("g") as consumer:
        consumer.subscribe("t")
        assert consumer.poll(PATIENCE_S).offset == 0


def test_aborted_records_are_left_out_where_committed_ones_are_asked_for(place: Place) -> None:
    place.log.create_topic("t")
    place.write_transaction("t", b"0", is_commit=False)
    place.write_transaction("t", b"1", is_commit=True)
    with place.consumer(isolation_level="read_committed") as consumer:
        consumer.assign([T0])
        assert consumer.poll(PATIENCE_S).value == b"1"
        assert consumer.poll(0.01) is None
    with place.consumer() as consumer:
        consumer.assign([T0])
        assert [one.value for one in consumer.consume(2, 10)] == [b"0", b"1"]


def test_keys_and_values_are_deserialized_and_null_stays_none(place: Place) -> None:
    place.log.create_topic("t")
    place.log.append("t", b"7", b"k", headers=[("h", b"x"), ("n", None)])
    place.log.append("t", None)
    with place.consumer(options={"key_deserializer": bytes.decode}) as consumer:
        consumer.assign([T0])
        first, second = consumer.consume(2, 10)
        assert (first.key, first.value, second.key, second.value) == ("k", b"7", None, None)
        assert first.headers == (("h", b"x"), ("n", None))
    place.fill("numbers", 8)
    with place.consumer(options={"value_deserializer": "json"}) as consumer:
        consumer.assign({TopicPartition("numbers", 0): 7})
        assert consumer.poll(PATIENCE_S).value == 7
    with pytest.raises(UserError, match="no deserializer xml; one of bytes, str, json"):
        place.consumer(options={"value_deserializer": "xml"})


@pytest.mark.parametrize("is_one_batch", [True, False])
def test_what_precedes_a_record_that_is_not_readable_is_handed_out_and_the_record_can_be_skipped(
    place: Place, is_one_batch: bool
) -> None:
    place.log.create_topic("t")
    values = [b"0", b"1", b"two", b"3"]
    for some in [values] if is_one_batch else [[one] for one in values]:
        place.log.append_many("t", some)
    with place.consumer(options={"value_deserializer": int}) as consumer:
        consumer.assign([T0])
        assert [one.value for one in consumer.consume(2, PATIENCE_S)] == [0, 1]
        for _ in range(2):
            with pytest.raises(
                DeserializationError, match=r"t-0: the value .* offset 2 .*seek to 3"
            ):
                consumer.poll(PATIENCE_S)
            assert consumer.position(T0) == 2
        consumer.seek(T0, 3)
        assert consumer.poll(PATIENCE_S).value == 3


def test_what_does_not_exist_is_named_with_what_was_perhaps_meant(place: Place) -> None:
    place.fill("orders", 1)
    with place.consumer("g") as consumer:
        consumer.subscribe("oders")
        with pytest.raises(UnknownTopicError, match="no topic oders; did you mean orders"):
            consumer.poll(PATIENCE_S)
        consumer.assign([TopicPartition("orders", 5)])
        with pytest.raises(UserError, match="no partition orders-5"):
            consumer.poll(PATIENCE_S)
        with pytest.raises(UserError, match="t-0 is not assigned"):
            consumer.seek(T0, 1)


def test_what_is_unsubscribed_is_left_to_the_others(place: Place, protocol: str) -> None:
    place.fill("t", 3)
    place.fill("u", 1)
    with place.consumer("g", group_protocol=protocol) as consumer:
        consumer.subscribe("t")
        assert consumer.poll(PATIENCE_S).offset == 0
        consumer.commit()
        consumer.unsubscribe()
        assert consumer.assignment() == set()
        with place.consumer("g", group_protocol=protocol) as other:
            other.subscribe("t")
            assert other.poll(PATIENCE_S).offset == 1
        consumer.subscribe("u")
        assert consumer.poll(PATIENCE_S).topic == "u"


def test_who_reads_nothing_is_told_so_and_does_not_wait_forever(place: Place) -> None:
    place.fill("t", 1)
    for group in ("g", None):
        with place.consumer(group) as consumer:
            for read in (consumer.poll, lambda: consumer.consume(1), lambda: next(iter(consumer))):
                with pytest.raises(UserError, match=r"reads nothing; call subscribe\(\[TOPIC\]\)"):
                    read()
            consumer.subscribe("t")
            assert consumer.poll(PATIENCE_S).offset == 0
            for end in (consumer.unsubscribe, lambda: consumer.subscribe([])):
                end()
                with pytest.raises(UserError, match="this consumer reads nothing"):
                    consumer.poll(0.01)
            consumer.assign({T0: 0})
            assert consumer.poll(PATIENCE_S).offset == 0
            consumer.assign([])
            with pytest.raises(UserError, match="this consumer reads nothing"):
                consumer.poll(0.01)


def test_a_closed_consumer_says_so(place: Place) -> None:
    place.fill("t", 1)
    with place.consumer("g") as consumer:
        consumer.subscribe("t")
        consumer.poll(PATIENCE_S)
        consumer.close()
        with pytest.raises(ClosedError, match="closed"):
            consumer.poll(0)


def test_large_batches_are_handed_out_in_pieces(place: Place) -> None:
    place.log.create_topic("t")
    builder = RecordBatchBuilder()
    for number in range(1000):
        builder.append(None, b"%d" % number, 1)
    place.log.append_batch("t", 0, builder)
    with place.consumer(max_poll_records=7) as consumer:
        consumer.assign({T0: 5})
        assert [one.offset for one in consumer.consume(995, 10)] == list(range(5, 1000))


def test_a_damaged_batch_is_named_and_can_be_passed(place: Place, tmp_path: Path) -> None:
    place.fill("t", 3)
    with place.consumer() as consumer:
        consumer.assign([T0])
        records = consumer.consume(3, 10)
        assert len(records) == 3
        path = tmp_path / "t-0" / "00000000000000000000.log"
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 0xFF  # In the middle one of three.
        path.write_bytes(data)
        consumer.seek(T0, 0)
        assert consumer.poll(PATIENCE_S).offset == 0
        for _ in range(2):
            with pytest.raises(CorruptBatchError, match=r"offset 1: CRC .*seek to 2"):
                consumer.poll(PATIENCE_S)
        consumer.seek(T0, 2)
        assert consumer.poll(PATIENCE_S).offset == 2
