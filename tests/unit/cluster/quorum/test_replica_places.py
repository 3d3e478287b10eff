"""The controller hears of replicas that are in another directory than the metadata says."""

import errno

from ottla.base.partitions import TopicPartition
from ottla.cluster.quorum.directory_reports import DirectoryReports
from ottla.cluster.quorum.replica_places import ReplicaPlaces
from ottla.controller.requests import LeaderAndIsr
from ottla.metadata.directories import LOST
from ottla.metadata.image import METADATA_VERSION
from ottla.metadata.records import FeatureLevelRecord
from tests.support.brokers import at, disk, id_of
from tests.support.scripted_images import ME, OTHER, FollowingMember, ScriptedImages

TOPIC = 70


def placed() -> tuple[FollowingMember, ReplicaPlaces]:
    member = FollowingMember(disk("/a", "/b"), "/a", "/b")
    places = ReplicaPlaces(member.broker)
    member.replicas.followed = places.followed
    member.broker.log_jobs.moves.moved = places.moved
    return member, places


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
