"""Topics read from a broker, any Kafka broker, with one librdkafka consumer per task.

Rows come out as from the files: no control records, checksums verified, read committed unless
asked otherwise. The client joins no group; `group_commits.py` is what commits offsets.
"""

import logging
import re
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from functools import cached_property
from os import cpu_count
from typing import TYPE_CHECKING, Any

from ottla.base.errors import UserError
from ottla.base.ids import ZERO_UUID, Uuid, uuid_text
from ottla.record.columns import schema as decoded_schema
from ottla.spark.log_source import ANY_TASKS, OffsetsGoneError, Split
from ottla.spark.manifest import OffsetRange
from ottla.spark.options import DEFAULT_SILENCE_MS, Isolation
from ottla.spark.plan import LogPartition, TopicPartition
from ottla.spark.splits import SplitRule, Stretch, TaskWishes, split_ranges
from ottla.spark.topic_choice import TopicChoice

if TYPE_CHECKING:
    import pyarrow as pa

MIN_TASK_OFFSETS = 50_000
MAX_TASK_OFFSETS = 2_000_000
"""Over the wire nobody tells sizes, so work is shared out by offsets."""

ROWS_PER_BATCH = 10_000
ANSWER_SECONDS = 10.0

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.1

_NOT_THERE = (-140, -139, 1)
"""No offset to go on from: _AUTO_OFFSET_RESET, _LOG_TRUNCATION, OFFSET_OUT_OF_RANGE."""

_TRUNCATION = re.compile(r"truncation detected.*broker end offset is (\d+)", re.DOTALL)
"""The client tells where a log parts from what it was, but only in its words."""
_NO_TIMESTAMP = -1

_CONSUMER_SETTINGS = {
    "enable.auto.commit": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "check.crcs": True,
    "allow.auto.create.topics": False,
}
_DEFAULT_GROUP = "ottla"
"""The client wants a name of a group even where it joins none."""


