"""A server with two log directories of which one fails: the other serves on, nothing is lost."""

import errno
import os
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from ottla.base.clock import SystemClock
from ottla.base.error_codes import ErrorCode
from ottla.base.files import OsFileSystem
from ottla.base.timestamps import Timestamps
from ottla.config.listeners import Listener
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.server.network.listener import Server
from ottla.testing import FakeClock
from ottla.testing.recording import IoCall, RecordingFileSystem
from tests.support.brokers import batch, open_broker
from tests.support.logs import values
from tests.support.patience import PATIENCE_S
from tests.support.serving import WireClient, serving

T = TypeVar("T")


class Disks(RecordingFileSystem):
    """The machine's own, of which one can be told to fail in everything that is written to it."""

    def __init__(self) -> None:
        super().__init__(OsFileSystem())
        self.failing: tuple[str, int] | None = None

    def perform(
        self, call: IoCall, deed: Callable[[], T], fall_short: Callable[[], None] | None = None
    ) -> T:
        if self.failing is not None and call.path.startswith(self.failing[0]):
            raise OSError(self.failing[1], os.strerror(self.failing[1]), call.path)
        return deed()


@pytest.fixture
def disks() -> Disks:
    return Disks()


@pytest.fixture
def paths(tmp_path: Path) -> tuple[str, str]:
    return str(tmp_path / "a"), str(tmp_path / "b")


@pytest.fixture
def server(disks: Disks, paths: tuple[str, str]) -> Iterator[Server]:
    """Topic t has partition 0 in a and partition 1 in b."""
    broker = open_broker(disks, *paths)
    broker.admin.create_topic(NewTopic(name="t", partition_count=2))
    with serving(broker) as server:
        yield server


def produce(index: int, value: bytes = b"value") -> ProduceRequest:
    data = PartitionProduceData(index=index, records=batch(value))
    topic = TopicProduceData(name="t", partition_data=[data])
    return ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic])


def produced(client: WireClient, index: int) -> ErrorCode:
    (topic,) = client.ask(produce(index), 9).responses
    return ErrorCode(topic.partition_responses[0].error_code)


def fetched(client: WireClient, index: int) -> Any:
    wanted = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic="t", partitions=[wanted])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, topics=[topic])
    return client.ask(request, 11).responses[0].partitions[0]


def listed(client: WireClient, index: int, version: int) -> ErrorCode:
    wanted = ListOffsetsPartition(partition_index=index, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[wanted])]
    )
    return ErrorCode(client.ask(request, version).topics[0].partitions[0].error_code)


def epoch_end(client: WireClient, index: int) -> ErrorCode:
    wanted = OffsetForLeaderPartition(partition=index, leader_epoch=0)
    request = OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[OffsetForLeaderTopic(topic="t", partitions=[wanted])]
    )
    return ErrorCode(client.ask(request, 3).topics[0].partitions[0].error_code)


