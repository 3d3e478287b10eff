"""`ottla.open`: topics, appends and reads in process, over Kafka's own files.

Calls may come from any thread; one lock orders them. An append that has returned is with the
operating system: it survives the death of the process; `flush` makes it survive a power failure.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, overload

from ottla.base.arguments import (
    check_count,
    check_partition,
    check_partition_offsets,
    check_record,
    check_settings,
    check_time,
    check_timestamp,
    check_topic_name,
)
from ottla.base.clock import read_clock
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UserError
from ottla.base.files import Buffer
from ottla.base.partitions import TRANSACTION_STATE, OffsetRange, TopicPartition
from ottla.base.unknown_arguments import answers_unknown_arguments
from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration, ConfigChange, ConfigOperation
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.topics import Topic
from ottla.codec.compression import Compression
from ottla.config.broker import check_known
from ottla.config.group_coordinator import with_local_defaults
from ottla.config.setting import settings_of, value_text
from ottla.config.topic import TopicConfig
from ottla.embedded.environment import Environment
from ottla.embedded.held_broker import HeldBroker, done_whole
from ottla.embedded.memory import MEMORY, leave, make_directory
from ottla.embedded.paths import Paths, paths_of
from ottla.embedded.readable import ReadableLog
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.record.batch import BuiltBatch, RecordBatch
from ottla.record.builder import RecordBatchBuilder, single_record_batch
from ottla.record.partitioner import partition_for_key
from ottla.runtime.cleaning import Cleaning, Engine
from ottla.runtime.interrupts import HeldInterrupts
from ottla.runtime.opening import open_broker
from ottla.storage.log.append import LongPreparationError
from ottla.storage.log.offsets import Isolation

if TYPE_CHECKING:
    from ottla.config.typed_settings import BrokerSettings, TopicSettings
    from ottla.embedded.compacting import CompactedPartition
    from ottla.embedded.followed import FollowedLog
    from ottla.embedded.scanning import Region

Headers = Sequence[tuple[str, bytes | None]]


class RecordMetadata(NamedTuple):
    """The place of an appended record.

    >>> log.append("orders", b"tea", partition=1)
    RecordMetadata(topic='orders', partition=1, offset=1, timestamp_ms=...)
    """

    topic: str
    partition: int
    offset: int
    timestamp_ms: int


_made: Callable[[tuple[Any, ...]], RecordMetadata] = partial(tuple.__new__, RecordMetadata)


@overload
def open(
    path: Paths,
    settings: "BrokerSettings | Mapping[str, Any] | None" = None,
    *,
    read_only: Literal[False] = False,
) -> "Log": ...


@overload
def open(
    path: Paths,
    settings: "BrokerSettings | Mapping[str, Any] | None" = None,
    *,
    read_only: Literal[True],
    tier: str | None = None,
    tier_key: str | None = None,
) -> "FollowedLog": ...


@answers_unknown_arguments
def open(
    path: Paths,
    settings: "BrokerSettings | Mapping[str, Any] | None" = None,
    *,
    read_only: bool = False,
    tier: str | None = None,
    tier_key: str | None = None,
) -> ReadableLog:
    """Opens a data directory, and creates it if it is missing. Use it in a `with` statement.

    Several paths are the log directories of one broker, as in Kafka's `log.dirs`; `":memory:"` is a
    temporary one, removed when the log is closed. `settings` are a broker's, by Kafka's names, such
    as `{"log.segment.bytes": 1 << 20}`. With `read_only` nothing is written or locked: a broker,
    also Apache Kafka, may run on the directory, and its appends can be read. `tier` is then the
    directory or URL of the remote tier with the segments that the directory no longer has, and
    `tier_key` the private key of an encrypted one, a file or a folder of them. See `FollowedLog`;
    `ottla.Admin(path, read_only=True)` tells the rest. Raises `UserError` when the directory is in
    use or holds something else, or a setting is wrong.

    >>> with ottla.open(directory, {"log.segment.bytes": 1 << 20}) as log:
    ...     log.create_topic("teas")
    ...     log.topics()
    {'teas': 1}
    """
    if not read_only:
        if tier is not None or tier_key is not None:
            raise UserError("a tier is only read: open the log with read_only=True, or omit tier")
        # A broker's file may name settings of plugins; in a program an unknown name is a mistake.
        check_known(check_settings(settings))
        return open_in(Environment(), path, settings)
    if path == MEMORY:
        raise UserError(f"{MEMORY} is a new log; it cannot be opened with read_only=True")
    if settings:
        raise UserError("settings are for a log that is written; omit them with read_only")
    from ottla.embedded.followed import FollowedLog  # Writers need not import it.
    from ottla.storage.reading.opening import TierPlace

    if tier is None:
        if tier_key is not None:
            raise UserError("tier_key is for an encrypted tier; give tier, its place")
        return FollowedLog(paths_of(path))
    return FollowedLog(paths_of(path), tier=TierPlace(address=tier, keys=tier_key))


def open_in(
    environment: Environment,
    path: Paths,
    settings: "BrokerSettings | Mapping[str, Any] | None" = None,
) -> "Log":
    """Like `open` for writing, in an environment that may be a test's."""
    given = check_settings(settings)
    texts = with_local_defaults({name: value_text(value) for name, value in given.items()})
    on_close: Callable[[], None] = leave
    if path == MEMORY:
        path, on_close = make_directory()
    reopen = partial(_loaded_broker, paths_of(path), texts, environment)
    log: Log | None = None
    try:
        # Ctrl-C between locking the directory and creating the log that holds it would leave it
        # locked.
        with HeldInterrupts():
            log = Log(reopen(), environment, reopen, on_close)
    except BaseException:
        if log is not None:
            log.close()
        else:
            on_close()
        raise
    return log


