"""Partitions of a member of a cluster that grow in number, and the orders of its controller."""

from collections.abc import Iterator
from typing import Any

from tests.support.lonely_member import ME

from benchmarks.growing import EACH_MANY, GROUP, commit
from benchmarks.growth import Place
from ottla.base.ids import Uuid
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from ottla.protocol.messages.metadata import MetadataRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest
from ottla.protocol.messages.stop_replica import (
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from ottla.protocol.messages.update_metadata import (
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)

OTHER = 2
OFFSETS = "__consumer_offsets"
FIRST_EPOCH = 7
EACH_TOPIC = 100
"""Partitions of a topic."""


def hosted(place: Place) -> None:
    """Partitions that this broker leads."""
    names = list(_names(place.count))
    for first in range(0, len(names), EACH_MANY // EACH_TOPIC):
        some = names[first : first + EACH_MANY // EACH_TOPIC]
        _lead(place, some, EACH_TOPIC, leader=ME, epoch=FIRST_EPOCH)
    update_metadata(place)


def _names(count: int) -> Iterator[str]:
    return (f"topic-{one}" for one in range(max(1, count // EACH_TOPIC)))


def _id_of(name: str) -> Uuid:
    return Uuid(name.encode().ljust(16, b"\1")[:16])


def _sender(place: Place) -> dict[str, Any]:
    """By these fields an order is the controller's."""
    broker_epoch = place.known["broker_epoch"]
    return {"controller_id": ME, "controller_epoch": 1, "broker_epoch": broker_epoch}


def _lead(place: Place, names: list[str], each: int, *, leader: int, epoch: int) -> None:
    topics = [
        LeaderAndIsrTopicState(
            topic_name=name,
            topic_id=_id_of(name),
            partition_states=[
                LeaderAndIsrPartitionState(
                    partition_index=index,
                    controller_epoch=1,
                    leader=leader,
                    leader_epoch=epoch,
                    isr=[leader],
                    partition_epoch=epoch,
                    replicas=[ME, OTHER],
                    is_new=epoch == FIRST_EPOCH,
                )
                for index in range(each)
            ],
        )
        for name in names
    ]
    request = LeaderAndIsrRequest(
        **_sender(place),
        topic_states=topics,
        live_leaders=[LeaderAndIsrLiveLeader(broker_id=leader, host_name="localhost", port=1)],
    )
    answer = place.ask(request, 7)
    assert not answer.error_code
    errors = {one.error_code for topic in answer.topics for one in topic.partition_errors}
    assert errors == {0}, errors


def follow_all(place: Place) -> None:
    """Another broker leads all of them."""
    _lead(place, list(_names(place.count)), EACH_TOPIC, leader=OTHER, epoch=FIRST_EPOCH + 1)


def lead_all(place: Place) -> None:
    """And this one again."""
    _lead(place, list(_names(place.count)), EACH_TOPIC, leader=ME, epoch=FIRST_EPOCH + 2)


def update_metadata(place: Place) -> None:
    """As after a controller's failure: it tells of all partitions."""
    topics = [
        UpdateMetadataTopicState(
            topic_name=name,
            topic_id=_id_of(name),
            partition_states=[
                UpdateMetadataPartitionState(
                    partition_index=index,
                    controller_epoch=1,
                    leader=ME,
                    leader_epoch=FIRST_EPOCH,
                    isr=[ME],
                    zk_version=FIRST_EPOCH,
                    replicas=[ME, OTHER],
                )
                for index in range(EACH_TOPIC)
            ],
        )
        for name in _names(place.count)
    ]
    request = UpdateMetadataRequest(
        **_sender(place),
        topic_states=topics,
        live_brokers=[],
    )
    assert not place.ask(request, 8).error_code


def ask_metadata(place: Place) -> None:
    assert len(place.ask(MetadataRequest(topics=None), 12).topics) >= len([*_names(place.count)])


def stop_all(place: Place) -> None:
    """With their records, as a deletion of their topics does."""
    topics = [
        StopReplicaTopicState(
            topic_name=name,
            partition_states=[
                StopReplicaPartitionState(
                    partition_index=index, leader_epoch=-2, delete_partition=True
                )
                for index in range(EACH_TOPIC)
            ],
        )
        for name in _names(place.count)
    ]
    request = StopReplicaRequest(
        **_sender(place),
        topic_states=topics,
    )
    answer = place.ask(request, 4)
    assert {answer.error_code, *(one.error_code for one in answer.partition_errors)} == {0}


def coordinated_offsets(place: Place) -> None:
    """Offsets of one group, whose coordinator this broker is."""
    _lead(place, [OFFSETS], 1, leader=ME, epoch=FIRST_EPOCH)
    place.settle()
    for first in range(0, place.count, EACH_MANY):
        commit(place, GROUP, range(first, min(first + EACH_MANY, place.count)))


def give_up_coordinator(place: Place) -> None:
    _lead(place, [OFFSETS], 1, leader=OTHER, epoch=FIRST_EPOCH + 1)


def become_coordinator(place: Place) -> None:
    """What is committed is loaded from the log."""
    _lead(place, [OFFSETS], 1, leader=ME, epoch=FIRST_EPOCH + 2)
    place.settle()
    answer = place.ask(OffsetFetchRequest(group_id=GROUP, topics=None), 5)
    assert not answer.error_code
    assert sum(len(one.partitions) for one in answer.topics) == place.count
