"""A small directory with one flipped bit, and what it says that is not so.

What the directory serves is compared with what it served before: records, the offset at a time,
leader epochs, aborted transactions, where the log starts and ends, the ids. Whatever differs is
false, unless it was refused where it is read, or is missing and was named.
"""

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from ottla.base.errors import CorruptionError, StorageError, UserError
from ottla.base.files import base_name
from ottla.config.topic import TopicConfig
from ottla.record.batch import InvalidBatchError, batch_at, iter_batches
from ottla.record.record import Record, read_records
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.index.transaction_index import AbortedTransaction
from ottla.storage.log.offsets import FoundOffset, Isolation
from ottla.storage.log.partition_log import PartitionLog
from tests.crash.test_bit_flips import disk_of
from tests.crash.workload import KEY
from tests.support.logs import NOW_MS, append, open_directory

LAST_OFFSET = 100
"""Somewhat larger than those of the logs: a flipped bit can promise very many."""

TIMES = range(NOW_MS, NOW_MS + 250, 10)

UNCHECKED_FIELDS = 8 * ["base offset"] + 4 * ["length"] + 4 * ["leader epoch"] + ["magic"]
"""Of a batch, byte by byte: what its CRC does not cover."""
ABORTED_FIELDS = (
    2 * ["version"]
    + 8 * ["producer id"]
    + 8 * ["first offset"]
    + 8 * ["last offset"]
    + 8 * ["last stable offset"]
)
"""Of an entry of a transaction index."""
ANY = "any"
REFUSED = "refused"


class Falsehood(StrEnum):
    """What a flipped bit made of the truth."""

    RECORD = "a record"
    MISSING = "a record less"
    TIME = "the offset at a time"
    EPOCH = "a leader epoch"
    START = "the log's start"
    END = "the log's end"
    ABORTED = "which transactions were aborted"
    TOPIC_ID = "the topic's id"
    DIRECTORY_ID = "whose directory it is"
    UNNAMED = "and no warning names the file"


@dataclass(slots=True)
class Seen:
    """What a directory says of itself; `named` are warnings, `refused` errors of reads."""

    records: list[Record] = field(default_factory=list)
    times: list[object] = field(default_factory=list)
    epochs: list[int | None] = field(default_factory=list)
    bounds: tuple[int, int] = (0, 0)
    aborted: list[AbortedTransaction] = field(default_factory=list)
    topic_ids: object = None
    directory_ids: object = None
    refused: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    is_offline: bool = False
    """The directory or the partition is not served at all, and an error names the file."""


