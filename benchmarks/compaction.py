"""Compacting a log: how fast each key filter is, what memory it takes, and what clients notice."""

import resource
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import pack_into

import numpy as np

from benchmarks.brokers import Ottla, source_environment
from benchmarks.logs import CHANCE, now_ms
from benchmarks.measuring import MEGABYTE, Samples, Scale, percentile, seconds_of
from benchmarks.report import Report, Target, add_figure, figures_report
from benchmarks.requests import one_by_one
from benchmarks.wire import Producing
from ottla.base.clock import SystemClock
from ottla.base.files import OsFileSystem
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.log_jobs.cleaner import CleaningTask
from ottla.codec.crc32c import crc32c
from ottla.metadata.deciding.topics import NewTopic
from ottla.record.builder import RecordBatchBuilder
from ottla.record.layout import ATTRIBUTES_POSITION, CRC_POSITION
from ottla.runtime.opening import open_broker
from ottla.storage.compaction import compiled_key_filter
from ottla.storage.compaction.compaction import CompactionResult, Surroundings, compact
from ottla.storage.compaction.key_filter import KeyFilter, PlainKeyFilter, new_key_filter
from ottla.storage.compaction.replacement import remove_cleaned
from ottla.storage.compaction.vector_key_filter import VectorKeyFilter

LOG_SIZE = 1_000_000_000
PLAIN_LOG_SIZE = 50_000_000
RECORD_SIZE = 100
KEY_DIGITS = 8
BATCH_RECORDS = 160
TOPIC = "compacted"
CONFIG = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"}
OFF = {"log.cleaner.enable": "false"}
BUFFER_BYTES = 134_217_728
SOME_REQUESTS = 20_000

RATE_TARGET = Target(limit=150, unit="MB/s", is_minimum=True)
MEMORY_TARGET = Target(limit=BUFFER_BYTES / MEGABYTE + 64, unit="MB")
LATENCY_TARGET = Target(limit=2, unit="x")


def run(scale: Scale) -> Iterator[Report]:
    size = scale.of(LOG_SIZE, 400_000)
    report = figures_report(
        f"A log of {size:,} bytes, records of {RECORD_SIZE} bytes, a tenth of them with a key of "
        "their own: one core"
    )
    with scale.data_directory() as directory:
        broker = filled(directory, size)
        if compiled_key_filter.IS_COMPILED:
            rates = _rates(scale, broker, compiled_key_filter.CompiledKeyFilter)
            add_figure(report, "compiled", rates, "MB/s", RATE_TARGET)
        rates = _rates(scale, broker, VectorKeyFilter)
        add_figure(report, "with numpy", rates, "MB/s", RATE_TARGET)
        broker.close()
        memory = Samples((_memory(directory),))
        add_figure(report, "the cleaner's process, at its largest", memory, "MB", MEMORY_TARGET)
    with scale.data_directory() as directory:
        broker = filled(directory, scale.of(PLAIN_LOG_SIZE, 200_000))
        add_figure(report, "Python alone", _rates(scale, broker, PlainKeyFilter), "MB/s")
        broker.close()
    yield report
    yield _latencies(scale, size)


def filled(directory: Path, size: int) -> Broker:
    """A broker with a compacted topic of so many bytes, which is not compacted yet."""
    broker = open_broker([str(directory)], OFF, clock=SystemClock())
    broker.admin.create_topic(NewTopic(name=TOPIC, partition_count=1, overrides=CONFIG))
    log = broker.topics.partition(TOPIC, 0).log
    for batch in _batches(size):
        log.writer.append_as_leader(batch, leader_epoch=0, now_ms=now_ms())
        log.writer.write_out()
    log.writer.roll(now_ms())
    log.writer.flush()
    return broker


