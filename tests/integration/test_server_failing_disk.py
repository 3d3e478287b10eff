"""A disk that fails under a running server: no answer promises what is not stored."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.files import OsFileSystem
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.server.network.listener import Server
from ottla.testing.faults import FaultPlan, FaultyFileSystem
from tests.support.brokers import batch, open_broker
from tests.support.serving import WireClient, serving


class Disk(FaultyFileSystem):
    """The machine's own, until it is told to fail."""

    def fail_from_now_on(self) -> None:
        full = OSError(errno.ENOSPC, "No space left on device")
        self._plans = (FaultPlan(at_call=len(self.calls), error=full, is_lasting=True),)


@pytest.fixture
def disk() -> Disk:
    return Disk(OsFileSystem())


@pytest.fixture
def server(disk: Disk, tmp_path: Path) -> Iterator[Server]:
    broker = open_broker(disk, str(tmp_path / "data"))
    broker.admin.create_topic(NewTopic(name="t"))
    with serving(broker) as server:
        yield server


def produce() -> ProduceRequest:
    data = PartitionProduceData(index=0, records=batch())
    topic = TopicProduceData(name="t", partition_data=[data])
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])


def test_a_produce_that_could_not_be_written_is_not_answered_and_the_next_is_refused(
    server: Server, disk: Disk
) -> None:
    with WireClient(server.address) as client:
        assert client.ask(produce(), 9).responses[0].partition_responses[0].error_code == 0
        disk.fail_from_now_on()
        client.send(produce(), 9)
        assert client.receive_frame() is None
    with WireClient(server.address) as client:
        (refused,) = client.ask(produce(), 9).responses[0].partition_responses
        assert refused.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        topics = [MetadataRequestTopic(name="t")]
        (partition,) = client.ask(MetadataRequest(topics=topics), 12).topics[0].partitions
        assert partition.error_code == ErrorCode.LEADER_NOT_AVAILABLE
        assert (partition.leader_id, partition.offline_replicas) == (-1, [1])


def test_an_answer_after_an_unwritten_produce_does_not_leave_either(
    server: Server, disk: Disk
) -> None:
    with WireClient(server.address) as client:
        client.ask(produce(), 9)
        disk.fail_from_now_on()
        frames = client.frame(produce(), 9) + client.frame(ApiVersionsRequest(), 0)
        client.socket.sendall(frames)
        assert client.receive_frame() is None
    with WireClient(server.address) as client:
        assert client.ask(ApiVersionsRequest(), 0).error_code == 0


def test_a_topic_that_could_not_be_written_is_refused(server: Server, disk: Disk) -> None:
    with WireClient(server.address) as client:
        client.ask(ApiVersionsRequest(), 0)
        disk.fail_from_now_on()
        new = CreatableTopic(name="n", num_partitions=1, replication_factor=1)
        (answer,) = client.ask(CreateTopicsRequest(topics=[new]), 7).topics
        assert answer.error_code == ErrorCode.KAFKA_STORAGE_ERROR
        answer = client.ask(MetadataRequest(topics=None), 12)
        assert [topic.name for topic in answer.topics] == ["t"]
