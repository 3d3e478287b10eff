"""Background work: recovery, retention, cleaning, moves and mirrors."""

from collections.abc import Iterator

from ottla.base.errors import ApiError, CorruptionError, UserError
from ottla.base.files import join
from ottla.base.partitions import TopicPartition
from ottla.console.pages import Ask, Fields, Page
from ottla.console.views.topic_copies import run_fields
from ottla.console.views.view import View
from ottla.diagnosis.compaction import compaction_status
from ottla.diagnosis.directories import Directories
from ottla.diagnosis.words.compaction import verdict_text
from ottla.storage.diagnosis.retention_explanation import explain_log
from ottla.storage.directory.owner_note import owner_of
from ottla.storage.files.filenames import CLEAN_SHUTDOWN
from ottla.storage.reading.read_only_log import ReadOnlyLog

MOST_LOGS = 200
"""The number of logs examined for a page; a link leads to the next ones."""


def jobs(ask: Ask) -> Page:
    """Each job with its current work and its schedule."""
    files = ask.place.files()
    data: Fields = {
        "runs": run_fields(ask),
        "has_files": files is not None,
        "directories": []
        if files is None
        else [_directory(files, one.path) for one in files.opened],
        "moves": _moves(ask),
        "retention": [],
        "cleaning": [],
        "intervals": {},
        "log_count": 0,
        "first": 0,
        "most": MOST_LOGS,
    }
    if files is not None:
        _judge(ask, files, data)
    return Page(template="jobs.html", title="Jobs", section="jobs", data=data, refresh_s=5)


def _judge(ask: Ask, files: Directories, data: Fields) -> None:
    """Adds what retention and the cleaner are about to do with the logs of a page."""
    names = [
        (topic, one, index)
        for one in files.opened
        for topic, indexes in one.topics().items()
        for index in indexes
    ]
    data["log_count"] = len(names)
    data["first"] = ask.number("first", 0, most=max(0, len(names) - 1))
    data["intervals"] = {
        "retention_ms": files.broker.log_retention_check_interval_ms,
        "cleaner_ms": files.broker.log_cleaner_backoff_ms,
        "is_cleaner_on": files.broker.log_cleaner_enable,
        "cleaner_threads": files.broker.log_cleaner_threads,
    }
    for topic, directory, index in names[data["first"] : data["first"] + MOST_LOGS]:
        try:
            log = directory.partition(topic, index)
            data["retention"] += _retention(ask, files, log)
            if files.config(topic).is_compacted:
                data["cleaning"] += _cleaning(ask, files, log)
        except (UserError, CorruptionError, ApiError, OSError):
            continue  # damaged or gone meanwhile, which doctor reports


def _retention(ask: Ask, files: Directories, log: ReadOnlyLog) -> Iterator[Fields]:
    explained = explain_log(
        log,
        files.config(log.topic),
        ask.now_ms,
        files.file_system,
        highest_remote_offset=files.highest_remote_offset(log),
    )
    going = [one.verdict for one in explained.segments if one.verdict.goes]
    if going or explained.waiting_count:
        yield {
            "topic": log.topic,
            "partition": log.partition,
            "segments": len(going),
            "size": sum(one.size for one in going),
            "waiting_files": explained.waiting_count,
            "waiting_size": explained.waiting_size,
        }


def _cleaning(ask: Ask, files: Directories, log: ReadOnlyLog) -> Iterator[Fields]:
    status = compaction_status(log, files, ask.now_ms)
    range_ = status.explanation.range
    total = range_.clean_bytes + range_.cleanable_bytes
    if not (range_.cleanable_bytes or status.is_at_work or status.trouble.failure_count):
        return
    yield {
        "topic": log.topic,
        "partition": log.partition,
        "is_at_work": status.is_at_work,
        "words": verdict_text(status),
        "cleanable_bytes": range_.cleanable_bytes,
        "clean_bytes": range_.clean_bytes,
        "ratio": round(range_.ratio, 3) if total else 0.0,
        "least_ratio": status.explanation.config.min_cleanable_dirty_ratio,
    }


def _directory(files: Directories, path: str) -> Fields:
    """Which process has a directory open, and whether its next start recovers it."""
    owner = owner_of(files.file_system, path)
    is_clean = files.file_system.status(join(path, CLEAN_SHUTDOWN)) is not None
    if owner is None:
        state = "stopped cleanly" if is_clean else "was not stopped cleanly"
        words = "" if is_clean else "the next start recovers its logs"
    elif owner.addresses:
        state, words = "served", f"by process {owner.pid}, at {', '.join(owner.addresses)}"
    elif owner.doing:
        state = "starting" if owner.command == "serve" else f"in use by ottla {owner.command}"
        words = f"process {owner.pid}: {owner.doing}"
    else:
        state = "held"
        words = (
            f"by process {owner.pid}, which does not listen: an application that opened the log, "
            "or a command that is about to end"
        )
    return {"path": path, "state": state, "words": words}


def _moves(ask: Ask) -> list[Fields]:
    """Partitions that are moving to another directory, with the progress of their copies."""
    if not ask.place.has_broker:
        return []
    with ask.place.admin() as admin:
        described = admin.log_directories()
    sizes: dict[tuple[int, TopicPartition], int] = {
        (one.broker, place): size for one in described for place, size in one.sizes.items()
    }
    return [
        {
            "topic": place.topic,
            "partition": place.partition,
            "broker": one.broker,
            "to": one.path,
            "copied": moving.size,
            "size": sizes.get((one.broker, place)),
            "offset_lag": moving.offset_lag,
        }
        for one in described
        for place, moving in sorted(one.moving.items())
    ]


VIEWS = {"/jobs": View(jobs)}
