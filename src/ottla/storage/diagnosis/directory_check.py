"""Checks a whole log directory: every partition, and the files of the directory itself.

Format pages: docs/format/checkpoints.md, docs/format/meta-properties.md. Checkpoints are read
before the logs, so in a directory in use they can only be behind the logs.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import field, replace

from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import FileSystem, base_name, join, parent_directory
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.storage.diagnosis.dump import dump_file
from ottla.storage.diagnosis.integrity_checks import cut_short_findings
from ottla.storage.diagnosis.metadata_snapshot_check import metadata_snapshot_findings
from ottla.storage.diagnosis.partition_check import (
    CheckOptions,
    PartitionReport,
    check_partition,
)
from ottla.storage.diagnosis.roles import (
    DirectoryKind,
    Role,
    describe,
    directory_kind,
    is_directory,
)
from ottla.storage.diagnosis.rows import DamageRow
from ottla.storage.files import filenames
from ottla.storage.files.boot_note import read_boot_note
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.filenames import DirectoryState, parse_directory_name
from ottla.storage.files.integrity import (
    Integrity,
    integrity_header,
    is_integrity_lost,
    is_ours_still,
)
from ottla.storage.files.known_topics import read_known_topics
from ottla.storage.files.losses import KnownLosses, UnflushedGaps, lost_end
from ottla.storage.files.meta_properties import has_flipped_bit, read_meta_properties
from ottla.storage.files.metadata_files import has_metadata_log, metadata_folder
from ottla.storage.files.ownership import owner_finding
from ottla.storage.files.partition_metadata import judge_topic_id, read_topic_id
from ottla.storage.findings import Finding, FindingKind, finding_of
from ottla.storage.reading.lost_offsets import GAPS_COUNT, lost_front
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory

CHECKPOINTS = {
    filenames.CHECKPOINT_RECOVERY_POINT: "recovery point",
    filenames.CHECKPOINT_LOG_START: "log start",
    filenames.CHECKPOINT_HIGH_WATERMARK: "high watermark",
    filenames.CHECKPOINT_CLEANER: "first offset to compact",
}
"""The meaning of the offsets in each checkpoint, by file name."""

BROKER_ROLES = (Role.OTTLA_COPY,)

KNOWN_NAMES = frozenset({"lost+found", "clean-offset-checkpoint", filenames.REMOTE_INDEX_CACHE})


OnStep = Callable[[int, int], None]
"""Called with how many of the names in a directory are checked, and how many there are."""


@dataclass(slots=True)
class CheckReport:
    """The findings of a check; `is_sound` if all of them are notes."""

    path: str
    kind: DirectoryKind
    is_live: bool
    partitions: list[PartitionReport] = field(default_factory=list)
    own_findings: list[Finding] = field(default_factory=list)
    """Findings about the directory itself."""

    @property
    def findings(self) -> list[Finding]:
        return [
            *self.own_findings,
            *(finding for report in self.partitions for finding in report.findings),
        ]

    @property
    def is_sound(self) -> bool:
        return all(finding.is_note for finding in self.findings)


def check(
    file_system: FileSystem,
    path: str,
    *,
    deep: bool = False,
    is_locked_by_us: bool = False,
    on_step: OnStep = lambda done, total: None,
) -> CheckReport:
    """Checks a log directory or a partition directory; raises `UserError` and `OSError`.

    With `deep`, batches are decompressed and their records checked. `is_locked_by_us` says that
    this process holds the directory's lock. `on_step` is called before each partition.
    """
    status = file_system.status(path)
    if status is None or not status.is_directory:
        raise UserError(
            f"{path} is not a directory; name a directory of log.dirs, or of one partition"
        )
    kind = directory_kind(file_system, path)
    is_whole = kind is DirectoryKind.LOG_DIRECTORY
    lock_directory = path if is_whole else parent_directory(path)
    is_live = not is_locked_by_us and is_in_use(file_system, lock_directory)
    report = CheckReport(path, kind, is_live)
    options = CheckOptions(deep=deep, is_live=is_live)
    if is_whole:
        _DirectoryCheck(file_system, report, options).run(on_step)
        if not is_live and not is_locked_by_us:
            report.own_findings += _clean_stop_findings(file_system, path)
    else:
        options = replace(options, log_start=_log_start_beside(file_system, path))
        report.partitions.append(check_partition(file_system, path, options))
        _, found = _judge_topic_id(file_system, report.partitions[0])
        report.own_findings += [] if found is None else [found]
    return report


def is_in_use(file_system: FileSystem, directory: str) -> bool:
    """Whether another process holds the directory's lock, by taking and releasing it.

    False without a lock file, which is not created, or without permission to open it.
    """
    path = join(directory, filenames.LOCK)
    if file_system.status(path) is None:
        return False
    try:
        lock = file_system.lock(path)
    except OSError:
        return False
    if lock is not None:
        lock.release()
    return lock is None


def _log_start_beside(file_system: FileSystem, path: str) -> int:
    """The log start of a partition by the checkpoint in the directory above it; 0 if unknown."""
    parsed = parse_directory_name(base_name(path))
    if parsed is None:
        return 0
    checkpoint = join(parent_directory(path), filenames.CHECKPOINT_LOG_START)
    try:
        starts = OffsetCheckpoint(file_system, checkpoint).read()
    except CorruptionError:
        return 0
    return starts.get(TopicPartition(parsed.topic, parsed.partition), 0)


class _DirectoryCheck:
    """The check of one log directory; findings go to the report."""

    def __init__(self, file_system: FileSystem, report: CheckReport, options: CheckOptions) -> None:
        self._files = file_system
        self._path = report.path
        self._report = report
        self._options = options
        self._ids: dict[str, tuple[Uuid, str]] = {}
        self._unread_ids: list[tuple[str, Finding, Uuid | None]] = []
        self._topics = read_known_topics(file_system, report.path)
        mark = join(report.path, filenames.CLEAN_SHUTDOWN)
        self._is_clean = not options.is_live and file_system.status(mark) is not None

    def run(self, on_step: OnStep) -> None:
        checkpoints = {name: self._read_checkpoint(name) for name in CHECKPOINTS}
        self._add(check_own_files(self._files, self._path))
        logs: dict[TopicPartition, PartitionReport] = {}
        names = self._files.list(self._path)
        for done, name in enumerate(names):
            on_step(done, len(names))
            path = join(self._path, name)
            if not is_directory(self._files, path):
                continue
            parsed = parse_directory_name(name)
            if parsed is None or parsed.state is not DirectoryState.LIVE:
                self._add(_judge_directory(name, path, parsed.state if parsed else None))
                continue
            key = TopicPartition(parsed.topic, parsed.partition)
            options = replace(
                self._options,
                cleaned_until=checkpoints[filenames.CHECKPOINT_CLEANER].get(key, 0),
                log_start=checkpoints[filenames.CHECKPOINT_LOG_START].get(key, 0),
            )
            report = self._check_partition(parsed.topic, path, options)
            if report is not None and self._is_in_place(path, key):
                logs[key] = report
        self._add(self._check_topic_ids())
        for name, entries in checkpoints.items():
            self._add(self._check_entries(name, entries, logs))
        if self._is_clean:
            self._add(self._check_ends(checkpoints[filenames.CHECKPOINT_RECOVERY_POINT], logs))
        if not self._options.is_live:
            self._add(self._check_gaps(checkpoints, logs))
            self._add(self._check_lost())

    def _add(self, findings: Iterable[Finding]) -> None:
        self._report.own_findings.extend(findings)

    def _check_partition(
        self, topic: str, path: str, options: CheckOptions
    ) -> PartitionReport | None:
        """Checks a partition; `None` if it is deleted meanwhile."""
        try:
            report = check_partition(self._files, path, options)
        except FileNotFoundError:
            if not self._options.is_live or self._files.status(path) is not None:
                raise
            self._add([_finding(FindingKind.STATE, path, None, "was deleted meanwhile")])
            return None
        self._report.partitions.append(report)
        metadata_path = join(path, filenames.PARTITION_METADATA)
        topic_id, found = _judge_topic_id(self._files, report)
        if found is not None:
            recorded_id = report.integrity.topic_id if report.integrity else None
            self._unread_ids.append((topic, found, recorded_id))
        elif topic_id is not None:
            known, known_path = self._ids.setdefault(topic, (topic_id, metadata_path))
            if known != topic_id and known != self._topic_id_now(known_path):
                self._ids[topic] = topic_id, metadata_path  # deleted and created again meanwhile
            elif known != topic_id:
                reason = f"has another topic id than {known_path}"
                kind = FindingKind.PARTITION_METADATA
                self._add([_finding(kind, metadata_path, None, reason)])
        return report

    def _topic_id_now(self, path: str) -> Uuid | None:
        try:
            return read_topic_id(self._files, path)
        except CorruptionError:
            return None

    def _is_in_place(self, path: str, key: TopicPartition) -> bool:
        """Whether the log belongs to the partition that its directory is named after."""
        header = integrity_header(self._files, path)
        wrong = owner_finding(self._files, path, key, self._topics, header)
        self._add([] if wrong is None else [wrong])
        return wrong is None

    def _check_topic_ids(self) -> Iterator[Finding]:
        """The findings about topic ids, each with the id of the topic's other partitions."""
        for topic, finding, recorded_id in self._unread_ids:
            of_others = self._ids.get(topic, (None, ""))[0]
            is_right = recorded_id in (None, of_others)
            yield replace(finding, topic_id=of_others if is_right else finding.topic_id)

    # Checkpoints

    def _read_checkpoint(self, name: str) -> dict[TopicPartition, int]:
        path = join(self._path, name)
        try:
            return OffsetCheckpoint(self._files, path).read()
        except CorruptionError as error:
            self._add([finding_of(FindingKind.CHECKPOINT, error)])
            return {}

    def _check_entries(
        self,
        name: str,
        entries: dict[TopicPartition, int],
        logs: dict[TopicPartition, PartitionReport],
    ) -> Iterator[Finding]:
        path, what = join(self._path, name), CHECKPOINTS[name]
        absent = 0
        for (topic, partition), offset in entries.items():
            log = logs.get(TopicPartition(topic, partition))
            absent += log is None
            if log is None or 0 <= offset <= log.end_offset:
                continue
            yield Finding(
                kind=FindingKind.CHECKPOINT_ENTRY,
                path=path,
                position=None,
                reason=f"{what} {offset} of {topic}-{partition} is outside its log, which has "
                f"offsets {log.start_offset} to {log.end_offset - 1}",
                entry=(topic, partition, log.end_offset if offset > 0 else 0),
            )
        if absent:
            partitions = "a partition that is" if absent == 1 else f"{absent} partitions that are"
            reason = f"names {partitions} not in this directory"
            yield _finding(FindingKind.STATE, path, None, reason)

    def _check_lost(self) -> Iterator[Finding]:
        """Partitions that a checkpoint names and that have no directory."""
        # Not in a directory that only Kafka has written, whose checkpoints may be out of date.
        if self._files.status(join(self._path, filenames.METADATA_MARK)) is None:
            return
        for finding in lost_partitions(ReadOnlyLogDirectory(self._path, self._files)):
            reason = (
                f"{finding.reason}; put it back, or give it up with ottla log give-up "
                f"{self._path} {base_name(finding.path)}"
            )
            yield replace(finding, reason=reason)

    def _check_ends(
        self,
        recovery_points: dict[TopicPartition, int],
        logs: dict[TopicPartition, PartitionReport],
    ) -> Iterator[Finding]:
        """Compares the logs with their ends as recorded at the clean shutdown."""
        for key, log in logs.items():
            recorded = recovery_points.get(key)
            if recorded is not None and recorded < log.end_offset:
                reason = f"ends at offset {log.end_offset}, but at {recorded} when it was stopped"
                yield _finding(FindingKind.STATE, log.path, None, reason)

    def _check_gaps(
        self,
        checkpoints: dict[str, dict[TopicPartition, int]],
        logs: dict[TopicPartition, PartitionReport],
    ) -> Iterator[Finding]:
        """Offsets that are missing before a segment, unless compaction may have removed them.

        After an unclean shutdown, the next start recovers each log from its recovery point
        (`recovery`), and drops segments after a gap there.
        """
        written = None if self._options.is_live else read_boot_note(self._files, self._path)
        is_complete = self._is_clean or written is not None
        is_kafka_gone = any(log.integrity is not None for log in logs.values())
        for key, log in logs.items():
            start = checkpoints[filenames.CHECKPOINT_LOG_START].get(key, 0)
            place = self._files, log.path, log.start_offset, start
            is_tiered = self._topics.is_tiered(key.topic)
            front = lost_front(*place, is_same_boot=written is not None, is_tiered=is_tiered)
            if front is not None:
                yield front.as_loss()
            recovery_point = checkpoints[filenames.CHECKPOINT_RECOVERY_POINT].get(key, 0)
            cleaned_until = checkpoints[filenames.CHECKPOINT_CLEANER].get(key, 0)
            integrity = log.integrity or Integrity()
            losses = integrity.losses(log.base_offsets, cleaned_until)
            if log.integrity is None and is_integrity_lost(self._files, log.path, is_kafka_gone):
                reason = f"is lost: {GAPS_COUNT}"
                yield _finding(FindingKind.STATE, join(log.path, filenames.INTEGRITY), None, reason)
                losses = KnownLosses(gapless_from=cleaned_until)
            if not self._options.is_live:
                yield from cut_short_findings(self._files, log.path, integrity, start)
            if is_complete:
                is_noted = written is not None and is_ours_still(self._files, log.path)
                noted = written.of(base_name(log.path)) if written and is_noted else 0
                listed = integrity.end_of_missing(log.base_offsets)
                ended = lost_end(log.path, log.end_offset, listed=listed, written=noted)
                if ended is not None:
                    yield ended
            gaps = UnflushedGaps(
                recovery_point=recovery_point,
                tight_from=log.tight_from,
                log_start_offset=start,
                is_same_boot=is_complete,
            )
            for gap in log.gaps:
                path = join(log.path, filenames.log_file_name(gap.base_offset))
                hole = gaps.hole(path, gap, log.wrong_files)
                lost = losses.before(path, 0, (max(gap.end_offset, start), gap.base_offset))
                if hole is not None:
                    what = "the next start would drop it and all segments after it, since"
                    entry = *key, log.end_offset
                    yield replace(hole, reason=f"{what} {hole.reason}", entry=entry)
                elif lost is not None:
                    yield lost.as_loss()


