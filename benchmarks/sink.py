"""Rows that Spark writes into a topic: the sink, and librdkafka in the same tasks."""

from collections.abc import Callable, Iterable, Iterator
from time import perf_counter
from typing import Any

from benchmarks import clients
from benchmarks.brokers import Ottla, RunningBroker
from benchmarks.measuring import Samples, Scale
from benchmarks.report import Report, Target, add_figure, figures_report
from benchmarks.wire import WireClient
from ottla.base.extras import install_command

ROWS = 1_000_000
TASKS = 2
PARTITIONS = 4
VALUE_SIZE = 100
KILO = 1000

RATE_TARGET = Target(limit=700, unit="k/s", is_minimum=True)


def run(scale: Scale) -> Iterator[Report]:
    try:
        from ottla.spark.session import SessionSettings, spark_session
    except ImportError:
        yield Report("The sink", ("left out",), notes=[f"run: {install_command('spark')}"])
        return
    settings = SessionSettings(cores=TASKS, log_level="OFF")
    with (
        scale.data_directory() as directory,
        Ottla().start(directory) as broker,
        spark_session(None, settings) as spark,
    ):
        yield _writing(scale, broker, spark)


def _writing(scale: Scale, broker: RunningBroker, spark: Any) -> Report:
    count = scale.of(ROWS, 20)
    report = figures_report(
        f"Rows of {VALUE_SIZE} bytes with keys of 16, {TASKS} tasks to {PARTITIONS} partitions, "
        f"broker and Spark on one machine"
    )
    rows = spark.range(0, count, 1, TASKS).selectExpr(
        "binary(lpad(cast(id as string), 16, '0')) key",
        f"binary(rpad(cast(id as string), {VALUE_SIZE}, 'v')) value",
    )
    # Making them would take Spark several times as long as writing them.
    rows = rows.cache()
    assert rows.count() == count
    contestants: dict[str, Callable[[], float]] = {
        "exactly once": lambda: _rate(rows, count, _sink(broker)),
        "idempotent": lambda: _rate(rows, count, _sink(broker, exactlyOnce="false")),
        "nowhere": lambda: _rate(rows, count, lambda one: one.write.format("noop").mode("append")),
    }
    reason = clients.absence()
    if reason is None:
        contestants["librdkafka"] = lambda: _librdkafka_rate(rows, count, broker)
    for once in contestants.values():
        once()  # Spark's workers start, and its plans are compiled
    samples = scale.sampled(contestants)
    add_figure(report, "ottla's sink, exactly once", samples["exactly once"], "k/s", RATE_TARGET)
    add_figure(report, "the same, exactlyOnce=false", samples["idempotent"], "k/s")
    add_figure(report, "Spark alone, the rows are not written", samples["nowhere"], "k/s")
    if reason is None:
        _add_peer(report, samples)
    else:
        report.notes.append(f"{reason}.")
    return report


def _add_peer(report: Report, samples: dict[str, Samples]) -> None:
    add_figure(report, "confluent-kafka's producer in the tasks", samples["librdkafka"], "k/s")
    ratio = samples["exactly once"].over(samples["librdkafka"])
    add_figure(report, "  the sink over that", ratio, "x")


def _topic(broker: RunningBroker) -> str:
    client = WireClient(broker.host, broker.port)
    try:
        return client.create_topic(PARTITIONS)
    finally:
        client.socket.close()


def _sink(broker: RunningBroker, **options: str) -> Callable[[Any], Any]:
    options = {"kafka.bootstrap.servers": broker.address, "topic": _topic(broker), **options}
    return lambda rows: rows.write.format("ottla").mode("append").options(**options)


def _rate(rows: Any, count: int, writer: Callable[[Any], Any]) -> float:
    started = perf_counter()
    writer(rows).save()
    return count / (perf_counter() - started) / KILO


def _librdkafka_rate(rows: Any, count: int, broker: RunningBroker) -> float:
    address, topic = broker.address, _topic(broker)
    settings = {**clients.QUIET, **clients.PRODUCER, "bootstrap.servers": address}
    settings |= {"enable.idempotence": True, "partitioner": "murmur2_random"}

    # What Spark ships to its workers stands in this function alone.
    def write(batches: Iterable[Any]) -> Iterator[Any]:
        from confluent_kafka import Producer

        producer = Producer(settings)
        for batch in batches:
            keys, values = (column.to_pylist() for column in batch.columns)
            for key, value in zip(keys, values, strict=True):
                producer.produce(topic, value, key)
            producer.poll(0)
        if producer.flush(120):
            raise RuntimeError("messages were not acknowledged")
        yield from ()

    started = perf_counter()
    rows.mapInArrow(write, rows.schema).write.format("noop").mode("append").save()
    return count / (perf_counter() - started) / KILO
