"""Three brokers share a tier: leaders copy, followers let go of what is there, and a new leader
goes on where the former stopped.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.storage.reading.metadata_reader import read_remote_log_metadata
from ottla.storage.reading.opening import TierPlace, open_directories
from ottla.storage.remote.segment_metadata import RemoteLogSegmentMetadata, SegmentState
from tests.support.patience import wait_until
from tests.support.running_cluster import RunningCluster

pytest.importorskip("confluent_kafka")
pytest.importorskip("kazoo.client")
from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic

pytestmark = pytest.mark.slow

LOCAL_CLASS = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": "4000",
    "local.retention.bytes": "5000",
    "file.delete.delay.ms": "100",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RunningCluster]:
    more = {
        "zookeeper_session_timeout_ms": "6000",
        "remote_log_storage_system_enable": "true",
        "remote_log_storage_manager_class_name": LOCAL_CLASS,
        "rsm_config_dir": str(tmp_path / "tier"),
        # Each broker is without a replica of one of the three partitions.
        "rlmm_config_remote_log_metadata_topic_num_partitions": "3",
        "rlmm_config_remote_log_metadata_topic_replication_factor": "2",
        "rlmm_config_remote_log_metadata_topic_min_isr": "1",
        "remote_log_manager_task_interval_ms": "200",
        "log_retention_check_interval_ms": "500",
        "log_initial_task_delay_ms": "100",
        "log_index_size_max_bytes": "4096",
    }
    (tmp_path / "tier").mkdir()
    with RunningCluster(tmp_path, **more) as running:
        yield running


def produce(cluster: RunningCluster, topic: str, partitions: int, first: int, count: int) -> None:
    producer = Producer({**cluster.client_settings(), "acks": "all", "batch.num.messages": 1})
    errors: list[object] = []
    for number in range(first, first + count):
        for partition in range(partitions):
            value = b"%d %s" % (number, bytes(90))
            producer.produce(
                topic, value, partition=partition, on_delivery=lambda error, _: errors.append(error)
            )
    assert producer.flush(60) == 0
    assert not any(errors)


def uploads(cluster: RunningCluster) -> dict[int, list[RemoteLogSegmentMetadata]]:
    """What the brokers' files say, by partition: each has a part of the metadata."""
    found: dict[int, list[RemoteLogSegmentMetadata]] = {}
    for one in cluster.brokers.values():
        indexes = read_remote_log_metadata(open_directories([str(one.directory)])).indexes
        for index in indexes:
            if index.partition.topic == "t":
                segments = index.segments()
                known = found.get(index.partition.partition, [])
                found[index.partition.partition] = max(known, segments, key=len)
    return found


def are_copied(tier: Path, count: int) -> bool:
    """Whether all but the active segment of each partition is in the tier, or nearly."""
    folders = list((tier / "kafka-tiered-storage").glob("t-*"))
    newest = [
        max((int(one.name[:20]) for one in folder.glob("*.snapshot")), default=-1)
        for folder in folders
    ]
    return len(folders) == 3 and min(newest) >= count - 80


def test_leaders_copy_and_a_new_leader_goes_on(cluster: RunningCluster, tmp_path: Path) -> None:
    admin, tier = cluster.admin(), tmp_path / "tier"
    new = NewTopic("t", 3, 3, config=TIERED)
    admin.create_topics([new])["t"].result(60)
    cluster.wait_in_sync("t", partitions=3)
    produce(cluster, "t", 3, 0, 200)
    wait_until(lambda: are_copied(tier, 200), cluster.logs)
    first_leader = cluster.leaders("t")[0][0]
    cluster.brokers[first_leader].kill()
    cluster.wait_led("t", without=first_leader)
    produce(cluster, "t", 3, 200, 200)
    wait_until(lambda: are_copied(tier, 400), cluster.logs)
    # Its disk is lost: its replicas begin with what the tier has.
    returning = cluster.brokers[first_leader]
    shutil.rmtree(returning.directory)
    returning.begin()
    returning.wait_ready()
    cluster.wait_in_sync("t", partitions=3)
    for one in cluster.brokers.values():
        if one.is_running:
            assert one.stop() == 0, cluster.logs()
    for partition, segments in uploads(cluster).items():
        finished = [one for one in segments if one.state is SegmentState.COPY_SEGMENT_FINISHED]
        due = 0
        for one in finished:
            assert one.start_offset <= due, (partition, segments)
            due = max(due, one.end_offset + 1)
    assert not (returning.directory / "t-0" / f"{0:020d}.log").exists()
    check_logs(cluster, tier)


def check_logs(cluster: RunningCluster, tier: Path) -> None:
    """Reads each partition at rest: the tier and then the files of a broker."""
    for path in [str(one.directory) for one in cluster.brokers.values()]:
        (opened,) = open_directories([path], tier=TierPlace(address=str(tier)))
        for partition in range(3):
            log = opened.partition("t", partition)
            found = [(one.value or b"").split()[0] for one in log.records.read(0)]
            assert found == [b"%d" % number for number in range(400)], (path, partition)
