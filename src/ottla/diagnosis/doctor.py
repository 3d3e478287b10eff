"""Checks of a broker's directories: each yields complaints, and each complaint has its remedy.

A check of partitions that belongs to another room is added to `PARTITION_CHECKS`.
"""

from collections.abc import Callable, Container, Iterator, Sequence
from dataclasses import replace

from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import DiskSpace, FileSystem, OsFileSystem, join
from ottla.base.partitions import TopicPartition
from ottla.base.times import time_text
from ottla.base.values import dataclass
from ottla.broker.log_jobs.cleaner_troubles import TROUBLES_FILE_NAME, Trouble, read_troubles
from ottla.config.broker import BrokerConfig
from ottla.config.contradictions import contradictions
from ottla.config.topic import TopicConfig
from ottla.diagnosis.access import open_listeners
from ottla.diagnosis.complaints import Complaint, Remedy, complaint_of
from ottla.diagnosis.directories import Directories
from ottla.diagnosis.quorum_nodes import check_quorum_files, is_of_quorum
from ottla.diagnosis.tiers import check_tier, check_tier_records
from ottla.metadata.deciding.topic_rules import FIXED_SETTINGS
from ottla.metadata.image import MetadataImage
from ottla.storage.diagnosis.directory_check import (
    CHECKPOINTS,
    check,
    check_own_files,
    is_in_use,
    lost_partitions,
)
from ottla.storage.diagnosis.retention_explanation import ExplainedLog, explain_log
from ottla.storage.files.filenames import (
    CLEAN_SHUTDOWN,
    CLUSTER_METADATA_DIRECTORY,
    PARTITION_METADATA,
    REMOTE_LOG_METADATA,
    DirectoryState,
    FileKind,
    parse_directory_name,
)
from ottla.storage.files.meta_properties import lost_properties_mend
from ottla.storage.files.partition_metadata import judge_topic_id
from ottla.storage.findings import Finding, FindingKind
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.retention.retention import CLOCK_SLACK_MS, Blocker

LOW_SPACE = 0.05
MEDIUM_SPACE = 0.1
SNAPSHOTS_MISSED = 3
"""How many snapshots of the metadata log may be lacking before something is wrong."""
EARLIEST_SANE_MS = 1_577_836_800_000
"""The start of 2020: an earlier clock is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The directory and settings of a topic's partitions, and the time of the check."""

    directories: Directories
    directory: ReadOnlyLogDirectory
    config: TopicConfig
    is_live: bool
    """Whether a process holds the directory's lock."""
    now_ms: int

    @property
    def file_system(self) -> FileSystem:
        return self.directories.file_system


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """One partition, as passed to the checks of partitions."""

    place: Place
    log: ReadOnlyLog
    explained: ExplainedLog

    def checkpointed(self, name: str) -> int | None:
        """The partition's offset in one of the directory's checkpoints."""
        return self.place.directory.checkpointed(name).get(
            TopicPartition(self.log.topic, self.log.partition)
        )


def check_directories(directories: Directories, now_ms: int) -> Iterator[Complaint]:
    """The results of all checks of a broker's directories by their files."""
    if now_ms < EARLIEST_SANE_MS:
        yield Complaint(
            kind="clock",
            where="this machine",
            what="its clock is before 2020, and retention depends on it",
            remedy=Remedy.SET_CLOCK,
        )
    damaged = set()
    for directory in directories.opened:
        for complaint in check_directory(directories.file_system, directory, now_ms):
            yield complaint
            if complaint.kind == "checkpoint":
                damaged.add(directory.path)
        if directories.broker.is_quorate:
            yield from _check_metadata_log(directories, directory.path)
    for topic in directories.topics:
        config = directories.config(topic)
        broker, known = directories.broker, directories.known_settings(topic)
        yield from check_settings(topic, config, broker, known=known)
        yield from check_cleaner_on(topic, config, broker)
    if not directories.are_settings_known:
        yield Complaint(
            kind="settings_unknown",
            where="the broker's own settings",
            what="are not in its directories: Kafka's defaults are assumed",
            remedy=Remedy.NAME_SETTINGS,
            is_note=True,
        )
    else:
        is_told = directories.topic_settings is not None
        yield from check_access(
            directories.broker, directories.found.image, has_secrets=not is_told
        )
    if is_of_quorum(directories):
        yield from check_quorum_files(directories)
    else:
        yield from _check_refused(directories)
        yield from _check_unknown(directories)
    yield from _check_lost(directories)
    yield from check_tier_records(directories)
    for directory in directories.opened:
        if directory.path in damaged:
            continue  # the logs cannot be read without the damaged checkpoint
        is_live = is_in_use(directories.file_system, directory.path)
        for topic, indexes in directory.topics().items():
            place = Place(
                directories=directories,
                directory=directory,
                config=directories.config(topic),
                is_live=is_live,
                now_ms=now_ms,
            )
            for index in indexes:
                yield from check_log(place, topic, index)


