"""The controller hears of replicas that are in another directory than the metadata says."""

import errno
from itertools import permutations

import pytest

from ottla.base.partitions import TopicPartition
from ottla.cluster.quorum.directory_reports import DirectoryReports
from ottla.cluster.quorum.replica_places import ReplicaPlaces
from ottla.controller.requests import LeaderAndIsr
from ottla.metadata.directories import LOST
from ottla.metadata.image import METADATA_VERSION
from ottla.metadata.records import FeatureLevelRecord
from ottla.testing import FakeFileSystem
from tests.support.brokers import at, disk, id_of
from tests.support.scripted_images import ME, OTHER, FollowingMember, ScriptedImages

TOPIC = 70


def placed() -> tuple[FollowingMember, ReplicaPlaces]:
    member = FollowingMember(disk("/a", "/b"), "/a", "/b")
    return member, places_of(member)


def places_of(member: FollowingMember) -> ReplicaPlaces:
    places = ReplicaPlaces(member.broker, member.replicas.why_not_here)
    member.replicas.followed = places.followed
    member.broker.log_jobs.moves.moved = places.moved
    return places


def test_replicas_that_nobody_has_assigned_are_reported_once() -> None:
    member, places = placed()
    images = ScriptedImages(ME, OTHER)
    member.show(images.create("t", TOPIC, (ME,), (OTHER, ME), (OTHER,)))
    topic = member.broker.topics.get("t")
    here = {(id_of(TOPIC), one): topic.partition(one).directory.directory_id for one in (0, 1)}
    assert places.take_places() == here
    assert not places
    for index, replicas in enumerate([(ME,), (OTHER, ME)]):
        directories = [here[id_of(TOPIC), index] if one == ME else id_of(9) for one in replicas]
        member.show(images.change(TOPIC, index, directories=directories, leader=OTHER))
    assert places.take_places() == dict.fromkeys(here), "the metadata has them right"
    assert not places


def test_a_directory_that_fails_before_its_replica_was_reported_is_reported_too() -> None:
    member, places = placed()
    images = ScriptedImages(ME, OTHER)
    member.show(images.create("t", TOPIC, (ME, OTHER)))
    directory = member.broker.topics.get("t").partition(0).directory
    directory.health.fail(OSError(errno.EIO, "broken"))
    member.replicas.advance(at(1000))
    assert not member.roles()
    assert places.take_places() == {(id_of(TOPIC), 0): directory.directory_id}


def test_a_directory_that_fails_before_anybody_leads_its_new_replica_is_reported_too() -> None:
    member, places = placed()
    make_logs = member.replicas.make_logs

    def make_and_fail(order: LeaderAndIsr) -> None:
        make_logs(order)
        directory = member.broker.topics.get("t").partition(0).directory
        directory.health.fail(OSError(errno.EIO, "broken"))

    member.replicas.make_logs = make_and_fail  # type: ignore[method-assign]
    member.show(ScriptedImages(ME, OTHER).create("t", TOPIC, (ME, OTHER)))
    directory = member.broker.topics.get("t").partition(0).directory
    assert not member.roles()
    assert places.take_places() == {(id_of(TOPIC), 0): directory.directory_id}


def test_a_move_to_another_directory_is_reported_after_it() -> None:
    member, places = placed()
    images = ScriptedImages(ME, OTHER)
    member.show(images.create("t", TOPIC, (ME,)))
    assert places.take_places()
    partition = member.broker.topics.get("t").partition(0)
    before = partition.directory
    target = next(one for one in member.broker.directories if one is not before)
    member.broker.log_jobs.moves.request("t", 0, target.path)
    member.broker.log_jobs.moves.leave_flushing(to_others=False)
    for second in range(20):
        member.broker.log_jobs.moves.advance(at(1000 * second))
    assert partition.directory is target
    assert places.take_places() == {(id_of(TOPIC), 0): target.directory_id}


def test_a_topic_made_again_while_the_earlier_one_is_in_a_failed_directory_is_led_elsewhere() -> (
    None
):
    """The earlier log is still there, so that no other of that name can be made."""
    member, places = placed()
    images = ScriptedImages(ME, OTHER)
    member.show(images.create("t", TOPIC, (ME, OTHER)))
    member.broker.topics.get("t").partition(0).directory.health.fail(OSError(errno.EIO, "broken"))
    member.replicas.advance(at(1000))
    places.take_places()
    member.show(images.delete(TOPIC))
    member.show(images.create("t", TOPIC + 1, (ME, OTHER), (ME, OTHER)))
    assert places.take_places() == {(id_of(TOPIC + 1), one): LOST for one in (0, 1)}


def test_a_replica_that_the_metadata_has_elsewhere_again_is_reported_again() -> None:
    member, places = placed()
    images = ScriptedImages(ME, OTHER)
    member.show(images.create("t", TOPIC, (ME,)))
    here = member.broker.topics.get("t").partition(0).directory.directory_id
    assert here is not None
    for directory, found in ((here, None), (id_of(9), here)):
        places.take_places()
        member.show(images.change(TOPIC, directories=[directory]))
        assert places.take_places() == {(id_of(TOPIC), 0): found}


def test_what_was_not_told_yet_is_taken_back_when_the_metadata_is_right() -> None:
    reports = DirectoryReports()
    reports.add({(id_of(TOPIC), 0): id_of(9), (id_of(TOPIC), 1): id_of(9)})
    reports.add({(id_of(TOPIC), 0): None, (id_of(TOPIC), 2): None})
    request = reports.next_request(ME, 5)
    assert request is not None
    (directory,) = request.directories
    assert [one.partition_index for one in directory.topics[0].partitions] == [1]


