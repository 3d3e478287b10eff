"""The metadata log of a broker by itself: what is decided is appended, and made durable.

The log is `__cluster_metadata-0` of one log directory, in Kafka's format, so that Kafka continues
it where Ottla stopped, and the other way round. A broker by itself is its only voter. Each use that
changes something begins an epoch, as each start of a leader does in Kafka. A change is one batch,
or a metadata transaction of several, so that a crash leaves all of it or nothing. What the log
holds is in memory as the image of the broker only; a snapshot is made of the log's own files.

Format page: docs/format/cluster-metadata.md. Kafka's counterparts: `QuorumController`,
`KafkaRaftClient` and `KafkaMetadataLog` of a node that is broker and controller.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError, StorageError
from ottla.base.files import FileSystem, join, remove_if_present, replace_file
from ottla.base.ids import Uuid
from ottla.base.timestamps import Timestamps
from ottla.base.turns import aside, freed_in_turns, in_turns, parts_in_turns
from ottla.base.values import dataclass
from ottla.config.topic import TopicConfig
from ottla.metadata.image import FIRST_WITH_TRANSACTIONS, METADATA_VERSION, MetadataImage
from ottla.storage.files.directory_health import DirectoryHealth
from ottla.storage.files.filenames import BOOTSTRAP_CHECKPOINT
from ottla.storage.files.metadata_files import SNAPSHOT_NAME, metadata_folder, rolled_log
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_state import AppendOrigin

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig
    from ottla.metadata.image_changes import VersionedRecord
    from ottla.metadata.log_files import ReadLog

# What reads and writes records is imported in functions: a broker that changes nothing, and has no
# log yet, needs none of it.

logger = logging.getLogger(__name__)

RELEASE_LEVEL: Final = 21
"""The `metadata.version` of a new metadata log: 3.9-IV0, for Kafka 3.9 and later versions."""

METADATA_CONFIG: Final = TopicConfig(
    segment_bytes=1 << 30,
    segment_index_bytes=1 << 16,
    segment_ms=(1 << 63) - 1,
    max_message_bytes=(1 << 31) - 1,
)
"""Segments end where snapshots are made, long before an index is full."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotLimits:
    """When a snapshot is made, and how much of the log is kept (Kafka: `MetadataLogConfig`).

    A broker by itself looks at bytes only.
    """

    bytes_between: int = 20 << 20
    interval_ms: int = 3_600_000
    """0 makes none by time."""
    retention_bytes: int = 100 << 20
    """-1 keeps any number."""
    retention_ms: int = 604_800_000

    @classmethod
    def of(cls, config: "BrokerConfig") -> "SnapshotLimits":
        return cls(
            bytes_between=config.metadata_log_max_record_bytes_between_snapshots,
            interval_ms=config.metadata_log_max_snapshot_interval_ms,
            retention_bytes=config.metadata_max_retention_bytes,
            retention_ms=config.metadata_max_retention_ms,
        )


class Place(Protocol):
    """The part of a log directory that the log needs."""

    path: str
    health: DirectoryHealth

    @property
    def directory_id(self) -> Uuid | None: ...

    def open_metadata_log(self, config: TopicConfig) -> PartitionLog: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LogOptions:
    """The node whose log it is, the time, and why nothing can be changed, if so."""

    node_id: int
    now_ms: int
    refusal: str | None = None
    limits: SnapshotLimits = SnapshotLimits()


