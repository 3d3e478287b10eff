"""What jobs leave on standard error: nothing where they succeed, no trace for a mistake."""

import subprocess
import sys
from pathlib import Path

import pytest

import ottla
from tests.integration.cli.support import ENVIRONMENT, TIMEOUT_S

PROGRAM = """
import sys
from ottla.spark.session import LocalSession, SessionSettings

broker = sys.argv[1]
session = LocalSession.start(SessionSettings(is_short=True))
rows = session.spark.read.format("ottla").option("subscribe", "orders").load("data/")
print(len(rows.limit(3).collect()), "of", rows.count())

options = {"kafka.bootstrap.servers": broker, "kafka.linger.ms": "5", "kafka.acks": "1"}
stream = session.spark.readStream.format("ottla").options(
    subscribe="orders", startingOffsets="earliest", maxOffsetsPerTrigger="400"
)
copies = stream.load("data/").drop("partition").writeStream.format("ottla")
copies = copies.options(topic="copies", **options).option("checkpointLocation", "checkpoint")
copies.trigger(availableNow=True).start().awaitTermination()

try:
    sink = rows.write.format("ottla").mode("append").option("topic", "not a name")
    sink.options(**options).save()
except Exception as error:
    print([line for line in str(error).splitlines() if "not a name" in line][-1])
session.stop()
"""


@pytest.fixture
def log(tmp_path: Path) -> ottla.Log:
    settings = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}
    return ottla.open(tmp_path / "data", settings)


@pytest.mark.slow
def test_jobs_that_succeed_say_nothing_but_what_has_no_effect_and_once(
    log: ottla.Log, tmp_path: Path
) -> None:
    with log:
        log.create_topic("orders", partitions=2)
        log.append_many("orders", [b"%d" % number for number in range(1000)])
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, log.listen("127.0.0.1:0").address],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            env=ENVIRONMENT,
            check=False,
            cwd=tmp_path,
        )
        assert done.returncode == 0, done.stderr
        # On a busy machine Spark's process that plans warns that it was slow.
        said = [line for line in done.stderr.splitlines() if "to start; Spark waits" not in line]
        assert sorted(said) == [
            "option kafka.acks has no effect here",
            "option kafka.linger.ms has no effect here",
        ]
        first, mistake = done.stdout.splitlines()
        assert first == "3 of 1000"
        assert "The name is not legal for a topic" in mistake
        # As Kafka's producer has it made.
        assert sum(1 for _ in log.scan("copies")) == 1000


def test_a_topic_that_no_broker_makes_is_one_line(tmp_path: Path) -> None:
    from pyspark.sql.types import StringType, StructField, StructType

    from ottla.base.errors import UserError
    from ottla.spark.sink.writer import OttlaWriter

    with ottla.open(tmp_path / "data", {"auto.create.topics.enable": False}) as log:
        broker = log.listen("127.0.0.1:0").address
        options = {
            "kafka.bootstrap.servers": broker,
            "topic": "copies",
            "kafka.max.block.ms": "1",
        }
        with pytest.raises(UserError, match="no topic copies, and the broker created none"):
            OttlaWriter(options, StructType([StructField("value", StringType())]), False)
        assert "copies" not in log.topics()