def lost_partitions(
    directory: ReadOnlyLogDirectory, others: Collection[ReadOnlyLogDirectory] = ()
) -> Iterator[Finding]:
    """Partitions that a checkpoint names and that have no directory, here or in the others."""
    for key, file in directory.lost().items():
        if any(other.holds(*key) for other in others):
            continue
        path = join(directory.path, filenames.partition_directory_name(*key))
        reason = f"is not there, though {file} names it"
        yield _finding(FindingKind.LOST_PARTITION, path, None, reason)


def check_own_files(file_system: FileSystem, directory: str) -> Iterator[Finding]:
    """Findings about the directory's own files, except the checkpoints."""
    others = file_system.list_others(directory)
    for name in file_system.list(directory):
        path = join(directory, name)
        if is_directory(file_system, path) or name in KNOWN_NAMES:
            continue
        described = describe(name)
        if name in others and described.role not in (*BROKER_ROLES, Role.META_PROPERTIES):
            yield _finding(FindingKind.STRANGER, path, None, "is not a regular file")
            continue
        if name.endswith(".tmp"):
            yield _finding(FindingKind.LEFTOVER, path, None, "was being written")
        elif described.is_cut:
            yield _finding(FindingKind.LEFTOVER, path, None, "was set aside by a repair")
        elif described.role in BROKER_ROLES:
            yield from _check_broker_file(file_system, path)
        elif described.is_whole_snapshot:
            yield from metadata_snapshot_findings(file_system, path)
        elif described.role is Role.UNKNOWN:
            yield _finding(FindingKind.STRANGER, path, None, "is not a file of a log directory")
    mark = join(directory, filenames.METADATA_MARK)
    if file_system.status(mark) is not None and not has_metadata_log(file_system, directory):
        reason = f"is missing, though {filenames.METADATA_MARK} says that there was one"
        yield _finding(FindingKind.BROKER_FILE, metadata_folder(directory), None, reason)
    yield from _check_meta_properties(file_system, directory)


