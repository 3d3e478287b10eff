"""The controller hears of replicas that are in another directory than the metadata says."""

import errno

from ottla.base.partitions import TopicPartition
from ottla.cluster.quorum.replica_places import ReplicaPlaces
from ottla.metadata.image import METADATA_VERSION
from ottla.metadata.records import FeatureLevelRecord
from tests.support.brokers import at, disk, id_of
from tests.support.scripted_images import ME, OTHER, FollowingMember, ScriptedImages

TOPIC = 70


def placed() -> tuple[FollowingMember, ReplicaPlaces]:
    member = FollowingMember(disk("/a", "/b"), "/a", "/b")
    places = ReplicaPlaces(member.broker)
    member.replicas.listeners.append(places)
    member.broker.log_jobs.moves.moved = places.moved
    return member, places


def test_replicas_that_nobody_has_assigned_are_reported_once() -> None:
    member, places = placed()
    images = ScriptedImages(ME, OTHER)
    member.show(images.create("t", TOPIC, (ME,), (OTHER, ME), (OTHER,)))
    topic = member.broker.topics.get("t")
    here = {(id_of(TOPIC), one): topic.partition(one).directory.directory_id for one in (0, 1)}
    assert places.take_misplaced() == here
    assert not places
    for index, replicas in enumerate([(ME,), (OTHER, ME)]):
        directories = [here[id_of(TOPIC), index] if one == ME else id_of(9) for one in replicas]
        member.show(images.change(TOPIC, index, directories=directories, leader=OTHER))
    assert places.take_misplaced() == {}


def test_a_directory_that_fails_before_its_replica_was_reported_is_reported_too() -> None:
    member, places = placed()
    images = ScriptedImages(ME, OTHER)
    member.show(images.create("t", TOPIC, (ME, OTHER)))
    directory = member.broker.topics.get("t").partition(0).directory
    directory.health.fail(OSError(errno.EIO, "broken"))
    places.stopped(TopicPartition("t", 0), delete=False)
    assert places.take_misplaced() == {(id_of(TOPIC), 0): directory.directory_id}


def test_a_move_to_another_directory_is_reported_after_it() -> None:
    member, places = placed()
    images = ScriptedImages(ME, OTHER)
    member.show(images.create("t", TOPIC, (ME,)))
    assert places.take_misplaced()
    partition = member.broker.topics.get("t").partition(0)
    before = partition.directory
    target = next(one for one in member.broker.directories if one is not before)
    member.broker.log_jobs.moves.request("t", 0, target.path)
    member.broker.log_jobs.moves.leave_flushing(to_others=False)
    for second in range(20):
        member.broker.log_jobs.moves.advance(at(1000 * second))
    assert partition.directory is target
    assert places.take_misplaced() == {(id_of(TOPIC), 0): target.directory_id}


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
    assert list(places.take_misplaced()) == [(id_of(TOPIC), 0)]
    assert TopicPartition("t", 0) in member.replicas.manager.partitions