class BrokerLog:
    """See `LogSource`. `silence_ms` is how long a broker may send nothing when there is more."""

    def __init__(
        self,
        client: Mapping[str, str],
        choice: TopicChoice,
        isolation: Isolation = Isolation.READ_COMMITTED,
        silence_ms: int = DEFAULT_SILENCE_MS,
    ) -> None:
        self._client = dict(client)
        self._choice = choice
        self._isolation = isolation
        self._silence_s = silence_ms / 1000

    def partitions(self, *, may_lack: bool = False) -> list[LogPartition]:
        with self._asking() as admin:
            ids = self._chosen(admin, may_lack=may_lack)
            starts = self._listed(admin, dict.fromkeys(ids, _spec("earliest")))
            ends = self._listed(admin, dict.fromkeys(ids, _spec("latest")))
            log_ends = self._listed(
                admin, dict.fromkeys(ids, _spec("latest")), Isolation.READ_UNCOMMITTED
            )
        return [
            LogPartition(
                topic=place.topic,
                topic_id=ids[place],
                partition=place.partition,
                start_offset=starts[place].offset,
                end_offset=max(starts[place].offset, ends[place].offset),
                log_end_offset=log_ends[place].offset,
                leader_epoch=ends[place].leader_epoch,
            )
            for place in sorted(ids)
        ]

    def offsets_for_times(
        self, wanted: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | None]:
        specs = {place: _spec("for_timestamp", timestamp) for place, timestamp in wanted.items()}
        with self._asking() as admin:
            listed = self._listed(admin, specs)
        return {place: one.offset if one.offset >= 0 else None for place, one in listed.items()}

    def parting_offset(self, place: TopicPartition, epoch: int, position: int) -> int | None:
        """Found by the client itself, which asks the leader before it fetches (KIP-320)."""
        client = client_module()
        with self._reading(place) as consumer:
            wanted = client.TopicPartition(
                place.topic, place.partition, position, leader_epoch=epoch
            )
            consumer.assign([wanted])
            return _parted(consumer, client, time.monotonic() + ANSWER_SECONDS)

    def splits(
        self, ranges: Mapping[TopicPartition, OffsetRange], wishes: TaskWishes = ANY_TASKS
    ) -> list[Split]:
        rule = SplitRule(
            min_count=wishes.min_count or cpu_count() or 1,
            min_size=1 if wishes.min_count else MIN_TASK_OFFSETS,
            max_size=MAX_TASK_OFFSETS,
            max_offsets=wishes.max_offsets,
        )
        stretches = {place: _stretches(wanted) for place, wanted in ranges.items()}
        with self._asking() as admin:
            ids = self._described(admin, {place.topic for place in ranges}, may_lack=True)
        return [
            Split(
                place=place,
                from_offset=part.from_offset,
                until_offset=part.until_offset,
                topic_id=ids.get(place),
            )
            for place, part in split_ranges(stretches, rule)
        ]

    def read(self, split: Split, columns: Sequence[str]) -> "Iterator[pa.RecordBatch]":
        client = client_module()
        with self._reading(split.place) as consumer:
            consumer.assign(
                [client.TopicPartition(split.place.topic, split.place.partition, split.from_offset)]
            )
            for messages in _batches(consumer, client, split, self._silence_s):
                yield _decoded(messages, columns)
        self._check_same_topic(split)

    def count_records(self, place: TopicPartition, wanted: OffsetRange) -> None:
        """A broker tells offsets, not how many records lie between them."""

    def roll_up(self, place: TopicPartition, wanted: OffsetRange) -> None:
        """The client checks the batches' CRCs, and shows records only."""

    def _check_same_topic(self, split: Split) -> None:
        """Asked at the end: had the topic been made anew before, its id would be another one."""
        with self._asking() as admin:
            there = self._described(admin, [split.place.topic], may_lack=True)
        if split.topic_id is not None and split.topic_id != there.get(split.place):
            raise UserError(
                f"{split.place}: the topic was deleted, or made anew, since the read was planned "
                f"(its id was {uuid_text(split.topic_id)}); run it again"
            )

    @property
    def _address(self) -> str:
        return self._client["bootstrap.servers"]

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        with as_user_errors(client_module(), self._address):
            yield self._admin

    @cached_property
    def _admin(self) -> Any:
        return admin_client(self._client)

    @contextmanager
    def _reading(self, place: TopicPartition) -> Iterator[Any]:
        client = client_module()
        with as_user_errors(client, f"{self._address}/{place}"):
            consumer = client.Consumer(
                {
                    "group.id": _DEFAULT_GROUP,
                    **self._client,
                    **_CONSUMER_SETTINGS,
                    "isolation.level": self._isolation.value,
                    "logger": logger,
                }
            )
            with closing(consumer):
                yield consumer

    def _chosen(self, admin: Any, *, may_lack: bool) -> dict[TopicPartition, Uuid | None]:
        """The chosen partitions, and the ids of their topics."""
        names = self._choice.named
        if names is None:
            names = tuple(self._choice.topics(admin.list_topics(timeout=ANSWER_SECONDS).topics))
            if not names and not may_lack:
                raise UserError(f"{self._address}: no topic fits subscribePattern")
        there = self._described(admin, names, may_lack=may_lack)
        found = {place: there[place] for place in there if self._choice.takes(place)}
        for place in self._choice.assigned:
            if place not in found and not may_lack:
                raise UserError(f"{self._address} has no partition {place}")
        return found

    def _described(
        self, admin: Any, topics: Iterable[str], *, may_lack: bool
    ) -> dict[TopicPartition, Uuid | None]:
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        names = list(topics)
        if not names:
            return {}
        found: dict[TopicPartition, Uuid | None] = {}
        futures = admin.describe_topics(TopicCollection(names), request_timeout=ANSWER_SECONDS)
        for topic, future in futures.items():
            try:
                told = future.result()
            except KafkaException as error:
                fault = error.args[0]
                if fault.code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
                if not may_lack:
                    raise UserError(f"{self._address}/{topic}: {fault.str()}") from error
            else:
                topic_id = _uuid(told.topic_id)
                found.update({TopicPartition(topic, one.id): topic_id for one in told.partitions})
        return found

    def _listed(
        self,
        admin: Any,
        specs: Mapping[TopicPartition, Any],
        isolation: Isolation | None = None,
    ) -> dict[TopicPartition, Any]:
        from confluent_kafka import IsolationLevel
        from confluent_kafka import TopicPartition as ClientPartition

        if not specs:
            return {}
        futures = admin.list_offsets(
            {ClientPartition(one.topic, one.partition): spec for one, spec in specs.items()},
            isolation_level=IsolationLevel[(isolation or self._isolation).name],
            request_timeout=ANSWER_SECONDS,
        )
        return {
            TopicPartition(one.topic, one.partition): future.result()
            for one, future in futures.items()
        }


def admin_client(client: Mapping[str, str]) -> Any:
    """A client that asks, with a consumer's settings; raises the client's own error."""
    from confluent_kafka import admin

    settings = {name: value for name, value in client.items() if name != "group.id"}
    return admin.AdminClient({**settings, "logger": logger})


def _spec(name: str, *arguments: int) -> Any:
    from confluent_kafka.admin import OffsetSpec

    return getattr(OffsetSpec, name)(*arguments)


def _batches(consumer: Any, client: Any, split: Split, silence_s: float) -> Iterator[list[Any]]:
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
            raise UserError(f"{split.place}: the broker sent nothing for {silence_s:.0f} seconds")
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
    """Waits for the first message, or the news that the log is another one from some offset on."""
    while time.monotonic() < deadline:
        message = consumer.poll(_POLL_SECONDS)
        if message is None:
            continue
        error = message.error()
        if error is None or error.code() == client.KafkaError._PARTITION_EOF:
            return None
        if error.code() not in _NOT_THERE:
            raise client.KafkaException(error)
        if (told := _TRUNCATION.search(error.str())) is not None:
            return int(told[1])
        if "truncation" in error.str():
            raise client.KafkaException(error)
        return None  # Below the log's start, or above its end: both show in its offsets.
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


def client_module() -> Any:
    try:
        import confluent_kafka
    except ImportError as error:
        raise UserError(
            "reading from a broker needs a client; run: pip install confluent-kafka"
        ) from error
    return confluent_kafka


@contextmanager
def as_user_errors(client: Any, place: str) -> Iterator[None]:
    try:
        yield
    except client.KafkaException as error:
        fault = error.args[0]
        if fault.code() in (client.KafkaError._TIMED_OUT, client.KafkaError._TRANSPORT):
            raise UserError(f"{place}: no broker answers; is it running there?") from error
        raise UserError(f"{place}: {fault.str()}") from error
