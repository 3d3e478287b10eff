"""A topic read from a broker, any Kafka broker, with one librdkafka consumer per task.

Rows come out as from the files: read committed, no control records, checksums verified. The client
joins no group and commits nothing; how far a table is stands in its own manifest.
"""

import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from os import cpu_count
from typing import TYPE_CHECKING, Any

from ottla.base.errors import UserError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.record.columns import schema as decoded_schema
from ottla.spark.log_source import Split
from ottla.spark.manifest import OffsetRange
from ottla.spark.plan import LogPartition
from ottla.spark.splits import SplitRule, Stretch, split_ranges

if TYPE_CHECKING:
    import pyarrow as pa

MIN_TASK_OFFSETS = 50_000
MAX_TASK_OFFSETS = 2_000_000
"""Over the wire nobody tells sizes, so work is shared out by offsets."""

ROWS_PER_BATCH = 10_000
ANSWER_SECONDS = 10.0
SILENCE_SECONDS = 60.0
"""How long a broker may send nothing while there are records to read."""

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.1
_NO_TIMESTAMP = -1

_CONSUMER_SETTINGS = {
    "group.id": "ottla-load",
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "auto.offset.reset": "error",
    "check.crcs": True,
    "allow.auto.create.topics": False,
}


class BrokerLog:
    """See `LogSource`."""

    def __init__(self, client: Mapping[str, str], topic: str) -> None:
        self._client = dict(client)
        self._topic = topic

    def partitions(self) -> list[LogPartition]:
        client = _client_module()
        from confluent_kafka import admin

        asked = admin.AdminClient({**self._client, "logger": logger})
        with _as_user_errors(client, self._place):
            described = self._described(asked)
            topic_id = _uuid(described.topic_id)
            numbers = sorted(partition.id for partition in described.partitions)
            starts = self._offsets(asked, numbers, admin.OffsetSpec.earliest())
            ends = self._offsets(asked, numbers, admin.OffsetSpec.latest())
            log_ends = self._offsets(asked, numbers, admin.OffsetSpec.latest(), committed=False)
        return [
            LogPartition(
                topic=self._topic,
                topic_id=topic_id,
                partition=number,
                start_offset=starts[number],
                end_offset=max(starts[number], ends[number]),
                log_end_offset=log_ends[number],
            )
            for number in numbers
        ]

    def splits(self, ranges: Mapping[int, OffsetRange], min_count: int | None) -> list[Split]:
        rule = SplitRule(
            min_count=min_count or cpu_count() or 1,
            min_size=1 if min_count else MIN_TASK_OFFSETS,
            max_size=MAX_TASK_OFFSETS,
        )
        stretches = {number: _stretches(wanted) for number, wanted in ranges.items()}
        return [
            Split(partition=number, from_offset=part.from_offset, until_offset=part.until_offset)
            for number, part in split_ranges(stretches, rule)
        ]

    def read(self, split: Split, columns: Sequence[str]) -> "Iterator[pa.RecordBatch]":
        client = _client_module()
        place = f"{self._place}-{split.partition}"
        with _as_user_errors(client, place):
            consumer = client.Consumer({**self._client, **_CONSUMER_SETTINGS, "logger": logger})
            with closing(consumer):
                consumer.assign(
                    [client.TopicPartition(self._topic, split.partition, split.from_offset)]
                )
                for messages in _batches(consumer, client, split, place):
                    yield _decoded(messages, columns)

    def count_records(self, partition: int, wanted: OffsetRange) -> None:
        """A broker tells offsets, not how many records lie between them."""

    def roll_up(self, partition: int, wanted: OffsetRange) -> None:
        """The client checks the batches' CRCs, and shows records only."""

    @property
    def _place(self) -> str:
        return f"{self._client['bootstrap.servers']}/{self._topic}"

    def _described(self, asked: Any) -> Any:
        from confluent_kafka import TopicCollection

        futures = asked.describe_topics(
            TopicCollection([self._topic]), request_timeout=ANSWER_SECONDS
        )
        return futures[self._topic].result()

    def _offsets(
        self, asked: Any, numbers: Sequence[int], spec: Any, *, committed: bool = True
    ) -> dict[int, int]:
        from confluent_kafka import IsolationLevel, TopicPartition

        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED

        wanted = {TopicPartition(self._topic, number): spec for number in numbers}
        futures = asked.list_offsets(
            wanted,
            isolation_level=level,
            request_timeout=ANSWER_SECONDS,
        )
        return {place.partition: future.result().offset for place, future in futures.items()}


