"""A leader that finds damage in its log while it runs, where other replicas have the records."""

import logging
from collections.abc import Callable
from errno import EIO
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError
from ottla.base.partitions import CONSUMER_OFFSETS, TopicPartition
from ottla.cluster.quorum.replica_places import ReplicaPlaces
from ottla.metadata.directories import LOST
from ottla.metadata.image import FIRST_WITH_DIRECTORIES, METADATA_VERSION
from ottla.metadata.records import FeatureLevelRecord
from ottla.storage.compaction.compaction import DamagedSegmentError
from ottla.testing import FakeFileSystem
from tests.support.brokers import at, batch, id_of
from tests.support.replicated_brokers import ClusterInProcess, PartitionOrders, replicas_of
from tests.support.scripted_images import LISTENER, ME, OTHER, FollowingMember, ScriptedImages

ORDERS = TopicPartition("orders", 0)
LOG = "/d/orders-0/00000000000000000000.log"
LENGTH_POSITION = 8


def flip_payload(disk: FakeFileSystem, path: str = LOG) -> None:
    """Only the checksum of the first batch tells."""
    file = disk.open(path, writable=True)
    (byte,) = file.pread(1, 70)
    file.pwrite(bytes([byte ^ 1]), 70)


def break_header(disk: FakeFileSystem) -> None:
    disk.open(LOG, writable=True).pwrite(b"\xff\xff", LENGTH_POSITION)


def lengthen_batch(disk: FakeFileSystem) -> None:
    disk.open(LOG, writable=True).pwrite(b"\x00\xff", LENGTH_POSITION + 1)


def empty_file(disk: FakeFileSystem) -> None:
    disk.open(LOG, writable=True).truncate(0)


@pytest.fixture
def cluster() -> ClusterInProcess:
    return written((1, 2, 3))


def written(replicas: tuple[int, ...], **settings: str) -> ClusterInProcess:
    cluster = ClusterInProcess(ORDERS, replicas, **settings)
    cluster.lead(1)
    cluster.replicate()
    produced = cluster.produce(1, b"one", b"two")
    cluster.replicate()
    assert produced.error is ErrorCode.NONE
    return cluster


