"""Whether a recovered log keeps its promise, and whether all its files say the same."""

from itertools import pairwise

from ottla.base.files import FileSystem, join, read_file, remove_if_present
from ottla.config.topic import TopicConfig
from ottla.record.batch import RecordBatch, iter_batches
from ottla.storage import scan
from ottla.storage.files.filenames import INTEGRITY
from ottla.storage.files.integrity import Integrity, read_integrity
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.segment.partition_files import listed_base_offsets
from ottla.testing import FakeFileSystem
from tests.crash.expected import Expected
from tests.crash.history import Promise
from tests.crash.workload import KEY, Writer
from tests.support.logs import DIRECTORY, TOPIC_ID, open_directory, read_all

PARTITION = join(DIRECTORY, "t-0")
DERIVED = (".index", ".timeindex", ".txnindex", ".snapshot", "leader-epoch-checkpoint")


def stored_batches(log: PartitionLog) -> list[bytes]:
    """All that lies in the segments, checked as a consumer would."""
    found: list[bytes] = []
    for segment in log.segments.values:
        assert segment.log.size == segment.log.written_size
        for batch in iter_batches(segment.log.read(0, segment.log.size)):
            assert isinstance(batch, RecordBatch)
            batch.check()
            found.append(bytes(batch.bytes_view()))
    return found


def check_promise(log: PartitionLog, promise: Promise, required_end: int) -> Expected:
    """Asserts that the log is a prefix of what was written that keeps what was promised."""
    start, end = log.log_start_offset, log.log_end_offset
    stored = stored_batches(log)
    if not stored and promise.restart is not None:
        assert start == end
        return Expected([])
    assert promise.kept_start <= start <= max(promise.wanted_start, promise.kept_start)
    assert end >= max(required_end, promise.kept_start)
    # Below the start nobody reads, and what was not flushed may be lost in part.
    below = [one for one in stored if RecordBatch(one).last_offset < start]
    assert [one for one in promise.batches if one in below] == below
    wanted = [one for one in promise.below(end) if RecordBatch(one).last_offset >= start]
    assert stored[len(below) :] == wanted, "the log is no prefix of what was written"
    assert end == (RecordBatch(wanted[-1]).last_offset + 1 if wanted else start)
    return Expected(promise.below(end))


def check_consistency(log: PartitionLog, expected: Expected) -> None:
    """Asserts that offsets, indexes, epochs and producers are those of the batches."""
    check_answers(log, expected)
    check_entries(log, expected)
    check_transactions(log, expected)
    assert log.epochs.entries == expected.epochs(log.log_start_offset, log.log_end_offset)


def check_nothing_counts_as_lost(file_system: FileSystem, log_start_offset: int) -> None:
    """Asserts that the integrity file lists no segment that is gone from the directory."""
    if file_system.status(PARTITION) is None:
        return
    known = read_integrity(file_system, PARTITION) or Integrity()
    losses = known.losses(listed_base_offsets(file_system, PARTITION), 0)
    assert [one for one in losses.segments if one[1] > log_start_offset] == []


def check_no_segment_counts_as_cut(log: PartitionLog) -> None:
    """Asserts that no start will find a segment shorter than the integrity file has it."""
    known = log.integrity.now().segments
    for segment, following in pairwise(log.segments.values):
        if following.base_offset > log.log_start_offset:
            assert (known[segment.base_offset].size or 0) <= segment.log.size


def check_answers(log: PartitionLog, expected: Expected) -> None:
    """Asserts that who reads from any offset, or searches for any time, is told the truth."""
    check_offsets(log, expected)
    check_reads(log, expected)
    check_times(log, expected)


def check_offsets(log: PartitionLog, expected: Expected) -> None:
    log.offsets.check()
    assert log.offsets.recovery_point <= log.log_end_offset
    assert log.high_watermark == log.log_end_offset
    unstable = expected.first_unstable_offset
    stable = log.log_end_offset if unstable is None else max(unstable, log.log_start_offset)
    assert log.last_stable_offset == stable


def check_reads(log: PartitionLog, expected: Expected) -> None:
    start, end = log.log_start_offset, log.log_end_offset
    assert read_all(log) == expected.records(start)
    for offset in range(start, end):
        data = log.reader.read(offset, 1, Isolation.HIGH_WATERMARK)
        assert data.records is not None
        batch = RecordBatch(data.records.read())
        assert batch.base_offset <= offset <= batch.last_offset


