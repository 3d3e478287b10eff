"""Streams over the files of a log that grows, rolls, is cleaned and cut at the same time.

Nothing is read twice or as something else; what is missing was named as lost, or has a later
record of its key.
"""

import logging
import random
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import ottla
from ottla.record.builder import RecordBatchBuilder
from tests.unit.spark.test_stream import Query

pytest.importorskip("pyarrow")

MIN_SECONDS = 2.0
LOST = re.compile(r"plain-0: offsets (\d+) to (\d+) are lost")

pytestmark = pytest.mark.slow


class Broker:
    """Does one thing after the other to two topics, and knows the key of each offset."""

    def __init__(self, log: ottla.Log, seed: int) -> None:
        self.log = log
        self.chance = random.Random(seed)
        self.keys: dict[str, list[bytes]] = {"plain": [], "compacted": []}
        log.create_topic("plain", config={"segment.bytes": 2048, "file.delete.delay.ms": 0})
        policy = {"cleanup.policy": "compact", "file.delete.delay.ms": 0}
        log.create_topic("compacted", config={"segment.bytes": 2048, **policy})

    def act(self) -> None:
        self.append("plain")
        self.append("compacted")
        action: Callable[[], None] = self.chance.choice([self.delete, self.compact, lambda: None])
        action()

    def append(self, topic: str) -> None:
        keys = self.keys[topic]
        builder = RecordBatchBuilder()
        for _ in range(self.chance.randint(1, 30)):
            key = b"%d" % self.chance.randrange(20)
            builder.append(key, b"%s-%d" % (topic.encode(), len(keys)), 1)
            keys.append(key)
        self.log.append_batch(topic, 0, builder)

    def delete(self) -> None:
        start, end = self.log.offsets("plain")[0]
        offset = self.chance.randint(start, end)
        self.log.broker.admin.delete_records({("plain", 0): offset})

    def compact(self) -> None:
        self.log.compact("compacted")


def acting(broker: Broker, until: float, failed: list[BaseException]) -> None:
    try:
        while time.monotonic() < until:
            broker.act()
    except BaseException as error:
        failed.append(error)


def followed(query: Query, topic: str, is_over: Callable[[], bool]) -> list[int]:
    """The offsets that a stream reads until the broker rests and nothing is left."""
    found: list[int] = []
    while True:
        was_over = is_over()
        if not query.plan():
            if was_over:
                return found
            continue
        for row in query.read_rows():
            assert row["value"] == b"%s-%d" % (topic.encode(), row["offset"])
            found.append(row["offset"])


@pytest.mark.parametrize("topic", ["plain", "compacted"])
def test_a_stream_beside_a_broker_reads_all_that_was_not_removed(
    topic: str, tmp_path: Path, crash_seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    with ottla.open(tmp_path) as log, caplog.at_level(logging.WARNING, "ottla.spark"):
        broker = Broker(log, seed)
        until = time.monotonic() + max(MIN_SECONDS, crash_seconds)
        failed: list[BaseException] = []
        thread = threading.Thread(target=acting, args=(broker, until, failed))
        thread.start()
        may_lose = "false" if topic == "plain" else "true"
        query = Query(
            str(tmp_path), subscribe=topic, failOnDataLoss=may_lose, maxOffsetsPerTrigger="200"
        )
        found = followed(query, topic, lambda: not thread.is_alive())
        thread.join()
    assert failed == []
    assert found == sorted(set(found))
    missing = set(range(len(broker.keys[topic]))) - set(found)
    if topic == "plain":
        lost = [
            offset
            for message in caplog.messages
            if (told := LOST.match(message))
            for offset in range(int(told[1]), int(told[2]) + 1)
        ]
        assert sorted(lost) == sorted(missing)
    else:
        last = {key: offset for offset, key in enumerate(broker.keys[topic])}
        assert missing.isdisjoint(last.values())
        assert found