def _batches(consumer: Any, client: Any, split: Split, place: str) -> Iterator[list[Any]]:
    """The split's messages, some thousands at a time.

    The end shows as a message behind it, or as the broker's word that there are no more: markers
    and compaction leave gaps, so the last offset itself may never come.
    """
    wanted: list[Any] = []
    heard = time.monotonic()
    next_offset = split.from_offset
    while next_offset < split.until_offset:
        # No more than there are: the client waits until it has as many, or the time is over.
        count = min(ROWS_PER_BATCH - len(wanted), split.until_offset - next_offset)
        for message in consumer.consume(count, timeout=_POLL_SECONDS):
            heard = time.monotonic()
            error = message.error()
            if error is not None and error.code() != client.KafkaError._PARTITION_EOF:
                raise client.KafkaException(error)
            next_offset = message.offset()
            if error is None:
                next_offset += 1
                if next_offset <= split.until_offset:
                    wanted.append(message)
        if len(wanted) >= ROWS_PER_BATCH:
            yield wanted
            wanted = []
        if time.monotonic() - heard > SILENCE_SECONDS:
            raise UserError(f"{place}: the broker sent nothing for {SILENCE_SECONDS:.0f} seconds")
    if wanted:
        yield wanted


def _decoded(messages: list[Any], columns: Sequence[str]) -> "pa.RecordBatch":
    import pyarrow as pa

    schema = decoded_schema(columns)
    arrays = [
        pa.array([_VALUES[field.name](message) for message in messages], field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _timestamp_ms(message: Any) -> int:
    kind, timestamp_ms = message.timestamp()
    return int(timestamp_ms) if kind else _NO_TIMESTAMP


def _headers(message: Any) -> list[dict[str, Any]]:
    return [{"key": name, "value": value} for name, value in message.headers() or ()]


_VALUES = {
    "offset": lambda message: message.offset(),
    "key": lambda message: message.key(),
    "value": lambda message: message.value(),
    "timestamp_ms": _timestamp_ms,
    # The client counts from "not available"; Kafka's own numbers are one less.
    "timestamp_type": lambda message: message.timestamp()[0] - 1,
    "headers": _headers,
}


def _stretches(wanted: OffsetRange) -> list[Stretch]:
    count = wanted.until_offset - wanted.from_offset
    if not count:
        return []
    return [Stretch(from_offset=wanted.from_offset, until_offset=wanted.until_offset, size=count)]


def _uuid(told: Any) -> Uuid | None:
    """The client's two signed halves as Kafka's 16 bytes; brokers before 2.8 tell no id."""
    halves = (told.get_most_significant_bits(), told.get_least_significant_bits())
    uuid = Uuid(b"".join(half.to_bytes(8, "big", signed=True) for half in halves))
    return None if uuid == ZERO_UUID else uuid


def _client_module() -> Any:
    try:
        import confluent_kafka
    except ImportError as error:
        raise UserError(
            "reading from a broker needs a client; run: pip install confluent-kafka"
        ) from error
    return confluent_kafka


@contextmanager
def _as_user_errors(client: Any, place: str) -> Iterator[None]:
    try:
        yield
    except client.KafkaException as error:
        fault = error.args[0]
        if fault.code() in (client.KafkaError._TIMED_OUT, client.KafkaError._TRANSPORT):
            raise UserError(f"{place}: no broker answers; is it running there?") from error
        raise UserError(f"{place}: {fault.str()}") from error
