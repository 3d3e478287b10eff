"""Carries out a repair plan.

The directory's lock is held throughout, and the clean-shutdown file is removed until the end, so
that after a crash in between the next start recovers, or the next repair continues. Nothing is lost
silently: bytes to be removed from a log are copied to `NAME.cut-POSITION` before the log changes.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import field
from itertools import groupby
from typing import Final

from ottla.base.errors import CorruptionError, UserError
from ottla.base.file_copies import copy_file, unshare
from ottla.base.files import (
    File,
    FileSystem,
    base_name,
    join,
    parent_directory,
    read_file,
    remove_if_present,
    replace_file,
)
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.config.topic import TopicConfig
from ottla.record.layout import BASE_OFFSET, LEADER_EPOCH, LEADER_EPOCH_POSITION
from ottla.storage.diagnosis import rebuild
from ottla.storage.diagnosis.directory_check import CheckReport, OnStep, check
from ottla.storage.diagnosis.repair_plan import Action, ActionKind, RepairPlan, plan_repair
from ottla.storage.diagnosis.roles import DirectoryKind, describe, directory_kind, is_directory
from ottla.storage.directory.owner_note import refuse_in_use
from ottla.storage.files import filenames
from ottla.storage.files.boot_note import note_end
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.clean_shutdown import (
    NO_BROKER_EPOCH,
    remove_clean_shutdown,
    write_clean_shutdown,
)
from ottla.storage.files.filenames import FileKind, parse_directory_name
from ottla.storage.files.integrity import blank_integrity, read_integrity
from ottla.storage.files.partition_metadata import write_topic_id
from ottla.storage.findings import Finding, FindingKind
from ottla.storage.recovery.opened_log import LoadRequest
from ottla.storage.recovery.recovery import recover

COPY_SIZE = 1 << 20

MAX_PASSES = 5
"""One repair can uncover other damage: a finished swap adds segments to check."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairOptions:
    """Options of `repair`.

    `deep`: decompress every batch to find damage. `discard`: do not keep removed bytes and files.
    `on_plan` is called with each plan before it is carried out, `on_step` as by `check`.
    """

    now_ms: int
    deep: bool = False
    discard: bool = False
    on_plan: Callable[[RepairPlan], None] = field(default=lambda _: None)
    on_step: OnStep = field(default=lambda done, total: None)


LOSSES: Final = (
    FindingKind.LOG_DAMAGE,
    FindingKind.BATCH_OFFSET,
    FindingKind.BATCH_EPOCH,
    FindingKind.GAP,
    FindingKind.LOST_OFFSETS,
    FindingKind.EMPTY_LOG,
)
"""Findings of a log whose repair changes which records it has."""


def plan_for(
    file_system: FileSystem,
    directory: str,
    *,
    deep: bool,
    on_step: OnStep = lambda done, total: None,
) -> tuple[CheckReport, RepairPlan]:
    """The findings of a check, and the plan to repair them; nothing is written."""
    report = check(file_system, directory, deep=deep, on_step=on_step)
    return report, _plan(file_system, report)


def repair(file_system: FileSystem, directory: str, options: RepairOptions) -> CheckReport:
    """Repairs a log directory or a partition directory in place; returns a check of the result.

    Raises `UserError` if the directory is in use, and `OSError`.
    """
    with locked(file_system, directory):
        report, plan = _look(file_system, directory, options)
        if plan.actions:
            has_lost = False
            with unmarked(file_system, directory) as restore_mark:
                for _ in range(MAX_PASSES):
                    options.on_plan(plan)
                    has_lost |= any(one.lost is not None for one in plan.actions)
                    _Repair(file_system, report, options).run(plan)
                    report, plan = _look(file_system, directory, options)
                    if not plan.actions:
                        break
                if report.is_sound:
                    restore_mark(has_lost)
    return report


def _look(
    file_system: FileSystem, directory: str, options: RepairOptions
) -> tuple[CheckReport, RepairPlan]:
    report = check(
        file_system, directory, deep=options.deep, is_locked_by_us=True, on_step=options.on_step
    )
    return report, _plan(file_system, report)


