from dataclasses import replace

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.base.principal import Principal
from ottla.base.timestamps import Timestamps
from ottla.broker.controlling import node_changes
from ottla.config.broker import broker_config
from ottla.metadata.altered_isr import AlteredIsr
from ottla.metadata.brokers import BrokerRegistration, Endpoint
from ottla.metadata.deciding.controllers import ControllerRegistrationRequest
from ottla.metadata.deciding.features import FeatureUpdate
from ottla.metadata.deciding.heartbeats import HeartbeatRequest
from ottla.metadata.deciding.registration import RegistrationRequest
from ottla.metadata.deciding.topics import NewTopic
from ottla.metadata.levels import SUPPORTED
from ottla.metadata.records import (
    BrokerRegistrationChangeRecord,
    NoOpRecord,
    RemoveDelegationTokenRecord,
)
from ottla.metadata.replay import MetadataReplay
from ottla.metadata.tokens import DelegationToken
from tests.support.active_controllers import BEGUN, CLUSTER_ID, AloneInQuorum, levels

FEATURES = {
    name: {"min_version": low, "max_version": high} for name, (low, high) in SUPPORTED.items()
}


def _registration(broker_id, incarnation=1):
    return RegistrationRequest(
        broker_id,
        CLUSTER_ID,
        BrokerRegistration(
            endpoints=(Endpoint(listener="L", host="h", port=9092, security_protocol="PLAINTEXT"),),
            features=FEATURES,
            incarnation_id=bytes([incarnation]) * 16,
            directories=(bytes([broker_id, incarnation]) * 8,),
        ),
    )


def _at(later_ms):
    return Timestamps(
        now_ms=BEGUN.now_ms + int(later_ms), monotonic_ms=BEGUN.monotonic_ms + later_ms
    )


def _registered(quorum, broker_id):
    """Registers a broker and has it unfenced; returns its epoch."""
    controller = quorum.controller
    epoch = controller.register_broker(_registration(broker_id))
    answer = controller.heartbeat(HeartbeatRequest(broker_id, epoch, epoch))
    assert not answer.is_fenced
    return epoch


def test_a_brokers_epoch_is_the_offset_of_its_registration():
    quorum = AloneInQuorum()
    quorum.commit()
    before = quorum.controller.end_offset

    epoch = quorum.controller.register_broker(_registration(2))

    assert epoch == before
    assert quorum.controller.image.brokers[2].is_fenced
    (batch,) = quorum.commit()
    assert batch[0][0].broker_epoch == epoch


def test_offsets_that_others_have_taken_are_no_brokers_epoch():
    quorum = AloneInQuorum()
    quorum.controller.end_offset = 50

    assert quorum.controller.register_broker(_registration(2)) == 50
    assert quorum.controller.end_offset == 51


def test_a_broker_whose_session_ends_is_fenced_when_it_does():
    quorum = AloneInQuorum()
    _registered(quorum, 2)
    quorum.commit()
    controller = quorum.controller

    controller.advance(_at(8999))
    assert not controller.image.brokers[2].is_fenced
    controller.advance(_at(9000))

    assert controller.image.brokers[2].is_fenced
    records = [record for batch in quorum.commit() for record, _ in batch]
    assert any(isinstance(one, BrokerRegistrationChangeRecord) for one in records)
    assert quorum.complaints == ["broker 2 is fenced: it was not heard for 9 s"]


def test_a_session_does_not_end_before_the_heartbeats_that_had_come_are_known():
    """They may have waited behind a decision of seconds."""
    quorum = AloneInQuorum()
    epoch = _registered(quorum, 2)
    controller = quorum.controller

    controller.note_time(_at(20_000))
    controller.create_topics([NewTopic(name="late", partition_count=1)], validate_only=False)
    controller.note_time(_at(20_000))
    controller.heartbeat(HeartbeatRequest(2, epoch, epoch))
    controller.advance(_at(20_000))

    assert not controller.image.brokers[2].is_fenced
    controller.advance(_at(29_000))
    assert controller.image.brokers[2].is_fenced


def test_topics_of_one_request_are_decided_on_by_one_image(monkeypatch):
    """An image costs a copy of all topics' names: thousands of them would take minutes."""
    quorum = AloneInQuorum()
    _registered(quorum, 2)
    made = []
    image = MetadataReplay.image
    monkeypatch.setattr(MetadataReplay, "image", lambda self: made.append(1) or image(self))
    names = ["a.b", "a_b", *(f"t{one}" for one in range(100))]
    wanted = [NewTopic(name=one, partition_count=1) for one in names]

    first, refused, *others = quorum.controller.create_topics(wanted, validate_only=False)

    assert len(made) <= 2
    assert isinstance(refused, ApiError)
    assert refused.code is ErrorCode.INVALID_TOPIC_EXCEPTION
    assert not any(isinstance(one, ApiError) for one in (first, *others))
    assert len(quorum.controller.image.topics) == len(names) - 1


