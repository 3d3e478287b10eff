"""Every bit of a small directory flipped, one at a time, after a clean stop and after a crash.

Nothing kills the process, and nothing false is served as data: what differs from before was named
in the log, or is refused when it is read, by an error of ours or by a client that checks the CRC.
`make test` tries some of the bits, `make crash` all.
"""

import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from ottla.base.errors import CorruptionError, StorageError, UserError
from ottla.base.files import base_name
from ottla.record.batch import InvalidBatchError, batch_at, iter_batches
from ottla.record.record import Record, read_records
from ottla.storage.filenames import PARTITION_METADATA
from ottla.storage.log_directory import LogDirectory
from ottla.storage.partition_log import Isolation, PartitionLog
from ottla.testing import CrashMode, FakeFileSystem
from tests.crash.cases import Case, append_and_roll
from tests.crash.checking import all_files
from tests.crash.expected import Expected
from tests.crash.history import Event, promise_of
from tests.crash.test_bit_flips import disk_of, stopped_log
from tests.crash.workload import KEY, TINY
from tests.log_support import NOW_MS, TOPIC_ID, append, open_directory


def killed_log() -> tuple[dict[str, bytes], Expected]:
    """As `stopped_log`, but the files of a process that died behind its last flush."""
    disk = FakeFileSystem()
    events: list[Event] = []
    Case(append_and_roll)(disk, events)
    files = all_files(disk.crash(CrashMode.KEEP))
    log = open_directory(disk_of(files), TINY).logs[KEY]
    return files, Expected(promise_of(events).below(log.log_end_offset))


STOPS = {"stopped": stopped_log, "killed": killed_log}

DIRECTORY_FILES = (
    "recovery-point-offset-checkpoint",
    "log-start-offset-checkpoint",
    "replication-offset-checkpoint",
    "cleaner-offset-checkpoint",
    "meta.properties",
    ".kafka_cleanshutdown",
)
PARTITION_FILES = (
    "leader-epoch-checkpoint",
    "partition.metadata",
    ".index",
    ".timeindex",
    ".txnindex",
    ".snapshot",
    ".log",
)
STRIDES = {
    "meta.properties": 5,
    ".log": 29,
    ".index": 3,
    ".timeindex": 7,
    ".txnindex": 5,
    ".snapshot": 29,
}
"""Primes, so that every bit of a field has its turn."""


LAST_OFFSET = 60
"""Somewhat behind those of the log: a flipped bit can promise very many."""


@dataclass
class Outcome:
    """What became of a directory with one flipped bit."""

    records: list[Record] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)


class Listener(logging.Handler):
    def __init__(self, named: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._named = named

    def emit(self, record: logging.LogRecord) -> None:
        self._named.append(record.getMessage())


@contextlib.contextmanager
def listening(named: list[str]) -> Iterator[None]:
    logger, listener = logging.getLogger("ottla"), Listener(named)
    logger.addHandler(listener)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(listener)
        logger.setLevel(logging.NOTSET)
        logger.propagate = True


def read_as_client(log: PartitionLog, offset: int, outcome: Outcome) -> None:
    """Reads on behind what is refused, as somebody who seeks there would."""
    while offset < min(log.log_end_offset, LAST_OFFSET):
        try:
            found = log.read(offset, 200, Isolation.HIGH_WATERMARK).records
            if found is None:
                return
            batches = iter_batches(content := found.read(), allow_torn_tail=True)
            assert batch_at(content).size <= len(content), "half a batch is sent"
            for batch in batches:
                batch.check()
                outcome.records += [one for one in read_records(batch) if one.offset >= offset]
                assert batch.next_offset > offset, "sent back"
                offset = batch.next_offset
        except (CorruptionError, InvalidBatchError) as error:
            outcome.refused.append(str(error))
            offset += 1


def flips(content: bytes, stride: int) -> Iterator[tuple[int, bytes]]:
    for bit in range(0, 8 * len(content), stride):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        yield bit, bytes(damaged)


def opened(files: dict[str, bytes], outcome: Outcome) -> LogDirectory | None:
    try:
        return open_directory(disk_of(files), TINY)
    except UserError as error:
        outcome.named.append(str(error))
        return None


def check_outcome(path: str, files: dict[str, bytes], expected: Expected, start: int) -> None:
    outcome = Outcome()
    with listening(outcome.named):
        directory = opened(files, outcome)
        if directory is None:
            assert path in outcome.named[0], outcome.named
            return
        log = directory.logs[KEY]
        try:
            read_as_client(log, log.log_start_offset, outcome)
        except StorageError as error:
            outcome.refused.append(str(error))
            assert path in outcome.refused[-1]
            directory.close()
            return
        check_records(path, outcome, expected.records(start))
        if log.epochs.entries != expected.epochs(start, log.log_end_offset):
            assert any("leader" in one for one in outcome.named), (log.epochs.entries, outcome)
        if path.endswith(PARTITION_METADATA):
            # Another id that is as good only the topic file can tell from the right one.
            assert KEY[0] in directory.topic_ids
        elif directory.topic_ids != {KEY[0]: TOPIC_ID}:
            assert any(path in one for one in outcome.named), outcome
        append(log, b"more")
        assert log.read(log.log_end_offset - 1, 200, Isolation.HIGH_WATERMARK).records is not None
        for timestamp_ms in range(NOW_MS, NOW_MS + 250, 40):
            with contextlib.suppress(CorruptionError):
                log.find_timestamp(timestamp_ms)
        directory.close()


def check_records(path: str, outcome: Outcome, expected: list[Record]) -> None:
    wanted = {one.offset: one for one in expected}
    for record in outcome.records:
        if wanted.get(record.offset) != record:
            assert any(base_name(path) in one for one in outcome.named), (record, outcome)
    served = {record.offset for record in outcome.records}
    if wanted.keys() - served:
        told = [*outcome.refused, *outcome.named]
        assert told, f"{sorted(wanted.keys() - served)} are missing"


@pytest.mark.slow
@pytest.mark.parametrize("stop", STOPS)
@pytest.mark.parametrize("ending", [*PARTITION_FILES, *DIRECTORY_FILES])
def test_no_flipped_bit_is_served_as_data(ending: str, stop: str, crash_seconds: float) -> None:
    files, expected = STOPS[stop]()
    start = 0
    paths = [path for path in files if path.endswith(ending)]
    stride = 1 if crash_seconds else STRIDES.get(ending, 1)
    for path in paths:
        for bit, damaged in flips(files[path], stride):
            try:
                check_outcome(path, {**files, path: damaged}, expected, start)
            except BaseException as error:
                error.add_note(f"bit {bit % 8} of byte {bit // 8} of {path}")
                raise