def deep_complaints(paths: Sequence[str]) -> Iterator[Complaint]:
    """The findings of a full check of all logs, as by `ottla log check`."""
    for path in paths:
        file_system = OsFileSystem()
        for finding in check(file_system, path).findings:
            if not finding.is_note:
                yield _of_file(file_system, finding, path)


def check_access(
    config: BrokerConfig, image: MetadataImage, *, has_secrets: bool = True
) -> Iterator[Complaint]:
    """Notes about who may use each listener."""
    for one in open_listeners(config, image, has_secrets=has_secrets):
        yield Complaint(
            kind="open_to_all" if one.is_open_to_all else "open",
            where=one.where,
            what=f"open to {one.who}; they {one.what}",
            remedy=Remedy.CLOSE if one.is_open_to_all else Remedy.NONE,
            is_note=True,
        )


def _check_refused(directories: Directories) -> Iterator[Complaint]:
    """A metadata log that a broker by itself does not continue."""
    config, found = directories.broker, directories.found
    is_alone = not config.is_quorate and not config.zookeeper_connect
    if found.refusal_reason is not None and directories.are_settings_known and is_alone:
        yield _to_adopt(
            directories,
            kind="metadata_refused",
            where="topics, settings, users, ACLs and producer ids",
            what=f"cannot be changed: {found.refusal_reason}",
        )


def _check_lost(directories: Directories) -> Iterator[Complaint]:
    """Partitions that a checkpoint names and that no directory has."""
    for directory in directories.opened:
        for finding in lost_partitions(directory, directories.opened):
            yield complaint_of(finding, directory.path)


def _check_unknown(directories: Directories) -> Iterator[Complaint]:
    """Topics and other settings of Apache Kafka that were not adopted."""
    for why in sorted(set(directories.unknown.values())):
        topics = [name for name, reason in directories.unknown.items() if reason == why]
        yield _to_adopt(
            directories,
            kind="settings_not_adopted",
            where=f"topic {', '.join(topics)}",
            what=f"nothing of it is deleted or compacted, since {why}",
        )
    if directories.found.unread is not None:
        yield _to_adopt(
            directories,
            kind="settings_not_adopted",
            where="quotas, users, ACLs and settings of brokers and groups",
            what=f"are not known, since {directories.found.unread}",
        )


def _to_adopt(directories: Directories, *, kind: str, where: str, what: str) -> Complaint:
    paths = " ".join(one.path for one in directories.opened)
    return Complaint(kind=kind, where=where, what=what, remedy=Remedy.ADOPT, subject=paths)


def check_settings(
    topic: str, config: TopicConfig, broker: BrokerConfig, *, known: Container[str] | None = None
) -> Iterator[Complaint]:
    """Contradictions in a topic's settings; of a tier's own records nothing may be deleted, and
    what coordinators write they delete themselves.

    `known` are the names of settings that are not assumed defaults; `None` means all.
    """
    if topic == REMOTE_LOG_METADATA:
        return
    fixed = FIXED_SETTINGS.get(topic, {})
    is_alone = not broker.zookeeper_connect and not broker.is_quorate
    for one in contradictions(config, is_alone=is_alone):
        if not fixed.keys().isdisjoint(one.names):
            continue
        yield Complaint(
            kind="settings",
            where=f"topic {topic}",
            what=one.text,
            remedy=Remedy.CHANGE_SETTING,
            subject=topic,
            change=one.change,
            is_note=one.is_note or not _are_known(one.names, known),
        )


