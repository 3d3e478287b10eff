"""The metadata of a KRaft cluster by records, and a broker that follows it without a quorum."""

from itertools import count
from typing import Any

from ottla.base.events import OnEvent, pass_over
from ottla.base.files import FileSystem
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.resource_kinds import ResourceKind
from ottla.broker.assemble import assemble
from ottla.broker.broker import Broker
from ottla.broker.control.image_following import ImageFollower
from ottla.broker.membership.membership import AnyMembership
from ottla.broker.membership.quorum_start import QuorumStart
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.startup.opening import BrokerOptions
from ottla.codec.schema import Message
from ottla.config.broker import broker_config
from ottla.metadata.changes import ImageChanges
from ottla.metadata.image import METADATA_VERSION, MetadataImage
from ottla.metadata.records import (
    ConfigRecord,
    EndPoint,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.metadata.replay import MetadataReplay
from ottla.testing import FakeFileSystem
from tests.support.brokers import NOW_MS, TOPIC_DEFAULTS, at, id_of
from tests.support.replicated_brokers import Unasked, replicas_of

ME, OTHER, THIRD = 1, 2, 3
_numbers = count(9000)
LISTENER = "PLAINTEXT"


class ScriptedImages:
    """Each call commits records; `image` is what they have made so far."""

    def __init__(self, *brokers: int) -> None:
        self._replay = MetadataReplay()
        self.commit(FeatureLevelRecord(name=METADATA_VERSION, feature_level=21))
        for broker in brokers or (ME, OTHER, THIRD):
            self.register(broker, fenced=False)

    def commit(self, *records: Message) -> MetadataImage:
        for record in records:
            self._replay.replay(record)
            self._replay.end_offset += 1
        return self.image

    @property
    def image(self) -> MetadataImage:
        return self._replay.image()

    def register(self, broker: int, **fields: Any) -> MetadataImage:
        """The broker's epoch is the offset of the record, as Kafka's is."""
        values = {
            "broker_id": broker,
            "incarnation_id": id_of(broker),
            "broker_epoch": self._replay.end_offset,
            "end_points": [
                EndPoint(name=LISTENER, host=f"host-{broker}", port=9092, security_protocol=0)
            ],
            "features": [],
            "rack": None,
        }
        return self.commit(RegisterBrokerRecord(**values | fields))

    def create(
        self, name: str, topic_id: int, *assignment: tuple[int, ...], leaders: int | None = None
    ) -> MetadataImage:
        """Each partition is led by its first replica, or all by one broker."""
        records: list[Message] = [TopicRecord(name=name, topic_id=id_of(topic_id))]
        for index, replicas in enumerate(assignment):
            leader = replicas[0] if leaders is None else leaders
            records.append(partition_record(id_of(topic_id), index, replicas, leader))
        return self.commit(*records)

    def change(self, topic_id: int, index: int = 0, **fields: Any) -> MetadataImage:
        record = PartitionChangeRecord(partition_id=index, topic_id=id_of(topic_id), **fields)
        return self.commit(record)

    def delete(self, topic_id: int) -> MetadataImage:
        return self.commit(RemoveTopicRecord(topic_id=id_of(topic_id)))

    def configure(
        self, name: str, key: str, value: str | None, kind: int = ResourceKind.TOPIC
    ) -> MetadataImage:
        return self.commit(
            ConfigRecord(resource_type=kind, resource_name=name, name=key, value=value)
        )


def partition_record(
    topic_id: Uuid, index: int, replicas: tuple[int, ...], leader: int
) -> PartitionRecord:
    return PartitionRecord(
        partition_id=index,
        topic_id=topic_id,
        replicas=list(replicas),
        isr=list(replicas),
        leader=leader,
        leader_epoch=0,
        partition_epoch=0,
        directories=[id_of(0)] * len(replicas),
    )


class FollowingMember:
    """Broker 1 of a KRaft cluster, which is shown images by hand."""

    def __init__(
        self,
        file_system: FakeFileSystem | None = None,
        *paths: str,
        image: MetadataImage | None = None,
        leader_id: int = -1,
        kraft_version: int = 0,
        on_event: OnEvent = pass_over,
        **settings: str,
    ) -> None:
        disk = file_system or FakeFileSystem()
        start = QuorumStart(
            image=image or MetadataImage(),
            leader_id=lambda: leader_id,
            kraft_version=lambda: kraft_version,
        )
        self.broker = open_quorum_member(disk, *paths, start=start, on_event=on_event, **settings)
        self.complaints: list[str] = []
        self.follower = ImageFollower(self.broker, lambda: at(0.0), self.complaints.append)

    def show(self, image: MetadataImage) -> None:
        changes = ImageChanges.between(self.broker.image_store.image, image)
        self.follower.follow(image, changes)

    @property
    def replicas(self) -> Replicas:
        return replicas_of(self.broker)

    def roles(self) -> dict[TopicPartition, tuple[str, int, int, int]]:
        """Of each replica: what it does, its leader, leader epoch and partition epoch."""
        return {
            place: (
                type(one.role).__name__,
                one.leader,
                one.leader_epoch,
                one.partition_epoch,
            )
            for place, one in self.replicas.manager.partitions.items()
        }


def open_quorum_member(
    file_system: FileSystem,
    *paths: str,
    start: QuorumStart = QuorumStart(),  # noqa: B008 - immutable
    on_event: OnEvent = pass_over,
    membership: AnyMembership | None = None,
    **settings: str,
) -> Broker:
    values = {
        "process.roles": "broker",
        "controller.quorum.voters": "9@localhost:9093",
        "controller.listener.names": "CONTROLLER",
        "node.id": str(ME),
        "log.index.size.max.bytes": str(TOPIC_DEFAULTS.segment_index_bytes),
    }
    values |= {name.replace("_", "."): value for name, value in settings.items()}
    options = BrokerOptions(
        now_ms=NOW_MS,
        new_id=lambda: id_of(next(_numbers)),
        random_below=lambda _: 0,
        node_id=ME,
        cluster_id="a-cluster-for-tests-01",
        membership=membership or Unasked(),
        quorum=start,
        on_event=on_event,
    )
    return assemble(paths or ("/d",), file_system, broker_config(values), options)
