"""Tables that loads fill: how far each is, its files and quarantine, and its commits."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ottla.base.errors import OttlaError, UnknownNameError
from ottla.base.ids import uuid_text
from ottla.base.partitions import TopicPartition
from ottla.base.texts import whole_number
from ottla.client.administration.admin import Admin
from ottla.client.bulk.reading import LATEST
from ottla.console.contents import visible
from ottla.console.pages import Ask, Fields, Page
from ottla.console.views.view import View
from ottla.storage.directory.owner_note import owner_of
from ottla.tables import (
    ICEBERG,
    TARGET_SIZE,
    DataFile,
    FileRole,
    LedgerEntry,
    LoadedPartition,
    Table,
    loaded_partitions,
    total_size,
)

MOST_COMMITS = 50
SMALL_SHARE = 4
"""A file is small if it has less than this part of a full one: merging such files is worthwhile."""


def tables(ask: Ask) -> Page:
    """The named tables, and those that a broker on this machine keeps fresh."""
    known = _known(ask)
    rows = []
    for number, (path, status) in enumerate(known.items()):
        fields = table_fields(ask, path, status)
        rows.append({name: fields[name] for name in fields if name != "commits"})
        rows[-1]["number"] = number
    return Page(
        template="tables.html",
        title="Tables",
        section="tables",
        data={"tables": rows},
        refresh_s=5 if rows else None,
    )


def table(ask: Ask) -> Page:
    """One table. Its address has a number and no path: a visitor names no files."""
    known = list(_known(ask).items())
    number = whole_number(ask.path["table"])
    if number is None or number >= len(known):
        raise UnknownNameError("table", ask.path["table"], map(str, range(len(known))))
    path, status = known[number]
    data = table_fields(ask, path, status) | {"number": number}
    return Page(
        template="table.html", title=f"Table {path}", section="tables", data=data, refresh_s=5
    )


def _known(ask: Ask) -> dict[str, Mapping[str, Any]]:
    """The tables by path, each with what its follower last said of it; empty without one."""
    served = dict(_served(ask))
    return {**{path: served.get(path, {}) for path in ask.state.tables}, **served}


def _served(ask: Ask) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """What `ottla serve --table` says in the notes of the directories that can be read here."""
    files = ask.place.files()
    for one in () if files is None else files.opened:
        owner = owner_of(files.file_system, one.path) if files is not None else None
        for status in () if owner is None else owner.tables:
            yield str(status["into"]), status


def table_fields(ask: Ask, path: str, status: Mapping[str, Any]) -> Fields:
    """What a page says of a table; `problem` is why it cannot be read, `error` is its loads'."""
    fields: Fields = {
        "path": path, "problem": "", "error": visible(str(status.get("error") or "")),
        "topic": status.get("topic"), "partitions": [], "lag": None, "commit_id": None,
        "committed_ms": None, "row_count": 0, "quarantined_count": 0, "file_count": 0,
        "small_count": 0, "size": 0, "format": "", "is_followed": bool(status),
        "commits": [], "commit_count": 0,
    }  # fmt: skip
    try:
        found = Table(path)
        if not found.is_there():
            return fields
        entries, files = found.moment()
        fields |= _file_fields(files) | {
            "format": "Iceberg" if found.address.startswith(ICEBERG) else "Delta",
            "commit_count": len(entries),
            "commits": [_commit_fields(one) for one in entries[: -MOST_COMMITS - 1 : -1]],
        }
        if entries:
            fields |= _loaded_fields(ask, entries)
    except (OttlaError, OSError) as error:
        fields["problem"] = visible(str(error))
    return fields


def _file_fields(files: Sequence[DataFile]) -> Fields:
    rows = {one.path: one.size for one in files if one.role is FileRole.ROWS}
    quarantine = [one for one in files if one.role is FileRole.QUARANTINE]
    return {
        "file_count": len(rows),
        "small_count": sum(size < TARGET_SIZE // SMALL_SHARE for size in rows.values()),
        "size": total_size(files),
        "row_count": sum(one.row_count for one in files if one.role is FileRole.ROWS),
        "quarantined_count": sum(one.row_count for one in quarantine),
    }


def _commit_fields(one: LedgerEntry) -> Fields:
    return {
        "commit_id": one.commit_id,
        "version": one.version,
        "committed_ms": one.committed_ms,
        "action": one.action.value,
        "rows": one.row_count,
        "quarantined": sum(each.quarantined_count for each in one.partitions),
        "files_added": len({each.path for each in one.files}),
        "files_replaced": len(one.replaces),
        "until_offsets": {str(each.partition): each.until_offset for each in one.partitions},
    }


def _loaded_fields(ask: Ask, entries: Sequence[LedgerEntry]) -> Fields:
    loaded = loaded_partitions(entries)
    topics = {one.topic for one in loaded.values()}
    with ask.place.reading() as admin:
        ends, remark = _ends(admin, list(loaded.values()))
    partitions = [_partition_fields(one, ends) for _, one in sorted(loaded.items())]
    lags = [one["lag"] for one in partitions if one["lag"] is not None]
    return {
        "topic": next(iter(sorted(topics)), None),
        "commit_id": entries[-1].commit_id,
        "committed_ms": entries[-1].committed_ms,
        "partitions": partitions,
        "lag": sum(lags) if lags else None,
        "problem": remark,
    }


def _ends(admin: Admin, loaded: Sequence[LoadedPartition]) -> tuple[dict[TopicPartition, int], str]:
    """The log's ends, unless the topic is not there, or is another one of that name."""
    wanted = [TopicPartition(one.topic, one.partition) for one in loaded]
    there = admin.existing(wanted)
    if not there:
        return {}, f"topic {loaded[0].topic} is not there" if loaded else ""
    described = {one.name: one.topic_id for one in admin.describe_topics({one[0] for one in there})}
    for one in loaded:
        now = described.get(one.topic)
        if one.topic_id is not None and now is not None and now != one.topic_id:
            text = (
                f"topic {one.topic} is another one since the load: it was {uuid_text(one.topic_id)}"
            )
            return {}, text
    return {place: one.offset for place, one in admin.list_offsets(there, LATEST).items()}, ""


def _partition_fields(one: LoadedPartition, ends: Mapping[TopicPartition, int]) -> Fields:
    end = ends.get(TopicPartition(one.topic, one.partition))
    return {
        "partition": one.partition,
        "loaded": one.until_offset,
        "end": end,
        "lag": None if end is None else max(0, end - one.until_offset),
        "lost": None
        if one.lost is None
        else {"from": one.lost.from_offset, "until": one.lost.until_offset},
    }


VIEWS = {"/tables": View(tables), "/tables/{table}": View(table)}
