"""Checks of a table without its log: the ranges of its commits, and its files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ottla.base.errors import TaskError
from ottla.base.ids import uuid_text
from ottla.loading.auditing.report import Difference
from ottla.sources.log_source import LogPartition
from ottla.tables import (
    Action,
    DataFile,
    FileRole,
    ForgottenPlaces,
    LedgerEntry,
    LoadedPartition,
    Table,
    by_partition,
    covered,
    first_gap,
    whole_files,
)


def check_tiling(entries: Sequence[LedgerEntry], *, is_latest: bool = False) -> list[Difference]:
    """Checks that each load begins where the previous one ended.

    Reruns must lie within loaded ranges. The rows that a commit adds must match the counts that it
    states; this is not checked for a table with the latest row of each key (`latest.py`).
    """
    found: list[Difference] = []
    ends: dict[int, int] = {}
    known: dict[str, list[DataFile]] = {}
    for number, entry in enumerate(entries):
        match entry.action:
            case Action.LOAD:
                found += _check_load(entry, ends)
            case Action.RERUN:
                found += _check_rerun(entries[:number], entry)
            case Action.OPTIMIZE | Action.FORGET:
                found += _check_rewrite(entry, known)
        if not is_latest:
            for loaded in entry.partitions:
                found += _check_entry_files(entry, loaded)
        for file in entry.files:
            known.setdefault(file.path, []).append(file)
    return found


def _check_load(entry: LedgerEntry, ends: dict[int, int]) -> Iterator[Difference]:
    for loaded in entry.partitions:
        begin = loaded.from_offset if loaded.lost is None else loaded.lost.from_offset
        expected = ends.get(loaded.partition, begin)
        if begin != expected:
            yield _untiled(entry, loaded, begin, expected)
        ends[loaded.partition] = loaded.until_offset


def _check_rerun(before: Sequence[LedgerEntry], entry: LedgerEntry) -> Iterator[Difference]:
    pieces = covered(before)
    for read in entry.partitions:
        gap = first_gap(pieces.get(read.partition, []), read)
        if gap is not None:
            yield Difference(
                kind="gap",
                text=f"partition {read.partition}: rerun {entry.commit_id} read offset {gap}, "
                f"which no load had read",
                partition=read.partition,
                offset=gap,
            )


def _check_rewrite(
    entry: LedgerEntry, known: Mapping[str, Sequence[DataFile]]
) -> Iterator[Difference]:
    if entry.masked or not known.keys() >= set(entry.replaces):
        # The ledger does not describe files that another program wrote, or deleted rows in.
        return
    taken = [part for path in entry.replaces for part in known.get(path, ())]
    is_forget = entry.action is Action.FORGET

    def what(file: DataFile) -> tuple[int, str]:
        # Of a deletion on purpose the places are there in place of the rows.
        return file.partition, "rows" if is_forget else file.role.value

    for partition, role in sorted({what(file) for file in (*taken, *entry.files)}):
        before, after = (
            sum(file.row_count for file in files if what(file) == (partition, role))
            for files in (taken, entry.files)
        )
        if before != after:
            name = "deletion" if is_forget else "optimization"
            yield Difference(
                kind="count",
                text=f"{name} {entry.commit_id}, partition {partition}: {before} {role} went in, "
                f"{after} came out",
                partition=partition,
            )


def _untiled(entry: LedgerEntry, loaded: LoadedPartition, begin: int, expected: int) -> Difference:
    what = "are missing" if begin > expected else "are duplicated"
    first, last = min(begin, expected), max(begin, expected) - 1
    return Difference(
        kind="gap" if begin > expected else "overlap",
        text=f"partition {loaded.partition}: offsets {first} to {last} {what} before load "
        f"{entry.commit_id}",
        partition=loaded.partition,
        offset=first,
    )


def _check_entry_files(entry: LedgerEntry, loaded: LoadedPartition) -> Iterator[Difference]:
    files = [file for file in entry.files if file.partition == loaded.partition]
    row_count = sum(file.row_count for file in files)
    stated = loaded.record_count - loaded.forgotten_count + loaded.copied_count
    if row_count != stated:
        yield Difference(
            kind="count",
            text=f"{entry.action.value} {entry.commit_id}, partition {loaded.partition}: its files "
            f"have {row_count} rows, {stated} expected",
            partition=loaded.partition,
        )
    for file in files if not loaded.copied_count else ():
        if not loaded.from_offset <= file.first_offset <= file.last_offset < loaded.until_offset:
            text = (
                f"offsets {file.first_offset} to {file.last_offset} are not "
                f"between {loaded.from_offset} and {loaded.until_offset}"
            )
            yield Difference.in_file("overlap", file, text, file.first_offset)


def check_distinct(table: Table, files: Iterable[DataFile]) -> list[Difference]:
    """Finds duplicate rows, within a file or in two files; the files must be readable."""
    found = []
    for some in by_partition(files).values():
        twice = table.files.first_repeated(some)
        if twice is not None:
            first, last = twice.first_offset, twice.last_offset
            text = f"some of its offsets {first} to {last} are duplicated"
            found.append(Difference.in_file("overlap", twice, text, first))
    return found


def check_forgotten(table: Table, files: Sequence[DataFile]) -> list[Difference]:
    """Finds rows that were deleted on purpose, and are there again."""
    import numpy as np

    places = ForgottenPlaces(table.files, files)
    found = []
    for file in files if places else ():
        # A deleted key is no row.
        if file.role in (FileRole.FORGOTTEN, FileRole.DELETED):
            continue
        gone = places.offsets(file.partition)
        first, last = gone.searchsorted([file.first_offset, file.last_offset + 1])
        there = gone[first:last]
        again = there[np.isin(there, table.files.offsets(file))] if len(there) else there
        if len(again):
            text = "it was deleted on purpose, and is there again"
            found.append(Difference.in_row(file.partition, int(again[0]), text, file.path))
    return found


def check_topic(
    entries: Iterable[LedgerEntry], topic: str, offered: Mapping[int, LogPartition]
) -> list[Difference]:
    """Finds partitions that were loaded from another topic, or before the topic was re-created."""
    found: dict[tuple[int, str], Difference] = {}
    for entry in entries:
        for loaded in entry.partitions:
            reason = _stranger(loaded, topic, offered.get(loaded.partition))
            if reason is not None:
                key = loaded.partition, reason
                text = f"partition {loaded.partition}: {reason}"
                found.setdefault(
                    key, Difference(kind="topic", text=text, partition=loaded.partition)
                )
    return list(found.values())


def _stranger(loaded: LoadedPartition, topic: str, log: LogPartition | None) -> str | None:
    if loaded.topic != topic:
        return f"it was loaded from topic {loaded.topic}"
    if log is None:
        return "the log has no such partition"
    if None not in (loaded.topic_id, log.topic_id) and loaded.topic_id != log.topic_id:
        assert loaded.topic_id is not None
        return f"it was loaded from a deleted topic with id {uuid_text(loaded.topic_id)}"
    return None


def check_partitions(
    entries: Iterable[LedgerEntry], files: Iterable[DataFile]
) -> Iterator[Difference]:
    """Finds rows of partitions that no commit read: another program wrote them."""
    read = {one.partition for entry in entries for one in entry.partitions}
    for file in files:
        if file.role in (FileRole.ROWS, FileRole.QUARANTINE) and file.partition not in read:
            text = f"it has rows of partition {file.partition}, which no commit read"
            yield Difference.in_file("overlap", file, text, file.first_offset)


def check_files(table: Table, files: Sequence[DataFile]) -> list[Difference]:
    """Finds files that are missing or differ from the ledger in size or footer."""
    return [
        Difference.in_file("file", parts[0], reason)
        for parts in whole_files(files)
        if (reason := _wrong_file(table, parts)) is not None
    ]


def _wrong_file(table: Table, stated: Sequence[DataFile]) -> str | None:
    from pyarrow import ArrowException

    try:
        found = table.files.described(stated[0].path, stated[0].kept)
    except FileNotFoundError:
        return "it is missing"
    except (ArrowException, OSError, TaskError) as error:
        return f"it cannot be read: {error}"
    if not found:
        return "it has no rows"
    if found[0].size != stated[0].size:
        return f"it has {found[0].size} bytes, {stated[0].size} expected"
    there, wanted = _rows_by_partition(found), _rows_by_partition(stated)
    if there != wanted:
        return f"it holds {_rows_text(there)}; the ledger says {_rows_text(wanted)}"
    return None


def _rows_by_partition(parts: Iterable[DataFile]) -> dict[int, tuple[int, int, int]]:
    return {one.partition: (one.row_count, one.first_offset, one.last_offset) for one in parts}


def _rows_text(parts: Mapping[int, tuple[int, int, int]]) -> str:
    return ", ".join(
        f"{count} rows of partition {number}, offsets {first} to {last}"
        for number, (count, first, last) in sorted(parts.items())
    )
