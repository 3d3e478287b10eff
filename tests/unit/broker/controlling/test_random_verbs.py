"""Whatever the controller is asked, its image is what others make of its records."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.base.resource_kinds import ResourceKind
from ottla.base.timestamps import Timestamps
from ottla.broker.configs.config_changes import Alteration, ConfigChange, ResourceAlteration
from ottla.broker.controlling.active_controller import ActiveController
from ottla.codec.api_messages import decode_api_message, encode_record
from ottla.metadata.acls import (
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.metadata.altered_isr import AlteredIsr
from ottla.metadata.brokers import BrokerRegistration, Endpoint
from ottla.metadata.deciding.features import FeatureUpdate, UpgradeType
from ottla.metadata.deciding.heartbeats import HeartbeatRequest
from ottla.metadata.deciding.registration import RegistrationRequest
from ottla.metadata.deciding.replica_directories import PlacedReplica
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.metadata.image import MetadataImage
from ottla.metadata.levels import ELR_VERSION, SUPPORTED
from ottla.metadata.records import BY_KEY
from ottla.metadata.replay import MetadataReplay
from tests.support.active_controllers import BEGUN, CLUSTER_ID, AloneInQuorum, levels, records_in

FEATURES = {
    name: {"min_version": low, "max_version": high} for name, (low, high) in SUPPORTED.items()
}
LEVELS = (7, 12, 13, 17, 20, 21, 25)

Verb = Callable[[ActiveController], object]

brokers = st.integers(1, 4)
names = st.sampled_from(["t", "u", "a.b", "a_b"])
replicas = st.lists(brokers, min_size=1, max_size=3, unique=True)


def _directory(broker: int, number: int) -> bytes:
    return bytes([9, broker, number, 1]) * 4


def _register(broker: int, incarnation: int) -> Verb:
    request = RegistrationRequest(
        broker,
        CLUSTER_ID,
        BrokerRegistration(
            endpoints=(Endpoint(listener="L", host="h", port=9092, security_protocol="PLAINTEXT"),),
            features=FEATURES,
            incarnation_id=bytes([1, broker, incarnation, 1]) * 4,
            directories=(_directory(broker, 0), _directory(broker, 1)),
        ),
    )
    return lambda controller: controller.register_broker(request)


def _heartbeat(broker: int, fence: bool, stop: bool, offline: bool) -> Verb:
    def verb(controller: ActiveController) -> object:
        known = controller.image.brokers.get(broker)
        epoch = -1 if known is None else known.epoch
        request = HeartbeatRequest(
            broker,
            epoch,
            controller.end_offset - 1,
            fence,
            stop,
            (_directory(broker, 0),) if offline else (),
        )
        return controller.heartbeat(request)

    return verb


def _create(name: str, count: int, factor: int) -> Verb:
    new = NewTopic(name=name, partition_count=count, replication_factor=factor)
    return lambda controller: controller.create_topics([new], validate_only=False)


def _reassign(name: str, target: list[int] | None) -> Verb:
    wanted = {TopicPartition(name, 0): None if target is None else tuple(target)}
    return lambda controller: controller.alter_reassignments(wanted, may_change_count=True)


def _shrink(name: str, isr: list[int]) -> Verb:
    def verb(controller: ActiveController) -> object:
        known = controller.image.partition(TopicPartition(name, 0))
        if known is None or known.leader not in controller.image.brokers:
            return None
        change = AlteredIsr(
            topic_id=controller.image.topics[name].topic_id,
            partition=0,
            leader_epoch=known.leader_epoch,
            partition_epoch=known.partition_epoch,
            isr=tuple(one for one in known.replicas if one in isr or one == known.leader),
        )
        leader = controller.image.brokers[known.leader]
        return controller.alter_partition(known.leader, leader.epoch, [change])

    return verb


def _place(name: str, broker: int, number: int) -> Verb:
    def verb(controller: ActiveController) -> object:
        topic, known = controller.image.topics.get(name), controller.image.brokers.get(broker)
        if topic is None or known is None:
            return None
        placed = [PlacedReplica(_directory(broker, number), topic.topic_id, 0)]
        return controller.assign_replicas_to_dirs(broker, known.epoch, placed)

    return verb


def _configure(kind: ResourceKind, name: str, key: str, value: str) -> Verb:
    wanted = ResourceAlteration(
        resource_type=kind,
        resource_name=name,
        alteration=lambda: Alteration(changes=[ConfigChange(name=key, value=value)]),
    )
    return lambda controller: controller.alter_configs([wanted], validate_only=False)


def _permit(name: str, operation: Operation) -> Verb:
    rule = Acl(
        ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, name),
        Entry("User:a", "*", operation, Permission.ALLOW),
    )
    return lambda controller: controller.create_acls([rule])


def _pass(after_ms: int) -> Verb:
    at = Timestamps(
        now_ms=BEGUN.now_ms + after_ms, monotonic_ms=BEGUN.monotonic_ms + float(after_ms)
    )
    return lambda controller: controller.advance(at)


def _update(name: str, level: int) -> Verb:
    update = FeatureUpdate(name, level, UpgradeType.UPGRADE)
    return lambda controller: controller.update_features([update], validate_only=False)


verbs = st.one_of(
    st.builds(_register, brokers, st.integers(1, 2)),
    st.builds(_register, brokers, st.just(1)),
    st.builds(_heartbeat, brokers, st.just(False), st.just(False), st.just(False)),
    st.builds(_heartbeat, brokers, st.just(False), st.just(False), st.just(False)),
    st.builds(_heartbeat, brokers, st.booleans(), st.booleans(), st.booleans()),
    st.builds(lambda one: lambda controller: controller.unregister_broker(one), brokers),
    st.builds(lambda one: lambda controller: controller.unregister_controller(one), brokers),
    st.builds(_create, names, st.sampled_from([1, 2, 3, 120]), st.integers(1, 3)),
    st.builds(
        lambda name, count: (
            lambda controller: controller.create_partitions(
                [TopicGrowth(name=name, partition_count=count)], validate_only=False
            )
        ),
        names,
        st.integers(1, 5),
    ),
    st.builds(lambda name: lambda controller: controller.delete_topics([name]), names),
    st.builds(_reassign, names, st.none() | replicas),
    st.builds(_shrink, names, replicas),
    st.builds(_place, names, brokers, st.integers(0, 1)),
    st.builds(
        lambda unclean: lambda controller: controller.elect_leaders(None, is_unclean=unclean),
        st.booleans(),
    ),
    st.builds(
        _configure,
        st.just(ResourceKind.TOPIC),
        names,
        st.sampled_from(["min.insync.replicas", "unclean.leader.election.enable"]),
        st.sampled_from(["1", "2", "true"]),
    ),
    st.builds(
        _configure,
        st.just(ResourceKind.BROKER),
        st.sampled_from(["", "1", "2"]),
        st.just("min.insync.replicas"),
        st.sampled_from(["1", "2"]),
    ),
    st.builds(_permit, names, st.sampled_from([Operation.READ, Operation.WRITE])),
    st.builds(_pass, st.integers(0, 20_000)),
    st.builds(
        lambda one: (
            lambda controller: controller.allocate_producer_ids(
                one, controller.image.brokers[one].epoch if one in controller.image.brokers else -1
            )
        ),
        brokers,
    ),
    st.builds(_update, st.just("metadata.version"), st.sampled_from(LEVELS)),
    st.builds(_update, st.just(ELR_VERSION), st.just(1)),
)


BEGINNING = (
    *(_register(broker, 1) for broker in (1, 2, 3)),
    *(_heartbeat(broker, False, False, False) for broker in (1, 2, 3)),
    _create("t", 3, 3),
    _create("u", 1, 2),
)


def _begun(level: int = 25) -> AloneInQuorum:
    """Three brokers that serve, and two topics."""
    quorum = AloneInQuorum(levels(metadata_version=level))
    quorum.commit()
    for verb in BEGINNING:
        _asked(quorum, quorum.controller, verb)
    assert set(quorum.controller.image.topics) == {"t", "u"}
    return quorum


def _asked(quorum: AloneInQuorum, controller: ActiveController, verb: Verb) -> None:
    """Asks the controller; an error leaves everything as it was."""
    before, offset = controller.image, controller.end_offset
    try:
        verb(controller)
    except ApiError:
        assert controller.image is before
        assert controller.take_batches() == []
        assert controller.end_offset == offset
        return
    batches = [*map(records_in, controller.take_batches())]
    quorum.log += batches
    assert controller.end_offset == offset + sum(map(len, batches))


def _replayed(quorum: AloneInQuorum) -> MetadataImage:
    """What a node makes of the records as they are in the log."""
    replay = MetadataReplay()
    for batch in quorum.log:
        for record, version in batch:
            read, read_version = decode_api_message(encode_record(record, version), BY_KEY)
            assert read_version == version
            replay.replay(read)
    return replay.image()


def _content(image: MetadataImage) -> MetadataImage:
    return replace(image, epoch=0, end_offset=0, revision=0)


@pytest.mark.slow
@given(st.sampled_from(LEVELS), st.lists(verbs, max_size=40))
def test_whatever_was_asked_the_image_is_what_others_make_of_the_records(
    level: int, asked: list[Verb]
) -> None:
    quorum = _begun(level)

    for verb in asked:
        _asked(quorum, quorum.controller, verb)

    assert _content(quorum.controller.image) == _content(_replayed(quorum))


@pytest.mark.slow
@given(st.lists(verbs, max_size=20), st.lists(verbs, max_size=5), st.lists(verbs, max_size=20))
def test_what_was_not_committed_is_gone_with_the_leadership(
    committed: list[Verb], lost: list[Verb], later: list[Verb]
) -> None:
    quorum = _begun()
    for verb in committed:
        _asked(quorum, quorum.controller, verb)
    known = replace(_replayed(quorum), end_offset=quorum.controller.end_offset)
    for verb in lost:
        try:
            verb(quorum.controller)
        except ApiError:
            continue
    quorum.controller.take_batches()

    second = quorum.elected(known, 2)
    assert _content(second.image) == _content(known)
    for verb in later:
        _asked(quorum, second, verb)

    assert _content(second.image) == _content(_replayed(quorum))