def _plan(file_system: FileSystem, report: CheckReport) -> RepairPlan:
    """Nothing is taken out of the metadata log of a cluster's node: it refuses to start without,
    since it must not vote with fewer records than it had.
    """

    def must_stay(finding: Finding) -> bool:
        path = finding.path
        if base_name(path) != filenames.CLUSTER_METADATA_DIRECTORY:
            path = parent_directory(path)
        if base_name(path) != filenames.CLUSTER_METADATA_DIRECTORY or finding.kind not in LOSSES:
            return False
        return file_system.status(join(parent_directory(path), filenames.REPLICAS_MARK)) is not None

    return plan_repair(report.findings, must_stay)


@contextmanager
def locked(file_system: FileSystem, directory: str) -> Iterator[None]:
    """Holds the lock of the log directory; a partition outside a log directory has no lock."""
    owner = log_directory_of(file_system, directory)
    lock = None
    if owner is not None:
        lock = file_system.lock(join(owner, filenames.LOCK))
        if lock is None:
            raise refuse_in_use(file_system, owner, "stop it first")
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def log_directory_of(file_system: FileSystem, directory: str) -> str | None:
    """The log directory that `directory` is or is in; `None` for a partition directory alone."""
    if directory_kind(file_system, directory) is DirectoryKind.LOG_DIRECTORY:
        return directory
    parent = parent_directory(directory)
    names = (filenames.META_PROPERTIES, filenames.LOCK)
    is_owner = any(file_system.status(join(parent, name)) is not None for name in names)
    return parent if is_owner else None


@contextmanager
def unmarked(file_system: FileSystem, directory: str) -> Iterator[Callable[[bool], None]]:
    """Removes the clean-shutdown file; yields a function that restores it, without the epoch by
    which a cluster knows that nothing is lost if something is.
    """
    owner = log_directory_of(file_system, directory)
    path = join(owner or directory, filenames.CLEAN_SHUTDOWN)
    content = read_file(file_system, path) if file_system.status(path) is not None else None
    if content is not None:
        remove_clean_shutdown(file_system, path)

    def restore(has_lost: bool) -> None:
        if content is not None and has_lost:
            write_clean_shutdown(file_system, path, NO_BROKER_EPOCH)
        elif content is not None:
            replace_file(file_system, path, content)

    yield restore


