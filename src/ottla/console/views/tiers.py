"""Remote tiers: what each topic has there and on this disk, and how far its copying is."""

from collections.abc import Iterator, Sequence

from ottla.base.errors import CorruptionError, UserError
from ottla.base.partitions import TopicPartition
from ottla.client.administration.admin import Admin
from ottla.client.bulk.reading import EARLIEST_LOCAL, LATEST, LATEST_TIERED
from ottla.console.contents import visible
from ottla.console.pages import Ask, Fields, Page
from ottla.console.views.view import View
from ottla.diagnosis.directories import Directories
from ottla.diagnosis.tiers import check_tier, check_tier_records
from ottla.storage.diagnosis.retention_explanation import explain_log
from ottla.storage.reading.read_only_log import ReadOnlyLog

ENABLED = "remote.storage.enable"
MOST_PARTITIONS = 500


def tiers(ask: Ask) -> Page:
    """From the files of the directories, or else what a broker on another machine tells."""
    files = ask.place.files()
    if files is not None:
        rows, problems = _from_files(ask, files)
    else:
        with ask.place.reading() as admin:
            rows, problems = list(_from_afar(admin)), []
    topics = _by_topic(rows)
    return Page(
        template="tiers.html",
        title="Tiers",
        section="tiers",
        data={
            "has_files": files is not None,
            "topics": topics,
            "partitions": rows[:MOST_PARTITIONS],
            "partition_count": len(rows),
            "problems": problems,
        },
        refresh_s=10 if rows else None,
    )


def _from_files(ask: Ask, files: Directories) -> tuple[list[Fields], list[Fields]]:
    """The rows, and what doctor finds wrong with tiers."""
    found = list(check_tier_records(files))
    running_ms = ask.now_ms if ask.place.has_broker else 0
    rows = []
    for topic in sorted({name for one in files.opened for name in one.topics()}):
        if not files.config(topic).remote_storage_enable:
            continue
        for log in files.logs(topic):
            try:
                rows.append(_row(files, log))
                explained = explain_log(
                    log,
                    files.config(topic),
                    ask.now_ms,
                    files.file_system,
                    highest_remote_offset=files.highest_remote_offset(log),
                )
                found += check_tier(files, log, explained, now_ms=running_ms)
            except (CorruptionError, OSError) as error:
                rows.append(_empty(log.topic, log.partition) | {"problem": visible(str(error))})
    return rows, [{"where": visible(one.where), "what": visible(one.what)} for one in found]


def _empty(topic: str, partition: int) -> Fields:
    return {
        "topic": topic, "partition": partition, "local_size": None, "tier_size": None,
        "local_start": None, "tiered_until": None, "end": None, "behind": None,
        "behind_size": None, "problem": "",
    }  # fmt: skip


def _row(files: Directories, log: ReadOnlyLog) -> Fields:
    remote = files.remote_part(log)
    assert remote is not None
    closed = log.segments[:-1]
    waiting = [one for one in closed if one.base_offset > remote.highest_offset]
    return _empty(log.topic, log.partition) | {
        "local_size": sum(one.size for one in log.segments),
        "tier_size": remote.tier_size,
        "local_start": log.log_start_offset,
        "tiered_until": remote.highest_offset + 1,
        "end": log.log_end_offset,
        "behind": max(0, log.log_end_offset - remote.highest_offset - 1),
        "behind_size": sum(one.size for one in waiting),
    }


def _from_afar(admin: Admin) -> Iterator[Fields]:
    """Offsets, which are all that a broker tells of its tier."""
    names = admin.list_topics()
    settings = admin.topics_settings(names)
    tiered = [one for one in names if settings.get(one, {}).get(ENABLED) == "true"]
    places = admin.existing_of(tiered)
    try:
        ends, local, until = (_offsets(admin, places, what)
                              for what in (LATEST, EARLIEST_LOCAL, LATEST_TIERED))  # fmt: skip
    except UserError as error:
        for place in places:
            yield _empty(*place) | {"problem": visible(str(error))}
        return
    for place in places:
        yield _empty(*place) | {
            "local_start": local[place],
            "tiered_until": until[place] + 1,
            "end": ends[place],
            "behind": max(0, ends[place] - until[place] - 1),
        }


def _offsets(
    admin: Admin, places: Sequence[TopicPartition], what: int
) -> dict[TopicPartition, int]:
    return {place: one.offset for place, one in admin.list_offsets(places, what).items()}


def _by_topic(rows: Sequence[Fields]) -> list[Fields]:
    found: dict[str, Fields] = {}
    for row in rows:
        topic = found.setdefault(
            row["topic"],
            {"topic": row["topic"], "partitions": 0, "local_size": None, "tier_size": None,
             "behind": None, "behind_size": None},
        )  # fmt: skip
        topic["partitions"] += 1
        for name in ("local_size", "tier_size", "behind", "behind_size"):
            if row[name] is not None:
                topic[name] = (topic[name] or 0) + row[name]
    return list(found.values())


VIEWS = {"/tiers": View(tiers)}
