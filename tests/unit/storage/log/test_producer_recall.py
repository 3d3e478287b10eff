"""Five batches of a producer whose answers were lost: after any restart each retry is known."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import FileSystem
from ottla.config.topic import TopicConfig
from ottla.record.batch import MAX_SEQUENCE
from ottla.record.builder import RecordBatchBuilder
from ottla.storage import scan
from ottla.storage.files.log_file import LogFile
from ottla.storage.log import producer_recall
from ottla.storage.log.append import AppendInfo
from ottla.storage.log.partition_log import PartitionLog
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.compacting import COMPACTED, clean
from tests.support.logs import NOW_MS, TOPIC_ID, append, open_directory, values

ROOMY = TopicConfig(index_interval_bytes=100, segment_index_bytes=1 << 14)
ROLLING = replace(ROOMY, segment_bytes=100)
"""Each batch has a segment of its own."""

PRODUCER = 7
Restart = Callable[["Data"], None]


class Data:
    """A log whose process comes and goes."""

    def __init__(self, config: TopicConfig) -> None:
        self.config = config
        self.file_system: FakeFileSystem = FakeFileSystem()
        self.open()

    def open(self) -> None:
        self.directory = open_directory(self.file_system, self.config)
        found = self.directory.logs.get(("t", 0))
        self.log: PartitionLog = found or self.directory.create_log("t", 0, TOPIC_ID)

    def send(self, sequence: int, count: int = 2, producer_id: int = PRODUCER) -> AppendInfo:
        return append(
            self.log,
            *[b"%d" % (sequence + number) for number in range(count)],
            producer_id=producer_id, producer_epoch=3, base_sequence=sequence,
        )  # fmt: skip


def stop(data: Data) -> None:
    data.directory.close()
    data.open()


def kill(data: Data) -> None:
    data.file_system = data.file_system.crash(CrashMode.KEEP)
    data.open()


def lose_power(data: Data) -> None:
    data.log.writer.flush()
    data.file_system = data.file_system.crash(CrashMode.STRICT)
    data.open()


def stop_after_a_roll(data: Data) -> None:
    data.log.writer.roll(NOW_MS)
    stop(data)


def kill_after_a_roll(data: Data) -> None:
    data.log.writer.roll(NOW_MS)
    kill(data)


def stop_twice(data: Data) -> None:
    stop(data)
    stop(data)


def cut(data: Data) -> None:
    """What a follower, or a copy that moves, does to its end."""
    data.log.writer.roll(NOW_MS)
    end = data.log.log_end_offset
    append(data.log, b"cut off")
    data.log.maintenance.truncate_to(end, now_ms=NOW_MS)


RESTARTS: list[Restart] = [
    stop, kill, lose_power, stop_after_a_roll, kill_after_a_roll, stop_twice, cut,
]  # fmt: skip


@pytest.fixture(params=RESTARTS, ids=lambda one: one.__name__)
def restart(request: pytest.FixtureRequest) -> Restart:
    chosen: Restart = request.param
    return chosen


@pytest.mark.parametrize("config", [ROOMY, ROLLING], ids=["one segment", "a segment each"])
def test_each_of_five_retries_gets_its_first_offset(restart: Restart, config: TopicConfig) -> None:
    data = Data(config)
    sent = [data.send(2 * number).first_offset for number in range(8)][-5:]
    restart(data)
    end = data.log.log_end_offset
    retried = [data.send(2 * number) for number in range(3, 8)]
    assert [one.first_offset for one in retried] == sent
    assert not any(one.size for one in retried), "a retry was appended again"
    assert data.log.log_end_offset == end
    assert data.send(16).first_offset == end


def test_batches_of_others_between_them_change_nothing(restart: Restart) -> None:
    data = Data(ROLLING)
    sent = []
    for number in range(5):
        sent.append(data.send(2 * number).first_offset)
        for other in range(10):
            data.send(3 * number, 3, producer_id=100 + other)
        append(data.log, b"nobody's")
    restart(data)
    assert [data.send(2 * number).first_offset for number in range(5)] == sent
    for other in range(10):
        assert data.send(0, 3, producer_id=100 + other).size == 0


def test_sequence_numbers_that_begin_again_are_known(restart: Restart) -> None:
    data = Data(ROOMY)
    sequences = [MAX_SEQUENCE - 3, MAX_SEQUENCE - 1, 0, 2, 4]
    sent = [data.send(sequence).first_offset for sequence in sequences]
    restart(data)
    assert [data.send(sequence).first_offset for sequence in sequences] == sent


def test_new_batches_before_the_retries_count_among_the_five(restart: Restart) -> None:
    data = Data(ROOMY)
    sent = [data.send(2 * number).first_offset for number in range(5)]
    restart(data)
    sent.append(data.send(10).first_offset)
    assert [data.send(2 * number).first_offset for number in range(1, 6)] == sent[1:]


def test_a_log_that_was_compacted_knows_what_it_still_has(restart: Restart) -> None:
    data = Data(replace(COMPACTED, segment_bytes=1 << 20))

    def send(number: int) -> AppendInfo:
        builder = RecordBatchBuilder(
            producer_id=PRODUCER, producer_epoch=3, base_sequence=number, is_transactional=False
        )
        builder.append(b"key %d" % number, b"value", NOW_MS)
        made = bytearray(builder.build())
        return data.log.writer.append_as_leader(made, leader_epoch=0, now_ms=NOW_MS)

    sent = [send(number).first_offset for number in range(5)]
    data.log.writer.roll(NOW_MS)
    assert clean(data.log, data.file_system) is not None
    restart(data)
    assert [send(number).first_offset for number in range(5)] == sent


@pytest.mark.parametrize("sequence", [1, 5, 11, 40])
def test_what_was_never_sent_is_still_refused(restart: Restart, sequence: int) -> None:
    data = Data(ROOMY)
    for number in range(5):
        data.send(2 * number)
    restart(data)
    with pytest.raises(ApiError) as refused:
        data.send(sequence)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert data.send(10).first_offset == 10


def test_another_epochs_batches_are_no_retries(restart: Restart) -> None:
    data = Data(ROOMY)
    append(data.log, b"old", producer_id=PRODUCER, producer_epoch=2, base_sequence=0)
    data.send(0)
    data.send(2)
    restart(data)
    assert data.send(0).first_offset == 1
    with pytest.raises(ApiError) as refused:
        append(data.log, b"old", producer_id=PRODUCER, producer_epoch=2, base_sequence=0)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


def test_a_start_reads_nothing_for_it_and_a_retry_a_bounded_part(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producer_recall, "HEADERS_TO_READ", 100)
    data = Data(ROOMY)
    for sequence in (0, 2):
        for _ in range(300):
            append(data.log, b"nobody's")
        data.send(sequence)
    stop(data)
    reads: list[int] = []
    headers = scan.headers

    def counted(log: LogFile, position: int, until: int) -> Iterator[scan.Step]:
        for found in headers(log, position, until):
            reads.append(found[0])
            yield found

    monkeypatch.setattr(scan, "headers", counted)
    with pytest.raises(ApiError):
        data.send(0)
    # Never more than one window beyond the bound, and not again for the same producer.
    assert 0 < len(reads) <= 101
    seen = len(reads)
    with pytest.raises(ApiError):
        data.send(0)
    assert len(reads) == seen


def test_damage_in_the_way_is_no_error_of_the_producer() -> None:
    data = Data(replace(ROOMY, index_interval_bytes=1))
    for number in range(5):
        data.send(2 * number)
    stop(data)
    log = data.log.segments.active.log
    file = data.file_system.open(log.path, writable=True)
    file.pwrite(b"\xff" * 40, 200)
    file.close()
    with pytest.raises(ApiError) as refused:
        data.send(4)
    assert refused.value.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert data.send(10).first_offset == 10


def test_the_snapshot_of_a_stop_is_as_kafka_writes_it() -> None:
    """What was looked up stays in memory."""
    data = Data(ROOMY)
    for number in range(5):
        data.send(2 * number)
    data.directory.close()
    path = "data/t-0/00000000000000000010.snapshot"
    written = read(data.file_system, path)
    data.open()
    data.send(0)
    data.directory.close()
    assert read(data.file_system, path) == written
    assert len(written) == 10 + 46
    data.open()
    assert values(data.log) == [b"%d" % number for number in range(10)]


def read(file_system: FileSystem, path: str) -> bytes:
    file = file_system.open(path)
    content = file.pread(1000, 0)
    file.close()
    return content
