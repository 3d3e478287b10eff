"""Compaction with Spark: the bytes of the other engines, or one line that says why not."""

import json
import random
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
from ottla.base.clock import SystemClock, read_clock
from ottla.base.errors import UserError
from ottla.base.files import OsFileSystem
from ottla.cli.topic.compact import compact_command
from ottla.codec.compression import Compression
from ottla.record.batch import iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.record.message_set import MessageSetBuilder
from ottla.spark.compact import SparkEngine
from ottla.spark.session import LocalSession
from ottla.storage.compaction.compaction import Surroundings, compact
from ottla.storage.compaction.key_filter import PlainKeyFilter
from ottla.storage.log.producer_state import AppendOrigin
from tests.integration.cli.support import run_ottla

CONFIG = {
    "cleanup.policy": "compact",
    "segment.bytes": "6000",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "1",
}
BY_HAND = {"log.cleaner.enable": False}


def write_history(log: ottla.Log, seed: int, count: int = 300) -> None:
    """Transactions that reach over segments, tombstones, all codecs."""
    chance = random.Random(seed)
    sequences: dict[int, int] = {}
    open_since: dict[int, int] = {}
    partition = log.broker.topics.partition("t", 0).log
    now_ms = SystemClock().now_ms()

    def append(content: bytes) -> None:
        log.broker.appends.append(
            log.broker.topics.partition("t", 0),
            bytearray(content),
            now_ms=now_ms,
            origin=AppendOrigin.COORDINATOR,
        )
        log.broker.appends.write_out()

    def end(producer: int) -> None:
        marker = EndTransactionMarker(is_commit=chance.random() < 0.6, coordinator_epoch=0)
        append(
            build_end_transaction_marker(
                marker, producer_id=producer, producer_epoch=0, timestamp_ms=now_ms
            )
        )
        del open_since[producer]

    for number in range(count):
        producer = chance.choice([-1, 50, 51, 52])
        builder = RecordBatchBuilder(
            compression=chance.choice(list(Compression)),
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequences.get(producer, 0) if producer >= 0 else -1,
            is_transactional=producer >= 0,
        )
        size = chance.randint(1, 8)
        for _ in range(size):
            value = None if chance.random() < 0.1 else b"value %d" % number * chance.randint(1, 4)
            builder.append(b"key %d" % chance.randrange(60), value, now_ms)
        append(builder.build())
        if producer >= 0:
            sequences[producer] = sequences.get(producer, 0) + size
            open_since.setdefault(producer, number)
        for one, since in list(open_since.items()):
            if number - since > chance.randrange(30):
                end(one)
    for producer in list(open_since):
        end(producer)
    partition.writer.roll(now_ms)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A log with a compacted part and a dirty one."""
    path = tmp_path / "data"
    with ottla.open(path, BY_HAND) as log:
        log.create_topic("t", config=CONFIG)
        write_history(log, seed=1)
        log.compact("t")
        write_history(log, seed=2)
    return path


@pytest.fixture
def engine(local_session: LocalSession) -> SparkEngine:
    return SparkEngine(local_session.spark)


def files(path: Path) -> dict[str, bytes]:
    return {one.name: one.read_bytes() for one in sorted(path.iterdir()) if one.is_file()}


def test_the_files_are_those_of_the_other_engines(data: Path, engine: SparkEngine) -> None:
    with ottla.open(data, BY_HAND) as log:
        task = log.broker.log_jobs.cleaner.task_for(("t", 0), read_clock(SystemClock()))
        assert task is not None
        assert len(task.plan.sources) > 5
        assert task.plan.first_dirty_offset > 0
        key_filter = PlainKeyFilter(1 << 20, 0.9)
        wanted = compact(task.plan, key_filter, Surroundings(file_system=OsFileSystem()))
        made = files(data / "t-0")
        assert wanted.stats.records_kept < wanted.stats.records_read
        assert task.plan.aborted
        assert engine(task, 1.0) == wanted
        assert files(data / "t-0") == made
        log.broker.log_jobs.cleaner.finish(task, wanted, read_clock(SystemClock()))


def test_a_log_is_compacted_and_reads_the_same(data: Path, engine: SparkEngine) -> None:
    with ottla.open(data, BY_HAND) as log:
        before = {one.key: one.value for one in log.read("t")}
        (one,) = log.compact("t", engine)
        assert one.size_after < one.size_before
        assert {one.key: one.value for one in log.read("t")} == before
        keys = [one.key for one in log.read("t")]
        assert len(keys) == len(set(keys)) == len(before)


def test_old_formats_are_compacted_too(tmp_path: Path, engine: SparkEngine) -> None:
    path = tmp_path / "data"
    with ottla.open(path, BY_HAND) as log:
        log.create_topic("t", config={**CONFIG, "message.format.version": "0.10.2"})
        now_ms = SystemClock().now_ms()
        for number in range(60):
            builder = MessageSetBuilder(0, magic=1, compression=Compression.GZIP)
            builder.append(b"key %d" % (number % 7), b"%d" % number, now_ms)
            log.broker.appends.append(
                log.broker.topics.partition("t", 0), bytearray(builder.build()), now_ms=now_ms
            )
            log.broker.appends.write_out()
        log.broker.topics.partition("t", 0).log.writer.roll(now_ms)
        log.compact("t", engine)
        assert sorted(one.value for one in log.read("t")) == [b"%d" % one for one in range(53, 60)]


def test_a_damaged_segment_is_named_and_nothing_is_left(data: Path, engine: SparkEngine) -> None:
    path = sorted((data / "t-0").glob("*.log"))[2]
    with ottla.open(data, BY_HAND) as log:
        batch = list(iter_batches(path.read_bytes()))[-1]
        content = bytearray(path.read_bytes())
        content[-batch.size // 2] ^= 1
        path.write_bytes(content)
        with pytest.raises(UserError, match=f"{path.name} at byte") as refused:
            log.compact("t", engine)
        assert "\n" not in str(refused.value)
        assert not list(path.parent.glob("*.cleaned"))


def test_a_driver_that_dies_before_the_files_are_in_place_changes_nothing(
    data: Path, tmp_path: Path, engine: SparkEngine
) -> None:
    with ottla.open(data, BY_HAND) as log:
        before = list(log.read("t"))
        task = log.broker.log_jobs.cleaner.task_for(("t", 0), read_clock(SystemClock()))
        assert task is not None
        engine(task, 1.0)
        assert list((data / "t-0").glob("*.cleaned"))
        shutil.copytree(data, tmp_path / "found", ignore=shutil.ignore_patterns(".lock"))
        log.broker.log_jobs.cleaner.fail(task, RuntimeError("it died"), read_clock(SystemClock()))
    with ottla.open(tmp_path / "found", BY_HAND) as log:
        assert not list((tmp_path / "found" / "t-0").glob("*.cleaned"))
        assert list(log.read("t")) == before


def test_two_attempts_at_one_task_are_not_let_write_one_file(
    data: Path, engine: SparkEngine, local_session: LocalSession
) -> None:
    conf = local_session.spark.sparkContext._conf
    conf.set("spark.speculation", "true")
    try:
        with ottla.open(data, BY_HAND) as log, pytest.raises(UserError, match=r"speculation=false"):
            log.compact("t", engine)
    finally:
        conf.set("spark.speculation", "false")


def test_the_command_says_what_it_did(
    data: Path, tmp_path: Path, local_session: LocalSession
) -> None:
    other = tmp_path / "other"
    shutil.copytree(data, other)
    local = run_ottla("compact", "-d", data, "-t", "t")
    arguments = ["-d", str(other), "-t", "t", "--engine", "spark", "--json"]
    assert local_session.process_id, "the command takes the session that is there"
    spark = CliRunner().invoke(compact_command, arguments, catch_exceptions=False)
    assert (local.returncode, spark.exit_code) == (0, 0)
    told = json.loads(spark.output)
    assert (told["topic"], told["partition"]) == ("t", 0)
    assert told["size_after"] < told["size_before"]
    assert f"t-0: compacted up to offset {told['end_offset']}, " in local.stdout
    with ottla.open(data, BY_HAND) as one, ottla.open(other, BY_HAND) as two:
        assert list(one.read("t")) == list(two.read("t"))
    again = run_ottla("compact", "-d", data, "-t", "other")
    assert (again.returncode, again.stderr) == (1, "ottla: there is no topic other; there is t\n")