class MetadataLog:
    """`now_ms` is the time that the next records get, `level` the log's `metadata.version`.

    Without a `directory`, or with a `refusal`, nothing can be changed.
    """

    def __init__(
        self,
        directory: Place | None,
        file_system: FileSystem,
        found: "ReadLog | None",
        options: LogOptions,
    ) -> None:
        """`found` is what the log held when it was read, `None` for a new one."""
        self.now_ms = options.now_ms
        image = MetadataImage() if found is None else found.content
        self.level: Final = image.features.get(METADATA_VERSION, RELEASE_LEVEL)
        self._found = image
        self._has_open_transaction = found is not None and found.is_in_transaction
        self._has_removed_credential = found is not None and found.has_removed_credential
        self._path = "" if directory is None else directory.path
        self._directory = directory
        self._file_system = file_system
        self._node_id = options.node_id
        self._refusal = options.refusal
        self._limits = options.limits
        self._log: PartitionLog | None = None
        self._epoch: int | None = None
        self._size_at_snapshot = 0
        self._sync_count = 0
        """How many changes are being made durable."""
        self._snapshot: Iterator[None] | None = None
        """The steps of the snapshot that is being made."""

    def check(self) -> None:
        """Raises `ApiError` or `StorageError` if nothing can be changed."""
        if self._refusal is not None:
            raise ApiError(ErrorCode.POLICY_VIOLATION, self._refusal)
        if self._directory is None:
            raise StorageError(self._path, "the log directory with the metadata log is offline")
        if self._directory.health.failure is not None:
            raise self._directory.health.failure

    def commit(self, records: "Iterable[VersionedRecord]") -> None:
        """Appends records and makes them durable; a request in turns lets others have theirs
        meanwhile.

        Raises `ApiError` if the log must not be continued, and `StorageError`.
        """
        change = self.prepare(records)
        self.append(change)
        self.sync()

    def prepare(self, records: "Iterable[VersionedRecord]") -> "Change":
        """Encodes records in turns; nothing is changed yet, and what is decided may be dropped."""
        self.check()
        every = written = [*in_turns(records)]
        freed_in_turns(every)
        if not every:
            return NO_CHANGE
        from ottla.metadata.log_writing import RECORDS_PER_BATCH, in_transaction, record_batch
        from ottla.metadata.records import RemoveUserScramCredentialRecord as Removal

        if len(every) > RECORDS_PER_BATCH and self.level >= FIRST_WITH_TRANSACTIONS:
            written = in_transaction("A change of many records", every)
            freed_in_turns(written)
        batches, removes_credential = [], False
        for part in parts_in_turns(written, RECORDS_PER_BATCH):
            batches.append(record_batch(part, 0, 0, self.now_ms))
            removes_credential |= any(isinstance(one, Removal) for one, _ in part)
        return Change(batches=batches, removes_credential=removes_credential)

    def append(self, change: "Change") -> None:
        """Appends what was prepared, all at once; call `sync` before it is acknowledged."""
        self.check()
        if not change.batches:
            return
        log = self._opened()
        epoch = self._begun_epoch(log)
        for batch in change.batches:
            self._append_batch(log, batch, epoch)
        with log.health.guarding():
            log.writer.write_out()
        self._has_removed_credential |= change.removes_credential

    def _append_batch(self, log: PartitionLog, content: bytes, epoch: int) -> None:
        log.writer.append_as_leader(
            bytearray(content),
            leader_epoch=epoch,
            now_ms=self.now_ms,
            origin=AppendOrigin.COORDINATOR,
        )

    def sync(self) -> None:
        """Makes everything that was appended durable; raises `StorageError`."""
        log = self._log
        if log is None:
            return
        active = log.segments.active.log
        with log.health.guarding():
            active.write_out()
            file = active.reader()
            # Other changes are appended meanwhile, and made durable through the same descriptor:
            # the last to return closes it.
            self._sync_count += 1
            try:
                aside(file.sync)
            finally:
                self._sync_count -= 1
        if not self._sync_count:
            active.synced()
            log.maintenance.release_files()  # until the next change, which may be long

    # Opening

    @property
    def end_offset(self) -> int:
        """The offset after the last record; raises `StorageError`."""
        return self._opened().log_end_offset

    def repair(self) -> None:
        """Cuts off what a crash has torn; raises `StorageError`."""
        if self._refusal is None and self._directory is not None:
            self._opened()

    def begin(self) -> None:
        """Begins an epoch, and so formats a new log, without a change."""
        self.check()
        log = self._opened()
        self._begun_epoch(log)
        log.writer.write_out()

    def _opened(self) -> PartitionLog:
        if self._log is None:
            assert self._directory is not None
            self._log = self._directory.open_metadata_log(METADATA_CONFIG)
            self._size_at_snapshot = self._log.size
        return self._log

    def _begun_epoch(self, log: PartitionLog) -> int:
        """The epoch of this broker, which its first change begins."""
        return self._begin_epoch(log) if self._epoch is None else self._epoch

    def _begin_epoch(self, log: PartitionLog) -> int:
        """Begins the epoch of this broker as the leader; a new log is formatted first.

        The epoch is durable in `quorum-state` before the first batch has it, as after a vote.
        """
        from ottla.broker.metadata.quorum_state import QuorumStateFile
        from ottla.metadata.log_writing import (
            RECORDS_PER_BATCH,
            abort,
            control_batch,
            first_records,
            formatting,
            leader_change,
            record_batch,
        )
        from ottla.quorum.election_state import ElectionState
        from ottla.quorum.voters import ReplicaKey, Voter, VoterSet

        assert self._directory is not None
        first = [] if log.log_end_offset else first_records(self._found, RELEASE_LEVEL)
        quorum_state = QuorumStateFile(self._file_system, self._directory.health)
        known = quorum_state.find()
        known_epoch = 0 if known is None else known.epoch
        epoch = max(self._found.epoch, known_epoch) + 1
        kraft_version = 0 if known is None else known.version
        directory_id = self._directory.directory_id if kraft_version else None
        change = leader_change(self._node_id, directory_id)
        with log.health.guarding():
            if first:
                self._write_bootstrap(self._directory.path, first)
        only = VoterSet.of([Voter(ReplicaKey(self._node_id))])
        quorum_state.write(ElectionState(epoch, self._node_id), kraft_version, only)
        self._append_batch(log, control_batch([change], 0, epoch, self.now_ms), epoch)
        self._epoch = epoch
        # What is appended now must not be part of a transaction that the leader before did not end.
        records = [abort()] if self._has_open_transaction else []
        records += formatting(first) if first else []
        for start in range(0, len(records), RECORDS_PER_BATCH):
            part = records[start : start + RECORDS_PER_BATCH]
            self._append_batch(log, record_batch(part, 0, epoch, self.now_ms), epoch)
        self._found = MetadataImage()
        return epoch

    def _write_bootstrap(self, path: str, first: "Sequence[VersionedRecord]") -> None:
        """Writes what `kafka-storage format` writes, but for the log itself."""
        from ottla.metadata.log_writing import snapshot_parts

        file = join(path, BOOTSTRAP_CHECKPOINT)
        if self._file_system.status(file) is None:
            parts = snapshot_parts(first, epoch=0, now_ms=self.now_ms)
            replace_file(self._file_system, file, b"".join(parts))

    # Snapshots

    def advance(self, at: Timestamps) -> None:
        """Notes the time."""
        self.now_ms = at.now_ms

    def close(self, image: MetadataImage) -> None:
        """Appends what Kafka needs at its next start, if the log is `image`'s; the directory closes
        the log.
        """
        if self._log is None or not self._has_removed_credential:
            return
        from ottla.metadata.image_changes import credentials_again

        if self.level >= FIRST_WITH_TRANSACTIONS and self._log.health.failure is None:
            self.commit(credentials_again(image))

    @property
    def is_due_for_snapshot(self) -> bool:
        """Whether `advance_snapshot` has something to do; a file that is being synced stays."""
        if self._log is None or self._sync_count:
            return False
        grown = self._log.size - self._size_at_snapshot
        return self._snapshot is not None or grown >= self._limits.bytes_between

    def advance_snapshot(self) -> None:
        """Does the next step of a snapshot that is due; raises `StorageError`."""
        self._snapshot = self._snapshot or self._make_snapshot()
        try:
            next(self._snapshot)
        except StopIteration:
            self._snapshot = None
        except CorruptionError as error:
            self._snapshot = None
            logger.error("no snapshot is made of the metadata log: %s", error)

    def _make_snapshot(self) -> Iterator[None]:
        """Writes a snapshot of the log up to now, in steps, and deletes what lies long before it.

        Raises `StorageError`, and `CorruptionError` if the log is damaged.
        """
        from ottla.metadata.image_changes import image_changes
        from ottla.metadata.log_writing import snapshot_parts

        log = self._opened()
        with log.health.guarding():
            log.writer.roll(self.now_ms)
            log.writer.flush()
        self._size_at_snapshot = log.size
        folder = metadata_folder(log.health.directory)
        found = None
        with log.health.guarding():
            for read in rolled_log(self._file_system, log.health.directory):
                found = read or found
                yield
        assert found is not None
        image = found.replay.image()
        name = f"{image.end_offset:020}-{image.epoch:010}.checkpoint"
        parts = []
        changes = image_changes(MetadataImage(), image)
        for part in snapshot_parts(changes, epoch=image.epoch, now_ms=self.now_ms, head=found.head):
            parts.append(part)
            yield
        with log.health.guarding():
            replace_file(self._file_system, join(folder, name), b"".join(parts))
            self._forget_before(log, folder)

    def _forget_before(self, log: PartitionLog, folder: str) -> None:
        """Deletes the oldest snapshots and segments while there is more than is retained.

        Kafka's counterpart: `KafkaMetadataLog.maybeClean`.
        """
        names = sorted(
            name for name in self._file_system.list(folder) if SNAPSHOT_NAME.fullmatch(name)
        )
        sizes = {name: self._size_of(join(folder, name)) for name in names}
        while len(names) > 1 and log.size + sum(sizes.values()) > self._limits.retention_bytes:
            start = int(names[1][:20])
            log.maintenance.delete_records_before(start)
            for gone in log.maintenance.delete_segments_below_start():
                gone.remove()
            remove_if_present(self._file_system, join(folder, names[0]))
            del sizes[names.pop(0)]

    def _size_of(self, path: str) -> int:
        status = self._file_system.status(path)
        return 0 if status is None else status.size


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Batches of records, which get their offsets when they are appended."""

    batches: Sequence[bytes] = ()
    removes_credential: bool = False


NO_CHANGE: Final = Change()


class NoMetadataLog:
    """The counterpart of `MetadataLog` in a cluster with ZooKeeper, which has the metadata."""

    level: Final = RELEASE_LEVEL
    is_due_for_snapshot: Final = False

    def check(self) -> None:
        """Everything may be changed that ZooKeeper has changed."""

    def commit(self, records: "Iterable[VersionedRecord]") -> None:
        """Writes nothing."""

    def prepare(self, records: "Iterable[VersionedRecord]") -> Change:
        return NO_CHANGE

    def append(self, change: Change) -> None:
        """Writes nothing."""

    def sync(self) -> None:
        """Writes nothing."""

    def advance(self, at: Timestamps) -> None:
        """Does nothing."""

    def close(self, image: MetadataImage) -> None:
        """Does nothing."""

    def advance_snapshot(self) -> None:
        """Does nothing."""
