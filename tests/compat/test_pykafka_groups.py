"""pykafka's ZooKeeper groups: its consumers and ours are members of one."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import pytest

import ottla
from tests.support.patience import wait_until
from tests.support.zookeeper_groups import SESSION_MS, Registry, reader
from tests.support.zookeeper_server import zookeeper_client, zookeeper_server

pytestmark = pytest.mark.slow

GROUP, TOPIC = "both", "t"

OWNED = "b't'"
"""Where pykafka writes who owns what of the topic, with Python 3."""

CONSUMER = """
import sys
import time
import pykafka
from pykafka.common import OffsetType

address, zookeeper, group, topic = sys.argv[1:]
client = pykafka.KafkaClient(hosts=address, broker_version="0.9.0")
consumer = client.topics[topic.encode()].get_balanced_consumer(
    group.encode(), zookeeper_connect=zookeeper, auto_offset_reset=OffsetType.EARLIEST,
    auto_commit_enable=True, rebalance_max_retries=100,
)
while True:
    message = consumer.consume(block=False)
    if message is None:
        time.sleep(0.02)
    else:
        print(message.partition_id, message.offset, flush=True)
"""


@contextmanager
def pykafka_consumer(address: str, zookeeper: str, output: Path) -> Iterator[None]:
    """In a process of its own: it warns of much, and its threads outlive it."""
    with output.open("wb") as written, output.with_suffix(".err").open("wb") as errors:
        words = [sys.executable, "-W", "ignore", "-c", CONSUMER, address, zookeeper, GROUP, TOPIC]
        process = subprocess.Popen(words, stdout=written, stderr=errors)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def seen_in(output: Path) -> list[tuple[int, int]]:
    lines = [line.split() for line in output.read_text().splitlines()]
    return [(int(line[0]), int(line[1])) for line in lines if len(line) == 2]


def test_pykafkas_consumer_and_ours_share_a_group(tmp_path: Path) -> None:
    pytest.importorskip("kazoo.client")
    if find_spec("pykafka") is None or find_spec("pkg_resources") is None:
        pytest.skip("needs: pip install --no-deps pykafka tabulate six 'setuptools<81'")
    output = tmp_path / "pykafka.txt"
    with (
        zookeeper_server(tmp_path / "zookeeper") as zookeeper,
        ottla.open(tmp_path / "d", {"offsets.topic.num.partitions": 1}) as log,
        zookeeper_client(zookeeper) as client,
    ):
        log.create_topic(TOPIC, partitions=4)
        address = log.listen("127.0.0.1:0").address
        client.ensure_path("/brokers/ids")
        registry = Registry(client, GROUP)
        settings = {
            "group.protocol": "zookeeper",
            "zookeeper.connect": zookeeper,
            "zookeeper.registration": "topic",
            "auto.offset.reset": "earliest",
            "session.timeout.ms": str(SESSION_MS),
        }
        with reader(address, GROUP, TOPIC, settings) as ours:
            wait_until(lambda: list(registry.owners(OWNED).values()) == [4])
            with pykafka_consumer(address, zookeeper, output):
                wait_until(lambda: sorted(registry.owners(OWNED).values()) == [2, 2])
                for number in range(40):
                    log.append(TOPIC, b"x", partition=number % 4)
                wait_until(lambda: len(ours.seen) + len(seen_in(output)) == 40)
                theirs = seen_in(output)
            # It was killed: its session ends, and ours takes over.
            wait_until(lambda: list(registry.owners(OWNED).values()) == [4])
    assert len(theirs) == 20
    assert {one for one, _ in theirs}.isdisjoint(one for one, _ in ours.seen[:20])
