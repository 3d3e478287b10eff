"""A log whose head is in the tier moves between log directories, and is in snapshots."""

import pytest

from ottla.broker.broker import Broker
from ottla.storage.snapshots.snapshots import Snapshots
from ottla.testing import FakeFileSystem
from tests.support.brokers import NOW_MS, disk
from tests.support.moving import move, partition_of, place_of
from tests.support.tier_jobs import (
    Moment,
    broker_with_tier,
    fill,
    local_values,
    remote_logs,
    states,
    tiered_topic,
    work,
)
from tests.support.tier_reading import remove_segments

END, LOCAL_START = 45, 30
DONE = "COPY_SEGMENT_FINISHED"
UPLOADS = [(0, 9, DONE), (10, 19, DONE), (20, 29, DONE), (30, 39, DONE)]


def opened(file_system: FakeFileSystem, *paths: str) -> tuple[Broker, Moment]:
    """A broker that knows which uploads there are."""
    broker, moment = broker_with_tier(file_system, *paths), Moment()
    while partition_of(broker).log.abort_check is not None:
        partition_of(broker).log.maintenance.check_aborts()
    work_off(broker, moment)
    return broker, moment


def work_off(broker: Broker, moment: Moment) -> None:
    for _ in range(2):
        work(broker, moment)
        moment.pass_ms(1000)


def filled(*paths: str) -> FakeFileSystem:
    """A stopped broker's directories; the last 15 records of a log are local, and the first 40 in
    the tier.
    """
    file_system, moment = disk(*paths), Moment()
    broker = broker_with_tier(file_system, *paths)
    fill(broker, tiered_topic(broker, "t"), END, moment=moment)
    work_off(broker, moment)
    place = place_of(broker)
    broker.close()
    remove_segments(file_system, f"{place}/t-0", LOCAL_START)
    return file_system


def check(broker: Broker) -> None:
    """Everything is there."""
    partition = partition_of(broker)
    log = partition.log
    starts = log.log_start_offset, log.local_start_offset
    assert (starts, log.log_end_offset) == ((0, LOCAL_START), END)
    assert local_values(partition) == [b"%d" % one for one in range(LOCAL_START, END)]
    assert log.epochs.earliest_start_offset == 0
    assert states(broker, "t") == UPLOADS
    assert log.offsets.highest_remote_offset == 39


def test_a_log_moves_with_the_start_that_is_in_the_tier() -> None:
    file_system = filled("/d", "/e")
    broker, moment = opened(file_system, "/d", "/e")
    move(broker, "/e" if place_of(broker) == "/d" else "/d")
    check(broker)
    broker.close()
    broker, moment = opened(file_system, "/d", "/e")
    check(broker)
    fill(broker, partition_of(broker), 6, moment=moment)
    work_off(broker, moment)
    # A move makes one segment of several; what a part of one is in the tier of, is copied again.
    assert states(broker, "t") == [*UPLOADS, (30, 49, DONE)]
    broker.close()


def test_copies_go_on_while_a_log_moves() -> None:
    broker, moment = opened(filled("/d", "/e"), "/d", "/e")
    target = "/e" if place_of(broker) == "/d" else "/d"
    fill(broker, partition_of(broker), 6, moment=moment)
    broker.log_jobs.moves.request("t", 0, target)
    jobs = remote_logs(broker).jobs
    jobs.look_again()
    (job,) = jobs.begin(moment())
    job.carry_out()
    move(broker, target)
    while jobs.resume(job, moment()):
        job.carry_out()
    work_off(broker, moment)
    assert states(broker, "t") == [*UPLOADS, (40, 49, DONE)]
    assert place_of(broker) == target
    assert partition_of(broker).log.offsets.highest_remote_offset == 49
    broker.close()


@pytest.mark.parametrize("path", ["/d", "/branch"])
def test_a_snapshot_of_a_tiered_log_is_opened_with_its_tier(path: str) -> None:
    file_system = filled("/d")
    snapshots = Snapshots(file_system, "/d")
    snapshots.create("a", now_ms=NOW_MS, on_copied=lambda done, total: None)
    broker, moment = opened(file_system)
    fill(broker, partition_of(broker), 20, moment=moment)
    work_off(broker, moment)
    assert states(broker, "t") == [*UPLOADS, (40, 49, DONE), (50, 59, DONE)]
    broker.close()
    if path == "/d":
        snapshots.restore("a", kept="k", now_ms=NOW_MS, on_copied=lambda done, total: None)
    else:
        snapshots.branch("a", path, on_copied=lambda done, total: None)
    broker, moment = opened(file_system, path)
    check(broker)
    broker.close()
