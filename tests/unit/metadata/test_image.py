"""Replay of metadata records: transactions, deletions, and what a change leaves of the rest."""

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.ids import Uuid
from ottla.base.resource_kinds import ResourceKind
from ottla.codec.api_messages import encode_record
from ottla.codec.schema import Message
from ottla.metadata.control import (
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    control_key,
    encode_control_record,
)
from ottla.metadata.image import MetadataImage
from ottla.metadata.log_files import MetadataFile, read_log
from ottla.metadata.records import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    QuotaEntity,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
)
from ottla.metadata.replay import MetadataReplay
from ottla.record.builder import RecordBatchBuilder

ONE, OTHER = Uuid(b"1" * 16), Uuid(b"2" * 16)


def topic(name: str = "t", topic_id: Uuid = ONE) -> list[Message]:
    return [
        TopicRecord(name=name, topic_id=topic_id),
        PartitionRecord(
            partition_id=0,
            topic_id=topic_id,
            replicas=[1],
            isr=[1],
            leader=1,
            leader_epoch=0,
            partition_epoch=0,
        ),
    ]


def config(name: str, value: str | None, topic: str = "t") -> ConfigRecord:
    return ConfigRecord(
        resource_type=ResourceKind.TOPIC, resource_name=topic, name=name, value=value
    )


def image_of(*records: Message) -> MetadataImage:
    replay = MetadataReplay()
    for record in records:
        replay.replay(record)
    return replay.image()


def batch(base_offset: int, *values: bytes, epoch: int = 1) -> bytes:
    builder = RecordBatchBuilder(base_offset, leader_epoch=epoch)
    for value in values:
        builder.append(None, value, 1_000)
    return builder.build()


def control_batch(record: Message, base_offset: int = 0) -> bytes:
    builder = RecordBatchBuilder(base_offset, is_control=True, leader_epoch=1)
    builder.append(control_key(record), encode_control_record(record), 1_000)
    return builder.build()


def log(*batches: bytes, offset: int = 0) -> MetadataFile:
    return MetadataFile(path="log", content=b"".join(batches), offset=offset)


def test_records_of_a_transaction_count_only_when_it_is_ended() -> None:
    begun = [*topic(), BeginTransactionRecord(name="x"), config("retention.ms", "-1")]
    assert image_of(*begun).topics["t"].configs == {}
    assert image_of(*begun, AbortTransactionRecord(reason="no")).topics["t"].configs == {}
    ended = image_of(*begun, EndTransactionRecord())
    assert ended.topics["t"].configs == {"retention.ms": "-1"}
    again = [*begun, AbortTransactionRecord(), config("segment.ms", "5")]
    assert image_of(*again).topics["t"].configs == {"segment.ms": "5"}


def test_a_topic_made_again_does_not_inherit_the_settings_of_the_deleted_one() -> None:
    image = image_of(
        *topic(), config("retention.ms", "1"), RemoveTopicRecord(topic_id=ONE), *topic("t", OTHER)
    )
    assert image.topics["t"].topic_id == OTHER
    assert image.topics["t"].configs == {}


def test_a_setting_of_null_is_taken_back_and_so_are_quotas_and_features_of_nothing() -> None:
    who = [QuotaEntity(entity_type="user", entity_name=None)]
    image = image_of(
        *topic(),
        config("retention.ms", "1"),
        config("retention.ms", None),
        ClientQuotaRecord(entity=who, key="producer_byte_rate", value=5.0),
        ClientQuotaRecord(entity=who, key="producer_byte_rate", remove=True),
        FeatureLevelRecord(name="metadata.version", feature_level=21),
        FeatureLevelRecord(name="group.version", feature_level=1),
        FeatureLevelRecord(name="group.version", feature_level=0),
    )
    assert image.topics["t"].configs == {}
    assert image.quotas == {}
    assert image.features == {"metadata.version": 21}


def test_a_change_raises_the_leader_epoch_only_where_it_names_a_leader() -> None:
    image = image_of(
        *topic(),
        PartitionChangeRecord(partition_id=0, topic_id=ONE, isr=[1]),
        PartitionChangeRecord(partition_id=0, topic_id=ONE, leader=-1),
    )
    partition = image.topics["t"].partitions[0]
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (-1, 1, 2)


def test_records_below_the_snapshot_are_not_counted_twice() -> None:
    made = [encode_record(record) for record in topic()]
    snapshot = MetadataFile(
        path="s",
        content=control_batch(SnapshotHeaderRecord())
        + batch(1, *made)
        + control_batch(SnapshotFooterRecord(), 3),
        offset=2,
        epoch=1,
    )
    change = encode_record(PartitionChangeRecord(partition_id=0, topic_id=ONE, leader=1))
    image = read_log(snapshot, [log(batch(0, *made), batch(2, change))], may_be_torn=False).image()
    assert image.topics["t"].partitions[0].leader_epoch == 1
    assert image.end_offset == 3


def test_a_log_that_begins_after_a_gap_is_damaged() -> None:
    made = [encode_record(record) for record in topic()]
    with pytest.raises(CorruptionError, match="no snapshot reaches it"):
        read_log(None, [log(batch(7, *made), offset=7)], may_be_torn=False).image()
    with pytest.raises(CorruptionError, match="begins at offset 5, not 2"):
        read_log(None, [log(batch(0, *made), batch(5, *made))], may_be_torn=False).image()


def test_an_unknown_record_is_named_unless_it_is_about_nodes() -> None:
    leader = control_batch(LeaderChangeMessage(version=0, leader_id=1))
    of_a_node, unknown = b"\x01\x00\x63\x00", b"\x01\x63\x00\x00"
    image = read_log(None, [log(leader, batch(1, of_a_node))], may_be_torn=False).image()
    assert image.end_offset == 2
    with pytest.raises(CorruptionError, match="metadata record 99 of version 0 is not known"):
        read_log(None, [log(leader, batch(1, unknown))], may_be_torn=False).image()


def test_a_change_of_what_nobody_made_is_damage() -> None:
    change = encode_record(RemoveTopicRecord(topic_id=ONE))
    with pytest.raises(CorruptionError, match="no earlier record has created"):
        read_log(None, [log(batch(0, change))], may_be_torn=False).image()


def test_a_broker_is_fenced_and_unfenced_by_three_kinds_of_records() -> None:
    replay = MetadataReplay()
    replay.replay(RegisterBrokerRecord(broker_id=1, broker_epoch=7))
    replay.replay(BrokerRegistrationChangeRecord(broker_id=1, broker_epoch=7, fenced=-1))
    replay.replay(FenceBrokerRecord(id=2, epoch=7))
    for record, state in (
        (BrokerRegistrationChangeRecord(broker_id=1, in_controlled_shutdown=1), (False, True)),
        (FenceBrokerRecord(id=1, epoch=7), (True, True)),
        (UnfenceBrokerRecord(id=1, epoch=7), (False, True)),
        (BrokerRegistrationChangeRecord(broker_id=1, fenced=1), (True, True)),
    ):
        replay.replay(record)
        broker = replay.image().brokers[1]
        assert (broker.is_fenced, broker.is_shutting_down) == state
    assert set(replay.image().brokers) == {1}