def check_cleaner_on(topic: str, config: TopicConfig, broker: BrokerConfig) -> Iterator[Complaint]:
    if config.is_compacted and not broker.log_cleaner_enable:
        yield Complaint(
            kind="cleaner_off",
            where=f"topic {topic}",
            what="is to be compacted, but log.cleaner.enable=false: it only grows",
            remedy=Remedy.TURN_CLEANER_ON,
        )


def _are_known(names: tuple[str, ...], known: Container[str] | None) -> bool:
    return known is None or all(name in known for name in names)


# A directory


def check_directory(
    file_system: FileSystem, directory: ReadOnlyLogDirectory, now_ms: int
) -> Iterator[Complaint]:
    path = directory.path
    is_live = is_in_use(file_system, path)
    yield from check_space(path, file_system.space(path))
    yield from _check_stop(file_system, path, is_live)
    yield from _check_names(file_system, path, is_live)
    yield from _check_checkpoints(directory)
    yield from _check_files(file_system, path)
    yield from _check_troubles(file_system, path)
    yield from _check_times(file_system, directory, now_ms)


def check_space(path: str, space: DiskSpace) -> Iterator[Complaint]:
    share = space.usable / space.total if space.total else 1.0
    if share < MEDIUM_SPACE:
        yield Complaint(
            kind="disk_space",
            where=path,
            what=f"{share:.0%} of the disk is free, {space.usable:,} bytes",
            remedy=Remedy.MAKE_ROOM,
            is_note=share >= LOW_SPACE,
        )


def _check_metadata_log(directories: Directories, path: str) -> Iterator[Complaint]:
    """A node of a quorum whose log goes on, and of which no snapshot is made."""
    disk, folder = directories.file_system, join(path, CLUSTER_METADATA_DIRECTORY)
    interval_ms = directories.broker.metadata_log_max_snapshot_interval_ms
    if not interval_ms or disk.status(folder) is None:
        return
    written: dict[str, int] = {}
    for name in disk.list(folder):
        kind = name.rpartition(".")[2]
        if kind in ("log", "checkpoint") and (status := disk.status(join(folder, name))):
            written[kind] = max(status.modified_ms, written.get(kind, 0))
    late_ms = written.get("log", 0) - written.get("checkpoint", written.get("log", 0))
    if late_ms > SNAPSHOTS_MISSED * interval_ms:
        yield Complaint(
            kind="no_snapshots",
            where=folder,
            what=f"only grows: its newest snapshot is {late_ms / 3_600_000:.1f} h older than what "
            "was written last",
            remedy=Remedy.MAKE_SNAPSHOTS,
        )


def _check_stop(file_system: FileSystem, path: str, is_live: bool) -> Iterator[Complaint]:
    if not is_live and file_system.status(join(path, CLEAN_SHUTDOWN)) is None:
        yield Complaint(
            kind="unclean_stop",
            where=path,
            what="was not stopped cleanly",
            remedy=Remedy.START_RECOVERS,
            is_note=True,
        )


def _check_names(file_system: FileSystem, path: str, is_live: bool) -> Iterator[Complaint]:
    for name in file_system.list(path):
        parsed = parse_directory_name(name)
        if parsed is None or parsed.state is DirectoryState.LIVE:
            continue
        where = join(path, name)
        if parsed.state is DirectoryState.STRAY:
            yield Complaint(
                kind="stray",
                where=where,
                what="is a partition that its cluster did not place here",
                remedy=Remedy.INSPECT_STRAY,
            )
        elif parsed.state is DirectoryState.DELETE and not is_live:
            yield Complaint(
                kind="leftover",
                where=where,
                what="belongs to a deleted topic, and was not removed before the broker stopped",
                remedy=Remedy.BROKER_REMOVES,
                is_note=True,
            )
        elif parsed.state is DirectoryState.FUTURE and not is_live:
            yield Complaint(
                kind="unfinished_move",
                where=where,
                what="is the unfinished copy of a partition that is being moved",
                remedy=Remedy.BROKER_MOVES,
                is_note=True,
            )