def _check_broker_file(file_system: FileSystem, path: str) -> Iterator[Finding]:
    for row in dump_file(file_system, path):
        if isinstance(row, DamageRow):
            is_copy = describe(base_name(path)).role is Role.OTTLA_COPY
            kind = FindingKind.CHECKPOINT if is_copy else FindingKind.BROKER_FILE
            yield _finding(kind, path, row.position, row.reason)


def _check_meta_properties(file_system: FileSystem, directory: str) -> Iterator[Finding]:
    path = join(directory, filenames.META_PROPERTIES)
    try:
        if read_meta_properties(file_system, path) is None:
            reason = "is missing: the directory's owner is unknown"
            yield _finding(FindingKind.META_PROPERTIES, path, None, reason)
        elif has_flipped_bit(file_system, directory):
            reason = "differs by one bit from its copy: the next start repairs it"
            yield _finding(FindingKind.META_PROPERTIES, path, None, reason)
    except CorruptionError as error:
        yield finding_of(FindingKind.META_PROPERTIES, error)


def _clean_stop_findings(file_system: FileSystem, directory: str) -> Iterator[Finding]:
    if file_system.status(join(directory, filenames.CLEAN_SHUTDOWN)) is None:
        reason = "was not stopped cleanly: the next start recovers it"
        yield _finding(FindingKind.STATE, directory, None, reason)


