"""Reads a topic from a broker with librdkafka, for settings that only librdkafka supports.

Needs `confluent-kafka`. Each task has a consumer outside of any group, which returns messages one
by one and is several times slower than our own client with its batches.
"""

import logging
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ottla.base.errors import UserError
from ottla.base.extras import needed_for
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.patterns import lazy_pattern
from ottla.client.reading import EARLIEST, LATEST, ListedOffset
from ottla.client.security import librdkafka_settings
from ottla.record.columns import schema as decoded_schema
from ottla.sources.client_options import CLIENT_PREFIX
from ottla.sources.log_source import OffsetsGoneError, Split
from ottla.sources.options import Isolation
from ottla.sources.stream.continuity import Position
from ottla.sources.wire.wire_client import ANSWER_SECONDS, GroupHasMembersError

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_PER_BATCH = 10_000

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.1

_NOT_THERE = (-140, -139, 1)
"""No position to continue from: _AUTO_OFFSET_RESET, _LOG_TRUNCATION, OFFSET_OUT_OF_RANGE."""

_TRUNCATION = lazy_pattern(r"truncation detected.*broker end offset is (\d+)", re.DOTALL)
"""librdkafka reports the offset of a divergence only in the text of an error."""
_NO_TIMESTAMP = -1

_CONSUMER_SETTINGS = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "check.crcs": True,
    "allow.auto.create.topics": False,
}
_DEFAULT_GROUP = "ottla"
"""librdkafka requires a group id even for a consumer outside of any group."""


class LibrdkafkaClient:
    """See `WireClient`. `silence_ms` is how long a broker may be silent if more is expected."""

    def __init__(
        self, client: Mapping[str, str], isolation: Isolation, silence_ms: int, reason: str
    ) -> None:
        """`reason` is the setting that our own client does not support."""
        self.address = client["bootstrap.servers"]
        self._settings = librdkafka_settings(client)
        self._isolation = isolation
        self._silence_s = silence_ms / 1000
        self._reason = reason

    def topics(self) -> Collection[str]:
        with self._asking() as admin:
            return list(admin.list_topics(timeout=ANSWER_SECONDS).topics)

    def partitions_of(self, topics: Collection[str]) -> dict[TopicPartition, Uuid | None]:
        if not topics:
            return {}
        found: dict[TopicPartition, Uuid | None] = {}
        with self._asking() as admin:
            wanted = self._module.TopicCollection(list(topics))
            futures = admin.describe_topics(wanted, request_timeout=ANSWER_SECONDS)
            for topic, future in futures.items():
                try:
                    description = future.result()
                except self._module.KafkaException as error:
                    if error.args[0].code() != self._module.KafkaError.UNKNOWN_TOPIC_OR_PART:
                        raise
                else:
                    topic_id = _uuid(description.topic_id)
                    places = (TopicPartition(topic, one.id) for one in description.partitions)
                    found.update(dict.fromkeys(places, topic_id))
        return found

    def offsets(
        self, wanted: Mapping[TopicPartition, int], isolation: Isolation
    ) -> dict[TopicPartition, ListedOffset]:
        if not wanted:
            return {}
        client = self._module
        with self._asking() as admin:
            futures = admin.list_offsets(
                {
                    client.TopicPartition(place.topic, place.partition): _spec(timestamp)
                    for place, timestamp in wanted.items()
                },
                isolation_level=client.IsolationLevel[isolation.name],
                request_timeout=ANSWER_SECONDS,
            )
            found = {one: future.result() for one, future in futures.items()}
        return {
            TopicPartition(one.topic, one.partition): ListedOffset(
                offset=listed.offset, leader_epoch=listed.leader_epoch
            )
            for one, listed in found.items()
        }

    def divergence_offset(self, place: TopicPartition, epoch: int, position: int) -> int | None:
        """librdkafka finds it: it asks the leader before it fetches (KIP-320)."""
        client = self._module
        with self._reading(place) as consumer:
            wanted = client.TopicPartition(
                place.topic, place.partition, position, leader_epoch=epoch
            )
            consumer.assign([wanted])
            return _parted(consumer, client, time.monotonic() + ANSWER_SECONDS)

    def read(self, split: Split, columns: Sequence[str]) -> "Iterator[pa.RecordBatch]":
        client = self._module
        with self._reading(split.place) as consumer:
            consumer.assign(
                [client.TopicPartition(split.place.topic, split.place.partition, split.from_offset)]
            )
            for messages in _batches(consumer, client, split, self._silence_s):
                yield _decoded(messages, columns)

    def batches(self, split: Split) -> None:
        """Returns `None`: librdkafka returns messages without their batches."""

    def commit(self, group: str, positions: Mapping[TopicPartition, Position]) -> None:
        client = self._module
        offsets = [
            client.TopicPartition(
                place.topic,
                place.partition,
                one.offset,
                leader_epoch=-1 if one.leader_epoch is None else one.leader_epoch,
            )
            for place, one in positions.items()
        ]
        wanted = client.ConsumerGroupTopicPartitions(group, offsets)
        with self._user_errors(f"{self.address}, group {group}"):
            (future,) = self._admin.alter_consumer_group_offsets(
                [wanted], request_timeout=ANSWER_SECONDS
            ).values()
            for done in future.result().topic_partitions:
                if done.error is None:
                    continue
                if done.error.code() == client.KafkaError.UNKNOWN_MEMBER_ID:
                    raise GroupHasMembersError(group)
                raise client.KafkaException(done.error)

    @cached_property
    def _module(self) -> Any:
        with needed_for(f"option {CLIENT_PREFIX}{self._reason} needs another client than our own"):
            import confluent_kafka
        return confluent_kafka

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        with self._user_errors(self.address):
            yield self._admin

    @cached_property
    def _admin(self) -> Any:
        from confluent_kafka import admin

        settings = {name: value for name, value in self._settings.items() if name != "group.id"}
        with self._user_errors(self.address):
            return admin.AdminClient({**settings, "logger": logger})

    @contextmanager
    def _reading(self, place: TopicPartition) -> Iterator[Any]:
        with self._user_errors(f"{self.address}/{place}"):
            consumer = self._module.Consumer(
                {
                    "group.id": _DEFAULT_GROUP,
                    **self._settings,
                    **_CONSUMER_SETTINGS,
                    "isolation.level": self._isolation.value,
                    "logger": logger,
                }
            )
            with closing(consumer):
                yield consumer

    @contextmanager
    def _user_errors(self, place: str) -> Iterator[None]:
        """Converts errors to `UserError` that names the place."""
        client = self._module
        try:
            yield
        except client.KafkaException as error:
            fault = error.args[0]
            if fault.code() in (client.KafkaError._TIMED_OUT, client.KafkaError._TRANSPORT):
                raise UserError(f"{place}: no broker answers; is it running there?") from error
            raise UserError(f"{place}: {fault.str()}") from error


