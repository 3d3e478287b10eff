"""The tasks of a load: each reads a part of the log, and writes it to files of the table."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce

from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.loading.letter_source import Letters
from ottla.sources.log_files import LogFiles
from ottla.sources.log_source import LogSource, Split
from ottla.sources.opening import open_log
from ottla.sources.options import ReadOptions
from ottla.sources.splits import SplitOptions, even_pieces
from ottla.tables import RecordWriter, shared_out


def write_splits(
    read: ReadOptions | LogFiles | Letters, writer: RecordWriter, splits: Sequence[Split]
) -> list[str]:
    """Writes the records of the splits; returns the paths of the files, relative to the table."""
    log = open_log(read) if isinstance(read, ReadOptions) else read
    first = splits[0]
    with writer.open(f"{first.place.partition}-{first.from_offset}") as files:
        for split in splits:
            for records in log.read(split, files.columns):
                files.write(records, split.place.partition)
    return files.paths


def tasks_of(
    log: LogSource, ranges: Mapping[TopicPartition, OffsetRange], rows_per_task: int
) -> list[list[Split]]:
    """The splits that each task reads; small ones share a task, and so a file."""
    splits = task_splits(log, ranges, rows_per_task)
    return shared_out(splits, lambda split: split.count, rows_per_task)


def task_splits(
    log: LogSource, ranges: Mapping[TopicPartition, OffsetRange], rows_per_task: int
) -> list[Split]:
    """Divides the ranges into splits of about equal offset counts, at most `rows_per_task`.

    The log's own splits are optimized for reading, these for the size of the files written.
    """
    given = log.splits(ranges, SplitOptions(min_count=1))
    return [
        split
        for place in ranges
        if (of_place := [one for one in given if one.place == place])
        for split in _pieces(of_place, rows_per_task)
    ]


def _pieces(given: Sequence[Split], rows_per_task: int) -> Iterator[Split]:
    """Divides contiguous splits of one partition evenly."""
    aborted = tuple(dict.fromkeys(one for split in given for one in split.aborted))
    tiers = [split.tier for split in given if split.tier is not None]
    tier = reduce(lambda one, other: one.joined(other), tiers) if tiers else None
    whole = OffsetRange(from_offset=given[0].from_offset, until_offset=given[-1].until_offset)
    for piece in even_pieces(whole, rows_per_task):
        yield replace(
            given[0],
            from_offset=piece.from_offset,
            until_offset=piece.until_offset,
            aborted=tuple(
                one
                for one in aborted
                if one.first_offset < piece.until_offset and one.last_offset >= piece.from_offset
            ),
            tier=None if tier is None else tier.within(piece.from_offset, piece.until_offset),
        )
