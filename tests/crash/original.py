"""A log directory of every kind of file, stopped or killed, and what was put into it.

What is in it is the oracle of `damage`: records, bounds, aborted transactions, committed offsets
and settings, as whoever wrote them knows them.
"""

import itertools
import shutil
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from ottla.base.files import OsFileSystem
from ottla.base.partitions import CONSUMER_OFFSETS
from ottla.base.principal import Principal
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration, ConfigChange
from ottla.broker.configs.settings import ConfigSource
from ottla.broker.quotas.quota_changes import QuotaAlteration
from ottla.broker.security.users import ScramUpsertion
from ottla.codec.compression import Compression
from ottla.coordinator.offsets.commits import CommitRequest
from ottla.coordinator.offsets.committed_offsets import NewOffset
from ottla.coordinator.requests import MemberClaim
from ottla.coordinator.transaction.requests import InitRequest
from ottla.metadata.acls import (
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.metadata.deciding.topics import NewTopic
from ottla.metadata.tokens import DelegationToken
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.runtime.cleaning import Cleaning, ThreadEngine
from ottla.storage.files.filenames import CLUSTER_METADATA_DIRECTORY
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_state import AppendOrigin
from ottla.testing.clock import FakeClock
from tests.support.brokers import NOW_MS, at, open_broker
from tests.support.logs import read_all

TopicPartition = tuple[str, int]
Producer = tuple[int, int, int | None]
"""A producer's epoch, its last sequence number, and where its open transaction began."""

SMALL = {
    "segment.bytes": "900",
    "index.interval.bytes": "150",
    "segment.index.bytes": "480",
    "retention.ms": "-1",
    "file.delete.delay.ms": "0",
}
COMPACTED = {**SMALL, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
CODECS = (Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)
GROUPS = tuple(f"group-{number}" for number in range(6))
ACL = Acl(
    ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "plain"),
    Entry("User:carl", "*", Operation.READ, Permission.ALLOW),
)
TOKEN = DelegationToken(
    token_id="token",
    owner=Principal("User", "ana"),
    requester=Principal("User", "ana"),
    renewers=(),
    issued_ms=NOW_MS,
    expires_ms=NOW_MS + 1000,
    max_ms=NOW_MS + 2000,
)
SETTINGS = {
    "offsets.topic.num.partitions": "2",
    "offsets.topic.segment.bytes": "600",
    "transaction.state.log.num.partitions": "1",
    "log.index.size.max.bytes": "4096",
}


class Stop(StrEnum):
    """How the last broker ended, and how old the directory was."""

    CLEAN = "stopped"
    KILL = "killed"
    YOUNG = "killed in its first minute"
    AGAIN = "killed again after a recovery"


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """A record, as a client sees it."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None


@dataclass(slots=True)
class Content:
    """What a partition holds; control records are not in `rows`."""

    rows: dict[int, Row] = field(default_factory=dict)
    bounds: tuple[int, int] = (0, 0)
    aborted: list[tuple[int, int]] = field(default_factory=list)
    producers: dict[int, Producer] = field(default_factory=dict)
    """By id: what a retry, and the next batch, is compared with."""


@dataclass(slots=True)
class Original:
    path: Path
    stop: Stop
    partitions: dict[TopicPartition, Content] = field(default_factory=dict)
    committed: dict[str, int] = field(default_factory=dict)
    overrides: dict[str, dict[str, str]] = field(default_factory=dict)
    kept: dict[str, object] = field(default_factory=dict)
    """What the metadata log has besides topics, by the name of its folder."""
    producer_id: int = -1
    """The last that was handed out, with which nothing was written."""


@dataclass(slots=True)
class _Writer:
    broker: Broker
    original: Original
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def write(
        self,
        key: TopicPartition,
        count: int,
        *,
        names: tuple[bytes, ...] = (),
        is_aborted: bool = False,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        **attributes: object,
    ) -> None:
        """One batch of records whose values no other record has."""
        builder = RecordBatchBuilder(**attributes)  # type: ignore[arg-type]
        rows = []
        for _ in range(count):
            number = next(self.numbers)
            name = names[number % len(names)] if names else b"key-%d" % number
            value = b"value-%d-" % number + b"x" * (number % 37)
            builder.append(name, value, NOW_MS + number)
            rows.append((NOW_MS + number, name, value))
        info = self.broker.appends.append(
            self.broker.topics.partition(*key),
            bytearray(builder.build()),
            now_ms=NOW_MS,
            origin=origin,
        )
        self.broker.appends.write_out()
        content = self.original.partitions.setdefault(key, Content())
        for offset, row in enumerate(rows, info.first_offset):
            content.rows[offset] = Row(offset, *row)

    def transact(
        self, key: TopicPartition, producer: int, *, is_commit: bool, sequence: int
    ) -> None:
        self.write(
            key,
            2,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=sequence,
            is_transactional=True,
            origin=AppendOrigin.COORDINATOR,
        )
        first = self.broker.topics.partition(*key).log.log_end_offset - 2
        marker = build_end_transaction_marker(
            EndTransactionMarker(is_commit=is_commit, coordinator_epoch=0),
            producer_id=producer,
            producer_epoch=0,
            timestamp_ms=NOW_MS,
        )
        self.broker.appends.append(
            self.broker.topics.partition(*key),
            bytearray(marker),
            now_ms=NOW_MS,
            origin=AppendOrigin.COORDINATOR,
        )
        self.broker.appends.write_out()
        if not is_commit:
            self.original.partitions[key].aborted.append((producer, first))


def build(path: Path, stop: Stop) -> Original:
    """Makes the directory, once by a broker that is stopped and again by one that `stop` ends.

    In its first minute a directory has one broker only, and no checkpoint.
    """
    original = Original(path, stop)
    open_path = path.with_name(path.name + ".open")
    writer = _Writer(_opened(open_path), original)
    _create_topics(writer)
    _fill(writer)
    _administer(writer.broker)
    _commit(writer, 100)
    if stop is not Stop.YOUNG:
        _grow_older(writer, open_path)
    _go_on(writer)
    if stop is Stop.AGAIN:
        killed = open_path.with_name(open_path.name + ".killed")
        shutil.copytree(open_path, killed)
        writer.broker.close()
        shutil.rmtree(open_path)
        open_path = killed
        writer.broker = _opened(open_path)
        _go_on(writer, producer=91)
    _note_content(original, writer.broker)
    if stop is Stop.CLEAN:
        writer.broker.close()
        shutil.copytree(open_path, path)
    else:
        shutil.copytree(open_path, path)
        writer.broker.close()
    shutil.rmtree(open_path)
    return original


def _opened(path: Path) -> Broker:
    return open_broker(OsFileSystem(), str(path), **_underscored(SETTINGS))


def _create_topics(writer: _Writer) -> None:
    for name, count, overrides in (
        ("plain", 2, SMALL),
        ("packed", 1, SMALL),
        ("dealt", 2, SMALL),
        ("moved", 1, SMALL),
        ("compacted", 1, COMPACTED),
    ):
        topic = NewTopic(name=name, partition_count=count, overrides=dict(overrides))
        writer.broker.admin.create_topic(topic)
        writer.original.overrides[name] = dict(overrides)


def _grow_older(writer: _Writer, path: Path) -> None:
    _compact(writer.broker)
    compacted = writer.original.partitions["compacted", 0]
    compacted.rows = _remaining(writer.broker, compacted)
    writer.broker.close()
    writer.broker = _opened(path)
    for directory in writer.broker.directories:
        directory.checkpoints.write()


def _note_content(original: Original, broker: Broker) -> None:
    original.kept = what_is_kept(broker)
    original.producer_id = broker.producer_ids.allocate()
    for topic in broker.topics:
        for index, partition in topic.partitions.items():
            log = partition.log
            content = original.partitions.setdefault((topic.name, index), Content())
            content.bounds = (log.log_start_offset, log.log_end_offset)
            content.producers = producers_of(log)
            if topic.is_internal:
                rows = (
                    Row(one.offset, one.timestamp_ms, one.key, one.value) for one in read_all(log)
                )
                content.rows = {row.offset: row for row in rows}


def _administer(broker: Broker) -> None:
    quota = QuotaAlteration(names=(("client-id", "a"),), limits={"producer_byte_rate": 1024.0})
    assert broker.admin.alter_quotas([quota], lambda one: one) == [None]
    change = ConfigChange(name="log.cleaner.threads", value="2")
    whole = Alteration(changes=[change], is_whole=True)
    broker.admin.alter_broker(ConfigSource.ALL_BROKERS, whole)
    user = ScramUpsertion(
        user="ana", mechanism_code=1, iterations=4096, salt=b"salt", salted_password=b"p" * 32
    )
    assert broker.security.alter_users([user]) == {"ana": None}
    group = Alteration(changes=[ConfigChange(name="consumer.session.timeout.ms", value="50000")])
    assert broker.admin.alter_groups({GROUPS[0]: lambda: group}) == {}
    own = Alteration(changes=[ConfigChange(name="log.flush.interval.ms", value="123456")])
    broker.admin.alter_broker(ConfigSource.BROKER, own)
    broker.security.create_acls([ACL])
    broker.security.put_token(TOKEN)


def producers_of(log: PartitionLog) -> dict[int, Producer]:
    found = log.producers.entries
    return {
        number: (one.epoch, one.last_sequence, one.transaction_first_offset)
        for number, one in found.items()
    }


def what_is_kept(broker: Broker) -> dict[str, object]:
    """What a broker knows by its metadata log."""
    image = broker.security.image
    return {
        CLUSTER_METADATA_DIRECTORY: (
            image.quotas,
            image.configs,
            image.acls,
            image.credentials,
            image.tokens,
        ),
    }


def _underscored(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace(".", "_"): value for name, value in settings.items()}


def _fill(writer: _Writer) -> None:
    for number in range(24):
        for index in (0, 1):
            writer.write(("plain", index), 1 + number % 3)
        writer.write(
            ("packed", 0),
            3,
            compression=CODECS[number % 4],
            producer_id=70,
            producer_epoch=0,
            base_sequence=3 * number,
        )
        writer.write(("moved", 0), 2)
        writer.write(("compacted", 0), 2, names=(b"a", b"b", b"c", b"d", b"e", b"f", b"g"))
    for number in range(12):
        for index in (0, 1):
            is_commit = number % 3 != 0
            writer.transact(("dealt", index), 80 + index, is_commit=is_commit, sequence=2 * number)
    writer.broker.admin.delete_records({("moved", 0): 17})
    content = writer.original.partitions["moved", 0]
    content.rows = {offset: row for offset, row in content.rows.items() if offset >= 17}
    for number in range(3):
        writer.broker.transactions.init_producer(
            InitRequest(transactional_id=f"tx-{number}", timeout_ms=60_000), at(0)
        )
    writer.broker.appends.write_out()


def _go_on(writer: _Writer, producer: int = 90) -> None:
    """What nobody has flushed if the broker is killed."""
    for number in range(6):
        for index in (0, 1):
            writer.write(("plain", index), 2)
        writer.transact(("dealt", 0), producer, is_commit=number % 2 == 0, sequence=2 * number)
        writer.write(("compacted", 0), 1, names=(b"a", b"b", b"c"))
    _commit(writer, 200)


def _commit(writer: _Writer, base: int) -> None:
    broker = writer.broker
    for number, group in enumerate(GROUPS):
        offset = NewOffset(offset=base + number, leader_epoch=-1, metadata="")
        request = CommitRequest(claim=MemberClaim(group_id=group), offsets={("plain", 0): offset})
        broker.groups.carry_out(
            broker.groups.machines(Timestamps(now_ms=NOW_MS, monotonic_ms=0))[0].commit(
                request, Timestamps(now_ms=NOW_MS, monotonic_ms=0)
            ),
            Timestamps(now_ms=NOW_MS, monotonic_ms=0),
        )
        broker.appends.write_out()
        writer.original.committed[group] = base + number
    assert broker.topics.find(CONSUMER_OFFSETS) is not None


def _compact(broker: Broker) -> None:
    lock, clock = threading.RLock(), FakeClock()
    cleaning = Cleaning(broker, ThreadEngine(OsFileSystem(), lock), clock=clock, lock=lock)
    for directory in broker.directories:
        for log in directory.logs.values():
            log.writer.flush()
    task = broker.log_jobs.cleaner.task_for(("compacted", 0), at(0))
    assert task is not None
    cleaning.carry_out(task)
    assert not broker.log_jobs.cleaner.trouble_of(task.key).failure_count


def _remaining(broker: Broker, content: Content) -> dict[int, Row]:
    """What compaction has left: of each key the last record at least."""
    log = broker.topics.partition("compacted", 0).log
    offsets = {record.offset for record in read_all(log)}
    last = {row.key: row.offset for row in sorted(content.rows.values())}
    assert set(last.values()) <= offsets < content.rows.keys()
    return {offset: row for offset, row in content.rows.items() if offset in offsets}