def check_only_a_is_served(client: WireClient) -> None:
    assert produced(client, 0) is ErrorCode.NONE
    assert produced(client, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    assert len(fetched(client, 0).records) > 0
    assert fetched(client, 1).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    for version in (0, 7):
        assert listed(client, 0, version) is ErrorCode.NONE
        assert listed(client, 1, version) is ErrorCode.KAFKA_STORAGE_ERROR
    assert epoch_end(client, 0) is ErrorCode.NONE
    assert epoch_end(client, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    (topic,) = client.ask(MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 12).topics
    assert [(one.error_code, one.leader_id) for one in topic.partitions] == [
        (ErrorCode.NONE, 1),
        (ErrorCode.LEADER_NOT_AVAILABLE, -1),
    ]
    results = client.ask(DescribeLogDirsRequest(topics=None), 4).results
    assert [one.error_code for one in results] == [0, ErrorCode.KAFKA_STORAGE_ERROR]


@pytest.mark.parametrize(
    "number", [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS]
)
def test_one_directory_fails_and_the_other_serves_on(
    server: Server, disks: Disks, paths: tuple[str, str], number: int
) -> None:
    with WireClient(server.address) as client:
        assert produced(client, 0) is produced(client, 1) is ErrorCode.NONE
        disks.failing = (paths[1], number)
        client.send(produce(1, b"never answered"), 9)
        assert client.receive_frame() is None
    with WireClient(server.address) as client:
        check_only_a_is_served(client)
    server.stop()
    server._broker.close()
    disks.failing = None
    again = open_broker(disks, *paths)
    found = [values(again.topics.partition("t", index).log) for index in range(2)]
    assert found[0] == [b"value"] * 2
    assert found[1][0] == b"value", "what was answered is there, whatever else is"
    again.close()


def test_a_directory_that_vanishes_is_offline_from_the_next_checkpoint_on(
    server: Server, paths: tuple[str, str]
) -> None:
    with WireClient(server.address) as client:
        assert produced(client, 0) is produced(client, 1) is ErrorCode.NONE
        shutil.rmtree(paths[1])
        in_an_hour = SystemClock().monotonic_ms() + 3_600_000
        for _ in range(10):  # a checkpoint is prepared in steps
            server._broker.scheduler.run_due(Timestamps(now_ms=0, monotonic_ms=in_an_hour))
        check_only_a_is_served(client)


def test_a_directory_that_is_away_at_the_start_is_served_around(
    disks: Disks, paths: tuple[str, str]
) -> None:
    broker = open_broker(disks, *paths)
    broker.admin.create_topic(NewTopic(name="t", partition_count=2))
    broker.close()
    Path(paths[1], "meta.properties").unlink()
    Path(paths[1], "meta.properties").mkdir()
    with serving(open_broker(disks, *paths)) as server, WireClient(server.address) as client:
        assert client.ask(ApiVersionsRequest(), 0).error_code == 0
        check_only_a_is_served(client)


def test_a_partition_moves_under_a_client_that_produces_to_it(
    server: Server, paths: tuple[str, str]
) -> None:
    count = 0
    with WireClient(server.address) as client:
        for count in range(1, 400):
            assert produced(client, 0) is ErrorCode.NONE
            if count == 100:
                topics = [AlterReplicaLogDirTopic(name="t", partitions=[0])]
                dirs = [AlterReplicaLogDir(path=paths[1], topics=topics)]
                client.ask(AlterReplicaLogDirsRequest(dirs=dirs), 2)
            if count > 100 and server._broker.topics.partition("t", 0).directory.path == paths[1]:
                break
        assert count < 399
        assert produced(client, 0) is ErrorCode.NONE
        assert len(fetched(client, 0).records) == len(batch()) * (count + 1)


@pytest.mark.parametrize("path", ["\0", "/data\0/a", "a\0"])
def test_a_path_or_a_name_with_a_nul_is_refused_and_others_are_served(
    server: Server, path: str
) -> None:
    moves = [AlterReplicaLogDirTopic(name="t", partitions=[0])]
    move = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=path, topics=moves)])
    topic = CreatableTopic(name=path, num_partitions=1, replication_factor=1)
    with WireClient(server.address) as client:
        (moved,) = client.ask(move, 2).results
        assert ErrorCode(moved.partitions[0].error_code) is ErrorCode.LOG_DIR_NOT_FOUND
        (made,) = client.ask(CreateTopicsRequest(topics=[topic]), 7).topics
        assert ErrorCode(made.error_code) is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert produced(client, 0) is ErrorCode.NONE


def test_a_server_that_needs_a_disk_ends_with_its_last_one(
    disks: Disks, paths: tuple[str, str]
) -> None:
    broker = open_broker(disks, *paths)
    broker.admin.create_topic(NewTopic(name="t", partition_count=2))
    listeners = [Listener(name="PLAINTEXT", address=("127.0.0.1", 0), advertised=None)]
    server = Server(broker, listeners, clock=FakeClock(), needs_disk=True)
    server.start()
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    with WireClient(server.address) as client:
        assert produced(client, 0) is ErrorCode.NONE
        disks.failing = (paths[1], errno.EIO)
        assert produced(client, 1) is ErrorCode.KAFKA_STORAGE_ERROR
        assert produced(client, 0) is ErrorCode.NONE
        disks.failing = (str(Path(paths[0]).parent), errno.EIO)
        client.send(produce(0), 9)
        assert client.receive_frame() is None
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert broker.directories.is_offline


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own with room for 200 KB."""
    place = tmp_path / "small"
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(place)]
    try:
        made = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command here")
    if made.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {made.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_disk_that_is_really_full_takes_one_directory_offline(
    small_disk: Path, paths: tuple[str, str]
) -> None:
    place = str(small_disk / "b")
    settings = {"log_index_size_max_bytes": "4096"}
    broker = open_broker(OsFileSystem(), paths[0], place, **settings)
    broker.admin.create_topic(NewTopic(name="t", partition_count=2))
    answered = 0
    with serving(broker) as server:
        while True:
            with WireClient(server.address) as client:
                client.send(produce(1, bytes(8192)), 9)
                frame = client.receive_frame()
            if frame is None or broker.directories[1].is_offline:
                break
            answered += 1
        assert 10 < answered < 30
        with WireClient(server.address) as client:
            assert produced(client, 0) is ErrorCode.NONE
            assert produced(client, 1) is ErrorCode.KAFKA_STORAGE_ERROR
    subprocess.run(["mount", "-o", "remount,size=2m", str(small_disk)], check=True)
    again = open_broker(OsFileSystem(), paths[0], place, **settings)
    assert values(again.topics.partition("t", 1).log)[:answered] == [bytes(8192)] * answered
    again.close()
