"""A request's topic is looked up once, and a batch's header parsed once, however far it goes."""

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

import ottla
from ottla.broker.topics.topics import Topics
from ottla.client.connecting.cluster import Cluster
from ottla.client.connecting.connection import Connection
from ottla.client.connecting.target import open_target
from ottla.codec.schema import Message
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.record.batch import RecordBatch
from ottla.record.builder import single_record_batch

if not hasattr(Topics.get, "__code__"):
    pytest.skip("calls of compiled functions are not seen", allow_module_level=True)

COUNTED = {
    one.__code__: name
    for name, ones in (
        ("topic", (Topics.get, Topics.find, Topics.find_by_id, Topics.online_partition)),
        ("header", (RecordBatch.__init__,)),
    )
    for one in ones
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ottla.open(tmp_path) as log:
        log.create_topic("orders")
        yield open_target(log)


def calls_of(connection: Connection, request: Message) -> Counter[str]:
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _: object) -> None:
        name = COUNTED.get(frame.f_code)
        within = frame.f_back is not None and frame.f_back.f_code in COUNTED
        if event == "call" and name is not None and not within:
            calls[name] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        connection.ask(request, newest=12)
    finally:
        sys.setprofile(before)
    return calls


def test_a_produce_looks_its_topic_up_once_and_parses_the_header_once(cluster: Cluster) -> None:
    batch = single_record_batch(b"key", b"value", 0, ())
    data = TopicProduceData(
        name="orders", partition_data=[PartitionProduceData(index=0, records=batch)]
    )
    request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[data])
    assert calls_of(cluster.leader("orders", 0), request) == {"topic": 1, "header": 1}


def test_a_fetch_looks_its_topic_up_once_and_parses_no_header(cluster: Cluster) -> None:
    data = FetchTopic(
        topic="orders",
        partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)],
    )
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=1000, topics=[data])
    assert calls_of(cluster.leader("orders", 0), request) == {"topic": 1}