def _check_checkpoints(directory: ReadOnlyLogDirectory) -> Iterator[Complaint]:
    for name in CHECKPOINTS:
        try:
            directory.checkpointed(name)
        except CorruptionError as error:
            kind, path = FindingKind.CHECKPOINT, join(directory.path, name)
            reason = f"cannot be read ({error.reason})"
            found = Finding(kind=kind, path=path, position=error.position, reason=reason)
            yield complaint_of(found, directory.path)


def _check_files(file_system: FileSystem, path: str) -> Iterator[Complaint]:
    """The directory's own files, except the checkpoints."""
    for finding in check_own_files(file_system, path):
        if not finding.is_note:
            yield _of_file(file_system, finding, path)


def _of_file(file_system: FileSystem, finding: Finding, path: str) -> Complaint:
    """The complaint; about lost properties with what a start says."""
    one = complaint_of(finding, path)
    is_lost = file_system.status(finding.path) is None
    if finding.kind is not FindingKind.META_PROPERTIES or not is_lost:
        return one
    mend = lost_properties_mend(file_system, path)
    return replace(one, remedy=Remedy.AS_FOUND, subject=mend)


def _check_troubles(file_system: FileSystem, path: str) -> Iterator[Complaint]:
    try:
        read_troubles(file_system, path)
    except CorruptionError as error:
        yield Complaint(
            kind="cleaner_troubles",
            where=join(path, TROUBLES_FILE_NAME),
            what=f"cannot be read ({error.reason}): the cleaner's notes are lost",
            remedy=Remedy.CLEANER_REPLACES,
            is_note=True,
        )


def _check_times(
    file_system: FileSystem, directory: ReadOnlyLogDirectory, now_ms: int
) -> Iterator[Complaint]:
    names = [
        name for name in file_system.list(directory.path) if parse_directory_name(name) is None
    ]
    statuses = [file_system.status(join(directory.path, name)) for name in names]
    newest_ms = max((one.modified_ms for one in statuses if one is not None), default=0)
    if newest_ms > now_ms + CLOCK_SLACK_MS:
        yield Complaint(
            kind="clock",
            where=directory.path,
            what=f"its files were written {(newest_ms - now_ms) // 1000} s in the future: the "
            "clock was set back, or is wrong",
            remedy=Remedy.COMPARE_CLOCKS,
        )


# A partition


def check_log(place: Place, topic: str, index: int) -> Iterator[Complaint]:
    try:
        log = place.directory.partition(topic, index)
        explained = explain_log(
            log,
            place.config,
            place.now_ms,
            place.file_system,
            highest_remote_offset=place.directories.highest_remote_offset(log),
        )
        examined = Examined(place=place, log=log, explained=explained)
        for check in PARTITION_CHECKS:
            yield from check(examined)
    except (CorruptionError, OSError, UserError) as error:
        path = place.directory.path
        yield Complaint(
            kind="unreadable",
            where=f"{topic}-{index} in {path}",
            what=str(error),
            remedy=Remedy.CHECK,
            subject=path,
        )


def _check_future(examined: Examined) -> Iterator[Complaint]:
    for segment in examined.explained.segments:
        if Blocker.FUTURE_TIMESTAMP in segment.verdict.blockers:
            after = sum(
                one.verdict.base_offset > segment.verdict.base_offset
                for one in examined.explained.segments
            )
            yield Complaint(
                kind="future_timestamp",
                where=f"{examined.log.path} from offset {segment.verdict.base_offset}",
                what="a timestamp is in the future, so retention.ms keeps the segment and "
                f"{after} after it",
                remedy=Remedy.EXPLAIN_RETENTION,
                subject=examined.log.topic,
            )
            return


def _check_tier(examined: Examined) -> Iterator[Complaint]:
    place = examined.place
    now_ms = place.now_ms if place.is_live else 0
    yield from check_tier(place.directories, examined.log, examined.explained, now_ms=now_ms)


