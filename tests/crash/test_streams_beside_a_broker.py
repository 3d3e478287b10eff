"""Streams over the files of a log that grows, rolls, is cleaned and cut at the same time.

Nothing is read twice or as something else; what is missing was named as lost, or has a later
record of its key. With Spark itself: tests/spark/test_beside_a_broker.py.
"""

import json
import logging
import random
import re
from pathlib import Path

import pytest

import ottla
from ottla.sources.stream.stream_offset import parse_stream_offset
from tests.support.busy_broker import BusyBroker, value_of
from tests.unit.spark.test_stream import Query

pytest.importorskip("pyarrow")

MIN_SECONDS = 2.0
LOST = re.compile(r"plain-0: offsets (\d+) to (\d+) are lost")

pytestmark = pytest.mark.slow


def followed(query: Query, topic: str, broker: BusyBroker) -> list[int]:
    """The offsets that a stream reads until the broker rests and nothing is left."""
    found: list[int] = []
    while True:
        was_over = broker.is_over
        if not query.plan():
            if was_over:
                return found
            continue
        for row in query.read_rows():
            assert row["value"] == value_of(topic, row["offset"])
            found.append(row["offset"])


@pytest.mark.parametrize("topic", ["plain", "compacted"])
def test_a_stream_beside_a_broker_reads_all_that_was_not_removed(
    topic: str, tmp_path: Path, crash_seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    with ottla.open(tmp_path) as log, caplog.at_level(logging.WARNING, "ottla"):
        broker = BusyBroker(log, seed)
        may_lose = "false" if topic == "plain" else "true"
        query = Query(
            str(tmp_path), subscribe=topic, failOnDataLoss=may_lose, maxOffsetsPerTrigger="200"
        )
        broker.start(max(MIN_SECONDS, crash_seconds))
        found = followed(query, topic, broker)
        broker.join()
    assert found == sorted(set(found))
    # What is deleted before a stream has begun is none of its losses.
    (first,) = parse_stream_offset(json.loads(query.checkpoint[1])).start.values()
    missing = set(range(first.offset or 0, len(broker.keys[topic]))) - set(found)
    if topic == "plain":
        lost = [
            offset
            for message in caplog.messages
            if (told := LOST.match(message))
            for offset in range(int(told[1]), int(told[2]) + 1)
        ]
        assert sorted(lost) == sorted(missing)
    else:
        assert missing.isdisjoint(broker.last_of_each_key(topic))
        assert found
