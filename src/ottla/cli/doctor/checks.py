"""What `ottla doctor` looks at: each check yields complaints, and each complaint has its mend.

A check of partitions that belongs to another room is added to `PARTITION_CHECKS`.
"""

from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass

from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import DiskSpace, FileSystem, join
from ottla.broker.log_jobs.cleaner_troubles import TROUBLES_FILE_NAME, Trouble, read_troubles
from ottla.cli.explain.retention_text import Setting
from ottla.cli.log_text import time_text
from ottla.cli.topic_sources import Directories
from ottla.config.broker import BrokerConfig
from ottla.config.contradictions import contradictions
from ottla.config.topic import TopicConfig
from ottla.storage.diagnosis.directory_check import is_in_use
from ottla.storage.diagnosis.retention_explanation import ExplainedLog, explain_log
from ottla.storage.files.filenames import (
    CHECKPOINT_CLEANER,
    CHECKPOINT_HIGH_WATERMARK,
    CHECKPOINT_LOG_START,
    CHECKPOINT_RECOVERY_POINT,
    CLEAN_SHUTDOWN,
    DirectoryState,
    FileKind,
    parse_directory_name,
)
from ottla.storage.reading.reader import ReadOnlyLog, ReadOnlyLogDirectory
from ottla.storage.retention.retention import CLOCK_SLACK_MS, Blocker

LOW_SPACE = 0.05
MEDIUM_SPACE = 0.1
EARLIEST_SANE_MS = 1_577_836_800_000
"""2020: no clock of a machine that runs this is right before it."""