def _batches(size: int) -> Iterator[bytearray]:
    """Batches that are alike but for their keys, whose digits are written into a copy of one."""
    key = b"key-" + b"0" * KEY_DIGITS
    builder = RecordBatchBuilder()
    for _ in range(BATCH_RECORDS):
        builder.append(key, b"v" * (RECORD_SIZE - 21), now_ms())
    template = np.frombuffer(builder.build(), np.uint8)
    content = template.tobytes()
    places = [at + 4 for at in range(len(content)) if content.startswith(key, at)]
    digits = np.array(places)[:, None] + np.arange(KEY_DIGITS)
    powers = 10 ** np.arange(KEY_DIGITS - 1, -1, -1)
    count = max(1, size // len(content))
    keys = max(1, count * BATCH_RECORDS // 10)
    numbers = np.random.default_rng(CHANCE.randrange(1 << 30))
    for _ in range(count):
        batch = template.copy()
        chosen = numbers.integers(0, keys, BATCH_RECORDS)
        batch[digits] = (chosen[:, None] // powers % 10 + ord("0")).astype(np.uint8)
        made = bytearray(batch.tobytes())
        pack_into(">I", made, CRC_POSITION, crc32c(memoryview(made)[ATTRIBUTES_POSITION:]))
        yield made


def _task(broker: Broker) -> CleaningTask:
    moment = Timestamps(now_ms=now_ms(), monotonic_ms=0)
    task = broker.log_jobs.cleaner.task_for(TopicPartition(TOPIC, 0), moment)
    assert task is not None
    broker.log_jobs.cleaner.forget(task.key)
    broker.log_jobs.cleaner.fail(task, RuntimeError("only its plan is wanted"), moment)
    return task


def _rates(scale: Scale, broker: Broker, key_filter: Callable[[int, float], KeyFilter]) -> Samples:
    task = _task(broker)
    plan = task.plan
    around = Surroundings(file_system=OsFileSystem())
    size = sum(source.size for source in plan.sources)

    def once() -> float:
        seconds = seconds_of(
            lambda: results.append(
                compact(plan, key_filter(plan.map_bytes, plan.load_factor), around)
            )
        )
        remove_cleaned(around.file_system, plan.directory, results[-1].groups)
        return size / MEGABYTE / seconds

    results: list[CompactionResult] = []
    return scale.sampled({"rate": once})["rate"]


def _memory(directory: Path) -> float:
    """The largest resident memory of a process that compacts, files that it maps left out."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.compaction", str(directory)],
        capture_output=True,
        text=True,
        check=True,
        env={**source_environment(), "PYTHONPATH": f"{source_environment()['PYTHONPATH']}:."},
        cwd=Path(__file__).resolve().parents[1],
    )
    return float(done.stdout)


def _measure_memory(directory: Path) -> float:
    broker = open_broker([str(directory)], OFF, clock=SystemClock())
    task = _task(broker)
    largest = [0.0]
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.01):
            largest[0] = max(largest[0], _anonymous_bytes())

    watcher = threading.Thread(target=watch)
    watcher.start()
    plan, around = task.plan, Surroundings(file_system=OsFileSystem())
    try:
        result = compact(plan, new_key_filter(plan.map_bytes, plan.load_factor), around)
    finally:
        is_over.set()
        watcher.join()
    remove_cleaned(around.file_system, plan.directory, result.groups)
    broker.close()
    return largest[0] / MEGABYTE


def _anonymous_bytes() -> float:
    """What a process holds itself; where that is not known, all that was ever resident."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _latencies(scale: Scale, size: int) -> Report:
    report = figures_report("One-record produce requests, acks=all, while a log is compacted")
    idle: list[float] = []
    busy: list[float] = []
    shares: list[float] = []
    for _ in range(scale.rounds):
        with scale.data_directory() as directory:
            filled(directory, size).close()
            requests = scale.of(SOME_REQUESTS, 50)
            idle.append(_p99(directory, requests, cleaner=False)[0])
            slow, share = _p99(directory, requests, cleaner=True)
            busy.append(slow)
            shares.append(share)
    add_figure(report, "p99, no cleaner", Samples(tuple(idle)), "us")
    add_figure(report, "p99, beside the cleaner", Samples(tuple(busy)), "us")
    ratio = Samples(tuple(busy)).over(Samples(tuple(idle)))
    add_figure(report, "  times the idle one", ratio, "x", LATENCY_TARGET)
    add_figure(report, "of the time, how much the pass was at work", Samples(tuple(shares)), "%")
    return report


def _p99(directory: Path, requests: int, *, cleaner: bool) -> tuple[float, float]:
    """In microseconds; and for how much of the time compaction was seen to run, in percent."""
    options = ("log.cleaner.backoff.ms=10",) if cleaner else ("log.cleaner.enable=false",)
    seen = taken = 0
    latencies: list[float] = []
    partition = directory / f"{TOPIC}-0"
    with Ottla(options).start(directory) as broker:
        producing = Producing(broker.host, broker.port)
        producing.sockets(1)
        deadline = time.monotonic() + 10
        while cleaner and not _is_compacting(partition) and time.monotonic() < deadline:
            time.sleep(0.01)
        while len(latencies) < requests:
            latencies += one_by_one(producing, min(500, requests))
            taken += 1
            seen += _is_compacting(partition)
            if cleaner and not _is_compacting(partition):
                break
        producing.close()
    return percentile(latencies, 99) * 1e6, 100 * seen / taken


def _is_compacting(partition: Path) -> bool:
    return any(partition.glob("*.cleaned")) or not any(partition.glob("*.deleted"))


if __name__ == "__main__":
    print(_measure_memory(Path(sys.argv[1])))
