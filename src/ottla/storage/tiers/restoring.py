"""Rebuilds partitions from a tier alone, in a log directory that a broker then serves.

A partition is written to a folder with the name of one that is being deleted, checked there as
`ottla log check --deep` does, and renamed last: so a crash leaves a folder that the next start of
any broker removes, or the whole partition. The checkpoints are written before the rename: a log
must never seem to start before its log start. Kafka has no counterpart; a follower that has lost
its log begins with the local log of its leader (KIP-405).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

from ottla.base.errors import RefusalError, UserError
from ottla.base.files import (
    FileSystem,
    base_name,
    join,
    make_durable_directory,
    write_file,
)
from ottla.base.ids import Uuid, uuid_text
from ottla.base.partitions import TopicPartition
from ottla.base.texts import size_text
from ottla.base.values import dataclass
from ottla.storage.diagnosis.partition_check import CheckOptions, PartitionReport, check_partition
from ottla.storage.diagnosis.rebuild import rebuild_indexes
from ottla.storage.directory.owner_note import refuse_in_use
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.filenames import (
    CHECKPOINT_HIGH_WATERMARK,
    CHECKPOINT_LOG_START,
    CHECKPOINT_RECOVERY_POINT,
    LEADER_EPOCHS,
    LOCK,
    PARTITION_METADATA,
    DirectoryState,
    FileKind,
    FileName,
    delete_directory_name,
    log_file_name,
    parse_directory_name,
    partition_directory_name,
    producer_snapshot_file_name,
)
from ottla.storage.files.known_topics import KnownTopics, read_known_topics
from ottla.storage.files.partition_metadata import read_topic_id, write_topic_id
from ottla.storage.index.transaction_index import ENTRY, parse_entries
from ottla.storage.log.leader_epochs import EpochEntry, LeaderEpochs
from ottla.storage.reading.tiered_partition import TieredPartition, TieredSegment
from ottla.storage.remote.lineage import Chain, chain
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.storage.remote.segment_metadata import IndexType
from ottla.storage.snapshots.copying import remove_tree
from ottla.storage.tiers.contents import TieredLog

CHUNK_SIZE = 1 << 20

OnBytes = Callable[[int, int], None]
"""Called with how many bytes of logs are written, and how many will be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestorePlan:
    """A partition that can be restored; its log then has the offsets from `start_offset` to before
    `end_offset`.
    """

    log: TieredLog
    chain: Chain
    end_offset: int

    @property
    def start_offset(self) -> int:
        return self.chain.start_offset

    @property
    def key(self) -> TopicPartition:
        return TopicPartition(self.log.partition.topic, self.log.partition.partition)

    @property
    def size(self) -> int:
        """The bytes of its uploads' logs, of which some may be left out."""
        return sum(
            one.size for one in {piece.segment.segment_id: piece.segment
                                 for piece in self.chain.pieces}.values()
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What was written, and read again."""

    plan: RestorePlan
    path: str
    report: PartitionReport


def plan_restore(log: TieredLog, from_offset: int | None = None) -> RestorePlan | None:
    """What of a log can be rebuilt, from an offset on; `None` if the tier has nothing of it.

    Raises `RefusalError` if uploads are missing in between.
    """
    found = log.chain(None)
    start = found.start_offset if from_offset is None else max(from_offset, found.start_offset)
    if start != found.start_offset:
        found = chain(log.index, log.epochs, start, None)
    if not found.pieces:
        return None
    lost = [one for one in found.findings if one.lost is not None]
    if lost:
        raise RefusalError(
            f"{log.name}: {lost[0].reason}; put its objects back from a copy of the tier, or "
            f"restore what follows: --from {lost[-1].until_offset}"
        )
    return RestorePlan(log=log, chain=found, end_offset=found.pieces[-1].last_offset + 1)


class Restoring:
    """Restores partitions into a directory, which it holds against brokers: use it in `with`."""

    def __init__(
        self,
        file_system: FileSystem,
        directory: str,
        tier: RemoteStorage,
        new_id: Callable[[], Uuid],
    ) -> None:
        self._files = file_system
        self._directory = directory
        self._tier = tier
        self._new_id = new_id
        self._known: KnownTopics | None = None

    def check(self, plans: Sequence[RestorePlan]) -> None:
        """Raises `UserError` or `RefusalError` if one of them cannot have its place, before
        anything is written.
        """
        seen: dict[TopicPartition, TieredLog] = {}
        for plan in plans:
            other = seen.setdefault(plan.key, plan.log)
            if other is not plan.log:
                ids = " and ".join(uuid_text(one.partition.topic_id) for one in (other, plan.log))
                raise UserError(
                    f"{plan.log.name}: the tier has two topics of this name, with the ids {ids}; "
                    "choose one with --topic-id"
                )
        if self._files.status(self._directory) is None:
            return
        names = self._files.list(self._directory)
        for plan in plans:
            self._check_place(plan, names)
        size, usable = sum(one.size for one in plans), self._files.space(self._directory).usable
        if size > usable:
            raise RefusalError(
                f"{self._directory}: {size_text(size)} are to be written, and its disk has "
                f"{size_text(usable)} left; make room, or choose partitions with --topic"
            )

    def run(self, plans: Sequence[RestorePlan], on_bytes: OnBytes) -> Iterator[Restored]:
        """Restores one after the other, and yields each when it is there.

        Raises `RefusalError`, `CorruptionError`, `UserError` and `OSError`; what was yielded stays.
        """
        make_durable_directory(self._files, self._directory)
        with _held(self._files, self._directory):
            self.check(plans)
            total, done = sum(one.size for one in plans), 0
            for plan in plans:

                def step(size: int, done: int = done) -> None:
                    on_bytes(done + size, total)

                yield self._restore(plan, step)
                done += plan.size

    def _check_place(self, plan: RestorePlan, names: Sequence[str]) -> None:
        folder = partition_directory_name(*plan.key)
        path = join(self._directory, folder)
        if folder in names:
            raise RefusalError(
                f"{path} is there already; a restored partition takes no other's place: move that "
                "away, or name a new directory"
            )
        if self._known is None:
            self._known = read_known_topics(self._files, self._directory)
        entry, topic_id = self._known.entries.get(plan.key.topic), plan.log.partition.topic_id
        known = None if entry is None else entry.topic_id
        for name in names if known is None else ():
            parsed = parse_directory_name(name)
            is_other = parsed is not None and parsed.topic == plan.key.topic
            if is_other and parsed is not None and parsed.state is DirectoryState.LIVE:
                known = known or read_topic_id(
                    self._files, join(self._directory, name, PARTITION_METADATA)
                )
        if known is not None and known != topic_id:
            raise RefusalError(
                f"{self._directory} has a topic {plan.key.topic} with the id {uuid_text(known)}, "
                f"and the tier's has {uuid_text(topic_id)}; name a new directory"
            )

    def _restore(self, plan: RestorePlan, on_size: Callable[[int], None]) -> Restored:
        self._remove_leftovers(plan.key)
        path = join(self._directory, delete_directory_name(*plan.key, self._new_id()))
        self._files.make_directory(path)
        try:
            self._write(plan, path, on_size)
            report = check_partition(
                self._files, path, CheckOptions(deep=True, log_start=plan.start_offset)
            )
            _check_report(report, plan)
        except BaseException:
            with suppress(OSError):
                remove_tree(self._files, path)
            raise
        self._files.sync_directory(path)
        # A crash from here on leaves offsets of a log that is not there, which are read over.
        self._write_checkpoints(plan)
        target = join(self._directory, partition_directory_name(*plan.key))
        self._files.rename(path, target)
        self._files.sync_directory(self._directory)
        return Restored(plan=plan, path=target, report=report)

    def _remove_leftovers(self, key: TopicPartition) -> None:
        """Removes what an interrupted restore, or a deletion, has left of the partition."""
        for name in self._files.list(self._directory):
            parsed = parse_directory_name(name)
            if parsed is None or parsed.state is not DirectoryState.DELETE:
                continue
            if (parsed.topic, parsed.partition) == key:
                remove_tree(self._files, join(self._directory, name))

    def _write(self, plan: RestorePlan, path: str, on_size: Callable[[int], None]) -> None:
        found = TieredPartition(self._tier, plan.chain)
        done = 0
        for segment in found.segments:
            for part in self._write_log(segment, path):
                done += part
                on_size(done)
            self._write_indexes(segment, path)
        # As after a roll: a broker appends to a segment of its own, and not to an uploaded one.
        write_file(self._files, join(path, log_file_name(plan.end_offset)), ())
        write_topic_id(self._files, join(path, PARTITION_METADATA), plan.log.partition.topic_id)
        epochs = LeaderEpochs(self._files, join(path, LEADER_EPOCHS))
        epochs.assign_all(plan.log.epochs or _epochs_of(plan.chain))
        epochs.truncate_from_end(plan.end_offset)
        epochs.truncate_from_start(plan.start_offset)

    def _write_log(self, segment: TieredSegment, path: str) -> Iterator[int]:
        """Yields the size of each part that was written."""
        file = self._files.open(join(path, log_file_name(segment.base_offset)), create=True)
        try:
            position, size = 0, segment.size
            while position < size:
                content = segment.read(position, min(CHUNK_SIZE, size - position))
                file.pwrite(content, position)
                position += len(content)
                yield len(content)
            file.sync()
        finally:
            file.close()

    def _write_indexes(self, segment: TieredSegment, path: str) -> None:
        base = segment.base_offset
        for kind, index in _INDEXES.items():
            content = segment.index(index) if kind in segment.kinds else b""
            if kind is FileKind.TRANSACTION_INDEX:
                content = _aborts_within(content, segment)
            if content or kind is not FileKind.TRANSACTION_INDEX:
                name = FileName(offset=base, kind=kind).text
                write_file(self._files, join(path, name), [content])
        if not segment.is_whole:
            rebuild_indexes(self._files, join(path, log_file_name(base)), base)
        if segment.last_offset == segment.segment.end_offset:
            producers = self._tier.read_index(segment.segment, IndexType.PRODUCER_SNAPSHOT)
            name = producer_snapshot_file_name(segment.last_offset + 1)
            write_file(self._files, join(path, name), [producers or b""])

    def _write_checkpoints(self, plan: RestorePlan) -> None:
        offsets: Mapping[str, int] = {
            CHECKPOINT_LOG_START: plan.start_offset,
            CHECKPOINT_HIGH_WATERMARK: plan.end_offset,
            CHECKPOINT_RECOVERY_POINT: plan.end_offset,
        }
        for name, offset in offsets.items():
            checkpoint = OffsetCheckpoint(self._files, join(self._directory, name))
            checkpoint.write({**checkpoint.read(), plan.key: offset})


_INDEXES = {
    FileKind.OFFSET_INDEX: IndexType.OFFSET,
    FileKind.TIME_INDEX: IndexType.TIMESTAMP,
    FileKind.TRANSACTION_INDEX: IndexType.TRANSACTION,
}


def _aborts_within(content: bytes, segment: TieredSegment) -> bytes:
    """The entries of transactions whose markers are in a segment, which may be a part of an
    upload.
    """
    if segment.is_whole:
        return content
    kept = range(segment.base_offset, segment.last_offset + 1)
    entries = zip(
        parse_entries("", content),
        range(0, len(content), ENTRY.size),
        strict=True,
    )
    return b"".join(content[at : at + ENTRY.size] for one, at in entries if one.last_offset in kept)


def _epochs_of(found: Chain) -> Iterator[EpochEntry]:
    """The epochs of the uploads, where no file says them."""
    for piece in found.pieces:
        for epoch, first, last in piece.segment.epoch_ranges():
            if first <= piece.last_offset and last >= piece.first_offset:
                yield EpochEntry(epoch, max(first, piece.first_offset))


@contextmanager
def _held(file_system: FileSystem, directory: str) -> Iterator[None]:
    """Holds a directory that may be new, and have no `meta.properties` yet, against brokers."""
    lock = file_system.lock(join(directory, LOCK))
    if lock is None:
        raise refuse_in_use(file_system, directory, "stop it first, or name a new directory")
    try:
        yield
    finally:
        lock.release()


def _check_report(report: PartitionReport, plan: RestorePlan) -> None:
    """Raises `RefusalError` unless what was written is the log, and sound."""
    wrong = next((one for one in report.findings if not one.is_note), None)
    if wrong is not None:
        raise RefusalError(
            f"{plan.log.name}: its upload is damaged, in {base_name(wrong.path)}: {wrong.reason}; "
            f"`ottla tier check` names the object; --from OFFSET leaves out what lies before OFFSET"
        )
    if report.end_offset != plan.end_offset:
        raise RefusalError(
            f"{plan.log.name}: its uploads end before offset {report.end_offset}, and the records "
            f"about them say {plan.end_offset}"
        )