def _check_topic_id(examined: Examined) -> Iterator[Complaint]:
    disk, folder = examined.place.file_system, examined.log.path
    integrity = examined.place.directory.integrity_of(folder)
    recorded_id = None if integrity is None else integrity.topic_id
    _, found = judge_topic_id(disk, join(folder, PARTITION_METADATA), recorded_id)
    if found is not None:
        yield complaint_of(found, examined.place.directory.path)


def _check_lost_parts(examined: Examined) -> Iterator[Complaint]:
    for part in examined.log.damage.lost_parts():
        found = replace(part, reason=part.unreadable_text)
        yield replace(
            complaint_of(found, examined.place.directory.path),
            kind=FindingKind.LOST_OFFSETS.value,  # damage at a log's end is named so too
        )


def _check_waiting(examined: Examined) -> Iterator[Complaint]:
    explained = examined.explained
    if explained.waiting_count and not examined.place.is_live:
        yield Complaint(
            kind="leftover",
            where=explained.path,
            what=f"{explained.waiting_count} files of {explained.waiting_size:,} bytes are deleted "
            "from the log, and not removed yet",
            remedy=Remedy.START_REMOVES,
            is_note=True,
        )


def _check_checkpointed(examined: Examined) -> Iterator[Complaint]:
    """Checkpointed offsets that are outside the logs, in a directory that is not in use."""
    if examined.place.is_live:
        return
    log = examined.log
    first = log.segments[0].base_offset if log.segments else 0
    if examined.place.config.remote_storage_enable:
        first = min(first, log.recorded_start)  # the tier has what is before the segments
    for name, meaning in CHECKPOINTS.items():
        offset = examined.checkpointed(name)
        if (
            offset is not None
            and not min(first, log.log_start_offset) <= offset <= log.offsets.readable_end_offset
        ):
            yield Complaint(
                kind="checkpoint",
                where=log.path,
                what=f"its {meaning} {offset} is outside its offsets {first} to "
                f"{log.offsets.readable_end_offset} ({name})",
                remedy=Remedy.CHECK_THEN_REPAIR,
            )


def _check_indexes(examined: Examined) -> Iterator[Complaint]:
    if examined.place.is_live:
        return
    missing = [
        segment.path_of(kind)
        for segment in examined.log.segments[:-1]
        for kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
        if examined.place.file_system.status(segment.path_of(kind)) is None
    ]
    if missing:
        others = len(missing) - 1
        more = f", as are {others} other indexes of the partition" if others else ""
        reason = f"is missing{more}"
        kind, path = FindingKind.MISSING_INDEX, missing[0]
        found = Finding(kind=kind, path=path, position=None, reason=reason)
        yield complaint_of(found, examined.place.directory.path)


def _check_cleaner(examined: Examined) -> Iterator[Complaint]:
    """The cleaner's notes: failed passes, and segments that it skips."""
    place, log = examined.place, examined.log
    if not place.config.is_compacted:
        return
    try:
        troubles = read_troubles(place.file_system, place.directory.path)
    except CorruptionError:
        return  # reported by `_check_troubles`
    trouble = troubles.get(TopicPartition(log.topic, log.partition), Trouble())
    if trouble.failure_count:
        yield Complaint(
            kind="cleaner_failing",
            where=log.path,
            what=f"could not be compacted in {trouble.failure_count} tries, the last at "
            f"{time_text(trouble.failed_ms)}: {trouble.reason}",
            remedy=Remedy.EXPLAIN_COMPACTION,
            subject=log.topic,
        )
    for one in trouble.damaged:
        yield Complaint(
            kind="segment_set_aside",
            where=f"{log.path} from offset {one.base_offset}",
            what=f"cannot be read, and is never compacted: {one.reason}",
            remedy=Remedy.REPAIR_SEGMENT,
            subject=place.directory.path,
        )


PartitionCheck = Callable[[Examined], Iterator[Complaint]]

PARTITION_CHECKS: list[PartitionCheck] = [
    _check_topic_id,
    _check_lost_parts,
    _check_future,
    _check_waiting,
    _check_checkpointed,
    _check_indexes,
    _check_cleaner,
    _check_tier,
]