def _spec(timestamp: int) -> Any:
    from confluent_kafka.admin import OffsetSpec

    if timestamp == EARLIEST:
        return OffsetSpec.earliest()
    if timestamp == LATEST:
        return OffsetSpec.latest()
    return OffsetSpec.for_timestamp(timestamp)


def _batches(consumer: Any, client: Any, split: Split, silence_s: float) -> Iterator[list[Any]]:
    """Yields the split's messages, some thousands at a time.

    The end is detected by a later message or by the broker's end of partition: because of markers
    and compaction the last offset may not exist.
    """
    wanted: list[Any] = []
    heard = time.monotonic()
    next_offset = split.from_offset
    while next_offset < split.until_offset:
        # `consume` waits until it has `count` messages or times out, so do not ask for more than
        # exist.
        count = min(ROWS_PER_BATCH - len(wanted), split.until_offset - next_offset)
        for message in consumer.consume(count, timeout=_POLL_SECONDS):
            heard = time.monotonic()
            _check_error(message, consumer, client, split, next_offset)
            next_offset = message.offset()
            if message.error() is None:
                next_offset += 1
                if next_offset <= split.until_offset:
                    wanted.append(message)
        if len(wanted) >= ROWS_PER_BATCH:
            yield wanted
            wanted = []
        if time.monotonic() - heard > silence_s:
            raise UserError(f"{split.place}: the broker sent nothing for {silence_s:g} seconds")
    if wanted:
        yield wanted


def _check_error(message: Any, consumer: Any, client: Any, split: Split, next_offset: int) -> None:
    error = message.error()
    if error is None or error.code() == client.KafkaError._PARTITION_EOF:
        return
    if error.code() in _NOT_THERE:
        place = client.TopicPartition(split.place.topic, split.place.partition)
        start, _ = consumer.get_watermark_offsets(place, ANSWER_SECONDS)
        if start > next_offset:
            raise OffsetsGoneError(split.place, next_offset, start)
    raise client.KafkaException(error)


def _parted(consumer: Any, client: Any, deadline: float) -> int | None:
    """The offset from which the log diverged, from the first message or error; `None` if none."""
    while time.monotonic() < deadline:
        message = consumer.poll(_POLL_SECONDS)
        if message is None:
            continue
        error = message.error()
        if error is None or error.code() == client.KafkaError._PARTITION_EOF:
            return None
        if error.code() not in _NOT_THERE:
            raise client.KafkaException(error)
        if (matched := _TRUNCATION.search(error.str())) is not None:
            return int(matched[1])
        if "truncation" in error.str():
            raise client.KafkaException(error)
        return None  # below the log's start or above its end, which its offsets show
    return None


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
    # librdkafka counts from "not available"; Kafka's numbers are one less.
    "timestamp_type": lambda message: message.timestamp()[0] - 1,
    "headers": _headers,
}


def _uuid(described: Any) -> Uuid | None:
    """Kafka's 16 bytes from the two signed halves; `None` from brokers before 2.8."""
    halves = (described.get_most_significant_bits(), described.get_least_significant_bits())
    uuid = Uuid(b"".join(half.to_bytes(8, "big", signed=True) for half in halves))
    return None if uuid == ZERO_UUID else uuid
