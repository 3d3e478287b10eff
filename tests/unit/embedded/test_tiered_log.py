"""A log in one's own process with a tier: what is copied leaves the disk, and a restart goes on."""

from pathlib import Path

import pytest

import ottla
from ottla.broker.topics.partition import Partition
from ottla.embedded.log import Log
from tests.support.patience import wait_until

LOCAL_CLASS = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
TIERED = {
    "remote.storage.enable": "true",
    "segment.bytes": "1000",
    "local.retention.bytes": "1500",
    "file.delete.delay.ms": "0",
}


def settings(tier: Path) -> dict[str, str]:
    return {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": LOCAL_CLASS,
        "rsm.config.dir": str(tier),
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
        "remote.log.manager.task.interval.ms": "20",
        "log.retention.check.interval.ms": "20",
        "log.initial.task.delay.ms": "0",
    }


def partition_of(log: Log) -> Partition:
    return log.broker.topics.partition("t", 0)


def is_settled(log: Log) -> bool:
    """Whether all but the end of the log is in the tier only."""
    log.run_due_jobs()
    found = partition_of(log).log
    return found.segment_count <= 2 and found.local_start_offset > 0


@pytest.mark.slow
def test_a_log_with_a_tier_keeps_its_end_on_the_disk(tmp_path: Path) -> None:
    tier = tmp_path / "tier"
    tier.mkdir()
    values = [b"%d %s" % (number, bytes(90)) for number in range(60)]
    with ottla.open(tmp_path / "data", settings=settings(tier)) as log:
        log.create_topic("t", partitions=1, config=TIERED)
        for value in values[:30]:
            log.append("t", value, partition=0)
        wait_until(lambda: is_settled(log))
    with ottla.open(tmp_path / "data", settings=settings(tier)) as log:
        assert partition_of(log).log.log_start_offset == 0
        for value in values[30:]:
            log.append("t", value, partition=0)
        wait_until(lambda: is_settled(log))
    with ottla.open(tmp_path / "data", read_only=True, tier=str(tier)) as log:
        found = [one.value for one in log.read("t")]
    assert found == values