CHECKPOINTS = {
    CHECKPOINT_RECOVERY_POINT: "recovery point",
    CHECKPOINT_LOG_START: "log start",
    CHECKPOINT_HIGH_WATERMARK: "high watermark",
    CHECKPOINT_CLEANER: "first offset to compact",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Complaint:
    """`kind` is the name in `--json`; a note asks for nothing to be done."""

    kind: str
    where: str
    what: str
    mend: str
    is_note: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the partitions of a topic are, and when they are looked at."""

    directories: Directories
    directory: ReadOnlyLogDirectory
    config: TopicConfig
    is_live: bool
    """Whether somebody holds the directory's lock."""
    now_ms: int

    @property
    def file_system(self) -> FileSystem:
        return self.directories.file_system


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """One partition, as the checks of partitions are given it."""

    place: Place
    log: ReadOnlyLog
    explained: ExplainedLog

    def checkpointed(self, name: str) -> int | None:
        """Its offset in one of the directory's checkpoints."""
        return self.place.directory.checkpointed(name).get((self.log.topic, self.log.partition))


def check_directories(
    directories: Directories, now_ms: int, *, bootstrap: str | None = None
) -> Iterator[Complaint]:
    """All that the files of a broker's directories tell."""
    if now_ms < EARLIEST_SANE_MS:
        yield Complaint(
            kind="clock",
            where="this machine",
            what="its clock is before 2020, and retention counts by it",
            mend="set the clock before a broker runs",
        )
    damaged = set()
    for directory in directories.opened:
        for complaint in check_directory(directories.file_system, directory, now_ms):
            yield complaint
            if complaint.kind == "checkpoint":
                damaged.add(directory.path)
    for topic in directories.topics:
        setting = Setting(topic=topic, bootstrap=bootstrap or "HOST:PORT")
        config = directories.config(topic)
        yield from check_settings(topic, config, setting, known=directories.known_settings(topic))
        yield from check_cleaner_on(topic, config, directories.broker)
    if not directories.are_settings_known:
        yield Complaint(
            kind="settings_unknown",
            where="the broker's own settings",
            what="are not in its directories: Kafka's defaults are taken for them",
            mend="name its server.properties with --config FILE, or a running broker with "
            "--bootstrap",
            is_note=True,
        )
    yield from _check_unknown(directories)
    for directory in directories.opened:
        if directory.path in damaged:
            continue  # where its logs begin nobody knows
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


def _check_unknown(directories: Directories) -> Iterator[Complaint]:
    """Topics of another Kafka whose settings stayed with it."""
    for why in sorted(set(directories.unknown.values())):
        topics = [name for name, reason in directories.unknown.items() if reason == why]
        yield Complaint(
            kind="settings_not_adopted",
            where=f"topic {', '.join(topics)}",
            what=f"nothing of it is deleted or compacted, since {why}",
            mend=f"stop the broker, and run {directories.adopt_command}",
        )


def check_settings(
    topic: str, config: TopicConfig, setting: Setting, *, known: Container[str] | None = None
) -> Iterator[Complaint]:
    """`known` names the settings that are not just taken for the default; `None`: all."""
    for one in contradictions(config):
        yield Complaint(
            kind="settings",
            where=f"topic {topic}",
            what=one.text,
            mend=setting.command(one.change),
            is_note=one.is_note or not _are_known(one.names, known),
        )


def check_cleaner_on(topic: str, config: TopicConfig, broker: BrokerConfig) -> Iterator[Complaint]:
    if config.is_compacted and not broker.log_cleaner_enable:
        yield Complaint(
            kind="cleaner_off",
            where=f"topic {topic}",
            what="is to be compacted, and log.cleaner.enable=false: it only grows",
            mend="log.cleaner.enable=true in server.properties, and a restart",
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
    yield from _check_troubles(file_system, path)
    yield from _check_times(file_system, directory, now_ms)


def check_space(path: str, space: DiskSpace) -> Iterator[Complaint]:
    share = space.usable / space.total if space.total else 1.0
    if share < MEDIUM_SPACE:
        yield Complaint(
            kind="disk_space",
            where=path,
            what=f"{share:.0%} of the disk is free, {space.usable:,} bytes",
            mend="make room, lower retention.bytes or .ms (ottla explain retention TOPIC), "
            "or add a directory to log.dirs",
            is_note=share >= LOW_SPACE,
        )


def _check_stop(file_system: FileSystem, path: str, is_live: bool) -> Iterator[Complaint]:
    if not is_live and file_system.status(join(path, CLEAN_SHUTDOWN)) is None:
        yield Complaint(
            kind="unclean_stop",
            where=path,
            what="was not stopped cleanly",
            mend="nothing to do: the next start recovers it (ottla log check: what it will find)",
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
                mend="look into it (ottla log dump), then move or remove the directory",
            )
        elif parsed.state is DirectoryState.DELETE and not is_live:
            yield Complaint(
                kind="leftover",
                where=where,
                what="is of a deleted topic, and was not removed before the stop",
                mend="nothing to do: a running broker removes it after file.delete.delay.ms",
                is_note=True,
            )
        elif parsed.state is DirectoryState.FUTURE and not is_live:
            yield Complaint(
                kind="unfinished_move",
                where=where,
                what="is the copy of a partition on its way to another directory",
                mend="nothing to do: a running broker goes on with it",
                is_note=True,
            )


def _check_checkpoints(directory: ReadOnlyLogDirectory) -> Iterator[Complaint]:
    for name in CHECKPOINTS:
        try:
            directory.checkpointed(name)
        except CorruptionError as error:
            yield Complaint(
                kind="checkpoint",
                where=join(directory.path, name),
                what=f"cannot be read ({error.reason})",
                mend=f"stop the broker, then ottla log repair --in-place {directory.path}",
            )


def _check_troubles(file_system: FileSystem, path: str) -> Iterator[Complaint]:
    try:
        read_troubles(file_system, path)
    except CorruptionError as error:
        yield Complaint(
            kind="cleaner_troubles",
            where=join(path, TROUBLES_FILE_NAME),
            what=f"cannot be read ({error.reason}): what the cleaner had noted is forgotten",
            mend="nothing to do: the cleaner replaces the file when it has something to note",
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
            what=f"its files were written {(newest_ms - now_ms) // 1000} s after now: the clock "
            "was set back, or is wrong",
            mend="compare the clock with another one (timedatectl), and set it right; "
            "retention waits until the clock has caught up",
        )


# A partition


def check_log(place: Place, topic: str, index: int) -> Iterator[Complaint]:
    try:
        log = place.directory.partition(topic, index)
        explained = explain_log(
            log,
            place.config,
            place.now_ms,
            is_replicated=not place.directories.is_ottlas,
            file_system=place.file_system,
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
            mend=f"ottla log check {path}",
        )


def _check_future(examined: Examined) -> Iterator[Complaint]:
    for segment in examined.explained.segments:
        if Blocker.FUTURE_TIMESTAMP in segment.verdict.blockers:
            behind = sum(
                one.verdict.base_offset > segment.verdict.base_offset
                for one in examined.explained.segments
            )
            yield Complaint(
                kind="future_timestamp",
                where=f"{examined.log.path} from offset {segment.verdict.base_offset}",
                what="a timestamp lies in the future, so retention.ms keeps the segment and "
                f"{behind} behind it",
                mend=f"ottla explain retention {examined.log.topic} names the ways out",
            )
            return


def _check_waiting(examined: Examined) -> Iterator[Complaint]:
    explained = examined.explained
    if explained.waiting_count and not examined.place.is_live:
        yield Complaint(
            kind="leftover",
            where=explained.path,
            what=f"{explained.waiting_count} files of {explained.waiting_size:,} bytes are out of "
            "the log and not removed yet",
            mend="nothing to do: the next start removes them",
            is_note=True,
        )


def _check_checkpointed(examined: Examined) -> Iterator[Complaint]:
    """Offsets that a stopped directory's checkpoints have, and its logs do not."""
    if examined.place.is_live:
        return
    log = examined.log
    first = log.segments[0].base_offset if log.segments else 0
    for name, meaning in CHECKPOINTS.items():
        offset = examined.checkpointed(name)
        if (
            offset is not None
            and not min(first, log.log_start_offset) <= offset <= log.readable_end_offset
        ):
            yield Complaint(
                kind="checkpoint",
                where=log.path,
                what=f"its {meaning} {offset} lies outside its offsets {first} to "
                f"{log.readable_end_offset} ({name})",
                mend=f"ottla log check {log.path}, then ottla log repair",
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
        yield Complaint(
            kind="missing_index",
            where=missing[0],
            what=f"is missing, as are {len(missing) - 1} other indexes of the partition"
            if len(missing) > 1
            else "is missing",
            mend="nothing to do: the next start makes indexes anew, from the whole segment; or "
            "before it, ottla log repair",
            is_note=True,
        )


def _check_cleaner(examined: Examined) -> Iterator[Complaint]:
    """What the cleaner has noted: tries that failed, and segments that it leaves as they are."""
    place, log = examined.place, examined.log
    try:
        troubles = read_troubles(place.file_system, place.directory.path)
    except CorruptionError:
        return  # told of the directory
    trouble = troubles.get((log.topic, log.partition), Trouble())
    if not place.config.is_compacted:
        return
    if trouble.failure_count:
        yield Complaint(
            kind="cleaner_failing",
            where=log.path,
            what=f"could not be compacted in {trouble.failure_count} tries, the last at "
            f"{time_text(trouble.failed_ms)}: {trouble.reason}",
            mend=f"ottla explain compaction {log.topic} tells when it is tried again; "
            f"ottla log check {log.path} looks for damage",
        )
    for one in trouble.damaged:
        yield Complaint(
            kind="segment_set_aside",
            where=f"{log.path} from offset {one.base_offset}",
            what=f"cannot be read, and is never compacted: {one.reason}",
            mend="stop the broker, then "
            f"ottla log repair --in-place {place.directory.path}; the cleaner tries a file again "
            "that has changed",
        )


PartitionCheck = Callable[[Examined], Iterator[Complaint]]

PARTITION_CHECKS: list[PartitionCheck] = [
    _check_future,
    _check_waiting,
    _check_checkpointed,
    _check_indexes,
    _check_cleaner,
]
