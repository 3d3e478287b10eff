"""A broker that may have few descriptors: whatever comes, storage keeps those that it needs."""

import contextlib
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.base.clock import SystemClock
from ottla.base.error_codes import ErrorCode
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.record.builder import RecordBatchBuilder
from tests.integration.cli.support import serving
from tests.support.serving import WireClient

LIMIT = 400
PATIENCE_S = 300
"""Two syncs for each of 200 topics, on a disk that others use too."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="descriptors are told by /proc")


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT))


class Asker:
    """A client of a broker that may have `LIMIT` descriptors."""

    def __init__(self, address: str, pid: int) -> None:
        host, port = address.split(":")
        self.address = (host, int(port))
        self.pid = pid
        self.client = WireClient(self.address)
        self.client.socket.settimeout(PATIENCE_S)

    def make_topics(self, *names: str) -> list[int]:
        topics = [MetadataRequestTopic(name=name) for name in names]
        answer = self.client.ask(MetadataRequest(topics=topics), 9)
        return [one.error_code for one in answer.topics]

    def produce(self, *names: str) -> list[int]:
        topics = [
            TopicProduceData(
                name=name, partition_data=[PartitionProduceData(index=0, records=batch(name))]
            )
            for name in names
        ]
        request = ProduceRequest(acks=-1, timeout_ms=1000, topic_data=topics)
        answer = self.client.ask(request, 9)
        return [one.partition_responses[0].error_code for one in answer.responses]

    def read(self, name: str, *, fetch_offset: int = 0, max_wait_ms: int = 0) -> bytes:
        """What a topic holds; waits when it is `max_wait_ms` and there is nothing yet."""
        wanted = FetchPartition(partition=0, fetch_offset=fetch_offset, partition_max_bytes=1 << 20)
        topics = [FetchTopic(topic=name, partitions=[wanted])]
        request = FetchRequest(max_wait_ms=max_wait_ms, min_bytes=1, topics=topics)
        found = self.client.ask(request, 11).responses[0].partitions[0]
        return bytes(found.records or b"")

    @property
    def open_count(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))


def batch(name: str) -> bytes:
    builder = RecordBatchBuilder()
    builder.append(None, name.encode(), SystemClock().now_ms())
    return builder.build()


@pytest.fixture
def asker(tmp_path: Path) -> Iterator[Asker]:
    settings = ("-o", "max.auto.create.topics.per.request=200")
    settings += ("-o", "max.auto.create.topics.per.minute=-1")
    with serving(tmp_path / "data", *settings, set_limits=limited) as (address, process):
        asker = Asker(address, process.pid)
        yield asker
        asker.client.socket.close()


@pytest.mark.slow
def test_topics_beyond_the_descriptors_are_made_written_and_read(asker: Asker) -> None:
    names = [f"topic-{number}" for number in range(200)]
    assert set(asker.make_topics("first", *names[1:])) == {0}
    for _ in range(2):
        wanted = ["first", *names[1:]]
        while wanted:  # while files wait for a sync there may be none for others
            codes = asker.produce(*wanted)
            assert set(codes) <= {0, ErrorCode.KAFKA_STORAGE_ERROR}
            wanted = [one for one, code in zip(wanted, codes, strict=True) if code]
            asker.read("first", fetch_offset=2, max_wait_ms=200)
    assert asker.open_count < LIMIT
    for name in names[1::50]:
        assert asker.read(name).count(name.encode()) == 2


@pytest.mark.slow
def test_idle_connections_up_to_the_limit_leave_storage_its_descriptors(asker: Asker) -> None:
    assert asker.make_topics("before") == [0]
    with contextlib.ExitStack() as stack:
        for _ in range(LIMIT + 50):
            stack.enter_context(WireClient(asker.address))
        assert asker.make_topics("beside") == [0]
        assert asker.produce("before", "beside") == [0, 0]
        assert asker.open_count < LIMIT
    assert asker.read("beside").endswith(b"beside\0")


def test_a_program_that_has_used_up_its_descriptors_is_refused_and_then_continues(
    tmp_path: Path,
) -> None:
    with ottla.open(tmp_path) as log, contextlib.ExitStack() as limits:
        log.create_topic("before")
        log.append("before", b"1")
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        limits.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/dev/fd"))) + 9, hard))
        with contextlib.ExitStack() as taken:
            with contextlib.suppress(OSError):
                while True:
                    taken.callback(os.close, os.open("/dev/null", os.O_RDONLY))
            with pytest.raises(ottla.ApiError, match="ulimit -n"):
                log.create_topic("refused")
            log.append("before", b"2")
        log.create_topic("after")
        log.append("after", b"3")
        assert [record.value for record in log.read("before", 0)] == [b"1", b"2"]
        assert list(log.topics()) == ["before", "after"]