def test_replicas_wait_until_the_metadata_has_directories_and_deleted_ones_are_forgotten() -> None:
    member, places = placed()
    images = ScriptedImages(ME, OTHER)
    images.commit(FeatureLevelRecord(name=METADATA_VERSION, feature_level=16))
    member.show(images.create("t", TOPIC, (ME,)))
    member.show(images.create("u", TOPIC + 1, (ME,)))
    assert not places
    member.show(images.commit(FeatureLevelRecord(name=METADATA_VERSION, feature_level=17)))
    assert places
    member.show(images.delete(TOPIC + 1))
    assert list(places.take_places()) == [(id_of(TOPIC), 0)]
    assert TopicPartition("t", 0) in member.replicas.manager.partitions


# A log that is not at hand


def hide(files: FakeFileSystem, directory: str) -> None:
    """Reading it is an error of the system from now on."""
    files.rename(f"{directory}/meta.properties", f"{directory}/hidden.tmp")
    files.make_directory(f"{directory}/meta.properties")


def bring_back(files: FakeFileSystem, directory: str) -> None:
    files.remove_directory(f"{directory}/meta.properties")
    files.rename(f"{directory}/hidden.tmp", f"{directory}/meta.properties")


def restarted_without_its_directory(
    files: FakeFileSystem, images: ScriptedImages
) -> tuple[FollowingMember, str]:
    """A member that has lost the directory with its only log, and that directory's path."""
    first = FollowingMember(files, "/a", "/b")
    first.show(images.create("t", TOPIC, (ME, OTHER)))
    path = first.broker.topics.get("t").partition(0).directory.path
    first.broker.close()
    hide(files, path)
    return FollowingMember(files, "/a", "/b"), path


TOLD, CREATED, LED, MOVED, DELETED = range(5)


@pytest.mark.parametrize(
    "events", [*permutations(range(5), 2), (), (TOLD, MOVED, LED), (LED, TOLD, CREATED)]
)
def test_no_log_is_made_beside_one_in_a_directory_that_was_offline_at_the_start(
    events: tuple[int, ...],
) -> None:
    """Whatever follows: the controller is told that it is lost, and it is there again later."""
    files, images = disk("/a", "/b"), ScriptedImages(ME, OTHER)
    member, path = restarted_without_its_directory(files, images)
    places = places_of(member)
    member.show(images.image)
    is_there = True
    for event in events:
        match event:
            case 0:
                assert places.take_places().get((id_of(TOPIC), 0)) in (LOST, None)
                if is_there:
                    images.change(TOPIC, directories=[LOST, id_of(0)], isr=[OTHER], leader=OTHER)
            case 1:
                images.create("u", TOPIC + 1, (ME,))
            case 2 if is_there:
                images.change(TOPIC, leader=ME, isr=[ME])
            case 3 if is_there:
                images.change(TOPIC, isr=[ME, OTHER])
            case 4:
                images.delete(TOPIC)
                is_there = False
        member.show(images.image)
        topic = member.broker.topics.find("t")
        assert topic is None or 0 not in topic.partitions
        assert TopicPartition("t", 0) not in member.roles()
    if CREATED in events:
        assert TopicPartition("u", 0) in member.roles(), "what is new has no log there"
    assert len(member.complaints) == 1
    assert "t-0 may have a log in a log directory that is offline" in member.complaints[0]
    member.broker.close()

    bring_back(files, path)
    again = FollowingMember(files, "/a", "/b")
    again.show(images.image)
    topic = again.broker.topics.find("t")
    if is_there:
        assert topic is not None
        assert topic.partition(0).directory.path == path


def test_a_replica_that_may_be_in_an_offline_directory_is_told_as_lost_once() -> None:
    images = ScriptedImages(ME, OTHER)
    member, _ = restarted_without_its_directory(disk("/a", "/b"), images)
    places = places_of(member)
    member.show(images.image)
    assert places.take_places() == {(id_of(TOPIC), 0): LOST}
    member.show(images.change(TOPIC, directories=[LOST, id_of(0)], isr=[OTHER], leader=OTHER))
    assert not places.take_places().get((id_of(TOPIC), 0))


def test_a_replica_whose_log_is_refused_at_a_start_is_told_as_lost_until_it_is_mended() -> None:
    files, images = disk("/a"), ScriptedImages(ME, OTHER)
    first = FollowingMember(files, "/a")
    first.show(images.create("t", TOPIC, (ME, OTHER), (ME, OTHER)))
    (directory,) = first.broker.directories
    assert directory.directory_id is not None
    sides = [directory.directory_id, id_of(0)]
    for index in (0, 1):
        first.show(images.change(TOPIC, index, directories=sides))
    first.broker.close()
    files.rename("/a/t-0", "/a/elsewhere")
    member = FollowingMember(files, "/a")
    places = places_of(member)
    member.show(images.image)
    assert list(member.roles()) == [TopicPartition("t", 1)]
    assert places.take_places() == {(id_of(TOPIC), 0): LOST, (id_of(TOPIC), 1): None}
    member.show(images.change(TOPIC, directories=[LOST, id_of(0)], isr=[OTHER], leader=OTHER))
    assert places.take_places() == {}
    member.broker.close()

    files.rename("/a/elsewhere", "/a/t-0")
    again = FollowingMember(files, "/a")
    places = places_of(again)
    again.show(images.image)
    assert places.take_places()[id_of(TOPIC), 0] == directory.directory_id
