"""The picture of a partition's log, and a table of its segments as in `ottla explain`."""

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UnknownNameError, UserError
from ottla.base.partitions import MAX_PARTITION, TopicPartition
from ottla.base.texts import whole_number
from ottla.client.administration.admin import Admin
from ottla.client.bulk.reading import (
    EARLIEST,
    EARLIEST_LOCAL,
    LATEST,
    LATEST_TIERED,
    READ_COMMITTED,
)
from ottla.client.refusals import RefusedError
from ottla.console.pages import Ask, Fields, Page
from ottla.console.pictures import LEGEND, draw, remarks
from ottla.console.views.view import View
from ottla.diagnosis.compaction import CompactionStatus, compaction_status
from ottla.diagnosis.directories import Directories
from ottla.diagnosis.words.compaction import changes as changes_of_compaction
from ottla.diagnosis.words.compaction import notes
from ottla.diagnosis.words.compaction import settings_text as compaction_settings
from ottla.diagnosis.words.retention import changes, facts_that_surprise, settings_text
from ottla.diagnosis.words.setting_commands import Setting
from ottla.storage.diagnosis.retention_explanation import ExplainedLog, explain_log
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.reading.remote_part import RemotePart


def log_picture(ask: Ask) -> Page:
    """A partition's picture from its files if on this machine, or else from its offsets."""
    name, index = ask.path["topic"], _index(ask.path["partition"])
    files = ask.place.files(name)
    data = _from_afar(ask, name, index) if files is None else _from_files(ask, files, name, index)
    data |= {"topic": name, "partition": index, "is_by_offset": _is_by_offset(ask)}
    return Page(
        template="log.html", title=f"{name}-{index}", section="topics", topic=name, data=data
    )


def _index(text: str) -> int:
    number = whole_number(text, MAX_PARTITION)
    if number is None:
        raise UnknownNameError("partition", text, ())
    return number


def _is_by_offset(ask: Ask) -> bool:
    return ask.choice("scale", ("bytes", "offsets")) == "offsets"


def _from_files(ask: Ask, files: Directories, name: str, index: int) -> Fields:
    logs = {log.partition: log for log in files.logs(name)}
    if index not in logs:
        raise UnknownNameError("partition", str(index), map(str, logs), name)
    log = logs[index]
    remote = files.remote_part(log)
    explained = explain_log(
        log,
        files.config(name),
        ask.now_ms,
        files.file_system,
        highest_remote_offset=-1 if remote is None else remote.highest_offset,
    )
    status = _status(log, files, ask.now_ms)
    setting = Setting(topic=name, target=ask.place.target.text)
    offsets = _offsets(ask, log, explained, status)
    if remote is not None:
        offsets = _with_tier(offsets, remote, log)
    picture = draw(
        explained, status, offsets, ask.now_ms, is_by_offset=_is_by_offset(ask),
        tiered=() if remote is None else remote.pieces,
    )  # fmt: skip
    staying = next((one for one in explained.segments if not one.verdict.goes), None)
    return {
        "is_from_afar": False,
        "path": explained.path,
        "picture": picture.fields(),
        "legend": {part.value: words for part, words in LEGEND.items()},
        "partitions": sorted(logs),
        "settings": settings_text(explained)
        if not explained.facts.config.is_compacted or status is None
        else compaction_settings(status),
        "settings_source": files.settings_source,
        "remarks": remarks(explained, status, ask.now_ms),
        "notes": [
            *_unknown(files, name),
            *facts_that_surprise(explained),
            *([] if status is None else notes(status)),
        ],
        "changes": [] if staying is None else changes(staying, explained, setting, ask.now_ms)[:4],
        "compaction_changes": []
        if status is None or not status.explanation.config.is_compacted
        else changes_of_compaction(status, setting)[:4],
    }


def _unknown(files: Directories, name: str) -> list[str]:
    reason = files.unknown.get(name)
    return [] if reason is None else [f"nothing in it is deleted or compacted, because {reason}"]


def _status(log: ReadOnlyLog, files: Directories, now_ms: int) -> CompactionStatus | None:
    """The compaction status; `None` if the log cannot be compacted."""
    try:
        return compaction_status(log, files, now_ms)
    except UserError:
        return None


