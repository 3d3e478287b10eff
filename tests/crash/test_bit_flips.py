"""Bits of an index flipped, one at a time: nobody who reads or searches is told anything else.

Kafka believes the indexes of a clean stop. Here an entry is compared with the log: of offsets and
times when it is used, of transactions at the start. `make test-all` tries every fifth
bit of offsets and times, `make crash` all.
"""

import contextlib
from collections.abc import Iterator

import pytest

from ottla.base.errors import OttlaError
from ottla.base.files import join, parent_directory
from ottla.record.batch import iter_batches
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import CrashMode, FakeFileSystem
from tests.crash.cases import Case, append_and_roll
from tests.crash.checking import (
    PARTITION,
    all_files,
    check_answers,
    check_consistency,
    check_transactions,
    reopened,
    stored_batches,
)
from tests.crash.expected import Expected
from tests.crash.history import Event, promise_of
from tests.crash.workload import TINY, Writer
from tests.support.logs import NOW_MS, append, read_all


def stopped_log() -> tuple[dict[str, bytes], Expected]:
    """The files of a cleanly stopped log of several segments, and what is in them."""
    disk = FakeFileSystem()
    events: list[Event] = []
    Case(append_and_roll)(disk, events)
    # The workload ends without a stop, and its last holder is dead by now.
    disk = disk.crash(CrashMode.KEEP)
    writer = Writer(disk, [])
    writer.open()
    end = writer.log.log_end_offset
    writer.close()
    return all_files(disk), Expected(promise_of(events).below(end))


def disk_of(files: dict[str, bytes]) -> FakeFileSystem:
    disk = FakeFileSystem()
    for path, content in files.items():
        disk.make_directory(parent_directory(path))
        file = disk.open(path, create=True)
        file.pwrite(content, 0)
        file.close()
    return disk


STRIDE = 5
"""A prime, so that every bit of a field has its turn."""


def flipped(
    files: dict[str, bytes], ending: str, stride: int = 1
) -> Iterator[tuple[str, dict[str, bytes]]]:
    for path, content in files.items():
        if not path.endswith(ending) or parent_directory(path) != PARTITION:
            continue
        for bit in range(0, 8 * len(content), stride):
            damaged = bytearray(content)
            damaged[bit // 8] ^= 1 << bit % 8
            yield f"bit {bit} of {path}", {**files, path: bytes(damaged)}


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".index", ".timeindex"])
def test_an_index_with_a_flipped_bit_misleads_nobody(ending: str, crash_seconds: float) -> None:
    files, expected = stopped_log()
    batches = stored_batches(reopened(disk_of(files), TINY))
    count = 0
    for name, damaged in flipped(files, ending, 1 if crash_seconds else STRIDE):
        count += 1
        log = reopened(disk_of(damaged), TINY)
        try:
            assert stored_batches(log) == batches
            check_answers(log, expected)
            append(log, b"more", b"and more")
            append(log, b"the last")
            assert read_all(log)[-1].value == b"the last"
        except Exception as error:
            error.add_note(name)
            raise
    assert count > 100


@pytest.mark.slow
@pytest.mark.parametrize("ending", [".txnindex", ".snapshot"])
def test_what_is_known_of_transactions_survives_a_flipped_bit(ending: str) -> None:
    """Nobody is given aborted records for committed ones; a snapshot has a checksum."""
    files, expected = stopped_log()
    bits = list(flipped(files, ending))
    assert len(bits) > 500
    for name, damaged in bits[:: 1 if ending == ".txnindex" else 7]:
        log = reopened(disk_of(damaged), TINY)
        try:
            check_transactions(log, expected)
        except Exception as error:
            error.add_note(name)
            raise


UNCHECKED_HEADER_SIZE = 17
"""Base offset, length, leader epoch and magic lie outside a batch's CRC."""


def unchecked_bits(files: dict[str, bytes], stride: int) -> Iterator[tuple[str, dict[str, bytes]]]:
    for path, content in files.items():
        if not path.endswith(".log"):
            continue
        position = 0
        for batch in iter_batches(content):
            for bit in range(position % stride, 8 * UNCHECKED_HEADER_SIZE, stride):
                damaged = bytearray(content)
                byte = position + bit // 8
                damaged[byte] ^= 1 << bit % 8
                yield f"bit {bit % 8} of byte {byte} of {path}", {**files, path: bytes(damaged)}
            position += batch.size


def use_all_of(log: PartitionLog) -> None:
    """Reads from every offset and searches every time, as far as errors of ours let one."""
    for offset in range(log.log_start_offset, min(log.log_end_offset, 40)):
        # Once each: who follows the offsets of damaged batches may be sent back forever.
        with contextlib.suppress(OttlaError):
            log.reader.read(offset, 200, Isolation.HIGH_WATERMARK)
    for timestamp_ms in range(NOW_MS, NOW_MS + 250, 10):
        with contextlib.suppress(OttlaError):
            log.reader.find_timestamp(timestamp_ms)
    with contextlib.suppress(OttlaError):
        append(log, b"more")


@pytest.mark.slow
def test_a_flipped_bit_outside_the_checksum_raises_only_errors_of_ours(
    crash_seconds: float,
) -> None:
    files, _ = stopped_log()
    for name, damaged in unchecked_bits(files, 1 if crash_seconds else 7):
        try:
            with contextlib.suppress(OttlaError):
                use_all_of(reopened(disk_of(damaged), TINY))
        except Exception as error:
            error.add_note(name)
            raise


def test_a_flipped_bit_in_an_index_is_repaired_and_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("WARNING")
    files, expected = stopped_log()
    path = join(PARTITION, "00000000000000000000.index")
    damaged = bytearray(files[path])
    damaged[-1] ^= 1
    disk = disk_of({**files, path: bytes(damaged)})
    log = reopened(disk, TINY)
    check_consistency(log, expected)
    assert f"{path}: offset" in caplog.text
    assert all_files(disk)[path] == files[path]