def check_times(log: PartitionLog, expected: Expected) -> None:
    records = expected.records(log.log_start_offset)
    times = {record.timestamp_ms for record in records}
    for wanted in sorted({near for time in times for near in (time - 1, time, time + 1)}):
        found = log.reader.find_timestamp(wanted)
        # As Kafka, in the first segment whose largest timestamp is late enough, and in no other.
        base, end = _bounds_by_time(log, wanted)
        inside = (one for one in records if base <= one.offset < end)
        first = next((one for one in inside if one.timestamp_ms >= wanted), None)
        if first is None:
            assert found is None
        else:
            assert found is not None
            assert (found.offset, found.timestamp_ms) == (first.offset, first.timestamp_ms)


def _bounds_by_time(log: PartitionLog, timestamp_ms: int) -> tuple[int, int]:
    """The offsets between which a log is searched for a time."""
    bases = [segment.base_offset for segment in log.segments.values]
    for number, segment in enumerate(log.segments.values):
        if segment.largest_timestamp_ms() >= timestamp_ms:
            return bases[number], [*bases, log.log_end_offset][number + 1]
    return 0, 0


def check_entries(log: PartitionLog, expected: Expected) -> None:
    """Every index entry tells the truth, and the last time entry is the largest."""
    for segment in log.segments.values:
        headers = list(scan.headers(segment.log))
        positions = dict(headers)
        for number in range(segment.offset_index.entry_count):
            offset, position = segment.offset_index.entry(number)
            assert positions[position].base_offset <= offset <= headers[-1][1].last_offset
            assert all(one.last_offset < offset for at, one in headers if at < position)
        for number in range(segment.time_index.entry_count):
            time, offset = segment.time_index.entry(number)
            until = [one for _, one in headers if one.last_offset <= offset]
            assert time == max(one.max_timestamp_ms for one in until)
        times = [one.max_timestamp_ms for _, one in headers]
        assert segment.largest.timestamp_ms == max(times, default=-1)


def check_transactions(log: PartitionLog, expected: Expected) -> None:
    """What lies below the log's start may be forgotten, or be remembered from a snapshot."""
    start = log.log_start_offset
    found = [one for segment in log.segments.values for one in segment.transaction_index.entries]
    assert [one for one in found if one.first_offset >= start] == [
        one for one in expected.aborted if one.first_offset >= start
    ]
    assert set(log.producers.entries) <= set(expected.producers)
    for producer_id, producer in expected.producers.items():
        entry = log.producers.entries.get(producer_id)
        if producer.last_offset < start and (entry is None or not entry.batches):
            continue
        assert entry is not None
        assert entry.epoch == producer.epoch
        assert entry.transaction_first_offset == producer.transaction_first_offset
        assert entry.last_sequence == producer.last_sequence
        assert entry.last_batch is not None
        assert entry.last_batch.last_offset == producer.last_offset


def all_files(file_system: FileSystem, directory: str = DIRECTORY) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    if file_system.status(directory) is None:
        return found
    for name in file_system.list(directory):
        path = join(directory, name)
        status = file_system.status(path)
        if status is not None and status.is_directory:
            found |= all_files(file_system, path)
        else:
            found[path] = read_file(file_system, path)
    return found


def remove_derived_files(file_system: FakeFileSystem) -> None:
    """Leaves only what cannot be made again from anything else."""
    for name in file_system.list(PARTITION):
        if name.endswith(DERIVED) and name != INTEGRITY:
            remove_if_present(file_system, join(PARTITION, name))


def check_goes_on(file_system: FakeFileSystem, config: TopicConfig) -> list[bytes]:
    """Asserts that the log takes appends; returns all that is durable in it now."""
    writer = Writer(file_system, [], config=config)
    writer.open()
    before = stored_batches(writer.log)
    writer.epoch = 9
    writer.append(2, producer=77)
    writer.append(1)
    writer.flush()
    added = [event.records for event in writer.events if event.records]
    stored = stored_batches(writer.log)
    assert stored == [*before, *added]
    return stored


def reopened(
    file_system: FileSystem, config: TopicConfig, *, may_be_new: bool = False
) -> PartitionLog:
    """The log after a recovery; rebuilt where it need not have been there yet."""
    directory = open_directory(file_system, config)
    assert directory.topic_ids == ({KEY[0]: TOPIC_ID} if directory.logs else {})
    if may_be_new and KEY not in directory.logs:
        return directory.create_log(*KEY, TOPIC_ID)
    return directory.logs[KEY]
