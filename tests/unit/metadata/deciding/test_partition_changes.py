"""Who leads, and who is in sync, as brokers come and go."""

from dataclasses import replace

import pytest

from ottla.base.resource_kinds import ResourceKind
from ottla.metadata.deciding.partition_changes import (
    Election,
    PartitionChanges,
    TopicDefaults,
    Wanted,
    arriving,
    directories_failed,
    leaving,
    stopped_uncleanly,
)
from ottla.metadata.directories import LOST, MIGRATING, UNASSIGNED, first_directory, is_online
from ottla.metadata.image import (
    METADATA_VERSION,
    RECOVERED,
    RECOVERING,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from ottla.metadata.records import NO_LEADER_CHANGE, PartitionChangeRecord
from tests.support.kraft_images import then
from tests.support.partition_images import (
    ELR,
    TOPIC,
    broker,
    cluster,
    directory,
    partition,
    partitions_of,
    with_brokers,
)

UNCLEAN = {"unclean.leader.election.enable": "true"}


def left(image: MetadataImage, broker_id: int = 1) -> PartitionImage:
    (one,) = partitions_of(then(image, leaving(image, broker_id)))
    return one


def gone(image: MetadataImage, broker_id: int) -> MetadataImage:
    """The image without a broker that is fenced."""
    brokers = {**image.brokers, broker_id: broker(broker_id, is_fenced=True)}
    return replace(then(image, leaving(image, broker_id)), brokers=brokers)


# Brokers that go


def test_partitions_in_one_state_are_led_by_the_settings_of_their_own_topics() -> None:
    one = partition((1, 2), (1,))
    image = cluster(one, one)
    other = TopicImage("z", bytes([9] * 16), {0: one}, UNCLEAN)
    both = replace(
        image,
        topics={**image.topics, "z": other},
        topic_names={**image.topic_names, other.topic_id: "z"},
    )

    after = then(both, leaving(both, 1)).topics

    assert [known.leader for known in after[TOPIC].partitions.values()] == [-1, -1]
    assert after["z"].partitions[0].leader == 2


def test_the_next_replica_in_sync_leads_in_a_new_epoch() -> None:
    one = left(cluster(partition((1, 2, 3), (1, 3))))
    assert (one.leader, one.isr, one.leader_epoch, one.partition_epoch) == (3, (3,), 6, 10)


def test_a_follower_leaves_the_isr_without_a_new_leader_epoch() -> None:
    one = left(cluster(partition((2, 1, 3))))
    assert (one.leader, one.isr, one.leader_epoch, one.partition_epoch) == (2, (2, 3), 5, 10)


def test_before_level_12_a_smaller_isr_begins_an_epoch() -> None:
    for level, epoch in ((11, 6), (12, 5)):
        image = cluster(partition((2, 1, 3)), features={METADATA_VERSION: level})
        assert (left(image).leader, left(image).leader_epoch) == (2, epoch)


def test_the_last_one_in_sync_stays_in_the_isr_and_nobody_leads() -> None:
    one = left(cluster(partition((1, 2), (1,))))
    assert (one.leader, one.isr, one.leader_epoch) == (-1, (1,), 6)


def test_partitions_without_the_broker_in_their_isr_do_not_change() -> None:
    image = cluster(partition((1, 2), (2,)), partition((2, 3)))
    assert leaving(image, 1) == []
    waiting = cluster(partition((1, 2), (1,), leader=-1))
    assert leaving(waiting, 1) == []


def test_fenced_brokers_and_those_that_shut_down_are_not_elected() -> None:
    image = cluster(partition((1, 2, 3, 4)), fenced={2})
    image = with_brokers(image, _3=broker(3, is_shutting_down=True))
    assert left(image).leader == 4


def test_an_unclean_leader_is_elected_only_where_it_is_allowed_and_then_recovers() -> None:
    stranded = partition((1, 2, 3), (1,))
    one = left(cluster(stranded, configs=UNCLEAN))
    assert (one.leader, one.isr, one.recovery_state) == (2, (2,), RECOVERING)
    everywhere = replace(cluster(stranded), configs={ResourceKind.BROKER: {"": UNCLEAN, "1": {}}})
    assert left(everywhere).leader == 2
    by_default = leaving(cluster(stranded), 1, TopicDefaults(1, True))
    assert isinstance(by_default[0][0], PartitionChangeRecord)
    assert by_default[0][0].leader == 2
    forbidden = {"unclean.leader.election.enable": "false"}
    own = cluster(stranded, configs=forbidden)
    assert left(replace(own, configs=everywhere.configs)).leader == -1


def test_an_unclean_election_takes_what_a_move_adds_last() -> None:
    moving = partition((4, 3, 1), (1,), adding=(4,), removing=(3, 1))
    one = left(cluster(moving, configs=UNCLEAN))
    assert (one.leader, one.isr, one.recovery_state) == (3, (3,), RECOVERING)


def test_a_leader_that_is_elected_again_is_in_sync() -> None:
    image = cluster(partition((1, 2), (1, 2)), configs=UNCLEAN, fenced={2})
    made = PartitionChanges(image).record(image.topics[TOPIC], 0, Wanted(isr=(2,)))
    assert made is not None
    (one,) = partitions_of(then(image, [made]))
    assert (one.leader, one.isr, one.leader_epoch) == (1, (1,), 6)


def test_an_election_completes_a_move_to_who_is_elected() -> None:
    moving = partition((2, 1, 3), (1,), removing=(1, 3), elr=(2,))
    one = left(cluster(moving, configs=MIN_2, features=ELR))
    assert (one.leader, one.replicas, one.isr, one.elr) == (2, (2,), (2,), ())
    assert (one.removing, one.leader_epoch) == ((), 6)


# Brokers that come


def test_a_broker_that_arrives_leads_what_waits_for_it() -> None:
    image = cluster(
        partition((1, 2), (1,), leader=-1), partition((2, 3), (2,), leader=-1), fenced={1, 2}
    )
    first, second = partitions_of(then(image, arriving(image, 1)))
    assert (first.leader, first.leader_epoch, first.isr) == (1, 6, (1,))
    assert second == image.topics[TOPIC].partitions[1]


def test_a_broker_that_arrives_does_not_lead_what_is_led() -> None:
    assert arriving(cluster(partition((1, 2), (2,)), fenced={1}), 1) == []


# Directories


def test_replicas_in_a_failed_directory_leave() -> None:
    lost, kept = directory(1), directory(1, 7)
    image = cluster(
        partition((1, 2)), partition((1, 2), directories=(kept, directory(2))), partition((2, 3))
    )
    image = with_brokers(image, _1=broker(1, directories=(lost, kept)))
    first, second, third = partitions_of(then(image, directories_failed(image, 1, {lost})))
    assert (first.leader, first.isr) == (2, (2,))
    assert [second, third] == partitions_of(image)[1:]


def test_a_replica_in_a_directory_that_is_not_online_is_not_elected() -> None:
    two = partition((1, 2, 3), directories=(directory(1), LOST, UNASSIGNED))
    assert left(cluster(two)).leader == 3


@pytest.mark.parametrize(
    ("directories", "first"),
    [((), MIGRATING), ((directory(1),), directory(1)), ((directory(1), directory(2)), UNASSIGNED)],
)
def test_a_new_replica_is_where_its_broker_has_only_one_directory(
    directories: tuple[bytes, ...], first: bytes
) -> None:
    known = broker(1, directories=directories)
    assert first_directory(known) == first
    assert is_online(known, first_directory(known))
    assert is_online(known, directory(9)) == (not directories)
    assert first_directory(None) == UNASSIGNED


# Eligible leaders (KIP-966)


MIN_2 = {"min.insync.replicas": "2"}


def test_who_leaves_an_isr_that_is_too_small_stays_eligible() -> None:
    image = cluster(partition((1, 2, 3)), configs=MIN_2, features=ELR)
    one = left(image)
    assert (one.isr, one.elr) == ((2, 3), ())
    image = gone(image, 1)
    two = left(image, 2)
    assert (two.isr, two.elr, two.leader) == ((3,), (2,), 3)
    three = left(gone(image, 2), 3)
    assert (three.isr, three.elr, three.leader) == ((), (2, 3), -1)
    assert three.last_known_elr == (3,)


def test_an_eligible_leader_leads_alone_when_it_arrives() -> None:
    nobody = partition((1, 2, 3), (), elr=(2, 3), last_known_elr=(3,))
    image = cluster(nobody, configs=MIN_2, features=ELR, fenced={1, 2, 3})
    (one,) = partitions_of(then(image, arriving(image, 2)))
    assert (one.leader, one.isr, one.elr, one.last_known_elr) == (2, (2,), (3,), ())
    assert one.recovery_state == RECOVERED
    assert arriving(image, 1) == []


def test_who_stopped_uncleanly_is_no_eligible_leader_any_more() -> None:
    image = cluster(partition((1, 2, 3), (3,), elr=(1, 2)), configs=MIN_2, features=ELR)
    (one,) = partitions_of(then(image, stopped_uncleanly(image, 1)))
    assert (one.isr, one.elr) == ((3,), (2,))
    (other,) = partitions_of(then(image, stopped_uncleanly(image, 3)))
    assert (other.isr, other.elr, other.leader) == ((1,), (2,), 1)


def test_the_last_known_leader_leads_if_all_others_stopped_uncleanly() -> None:
    last = partition((1, 2), (1,))
    image = cluster(last, configs=MIN_2, features=ELR)
    image = then(image, stopped_uncleanly(image, 1))
    (one,) = partitions_of(image)
    assert (one.isr, one.elr, one.leader, one.last_known_elr) == ((), (), -1, (1,))
    (two,) = partitions_of(then(image, arriving(image, 1)))
    assert (two.isr, two.leader, two.recovery_state) == ((1,), 1, RECOVERING)
    assert two.last_known_elr == ()


def test_eligible_leaders_go_when_the_isr_is_large_enough_or_the_feature_is_off() -> None:
    few = partition((1, 2, 3), (1,), elr=(2,))
    for configs, features, elr in ((MIN_2, ELR, (2,)), (None, ELR, ()), (MIN_2, {}, ())):
        image = cluster(few, configs=configs, features={METADATA_VERSION: 23, **features})
        made = PartitionChanges(image).record(image.topics[TOPIC], 0, Wanted(isr=(1, 3)))
        assert made is not None
        (one,) = partitions_of(then(image, [made]))
        assert one.elr == (() if len(one.isr) >= 2 else elr)


# What is asked for


def test_the_preferred_replica_leads_if_it_is_able_to() -> None:
    image = cluster(partition((1, 2, 3), (2, 3, 1)))
    changes, topic = PartitionChanges(image), image.topics[TOPIC]
    assert changes.record(topic, 0, Wanted()) is None
    made = changes.record(topic, 0, Wanted(election=Election.PREFERRED))
    assert made is not None
    assert (made[0].leader, made[1]) == (1, 1)  # type: ignore[attr-defined]
    fenced = cluster(partition((1, 2, 3), (2, 3, 1)), fenced={1})
    asked = Wanted(election=Election.PREFERRED)
    assert PartitionChanges(fenced).record(topic, 0, asked) is None


@pytest.mark.parametrize(("level", "version"), [(7, 0), (16, 0), (17, 1), (22, 1), (23, 2)])
def test_a_record_has_the_version_and_the_directories_of_its_level(
    level: int, version: int
) -> None:
    image = cluster(partition((1, 2)), features={METADATA_VERSION: level})
    asked = Wanted(replicas=(1, 2, 3), adding=(3,))
    made = PartitionChanges(image).record(image.topics[TOPIC], 0, asked)
    assert made is not None
    record, written = made
    assert isinstance(record, PartitionChangeRecord)
    assert (written, record.replicas, record.leader) == (version, [1, 2, 3], NO_LEADER_CHANGE)
    expected = [directory(1), directory(2), directory(3)]
    assert record.directories == (expected if level >= 17 else None)
