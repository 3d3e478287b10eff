"""Directories of a few hundred bytes, as a clean stop and as a kill leave them, file by file."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from ottla.config.topic import TopicConfig
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_state import AppendOrigin
from ottla.testing import CrashMode, FakeFileSystem
from tests.crash.cases import append_and_roll
from tests.crash.checking import all_files
from tests.crash.workload import KEY, TINY, Writer
from tests.support.compacting import clean
from tests.support.logs import NOW_MS, TOPIC_ID, open_directory

COMPACTED = replace(TINY, cleanup_policy=("compact",), min_cleanable_dirty_ratio=0.0)


class Policy(StrEnum):
    DELETE = "delete"
    COMPACT = "compact"


class Stop(StrEnum):
    CLEAN = "stopped"
    KILL = "killed"


@dataclass(frozen=True, slots=True)
class SmallDirectory:
    config: TopicConfig
    files: dict[str, bytes]


def small_directory(policy: Policy, stop: Stop) -> SmallDirectory:
    config, files = MAKERS[policy, stop]
    return SmallDirectory(config, files())


def _plain() -> tuple[FakeFileSystem, Writer]:
    """Several segments with epochs and transactions, the last flush a while ago."""
    disk = FakeFileSystem()
    writer = Writer(disk, [])
    append_and_roll(writer)
    writer.delete_before(1)
    return disk, writer


def _stopped() -> dict[str, bytes]:
    disk, writer = _plain()
    writer.close()
    return all_files(disk)


def _killed() -> dict[str, bytes]:
    disk, _ = _plain()
    return all_files(disk.crash(CrashMode.KEEP))


def _write(log: PartitionLog, keys: str, *, epoch: int, producer: int | None = None) -> None:
    """A batch for each key; producers number theirs from 0 on."""
    for number, key in enumerate(keys):
        offset = log.log_end_offset
        has_producer = producer is not None
        builder = RecordBatchBuilder(
            producer_id=-1 if producer is None else producer,
            producer_epoch=0 if has_producer else -1,
            base_sequence=number if has_producer else -1,
        )
        builder.append(key.encode(), b"%d" % offset, NOW_MS + 10 * offset)
        log.writer.append_as_leader(bytearray(builder.build()), leader_epoch=epoch, now_ms=NOW_MS)
        log.writer.write_out()


def _abort(log: PartitionLog, key: str) -> None:
    """A transaction of one record that is aborted."""
    builder = RecordBatchBuilder(
        producer_id=8, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    timestamp_ms = NOW_MS + 10 * log.log_end_offset
    builder.append(key.encode(), b"aborted", timestamp_ms)
    marker = build_end_transaction_marker(
        EndTransactionMarker(is_commit=False, coordinator_epoch=0),
        producer_id=8,
        producer_epoch=0,
        timestamp_ms=timestamp_ms + 10,
    )
    for records in (builder.build(), marker):
        log.writer.append_as_leader(
            bytearray(records), leader_epoch=1, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
        )
        log.writer.write_out()


def _compacted() -> tuple[FakeFileSystem, LogDirectory]:
    """Two segments with gaps, and after them one that no pass has seen, flushed in part."""
    disk = FakeFileSystem()
    directory = open_directory(disk, COMPACTED)
    log = directory.create_log(*KEY, TOPIC_ID)
    _write(log, "abcabdaeb", epoch=0)
    _write(log, "fag", epoch=1, producer=7)
    _abort(log, "z")
    log.writer.roll(NOW_MS)
    _write(log, "abhabia", epoch=1)
    log.writer.roll(NOW_MS)
    clean(log, disk)
    _write(log, "abc", epoch=1)
    _abort(log, "y")
    log.writer.flush()
    directory.checkpoints.write()
    _write(log, "ab", epoch=1)
    return disk, directory


def _stopped_compacted() -> dict[str, bytes]:
    disk, directory = _compacted()
    directory.close()
    return all_files(disk)


def _killed_compacted() -> dict[str, bytes]:
    disk, _ = _compacted()
    return all_files(disk.crash(CrashMode.KEEP))


MAKERS: dict[tuple[Policy, Stop], tuple[TopicConfig, Callable[[], dict[str, bytes]]]] = {
    (Policy.DELETE, Stop.CLEAN): (TINY, _stopped),
    (Policy.DELETE, Stop.KILL): (TINY, _killed),
    (Policy.COMPACT, Stop.CLEAN): (COMPACTED, _stopped_compacted),
    (Policy.COMPACT, Stop.KILL): (COMPACTED, _killed_compacted),
}
