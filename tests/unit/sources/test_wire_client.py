"""A topic on the wire when the broker, or what it sends, is not as it should be."""

from collections.abc import Iterator

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.client.connecting.socket_connection import LONG_FRAME
from ottla.protocol.messages.fetch import PartitionData
from ottla.record.builder import RecordBatchBuilder
from ottla.sources.log_source import LogSource, OffsetsGoneError, Split
from ottla.sources.opening import open_log
from ottla.sources.options import parse_options
from tests.support.scripted_broker import TOPIC_ID, ScriptedBroker, records_of, scripted
from tests.unit.client.test_fetching import COUNT, batch, log

SPLIT = Split(place=TopicPartition("t", 0), from_offset=5, until_offset=25, topic_id=TOPIC_ID)


def opened(address: str, **options: str) -> LogSource:
    place = {"kafka.bootstrap.servers": address, "subscribe": "t"}
    return open_log(parse_options({**place, **options}))


def offsets(broker: ScriptedBroker, split: Split = SPLIT, **options: str) -> list[int]:
    found = opened(broker.address, **options).read(split, ["offset"])
    return [offset for batch in found for offset in batch.column("offset").to_pylist()]


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with scripted(log) as broker:
        yield broker


def test_a_split_is_read_to_its_offset(broker: ScriptedBroker) -> None:
    assert offsets(broker) == list(range(5, 25))
    assert broker.asked == [5, 10, 20]


def test_rows_outlive_the_memory_of_answers_which_is_that_of_the_next(
    broker: ScriptedBroker,
) -> None:
    def long(offset: int) -> PartitionData:
        builder = RecordBatchBuilder(offset)
        for one in range(offset, offset + COUNT):
            builder.append(b"%d" % one, b"%d" % one * LONG_FRAME, one, [("h", b"%d" % one)])
        return records_of(builder.build())

    broker.on_fetch = long
    split = Split(place=TopicPartition("t", 0), from_offset=0, until_offset=6 * COUNT)
    columns = ["offset", "key", "value", "headers", "timestamp_ms"]
    found = list(opened(broker.address).read(split, columns))
    rows = [row for batch in found for row in batch.to_pylist()]
    assert rows == [
        {
            "offset": one,
            "key": b"%d" % one,
            "value": b"%d" % one * LONG_FRAME,
            "headers": [{"key": "h", "value": b"%d" % one}],
            "timestamp_ms": one,
        }
        for one in range(6 * COUNT)
    ]


def test_a_damaged_batch_is_reported_with_its_place(broker: ScriptedBroker) -> None:
    def damaged(offset: int) -> PartitionData:
        return records_of(batch(10)[:-1] + b"x") if offset == 10 else log(offset)

    broker.on_fetch = damaged
    words = "/t-0: a damaged batch, at offset 10 or after it: CRC mismatch"
    with pytest.raises(UserError, match=words):
        offsets(broker)


def test_a_broker_that_has_no_more_although_it_should_is_reported(broker: ScriptedBroker) -> None:
    broker.on_fetch = lambda offset: records_of() if offset == 20 else log(offset)
    with pytest.raises(UserError, match=r"t-0: the broker sent nothing for 0\.05 seconds"):
        offsets(broker, **{"kafkaConsumer.pollTimeoutMs": "50"})


def test_a_start_that_has_moved_is_distinguished_from_a_log_that_was_cut(
    broker: ScriptedBroker,
) -> None:
    broker.on_fetch = lambda _: records_of(error=ErrorCode.OFFSET_OUT_OF_RANGE)
    broker.start_offset = 12
    with pytest.raises(OffsetsGoneError, match="t-0: offsets 5 to 11 were removed"):
        offsets(broker)
    broker.start_offset = 3
    with pytest.raises(UserError, match=r"/t-0: OFFSET_OUT_OF_RANGE: offset 5 .* ends at 3 now"):
        offsets(broker)


def test_nobody_at_an_address_is_reported_once_the_patience_is_over() -> None:
    with scripted(log) as broker:
        pass
    with pytest.raises(UserError, match=f"{broker.address}/t-0: no broker answers; is it runn"):
        offsets(broker, **{"kafkaConsumer.pollTimeoutMs": "50"})