class _Repair:
    """Carries out one plan."""

    def __init__(
        self, file_system: FileSystem, report: CheckReport, options: RepairOptions
    ) -> None:
        self._files = file_system
        self._owner = log_directory_of(file_system, report.path)
        self._ends = {one.path: one.end_offset for one in report.partitions}
        self._options = options
        self._replayed: dict[str, rebuild.Replayed] = {}
        self._steps: dict[ActionKind, Callable[[Action], None]] = {
            ActionKind.REMOVE: self._remove,
            ActionKind.REBUILD_INDEXES: self._rebuild_indexes,
            ActionKind.STAMP_OFFSET: self._stamp_offset,
            ActionKind.STAMP_EPOCH: self._stamp_epoch,
            ActionKind.REBUILD_EPOCHS: self._rebuild_epochs,
            ActionKind.REBUILD_TRANSACTIONS: self._rebuild_transactions,
            ActionKind.REPLACE_SNAPSHOT: self._replace_snapshot,
            ActionKind.FINISH_SWAP: self._finish_swap,
            ActionKind.ACCEPT_LOSS: lambda action: self._move_recovery_point(action.path),
            ActionKind.WRITE_TOPIC_ID: self._write_topic_id,
            ActionKind.SET_ASIDE: self._set_aside,
            ActionKind.SET_CHECKPOINT: self._set_checkpoint,
        }

    def run(self, plan: RepairPlan) -> None:
        touched: set[str] = set()
        for (kind, path), group in groupby(plan.actions, key=lambda one: (one.kind, one.path)):
            if kind is ActionKind.CUT_OUT:
                partition = parent_directory(path)
                if partition not in touched:
                    self._move_recovery_point(partition)
                touched.add(partition)
                self._cut_out(path, list(group))
            elif kind is ActionKind.FINISH_SWAP and path in touched:
                # Recovery would take damage in the log for its end: left for the next pass.
                continue
            else:
                for action in group:
                    self._steps[kind](action)

    # Logs

    def _move_recovery_point(self, partition: str) -> None:
        """Syncs the log, and moves its recovery point to its end, so that no start recovers it.

        After an unclean shutdown, recovery would drop everything after the first gap.
        """
        # If the recovery point is lost, recovery starts at 0; a blank integrity file then keeps it
        # from taking the gaps for holes.
        blank_integrity(self._files, partition)
        parsed = parse_directory_name(base_name(partition))
        if self._owner is None or parsed is None:
            return
        note_end(self._files, self._owner, base_name(partition), self._ends[partition])
        for base_offset in rebuild.log_offsets(self._files, partition):
            file = self._files.open(join(partition, filenames.log_file_name(base_offset)))
            file.sync()
            file.close()
        if base_name(partition) == filenames.CLUSTER_METADATA_DIRECTORY:
            return  # it has no recovery point, and counts as lost where a checkpoint names it
        path = join(self._owner, filenames.CHECKPOINT_RECOVERY_POINT)
        checkpoint = OffsetCheckpoint(self._files, path)
        try:
            entries = checkpoint.read()
        except CorruptionError:
            # The file is set aside in this pass; the points of other logs are unknown.
            return
        checkpoint.write(
            {**entries, TopicPartition(parsed.topic, parsed.partition): self._ends[partition]}
        )

    def _cut_out(self, log_path: str, cuts: list[Action]) -> None:
        """Removes damaged bytes from a log, and copies them to `.cut` files first."""
        # The indexes are emptied first, since their positions become wrong. They must not be
        # missing: after a crash, a start would rebuild them, and truncate the log at the damage.
        stem = log_path.removesuffix(FileKind.LOG.value)
        partition = parent_directory(log_path)
        # The integrity file's facts about the segment no longer hold.
        blank_integrity(self._files, partition)
        for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX):
            replace_file(self._files, stem + kind.value, b"")
        if not self._options.discard:
            self._keep(log_path, [_region(one) for one in cuts if not one.is_zero])
        regions = [_region(one) for one in cuts]
        unshare(self._files, log_path)
        log = self._files.open(log_path, writable=True)
        try:
            position, size = regions[0]
            if len(regions) == 1 and position + size == log.size():
                log.truncate(position)
                log.sync()
            else:
                self._rewrite(log, regions)
        finally:
            log.close()

    def _keep(self, log_path: str, regions: Iterable[tuple[int, int]]) -> None:
        """Copies the bytes that are to be removed, durably."""
        log = self._files.open(log_path)
        try:
            for position, size in regions:
                self._write(cut_path(log_path, position), _chunks(log, position, size))
        finally:
            log.close()
        self._files.sync_directory(parent_directory(log_path))

    def _rewrite(self, log: File, regions: list[tuple[int, int]]) -> None:
        """Replaces the log file by a copy without the regions."""
        temporary = f"{log.path}.tmp"
        self._write(temporary, self._kept_chunks(log, regions))
        self._files.rename(temporary, log.path)
        self._files.sync_directory(parent_directory(log.path))

    def _kept_chunks(self, log: File, regions: list[tuple[int, int]]) -> Iterator[bytes]:
        start = 0
        for position, size in [*regions, (log.size(), 0)]:
            yield from _chunks(log, start, position - start)
            start = position + size

    def _write(self, path: str, chunks: Iterable[bytes]) -> None:
        file = self._files.open(path, create=True)
        try:
            file.truncate(0)
            position = 0
            for chunk in chunks:
                file.pwrite(chunk, position)
                position += len(chunk)
            file.sync()
        finally:
            file.close()

    def _stamp_offset(self, action: Action) -> None:
        assert action.offset is not None
        self._stamp(action, BASE_OFFSET.pack(action.offset), 0)

    def _stamp_epoch(self, action: Action) -> None:
        assert action.epoch is not None
        self._stamp(action, LEADER_EPOCH.pack(action.epoch), LEADER_EPOCH_POSITION)

    def _stamp(self, action: Action, field: bytes, place: int) -> None:
        """Changes a field of a batch's header that its checksum does not cover."""
        assert action.position is not None
        unshare(self._files, action.path)
        file = self._files.open(action.path, writable=True)
        try:
            file.pwrite(field, action.position + place)
            file.sync()
        finally:
            file.close()

    # Files rebuilt from logs

    def _rebuild_indexes(self, action: Action) -> None:
        base_offset = describe(base_name(action.path)).offset
        rebuild.rebuild_indexes(self._files, action.path, base_offset)

    def _replay(self, directory: str) -> rebuild.Replayed:
        if directory not in self._replayed:
            self._replayed[directory] = rebuild.replay_partition(self._files, directory)
        return self._replayed[directory]

    def _rebuild_epochs(self, action: Action) -> None:
        replayed = self._replay(parent_directory(action.path))
        rebuild.rebuild_epochs(self._files, action.path, replayed)

    def _rebuild_transactions(self, action: Action) -> None:
        replayed = self._replay(parent_directory(action.path))
        base_offset = describe(base_name(action.path)).offset
        rebuild.rebuild_transactions(self._files, action.path, base_offset, replayed)

    def _replace_snapshot(self, action: Action) -> None:
        remove_if_present(self._files, action.path)
        directory = parent_directory(action.path)
        self._files.sync_directory(directory)
        rebuild.take_snapshot(self._files, directory, self._replay(directory))

    def _finish_swap(self, action: Action) -> None:
        """Finishes a swap as the next start would, and closes the log again."""
        log = recover(
            LoadRequest(
                file_system=self._files,
                directory=action.path,
                config=TopicConfig(),
                now_ms=self._options.now_ms,
                was_clean_stop=True,
                recovery_point=0,
                log_start_offset=0,
                # A topic with a tier keeps the leader epochs of what is there.
                are_settings_known=False,
                integrity=read_integrity(self._files, action.path),
            )
        )
        log.segments.active.become_inactive()
        for segment in log.segments.values:
            segment.sync()
            segment.close_files()

    # The directory

    def _remove(self, action: Action) -> None:
        remove_if_present(self._files, action.path)
        self._files.sync_directory(parent_directory(action.path))

    def _write_topic_id(self, action: Action) -> None:
        assert action.topic_id is not None
        write_topic_id(self._files, action.path, action.topic_id)

    def _set_aside(self, action: Action) -> None:
        if self._options.discard:
            remove_if_present(self._files, action.path)
        else:
            self._files.rename(action.path, damaged_path(action.path))
        self._files.sync_directory(parent_directory(action.path))

    def _set_checkpoint(self, action: Action) -> None:
        assert action.entry is not None
        topic, partition, offset = action.entry
        checkpoint = OffsetCheckpoint(self._files, action.path)
        checkpoint.write({**checkpoint.read(), TopicPartition(topic, partition): offset})


