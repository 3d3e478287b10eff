"""Spark reading a topic, from files and over the wire, and planning 10,000 partitions.

The sources as they are, and a copy of them without extensions, have a Spark each, which takes its
turns in every round. Rows go to Spark's
`noop` sink: all columns are decoded and handed to the JVM. Spark's own source for Kafka is read
beside them if SPARK_KAFKA_JARS says where its jars are.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import cycle, islice, pairwise
from pathlib import Path

import ottla
from benchmarks.brokers import SOURCE, Ottla
from benchmarks.load import is_below
from benchmarks.measuring import Samples, Scale
from benchmarks.report import FIGURES, Report, Target, add_figure, figures_report
from ottla.base.files import OsFileSystem
from ottla.base.ids import Uuid, uuid_text
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.files.filenames import LEADER_EPOCHS, PARTITION_METADATA
from ottla.storage.files.partition_metadata import read_topic_id
from ottla.storage.remote.local_layout import ROOT

ROWS = 20_000_000
"""So many that the half second and more that a query takes whatever it reads hardly counts."""

BATCH_ROWS = 150
DISTINCT_ROWS = 300_000
"""After so many the same keys, values and times come again."""

WARM_UPS = 3
"""Reads before the first that counts: Java compiles what it runs often, more than once."""

MILLION = 1_000_000
PARTITIONS = 2
PLANNED = 10_000
TOPIC = "orders"

COMPILED_TARGET = Target(limit=3.5e6, unit="rows/s", is_minimum=True)
PLAIN_TARGET = Target(limit=2.2e6, unit="rows/s", is_minimum=True)
WIRE_TARGET = Target(limit=0.8e6, unit="rows/s", is_minimum=True)
TIER_TARGET = Target(limit=0.8, unit="", is_minimum=True)
PLANNING_TARGET = Target(limit=2, unit="s")

KAFKA_TARGETS = {
    "from files, 100 B": 2.5, "over the wire, 100 B": 2, "from files, 1 KB": 2,
    "over the wire, 1 KB": 1.5,
}  # fmt: skip
"""How many times as fast as Spark's own source for Kafka a read should be, and as little work."""

SIZES = {"100 B": 100, "1 KB": 1000}
KAFKA_BYTES = 1_000_000_000
KAFKA_JARS = "SPARK_KAFKA_JARS"
KAFKA_HELP = (
    f"Spark's own source for Kafka was not read beside these: set {KAFKA_JARS} to the jars of "
    "spark-sql-kafka-0-10 and of what it needs (its token provider, kafka-clients, commons-pool2)"
)

PROGRAM = """
import json, sys, time
from ottla.spark.session import LocalSession, SessionSettings
from ottla.spark.source import OttlaSource
jars = {"spark.driver.extraClassPath": sys.argv[1]} if sys.argv[1:] else {}
session = LocalSession.start(SessionSettings(cores=2, log_level="OFF", spark=jars))
session.spark.dataSource.register(OttlaSource)
schema = session.spark.createDataFrame([], "key binary, value binary").schema
def rows(options):
    named = dict(options)
    return session.spark.read.format(named.pop("format", "ottla")).options(**named).load()
def read(options):
    rows(options).write.format("noop").mode("overwrite").save()
def count(options):
    return rows(options).count()
def checksum(options):
    columns = "key, value, topic, partition, offset, timestamp, timestampType"
    return rows(options).selectExpr(f"sum(hash({columns}))").first()[0]
def plan(options):
    source = OttlaSource(options)
    return len(source.reader(schema).partitions())
for line in sys.stdin:
    name, options = json.loads(line)
    started = time.perf_counter()
    result = {"read": read, "count": count, "plan": plan, "checksum": checksum}[name](options)
    print(json.dumps([time.perf_counter() - started, result]), flush=True)
session.stop()
"""


class SparkProcess:
    """A Spark session that carries out commands, and says how long that took."""

    def __init__(self, package: Path, jars: str = "") -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *filter(None, [jars])],
            env={**os.environ, "PYTHONPATH": str(package)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def ask(self, name: str, options: Mapping[str, str]) -> tuple[float, int | None]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([name, options]) + "\n")
        self._process.stdin.flush()
        seconds, result = json.loads(self._process.stdout.readline())
        return seconds, result

    def processor_s(self) -> float:
        """The processor time so far of the program, its Java and the workers below that."""
        parents: dict[int, int] = {}
        ticks: dict[int, int] = {}
        for name in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if name.isdigit():
                    # After the command in brackets: state, parent, and later four times.
                    fields = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
                    parents[int(name)] = int(fields[1])
                    ticks[int(name)] = sum(map(int, fields[11:15]))
        root = self._process.pid
        total = sum(one for pid, one in ticks.items() if is_below(pid, root, parents))
        return total / os.sysconf("SC_CLK_TCK")

    def stop(self) -> None:
        self._process.communicate()