def _loaded_broker(
    paths: Sequence[str], settings: Mapping[str, str], environment: Environment
) -> Broker:
    clock = environment.clock
    broker = open_broker(
        paths,
        settings,
        clock=clock,
        file_system=environment.file_system,
        on_progress=environment.on_progress,
    )
    try:
        if broker.topics.find(TRANSACTION_STATE) is not None:
            broker.transactions.load(read_clock(clock))
        broker.appends.write_out()  # finishes what a crash interrupted
    except BaseException:
        broker.close()
        raise
    return broker


class Log(HeldBroker, ReadableLog):
    """An open data directory, with access to all its topics.

    >>> with ottla.open(":memory:") as log:
    ...     log.create_topic("teas")
    ...     log.append("teas", b"Assam", key=b"strong").offset
    ...     [record.value for record in log.read("teas")]
    0
    [b'Assam']
    """

    # Topics

    @answers_unknown_arguments
    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        config: "TopicSettings | Mapping[str, Any] | None" = None,
        exist_ok: bool = False,
    ) -> None:
        """Creates a topic; `config` are topic settings by Kafka's names. With `exist_ok` a topic
        that exists is left as it is. Raises `ApiError`.

        >>> log.create_topic("prices", partitions=3, config={"cleanup.policy": "compact"})
        >>> log.create_topic("prices", exist_ok=True)
        >>> log.topics()["prices"]
        3
        """
        overrides = {key: value_text(value) for key, value in check_settings(config).items()}
        count = check_count(partitions, "partitions", least=1)
        new = NewTopic(name=check_topic_name(name), partition_count=count, overrides=overrides)
        try:
            self._create_topic(new)
        except ApiError as error:
            if not (exist_ok and error.code is ErrorCode.TOPIC_ALREADY_EXISTS):
                raise

    @done_whole
    def _create_topic(self, new: NewTopic) -> None:
        with HeldInterrupts():
            self.broker.admin.create_topic(new)

    @done_whole
    def delete_topic(self, name: str) -> None:
        """Deletes a topic with all its records. Raises `UserError` if it does not exist.

        >>> log.delete_topic("orders")
        >>> "orders" in log.topics()
        False
        """
        with HeldInterrupts():
            self.broker.admin.delete_topic(self.find_topic(name))

    def topics(self) -> dict[str, int]:
        """The partition count of every topic by name.

        >>> log.topics()["orders"]
        2
        """
        with self.looking() as broker:
            return {topic.name: topic.partition_count for topic in broker.topics}

    def offsets(self, topic: str) -> dict[int, tuple[int, int]]:
        """The first offset and the end offset of each partition.

        >>> log.offsets("orders")
        {0: (0, 3), 1: (0, 1)}
        """
        with self.looking():
            partitions = self.find_topic(topic).partitions
            return {
                index: (one.log.log_start_offset, one.log.high_watermark)
                for index, one in sorted(partitions.items())
            }

    def topic_settings(self, topic: str) -> dict[str, str]:
        """All current settings of a topic, including defaults.

        >>> log.topic_settings("orders")["cleanup.policy"]
        'delete'
        """
        with self.looking():
            config = self.find_topic(topic).config
        rows = settings_of(TopicConfig).values()
        return {row.name: row.format(getattr(config, row.attribute)) for row in rows}

    @done_whole
    def alter_topic(self, topic: str, config: Mapping[str, Any]) -> None:
        """Changes some settings of a topic; `None` removes one. Raises `ApiError`.

        >>> log.alter_topic("orders", {"retention.ms": 3_600_000, "max.message.bytes": None})
        >>> log.topic_settings("orders")["retention.ms"]
        '3600000'
        """
        changes = [
            ConfigChange(name=name, operation=ConfigOperation.DELETE)
            if value is None
            else ConfigChange(name=name, value=value_text(value))
            for name, value in check_settings(config).items()
        ]
        with HeldInterrupts():
            name = self.find_topic(topic).name
            self.broker.admin.alter_topic(name, Alteration(changes=changes))

    @done_whole
    def create_partitions(self, topic: str, count: int) -> None:
        """Increases a topic's partitions to `count`. Raises `ApiError`.

        >>> log.create_partitions("orders", 4)
        >>> log.topics()["orders"]
        4
        """
        with HeldInterrupts():
            name = self.find_topic(topic).name
            wanted = check_count(count, "partitions", least=1)
            self.broker.admin.grow_topic(TopicGrowth(name=name, partition_count=wanted))

    # Records

    def append(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None = None,
        *,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Headers = (),
    ) -> RecordMetadata:
        """Appends one record; a key chooses the partition as in Kafka's clients. Raises `ApiError`
        if the topic refuses the record, and `UserError` for a key or value that is not bytes.

        >>> found = log.append("orders", b"tea", b"table 4", headers=[("waiter", b"Eva")])
        >>> found.partition, found.offset
        (1, 1)
        """
        now_ms = self._clock.now_ms()
        time_ms = now_ms if timestamp_ms is None else timestamp_ms
        if type(time_ms) is not int:
            time_ms = check_time(time_ms)
        try:
            data = single_record_batch(key, value, time_ms, headers)
        except (TypeError, ValueError) as error:
            check_record(key, value, time_ms, headers)
            raise UserError(f"not a record: {error}") from error
        if partition is not None and type(partition) is not int:
            partition = check_partition(partition)
        place, offset = self._append(topic, key, partition, BuiltBatch(data), now_ms)
        return _made((topic, place, offset, time_ms))

    @done_whole
    def _append(
        self,
        topic: str,
        key: bytes | None,
        partition: int | None,
        batch: RecordBatch,
        now_ms: int,
    ) -> tuple[int, int]:
        found = (self.broker.topics.find(topic) if type(topic) is str else None) or self.find_topic(
            topic
        )
        index = self._choose_partition(found, key) if partition is None else partition
        to = found.partitions.get(index) or self.find_partition(topic, index)
        return index, self._append_to(to, batch, now_ms)

    @done_whole
    def append_batch(self, topic: str, partition: int, builder: RecordBatchBuilder) -> int:
        """Appends the records of a builder as one batch; returns the offset of the first.

        >>> builder = ottla.RecordBatchBuilder()
        >>> builder.append(None, b"tea", 1_767_225_600_000)
        0
        >>> log.append_batch("orders", 0, builder)
        3
        """
        if not isinstance(builder, RecordBatchBuilder) or not builder.record_count:
            raise UserError("append_batch takes an ottla.RecordBatchBuilder that has records")
        return self._append_data(topic, partition, BuiltBatch(builder.build_writable()))

    def append_many(
        self,
        topic: str,
        records: Any,
        *,
        partition: int | None = None,
        compression: Compression | str = Compression.NONE,
    ) -> dict[int, OffsetRange]:
        """Appends records in batches; returns the first offset and the end, by partition.

        `records` are values, tuples of key and value, objects with `key`, `value`, `timestamp_ms`
        and `headers`, or an Arrow table or a frame of pandas or polars with columns of `value`, and
        if there are any `key`, `headers`, `timestamp` (or `timestamp_ms`), `partition`.
        `compression` is a codec's name: "gzip", "snappy", "lz4" or "zstd". Other threads may append
        in between, so a range may include offsets of other calls. Raises `ApiError` and
        `UserError`; batches appended before the error stay.

        >>> log.append_many("orders", [b"tea", (b"table 4", b"coffee")], partition=0)
        {0: OffsetRange(from_offset=3, until_offset=5)}
        >>> import pyarrow as pa
        >>> log.append_many("orders", pa.table({"value": [b"tea"], "partition": [1]}))
        {1: OffsetRange(from_offset=1, until_offset=2)}
        """
        from ottla.embedded.appending import ManyAppends

        appends = ManyAppends(self, topic, partition, compression)
        appends.append(records)
        return appends.written

    @done_whole
    def append_built(self, topic: str, partition: int, data: Buffer) -> int:
        """Appends one encoded batch; returns the first record's offset.

        >>> builder = ottla.RecordBatchBuilder()
        >>> builder.append(None, b"tea", 1_767_225_600_000)
        0
        >>> log.append_built("orders", 0, builder.build())
        3
        """
        if not isinstance(data, Buffer):
            raise UserError(f"append_built takes a batch's bytes, not {type(data).__name__}")
        return self._append_data(topic, partition, bytearray(data))

    @done_whole
    def delete_records(self, topic: str, before: Mapping[int, int]) -> dict[int, int]:
        """Deletes the records before offsets by partition; returns the new log start offsets. The
        offset -1 stands for the end.

        >>> log.delete_records("orders", {0: 2})
        {0: 2}
        >>> log.offsets("orders")[0]
        (2, 3)
        """
        offsets = check_partition_offsets(before, least=-1)
        for index in offsets:
            self.find_partition(topic, index)
        wanted = {TopicPartition(topic, index): offset for index, offset in offsets.items()}
        starts: dict[int, int] = {}
        with HeldInterrupts():
            for place, start in self.broker.admin.delete_records(wanted).items():
                if isinstance(start, ApiError):
                    raise start
                starts[place.partition] = start
        return starts

    @done_whole
    def _append_own(self, topic: str, partition: int, batch: BuiltBatch) -> int:
        return self._append_data(topic, partition, batch)

    def _append_data(self, topic: str, partition: int, records: Buffer | RecordBatch) -> int:
        found = self.find_partition(topic, partition)
        return self._append_to(found, records, self._clock.now_ms())

    def _append_to(self, partition: Partition, records: Buffer | RecordBatch, now_ms: int) -> int:
        try:
            info = self.broker.appends.append(partition, records, now_ms=now_ms)
        except LongPreparationError as long:
            info = self.broker.appends.append(partition, long.prepare(), now_ms=now_ms)
        self.broker.appends.write_out()
        if self.broker.answers.has_answers:
            if self._is_served:
                assert self._listening is not None
                self._listening.wake()
            else:
                self.pending.end_answered(self.broker, read_clock(self._clock))
        return info.first_offset

    def _choose_partition(self, topic: Topic, key: bytes | None) -> int:
        count = topic.partition_count
        if key is not None:
            return partition_for_key(key, count)
        self._next_keyless += 1
        return self._next_keyless % count

    def regions(self, place: TopicPartition, offset: int, end: int) -> "Iterator[Region]":
        from ottla.embedded import live_reading  # which a log that is only written does not need

        return live_reading.regions(self, place, offset, end)

    def stable_ends(self, topic: str, partitions: Iterable[int] | None = None) -> dict[int, int]:
        from ottla.embedded import live_reading

        return live_reading.stable_ends(self, topic, partitions)

    def wait_for_records(self, topic: str, offsets: Mapping[int, int], seconds: float) -> bool:
        from ottla.embedded import live_reading

        return live_reading.wait_for_records(self, topic, offsets, seconds)

    def offsets_for_time(self, topic: str, timestamp_ms: int) -> dict[int, int | None]:
        """By partition the first offset at or after a time; `None` if there is none.

        >>> log.offsets_for_time("orders", 1_767_225_602_000)
        {0: 1, 1: None}
        """
        check_timestamp(timestamp_ms)
        with self.looking() as broker:
            isolation = Isolation.LAST_STABLE
            found = {
                index: broker.topics.online_partition(topic, index).find_offset(
                    timestamp_ms, isolation=isolation
                )
                for index in sorted(self.find_topic(topic).partitions)
            }
        return {index: None if one is None else one.offset for index, one in found.items()}

    # Durability, serving, and the end

    @done_whole
    def flush(self) -> None:
        """Syncs everything that was appended to disk. Raises `StorageError` if the disk fails.

        >>> log.append_many("orders", [b"tea"], partition=0)
        {0: OffsetRange(from_offset=3, until_offset=4)}
        >>> log.flush()  # From here on it survives a power failure.
        """
        with HeldInterrupts():
            for topic in self.broker.topics:
                for partition in topic.partitions.values():
                    partition.log.writer.flush()

    def compact(self, topic: str, engine: Engine | None = None) -> "list[CompactedPartition]":
        """Compacts a topic now, up to the active segment of each partition.

        It does not matter whether it is due. The calling thread does it, or an engine such as
        `ottla.spark.compact.SparkEngine`. Raises `UserError` if the topic is not a compacted one,
        or cannot be compacted.

        >>> log.create_topic("prices", config={"cleanup.policy": "compact", "segment.bytes": 1024})
        >>> for price in range(100):
        ...     _ = log.append("prices", b"%d crowns" % price, b"tea")
        >>> done, = log.compact("prices")
        >>> len(list(log.read("prices"))) < 100
        True
        """
        from ottla.embedded.compacting import check_compaction, compact_partition

        cleaning = self._cleaning
        if engine is not None:
            cleaning = Cleaning(self.broker, engine, clock=self._clock, lock=self._lock)
        partitions = check_compaction(self, topic)
        # Only data on the disk is compacted.
        with HeldInterrupts():
            self._flusher.flush_due()
        return [compact_partition(self, cleaning, one) for one in partitions]