def _offsets(
    ask: Ask, log: ReadOnlyLog, explained: ExplainedLog, status: CompactionStatus | None
) -> dict[str, int]:
    """The markers; a running broker is asked for the offsets that it knows best."""
    found = {
        "log start": log.log_start_offset,
        "last stable offset": log.transactions.last_stable_offset,
        "high watermark": explained.facts.high_watermark,
        "log end": log.log_end_offset,
    }
    if status is not None and status.explanation.config.is_compacted:
        found["cleaner point"] = status.explanation.range.first_dirty_offset
    if ask.place.has_broker:
        place = TopicPartition(log.topic, log.partition)
        with ask.place.admin() as admin:
            end, stable = _live_ends(admin, place)
        found["high watermark"] = max(end, found["log start"])
        found["last stable offset"] = max(stable, found["log start"])
        found["log end"] = max(found["log end"], end)
    return found


def _with_tier(offsets: dict[str, int], remote: RemotePart, log: ReadOnlyLog) -> dict[str, int]:
    """The markers with those of a log whose first segments are in the tier alone."""
    found = {**offsets, "log start": remote.start_offset, "local start": log.log_start_offset}
    if remote.highest_offset >= 0:
        found["end of the tier"] = remote.highest_offset + 1
    return found


def _live_ends(admin: Admin, place: TopicPartition) -> tuple[int, int]:
    end = admin.list_offsets([place], LATEST)[place].offset
    stable = admin.list_offsets([place], LATEST, isolation_level=READ_COMMITTED)[place].offset
    return end, stable


# A broker on another machine


def _from_afar(ask: Ask, name: str, index: int) -> Fields:
    """A picture of the offsets that a broker on another machine reports, without segments."""
    place = TopicPartition(name, index)
    with ask.place.admin() as admin:
        indexes = admin.partitions([name])[name]
        if index not in indexes:
            raise UnknownNameError("partition", str(index), map(str, indexes), name)
        start = admin.list_offsets([place], EARLIEST)[place].offset
        end, stable = _live_ends(admin, place)
        local = _special(admin, place, EARLIEST_LOCAL, start)
        tiered = _special(admin, place, LATEST_TIERED, -1)
        sizes = [
            one.sizes[place]
            for one in admin.log_directories()
            if one.error is ErrorCode.NONE and place in one.sizes
        ]
    total = max(1, end - start)
    shapes = []
    if local > start:
        shapes.append(_span("tiered", start, local, start, total))
    shapes.append(_span("kept", local, end, start, total))
    offsets = {"log start": start, "last stable offset": stable, "high watermark": end}
    if tiered >= start:
        offsets |= {"local start": local, "end of the tier": tiered + 1}
    return {
        "is_from_afar": True,
        "path": "",
        "picture": {
            "shapes": shapes,
            "markers": [
                {
                    "name": marker,
                    "offset": offset,
                    "x": round(1000 * (offset - start) / total, 2),
                    "meaning": "",
                    "lane": lane,
                    "is_right": offset - start > 0.6 * total,
                }
                for lane, (marker, offset) in enumerate(offsets.items())
            ],
            "size": max(sizes, default=None),
            "segment_count": None,
            "is_by_offset": True,
        },
        "legend": {part.value: words for part, words in LEGEND.items()},
        "partitions": indexes,
        "settings": "",
        "settings_source": "",
        "remarks": [
            "the broker's files are not on this machine, so its segments and the next actions of "
            "retention and compaction are unknown; run the console on the broker's machine"
        ],
        "notes": [],
        "changes": [],
        "compaction_changes": [],
    }


def _special(admin: Admin, place: TopicPartition, timestamp_ms: int, least: int) -> int:
    """What a broker with a tier answers to a special timestamp; at least `least`."""
    try:
        return max(least, admin.list_offsets([place], timestamp_ms)[place].offset)
    except (ApiError, RefusedError, UserError):
        return least


def _span(part: str, base: int, end: int, start: int, total: int) -> Fields:
    return {
        "part": part,
        "x": round(1000 * (base - start) / total, 2),
        "width": round(1000 * (end - base) / total, 2),
        "base_offset": base,
        "next_offset": end,
        "size": None,
        "segment_count": None,
        "goes": "",
        "why": "",
        "cleaning": "",
        "largest_timestamp_ms": -1,
    }


VIEWS = {"/topics/{topic}/log/{partition}": View(log_picture)}