def run(scale: Scale) -> Iterator[Report]:
    count = scale.of(ROWS, 3000) // BATCH_ROWS * BATCH_ROWS
    with contextlib.ExitStack() as stack:
        directory = stack.enter_context(scale.data_directory())
        compiled = stack.enter_context(_spark(SOURCE))
        plain = stack.enter_context(_spark(_without_extensions(directory / "plain")))
        _fill(directory / "log", count)
        _upload(directory / "log", directory / "tier")
        yield _reads(scale, compiled, plain, directory, count)
        yield _planning(scale, compiled, directory / "many")
    jars = os.environ.get(KAFKA_JARS, "")
    if not jars:
        yield Report("Beside Spark's own source for Kafka", FIGURES, notes=[KAFKA_HELP])
        return
    for said, size in SIZES.items():
        with scale.data_directory() as directory, _spark(SOURCE, jars) as spark:
            yield _beside_kafka(scale, spark, directory, said, size)


@contextlib.contextmanager
def _spark(package: Path, jars: str = "") -> Iterator[SparkProcess]:
    process = SparkProcess(package, jars)
    try:
        yield process
    finally:
        process.stop()


def _without_extensions(target: Path) -> Path:
    shutil.copytree(SOURCE, target, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    return target


def _fill(path: Path, count: int, size: int = 100, batch_rows: int = BATCH_ROWS) -> None:
    builders = []
    for first in range(0, min(count, DISTINCT_ROWS), batch_rows):
        builder = RecordBatchBuilder()
        for one in range(first, first + batch_rows):
            builder.append(b"%016d" % one, b"%0*d" % (size, one), 1_700_000_000_000 + one)
        builders.append(builder)
    with ottla.open(path) as log:
        # The records are not of today: retention by time must leave them.
        log.create_topic(TOPIC, partitions=PARTITIONS, config={"retention.ms": -1})
        for number, builder in enumerate(islice(cycle(builders), count // batch_rows)):
            log.append_batch(TOPIC, number % PARTITIONS, builder)
        for number in range(PARTITIONS):  # So that a tier can have all of it.
            log.broker.topics.partition(TOPIC, number).log.writer.roll(1_700_000_000_000)
    os.sync()  # So that the disk is not busy with the log while it is read.


def _upload(path: Path, tier: Path) -> None:
    """Puts the closed segments into a tier, as Kafka's LocalTieredStorage names their files."""
    for folder in sorted(path.glob(f"{TOPIC}-*")):
        topic_id = read_topic_id(OsFileSystem(), str(folder / PARTITION_METADATA))
        assert topic_id is not None
        place = tier / ROOT / f"{folder.name}-{uuid_text(topic_id)}"
        place.mkdir(parents=True)
        bases = sorted(int(one.stem) for one in folder.glob("*.log"))
        for base, following in pairwise(bases):
            stem = place / f"{base:020}-{uuid_text(Uuid(os.urandom(16)))}"
            for kind in (".log", ".index", ".timeindex"):
                shutil.copy(folder / f"{base:020}{kind}", stem.with_name(stem.name + kind))
            shutil.copy(
                folder / LEADER_EPOCHS, stem.with_name(f"{stem.name}.leader_epoch_checkpoint")
            )
            shutil.copy(
                folder / f"{following:020}.snapshot", stem.with_name(f"{stem.name}.snapshot")
            )
    os.sync()


def _reads(
    scale: Scale, compiled: SparkProcess, plain: SparkProcess, place: Path, count: int
) -> Report:
    path, empty = place / "log", place / "empty"
    empty.mkdir()
    files = {"path": str(path), "subscribe": TOPIC}
    tier = {"path": str(empty), "subscribe": TOPIC, "tier": str(place / "tier")}
    with Ottla().start(path) as broker:
        wire = {"kafka.bootstrap.servers": broker.address, "subscribe": TOPIC}
        contestants = {
            "compiled": (compiled, files), "plain": (plain, files), "wire": (compiled, wire),
            "tier": (compiled, tier),
        }  # fmt: skip
        for spark, options in contestants.values():
            assert spark.ask("count", options)[1] == count
            for _ in range(scale.of(WARM_UPS, 1)):
                spark.ask("read", options)

        spent: dict[str, list[float]] = {name: [] for name in contestants}

        def rate(name: str) -> float:
            spark, options = contestants[name]
            before = spark.processor_s()
            seconds = spark.ask("read", options)[0]
            spent[name].append((spark.processor_s() - before) / count * MILLION)
            return count / seconds

        rates = scale.sampled({name: partial(rate, name) for name in contestants})
    report = figures_report(f"{count:,} records of 16 + 100 bytes, all columns, into noop; 2 cores")
    add_figure(report, "from files", rates["compiled"], "rows/s", COMPILED_TARGET)
    add_figure(report, "from files, no compiler", rates["plain"], "rows/s", PLAIN_TARGET)
    add_figure(report, "over the wire", rates["wire"], "rows/s", WIRE_TARGET)
    add_figure(report, "from a tier in a directory", rates["tier"], "rows/s")
    for name, said in {"compiled": "from files", "wire": "over the wire"}.items():
        used = Samples(tuple(spent[name]))
        add_figure(report, f"processor time of a million rows, {said}", used, "s")
    shares = Samples(
        tuple(
            one / other
            for one, other in zip(rates["tier"].values, rates["compiled"].values, strict=True)
        )
    )
    add_figure(report, "the tier's rate in that of files", shares, "", TIER_TARGET)
    return report


def _beside_kafka(scale: Scale, spark: SparkProcess, place: Path, said: str, size: int) -> Report:
    """Ottla's source and Spark's own for Kafka, in one Java and in turns."""
    batch_rows = max(1, BATCH_ROWS * 100 // size)
    count = scale.of(KAFKA_BYTES // size, 3000) // batch_rows * batch_rows
    _fill(place / "log", count, size, batch_rows)
    with Ottla().start(place / "log") as broker:
        wire = {"kafka.bootstrap.servers": broker.address, "subscribe": TOPIC}
        contestants = {
            "kafka": {**wire, "format": "kafka"},
            "from files": {"path": str(place / "log"), "subscribe": TOPIC},
            "over the wire": wire,
        }
        (_,) = {spark.ask("checksum", options)[1] for options in contestants.values()}
        for options in contestants.values():
            for _ in range(scale.of(WARM_UPS, 1)):
                spark.ask("read", options)

        def costs(name: str) -> tuple[float, float]:
            before = spark.processor_s()
            seconds = spark.ask("read", contestants[name])[0]
            return seconds, spark.processor_s() - before

        turns = scale.take_turns({name: partial(costs, name) for name in contestants})
    of_a_million = MILLION / count
    report = figures_report(f"Beside Spark's own source for Kafka: {count:,} records of {said}")
    for kind, what in enumerate(["time", "processor time"]):
        spent = {name: Samples(tuple(one[kind] for one in all_)) for name, all_ in turns.items()}
        add_figure(
            report, f"Kafka's: {what} of a million", spent["kafka"].scaled(of_a_million), "s"
        )
        for name in ("from files", "over the wire"):
            target = Target(limit=KAFKA_TARGETS[f"{name}, {said}"], unit="times", is_minimum=True)
            add_figure(
                report, f"{name}: {what} of a million", spent[name].scaled(of_a_million), "s"
            )
            ratio = spent["kafka"].over(spent[name])
            add_figure(report, f"{name}: Kafka's {what}, in this", ratio, "times", target)
    return report


def _planning(scale: Scale, spark: SparkProcess, path: Path) -> Report:
    count = scale.of(PLANNED, 20)
    with ottla.open(path) as log:
        log.create_topic(TOPIC, config={"retention.ms": -1})
        builder = RecordBatchBuilder()
        builder.append(b"key", b"value", 1_700_000_000_000)
        log.append_batch(TOPIC, 0, builder)
    for partition in range(1, count):  # A broker would want more open files than is usual.
        shutil.copytree(
            path / f"{TOPIC}-0",
            path / f"{TOPIC}-{partition}",
            ignore=shutil.ignore_patterns("*.ottla-integrity*"),  # which names its partition
        )
    options = {"path": str(path), "subscribe": TOPIC}
    assert spark.ask("plan", options)[1] == count
    seconds = scale.sampled({"": lambda: spark.ask("plan", options)[0]})[""]
    report = figures_report(f"A read of {count:,} partitions, planned from files")
    add_figure(report, "offsets settled and tasks cut", seconds, "s", PLANNING_TARGET)
    return report