DAMAGES: list[Callable[[FakeFileSystem], None]] = [break_header, lengthen_batch, empty_file]


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_leader_with_a_damaged_batch_hands_over_to_a_replica_that_has_it(
    cluster: ClusterInProcess, damage: Callable[[FakeFileSystem], None], caplog: Any
) -> None:
    whole = cluster.records(2)
    damage(cluster.disks[1])
    assert cluster.fetch(1, 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    (line,) = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert LOG in line
    assert "ottla log give-up /d orders-0" in line
    cluster.let_pass(1)
    replicas = replicas_of(cluster.brokers[1])
    assert (replicas.storage_failures, set(replicas.lost)) == (1, {ORDERS})
    assert cluster.fetch(1, 0).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    applied = cluster.orders.lead(2, cluster.brokers, (2, 3))
    assert applied[1].errors == {ORDERS: ErrorCode.KAFKA_STORAGE_ERROR}
    assert cluster.records(2) == whole
    assert cluster.fetch(2, 0).error_code == ErrorCode.NONE


def test_a_leader_whose_log_file_is_gone_hands_over_and_keeps_its_directory(
    cluster: ClusterInProcess,
) -> None:
    log = cluster.log(1)
    log.segments.active.log.let_go_at_once()
    log.writer.flush()
    log.segments.active.log.let_go_at_once()
    cluster.disks[1].remove(LOG)
    assert cluster.fetch(1, 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(cluster.brokers[1].directories.online) == 1


@pytest.mark.parametrize(
    ("replicas", "isr", "min_isr"), [((1,), (1,), "1"), ((1, 2), (1,), "1"), ((1, 2), (1, 2), "2")]
)
def test_a_leader_that_nobody_can_replace_goes_on_leading_and_says_so_once(
    replicas: tuple[int, ...], isr: tuple[int, ...], min_isr: str, caplog: Any
) -> None:
    cluster = written(replicas, min_insync_replicas=min_isr)
    cluster.lead(1, isr)
    break_header(cluster.disks[1])
    for _ in range(2):
        assert cluster.fetch(1, 0).error_code == ErrorCode.CORRUPT_MESSAGE
        cluster.let_pass(1)
    (line,) = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert LOG in line
    assert ("stays the leader" in line) == (len(replicas) > 1)
    replicas_here = replicas_of(cluster.brokers[1])
    assert (replicas_here.storage_failures, replicas_here.lost) == (0, {})
    assert cluster.log(1).log_end_offset == 2
    cluster.replicate()
    produced = cluster.produce(1, b"three")
    cluster.replicate()
    assert produced.error is ErrorCode.NONE


def test_a_follower_appends_nothing_damaged_and_its_second_fetch_shows_the_leader_the_damage(
    caplog: Any,
) -> None:
    cluster = ClusterInProcess(ORDERS, (1, 2, 3))
    cluster.lead(1)
    cluster.replicate()
    cluster.produce(1, b"one", b"two")
    for _ in range(2):
        cluster.follow(2)
    flip_payload(cluster.disks[1])
    cluster.follow(3)
    assert (cluster.log(2).log_end_offset, cluster.log(3).log_end_offset) == (2, 0)
    assert not replicas_of(cluster.brokers[1]).lost
    cluster.follow(3)
    cluster.let_pass(1)
    assert cluster.log(3).log_end_offset == 0
    assert set(replicas_of(cluster.brokers[1]).lost) == {ORDERS}
    texts = [one.getMessage() for one in caplog.records if one.levelno == logging.ERROR]
    assert ["broker 1 sends" in one for one in texts] == [True, False]
    cluster.orders.lead(2, cluster.brokers, (2, 3))
    cluster.replicate()
    assert cluster.log(3).log_end_offset == 2


def test_a_fetch_that_a_follower_repeats_after_a_lost_answer_costs_nothing(
    cluster: ClusterInProcess,
) -> None:
    cluster.produce(1, b"three")
    replicas = replicas_of(cluster.brokers[2])
    for _ in range(3):
        ((leader, request),) = replicas.requests(cluster.orders.at)
        answer = cluster._answer(leader, request)
    assert replicas.take(answer, cluster.orders.at)
    assert cluster.log(2).log_end_offset == 3
    assert not replicas_of(cluster.brokers[1]).lost


def test_a_search_by_time_that_finds_damage_has_another_replica_lead(
    cluster: ClusterInProcess,
) -> None:
    break_header(cluster.disks[1])
    with pytest.raises(ApiError) as refused:
        cluster.orders.partition(cluster.brokers[1]).find_offset(1)
    assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR


def test_a_damaged_log_that_was_given_up_is_deleted_with_its_topic_and_can_be_made_again(
    cluster: ClusterInProcess,
) -> None:
    break_header(cluster.disks[1])
    cluster.fetch(1, 0)
    cluster.let_pass(1)
    cluster.orders.lead(2, cluster.brokers, (2, 3))
    cluster.orders.delete(cluster.brokers)
    assert cluster.disks[1].status(LOG) is None
    cluster.orders = PartitionOrders(ORDERS, (1, 2, 3), id_of(78))
    cluster.lead(1)
    assert cluster.log(1).log_end_offset == 0
    assert not replicas_of(cluster.brokers[1]).lost


def led_with_damage(level: int = 21) -> tuple[FollowingMember, ReplicaPlaces, ScriptedImages]:
    """A leader in KRaft that has read its damaged log; what the controller knew was told."""
    disk = FakeFileSystem()
    member, images = FollowingMember(disk), ScriptedImages(ME, OTHER)
    places = ReplicaPlaces(member.broker, member.replicas.why_not_here)
    member.replicas.followed, member.replicas.tells_lost = places.followed, places.tells_lost
    images.commit(FeatureLevelRecord(name=METADATA_VERSION, feature_level=level))
    member.show(images.create("orders", 70, (ME, OTHER)))
    partition = member.broker.topics.get("orders").partition(0)
    member.broker.appends.append(partition, batch(b"one"), now_ms=0)
    member.broker.appends.write_out()
    if level >= FIRST_WITH_DIRECTORIES:
        (directory,) = places.take_places().values()
        assert directory is not None
        member.show(images.change(70, directories=[directory, id_of(9)]))
        places.take_places()
    break_header(disk)
    refusal = partition.damaged(CorruptionError(LOG, 0, "damaged"), "read")
    assert refusal.code is (
        ErrorCode.KAFKA_STORAGE_ERROR
        if level >= FIRST_WITH_DIRECTORIES
        else ErrorCode.CORRUPT_MESSAGE
    )
    member.replicas.advance(at(1))
    return member, places, images


def test_the_controller_of_a_quorum_is_told_once_that_a_damaged_replica_is_lost() -> None:
    member, places, images = led_with_damage()
    assert not member.roles()
    assert places.take_places() == {(id_of(70), 0): LOST}
    (view,) = member.broker.view.partitions("orders", LISTENER)
    assert (view.leader, view.offline) == (-1, (ME,))
    member.show(images.change(70, directories=[LOST, id_of(9)], leader=OTHER, isr=[OTHER]))
    assert set(places.take_places().values()) <= {None}
    (view,) = member.broker.view.partitions("orders", LISTENER)
    assert (view.leader, view.offline) == (OTHER, (ME,))


def test_at_a_level_without_directories_nobody_could_be_told_and_the_leader_stays() -> None:
    member, _, _ = led_with_damage(FIRST_WITH_DIRECTORIES - 1)
    assert next(iter(member.roles().values()))[:2] == ("Leading", ME)


def test_a_coordinator_whose_partition_is_damaged_leaves_it_to_a_replica_that_has_all_of_it(
    caplog: Any,
) -> None:
    place = TopicPartition(CONSUMER_OFFSETS, 0)
    cluster = ClusterInProcess(place, (1, 2))
    cluster.lead(1)
    cluster.replicate()
    broker = cluster.brokers[1]
    broker.appends.append(cluster.orders.partition(broker), batch(b"one"), now_ms=0)
    broker.appends.write_out()
    cluster.replicate()
    cluster.lead(2)
    flip_payload(cluster.disks[1], f"/d/{place}/00000000000000000000.log")
    cluster.lead(1)
    for _ in range(5):
        cluster.let_pass(1)
    assert set(replicas_of(cluster.brokers[1]).lost) == {place}
    assert "cannot load __consumer_offsets-0" in caplog.text
    assert "is served" not in caplog.text


def test_a_leader_that_cannot_compact_its_damaged_log_hands_over(cluster: ClusterInProcess) -> None:
    broker = cluster.brokers[1]
    flip_payload(cluster.disks[1])
    error = DamagedSegmentError(LOG, 0, "damaged", 0)
    broker.log_jobs.cleaner.damaged(ORDERS, error)
    cluster.let_pass(1)
    assert set(replicas_of(broker).lost) == {ORDERS}


def test_a_log_that_was_shortened_under_an_answer_is_damaged_and_one_that_truncated_itself_is_not(
    cluster: ClusterInProcess,
) -> None:
    broker = cluster.brokers[1]
    broker.fetches.could_not_send(LOG, None)
    broker.fetches.could_not_send("/d/gone-0/00000000000000000000.log", None)
    cluster.let_pass(1)
    assert not replicas_of(broker).lost
    cluster.disks[1].open(LOG, writable=True).truncate(50)
    broker.fetches.could_not_send(LOG, None)
    cluster.let_pass(1)
    assert set(replicas_of(broker).lost) == {ORDERS}


def test_a_disk_that_fails_under_an_answer_takes_its_directory_offline(
    cluster: ClusterInProcess,
) -> None:
    broker = cluster.brokers[1]
    broker.fetches.could_not_send(LOG, OSError(EIO, "broken"))
    assert not broker.directories.online


def test_a_consumer_that_asks_again_for_what_has_a_wrong_checksum_reads_it_from_another_replica(
    cluster: ClusterInProcess,
) -> None:
    cluster.let_pass(5000)
    whole = cluster.records(2)
    flip_payload(cluster.disks[1])
    assert cluster.fetch(1, 0).error_code == ErrorCode.NONE, "nobody has asked for it before"
    assert cluster.fetch(1, 0).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    cluster.let_pass(1)
    cluster.orders.lead(2, cluster.brokers, (2, 3))
    assert cluster.fetch(2, 0).records == whole


def test_checksums_are_looked_at_once_in_a_while_and_told_by_the_batch_where_nobody_can_help(
    caplog: Any,
) -> None:
    cluster = written((1,))
    cluster.let_pass(5000)
    for _ in range(2):
        assert cluster.fetch(1, 0).error_code == ErrorCode.NONE
    flip_payload(cluster.disks[1])
    assert cluster.fetch(1, 0).error_code == ErrorCode.NONE
    assert not caplog.records
    cluster.let_pass(2000)
    for _ in range(3):
        answer = cluster.fetch(1, 0)
        assert (answer.error_code, bool(answer.records)) == (ErrorCode.NONE, True)
        cluster.let_pass(2000)
    assert len([one for one in caplog.records if LOG in one.getMessage()]) == 1


def test_a_follower_waits_only_after_what_it_could_not_append(caplog: Any) -> None:
    cluster = ClusterInProcess(ORDERS, (1, 2))
    cluster.lead(1)
    cluster.replicate()
    cluster.produce(1, b"one", b"two")
    flip_payload(cluster.disks[1])
    replicas = replicas_of(cluster.brokers[2])

    def takes() -> bool:
        ((leader, request),) = replicas.requests(cluster.orders.at)
        return replicas.take(cluster._answer(leader, request), cluster.orders.at)

    assert [takes() for _ in range(2)] == [False, True], "the second is refused by the leader"
    assert len([one for one in caplog.records if "broker 1 sends" in one.getMessage()]) == 1
    flip_payload(cluster.disks[1])
    assert takes()
    assert cluster.log(2).log_end_offset == 2
    assert takes(), "nothing new has come"