def test_people_are_told_of_partitions_without_a_leader_and_of_leaders_that_may_lack_records():
    quorum = AloneInQuorum()
    epochs = {broker: _registered(quorum, broker) for broker in (1, 2)}
    controller = quorum.controller
    controller.create_topics(
        [NewTopic(name="t", assignments={index: [2] for index in range(5)})], validate_only=False
    )
    controller.create_topics([NewTopic(name="u", assignments={0: [2, 1]})], validate_only=False)
    topic = controller.image.topics["u"]
    shrunk = AlteredIsr(
        topic_id=topic.topic_id, partition=0, leader_epoch=0, partition_epoch=0, isr=(2,)
    )
    controller.alter_partition(2, epochs[2], [shrunk])

    controller.advance(_at(5000))
    controller.heartbeat(HeartbeatRequest(1, epochs[1], epochs[1]))
    controller.advance(_at(9000))
    controller.elect_leaders([TopicPartition("u", 0)], is_unclean=True)

    assert quorum.complaints == [
        "broker 2 is fenced: it was not heard for 9 s; without a leader until it is back: t-0, "
        "t-1, t-2 and 3 more",
        "u-0: no live replica is known to have all records, and one leads with what it has (the "
        "last leader, or any where an unclean election is allowed or asked for); records may be "
        "lost",
    ]


def test_unclean_elections_that_settings_have_come_to_allow_are_held_in_their_interval():
    settings = {"unclean.leader.election.interval.ms": "500", "broker.session.timeout.ms": "50"}
    quorum = AloneInQuorum(**settings)
    epochs = {broker: _registered(quorum, broker) for broker in (1, 2)}
    controller = quorum.controller
    controller.create_topics([NewTopic(name="u", assignments={0: [2, 1]})], validate_only=False)
    topic = controller.image.topics["u"]
    shrunk = AlteredIsr(
        topic_id=topic.topic_id, partition=0, leader_epoch=0, partition_epoch=0, isr=(2,)
    )
    controller.alter_partition(2, epochs[2], [shrunk])
    controller.advance(_at(49))
    controller.heartbeat(HeartbeatRequest(1, epochs[1], epochs[1]))
    controller.advance(_at(50))
    quorum.config = broker_config(settings | {"unclean.leader.election.enable": "true"})

    def leader() -> int:
        controller.heartbeat(HeartbeatRequest(1, epochs[1], epochs[1]))
        return controller.image.topics["u"].partitions[0].leader

    controller.advance(_at(98))
    assert leader() == -1
    controller.advance(_at(500))
    assert leader() == 1


def test_a_second_process_with_a_live_brokers_id_is_refused_until_its_session_ends():
    quorum = AloneInQuorum()
    _registered(quorum, 2)

    with pytest.raises(ApiError) as refused:
        quorum.controller.register_broker(_registration(2, incarnation=2))
    assert refused.value.code is ErrorCode.DUPLICATE_BROKER_REGISTRATION

    quorum.controller.advance(_at(9000))
    assert quorum.controller.register_broker(_registration(2, incarnation=2)) > 0


def test_another_leader_takes_brokers_that_are_not_fenced_for_live():
    quorum = AloneInQuorum()
    _registered(quorum, 2)
    quorum.commit()

    later = quorum.elected(replace(quorum.controller.image, end_offset=30), 2)

    assert later.take_batches() == []
    with pytest.raises(ApiError):
        later.register_broker(_registration(2, incarnation=2))
    later.advance(_at(9000))
    assert later.image.brokers[2].is_fenced


def test_a_quorum_without_work_writes_a_record_in_every_interval_and_not_else():
    quorum = AloneInQuorum()
    quorum.commit()
    controller = quorum.controller
    assert controller.deadline_ms == BEGUN.monotonic_ms + 500

    controller.advance(_at(500))
    (batch,) = quorum.commit()
    assert [type(record) for record, _ in batch] == [NoOpRecord]

    controller.register_broker(_registration(2))
    quorum.commit()
    controller.advance(_at(1000))
    assert quorum.commit() == []