def _region(action: Action) -> tuple[int, int]:
    assert action.position is not None
    assert action.size is not None
    return action.position, action.size


def cut_path(path: str, position: int) -> str:
    """The path of the file for bytes removed at a position."""
    return f"{path}.cut-{position}"


def damaged_path(path: str) -> str:
    """The new path of an unreadable file; unlike a partition's, it does not end in a number."""
    return path + filenames.SET_ASIDE


def _chunks(file: File, position: int, size: int) -> Iterator[bytes]:
    end = position + size
    while position < end:
        chunk = file.pread(min(COPY_SIZE, end - position), position)
        if not chunk:
            return
        yield chunk
        position += len(chunk)


def copy_directory(file_system: FileSystem, source: str, target: str) -> None:
    """Copies a log directory or a partition directory without its lock; raises `UserError`.

    The source must not be in use, or the copied files would be inconsistent.
    """
    status = file_system.status(target)
    if status is not None and (not status.is_directory or file_system.list(target)):
        raise UserError(f"{target} exists; name a new directory")
    if f"{target}/".startswith(f"{source}/"):
        raise UserError(f"{target} is inside {source}; name a directory elsewhere")
    with _not_in_use(file_system, source):
        _copy(file_system, source, target)
    file_system.sync_directory(parent_directory(target))


@contextmanager
def _not_in_use(file_system: FileSystem, source: str) -> Iterator[None]:
    """Holds the source's lock if it has a lock file; none is created."""
    owner = log_directory_of(file_system, source)
    if owner is None or file_system.status(join(owner, filenames.LOCK)) is None:
        yield
        return
    with locked(file_system, source):
        yield


def _copy(file_system: FileSystem, source: str, target: str) -> None:
    file_system.make_directory(target)
    for name in file_system.list(source):
        path, copied = join(source, name), join(target, name)
        if name == filenames.LOCK:
            continue
        if is_directory(file_system, path):
            _copy(file_system, path, copied)
        else:
            copy_file(file_system, path, copied)
    file_system.sync_directory(target)