def _judge_topic_id(
    file_system: FileSystem, report: PartitionReport
) -> tuple[Uuid | None, Finding | None]:
    """A partition's topic id, and the finding about its file."""
    path = join(report.path, filenames.PARTITION_METADATA)
    recorded_id = report.integrity.topic_id if report.integrity else None
    topic_id, found = judge_topic_id(file_system, path, recorded_id)
    if found is None and file_system.status(path) is None:
        reason = "is missing: created before Kafka 2.8, or lost"
        found = _finding(FindingKind.STATE, path, None, reason)
    return topic_id, found


def _judge_directory(name: str, path: str, state: DirectoryState | None) -> Iterator[Finding]:
    if state is DirectoryState.DELETE:
        reason = "belongs to a deleted topic, and will be removed"
        yield _finding(FindingKind.LEFTOVER, path, None, reason)
    elif state is DirectoryState.FUTURE:
        yield _finding(FindingKind.STATE, path, None, "is being copied from another directory")
    elif state is DirectoryState.STRAY:
        yield _finding(FindingKind.STRANGER, path, None, "was set aside by a broker as stray")
    elif name not in KNOWN_NAMES:
        yield _finding(FindingKind.STRANGER, path, None, "is not named after a partition")


def _finding(kind: FindingKind, path: str, position: int | None, reason: str) -> Finding:
    return Finding(kind=kind, path=path, position=position, reason=reason)