class Listener(logging.Handler):
    def __init__(self, named: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._named = named

    def emit(self, record: logging.LogRecord) -> None:
        self._named.append(record.getMessage())


@contextlib.contextmanager
def listening(named: list[str]) -> Iterator[None]:
    logger, listener = logging.getLogger("ottla"), Listener(named)
    level = logger.level
    logger.addHandler(listener)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(listener)
        logger.setLevel(level)
        logger.propagate = True


def read_as_client(log: PartitionLog, offset: int, seen: Seen) -> None:
    """Reads on after what is refused, as somebody who seeks there would."""
    while offset < min(log.log_end_offset, LAST_OFFSET):
        try:
            found = log.reader.read(offset, 200, Isolation.HIGH_WATERMARK).records
            if found is None:
                return
            batches = iter_batches(content := found.read(), allow_torn_tail=True)
            assert batch_at(content).size <= len(content), "half a batch is sent"
            for batch in batches:
                batch.check()
                seen.records += [one for one in read_records(batch) if one.offset >= offset]
                assert batch.next_offset > offset, "sent back"
                offset = batch.next_offset
        except (CorruptionError, InvalidBatchError) as error:
            seen.refused.append(str(error))
            offset += 1


def ask_times(log: PartitionLog) -> list[object]:
    answers: list[object] = []
    for timestamp_ms in TIMES:
        try:
            answers.append(log.reader.find_timestamp(timestamp_ms))
        except CorruptionError:
            answers.append(REFUSED)
    return answers


def look_at(files: dict[str, bytes], config: TopicConfig) -> Seen:
    """Opens the directory, asks all of it, and appends to it."""
    seen = Seen()
    with listening(seen.named):
        try:
            directory = open_directory(disk_of(files), config)
        except UserError as error:
            seen.named.append(str(error))
            seen.is_offline = True
            return seen
        try:
            _look_at_log(directory, seen)
        except StorageError as error:
            seen.named.append(str(error))
            seen.is_offline = True
        directory.close()
    return seen


def _look_at_log(directory: LogDirectory, seen: Seen) -> None:
    log = directory.logs[KEY]
    read_as_client(log, log.log_start_offset, seen)
    seen.times = ask_times(log)
    seen.epochs = [log.epochs.epoch_for_offset(one.offset) for one in seen.records]
    seen.bounds = log.log_start_offset, log.log_end_offset
    seen.aborted = log.reader.aborted_transactions(*seen.bounds)
    seen.topic_ids = dict(directory.topic_ids)
    seen.directory_ids = directory.properties
    append(log, b"more")
    last = log.log_end_offset - 1
    assert log.reader.read(last, 200, Isolation.HIGH_WATERMARK).records is not None


def falsehoods(path: str, before: Seen, after: Seen) -> set[Falsehood]:
    """What is served that is not so. What is missing is only false if nobody was told."""
    if after.is_offline:
        assert any(path in one for one in after.named), after.named
        return set()
    wanted = {one.offset: one for one in before.records}
    served = {one.offset: one for one in after.records}
    epochs = dict(zip(wanted, before.epochs, strict=True))
    is_less = bool(wanted.keys() - served.keys())
    is_named = any(base_name(path) in one for one in after.named)
    is_listed = is_named or bool(after.refused)
    checks = {
        Falsehood.RECORD: any(wanted.get(one.offset) != one for one in after.records),
        Falsehood.MISSING: is_less and not is_listed,
        Falsehood.TIME: not all(_is_time_right(*one) for one in _answers(before, after)),
        Falsehood.EPOCH: any(
            at in epochs and epochs[at] != epoch
            for at, epoch in zip(served, after.epochs, strict=True)
        ),
        Falsehood.START: after.bounds[0] != before.bounds[0],
        # A damaged last batch may state any last offset: that the log goes on later wastes offsets,
        # and no record ever gets one that was acknowledged for another.
        Falsehood.END: after.bounds[1] != before.bounds[1] and not is_named,
        Falsehood.ABORTED: not is_less and after.aborted != before.aborted,
        Falsehood.TOPIC_ID: after.topic_ids != before.topic_ids,
        Falsehood.DIRECTORY_ID: after.directory_ids != before.directory_ids,
    }
    found = {kind for kind, is_false in checks.items() if is_false}
    return found if is_named or not found else {*found, Falsehood.UNNAMED}


def _answers(before: Seen, after: Seen) -> Iterator[tuple[int, object, object, list[Record]]]:
    for timestamp_ms, was, now in zip(TIMES, before.times, after.times, strict=True):
        yield timestamp_ms, was, now, after.records


def _is_time_right(timestamp_ms: int, was: object, now: object, served: list[Record]) -> bool:
    """As before, or refused, or what is true of the records that are left."""
    if now in (was, REFUSED):
        return True
    late = [one for one in served if one.timestamp_ms >= timestamp_ms]
    if not isinstance(now, FoundOffset):
        return not late
    return bool(late) and (now.offset, now.timestamp_ms) == (late[0].offset, late[0].timestamp_ms)


def flips(content: bytes, stride: int) -> Iterator[tuple[int, bytes]]:
    for bit in range(0, 8 * len(content), stride):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        yield bit, bytes(damaged)


def fields_of(path: str, content: bytes) -> list[str]:
    """The name of the field that each byte of a file belongs to."""
    if path.endswith(".txnindex"):
        return ABORTED_FIELDS * (len(content) // len(ABORTED_FIELDS))
    if not path.endswith(".log"):
        return [ANY] * len(content)
    fields: list[str] = []
    for batch in iter_batches(content):
        covered = batch.size - len(UNCHECKED_FIELDS)
        fields += [*UNCHECKED_FIELDS, *["what the CRC covers"] * covered]
    return fields