def test_expired_tokens_are_removed_from_time_to_time():
    quorum = AloneInQuorum(**{"metadata.max.idle.interval.ms": "0"})
    user = Principal("User", "a")
    token = DelegationToken(
        token_id="one",
        owner=user,
        requester=user,
        renewers=(),
        issued_ms=0,
        expires_ms=BEGUN.now_ms + 5,
        max_ms=BEGUN.now_ms + 5,
    )
    quorum.controller.create_token(token)
    quorum.commit()

    quorum.controller.advance(_at(6))
    assert quorum.commit() == []
    quorum.controller.advance(_at(3_600_000))

    (batch,) = quorum.commit()
    assert [type(record) for record, _ in batch] == [RemoveDelegationTokenRecord]
    assert quorum.controller.image.tokens == {}


def test_blocks_of_producer_ids_follow_one_another():
    quorum = AloneInQuorum()
    epoch = _registered(quorum, 2)

    blocks = [quorum.controller.allocate_producer_ids(2, epoch) for _ in range(2)]

    assert [(one.first, one.length) for one in blocks] == [(0, 1000), (1000, 1000)]


def test_features_are_updated_all_or_none():
    quorum = AloneInQuorum(levels(metadata_version=20))
    controller = quorum.controller
    controller.register_controller(
        ControllerRegistrationRequest(
            1,
            bytes(16),
            (Endpoint(listener="C", host="h", port=9093, security_protocol="PLAINTEXT"),),
            FEATURES,
        )
    )

    refused = controller.update_features(
        [FeatureUpdate("metadata.version", 21), FeatureUpdate("metadata.form", 1)],
        validate_only=False,
    )
    assert all(refused)
    assert controller.image.level == 20
    assert controller.update_features(
        [FeatureUpdate("metadata.version", 21)], validate_only=False
    ) == [None]

    assert controller.image.level == 21


def test_kraft_version_is_raised_by_the_quorum_alone():
    quorum = AloneInQuorum()
    quorum.commit()

    (refused,) = quorum.controller.update_features(
        [FeatureUpdate("kraft.version", 1)], validate_only=False
    )

    assert refused is not None
    assert refused.code is ErrorCode.INVALID_UPDATE_VERSION
    assert "in a request without other features" in refused.message
    assert quorum.commit() == []


def _leaders(controller):
    topics = controller.image.topics.values()
    return [one.leader for topic in topics for one in topic.partitions.values()]


def test_a_broker_of_many_partitions_is_fenced_once_others_lead_them_all(monkeypatch):
    monkeypatch.setattr(node_changes, "MOST_AT_ONCE", 3)
    quorum = AloneInQuorum()
    epochs = {broker: _registered(quorum, broker) for broker in (1, 2)}
    controller = quorum.controller
    for name, replicas in (("t", [2, 1]), ("u", [2])):
        topic = NewTopic(name=name, assignments=dict.fromkeys(range(4), replicas))
        controller.create_topics([topic], validate_only=False)
    quorum.commit()
    controller.note_time(_at(9000))
    controller.heartbeat(HeartbeatRequest(1, epochs[1], epochs[1]))

    controller.advance(_at(9000))

    assert _leaders(controller) == [1] * 3 + [2] * 5
    assert not controller.image.brokers[2].is_fenced
    assert not quorum.complaints
    for _ in range(2):
        assert controller.deadline_ms <= _at(9000).monotonic_ms
        controller.advance(_at(9000))
    assert controller.image.brokers[2].is_fenced
    assert _leaders(controller) == [1] * 4 + [-1] * 4
    assert quorum.complaints == [
        "broker 2 is fenced: it was not heard for 9 s; without a leader until it is back: u-0, "
        "u-1, u-2 and 1 more"
    ]


def test_a_broker_that_is_heard_before_others_lead_all_of_its_partitions_is_not_fenced(monkeypatch):
    monkeypatch.setattr(node_changes, "MOST_AT_ONCE", 3)
    quorum = AloneInQuorum()
    epochs = {broker: _registered(quorum, broker) for broker in (1, 2)}
    controller = quorum.controller
    assignments = {index: [2, 1] for index in range(8)}
    controller.create_topics([NewTopic(name="t", assignments=assignments)], validate_only=False)
    controller.note_time(_at(9000))
    controller.heartbeat(HeartbeatRequest(1, epochs[1], epochs[1]))
    controller.advance(_at(9000))

    controller.heartbeat(HeartbeatRequest(2, epochs[2], epochs[2]))
    controller.advance(_at(9000))

    assert not controller.image.brokers[2].is_fenced
    assert _leaders(controller) == [1] * 3 + [2] * 5
