"""The ends of partitions, of which other brokers lead some."""

from dataclasses import dataclass, field

from ottla.base.partitions import TopicPartition
from ottla.broker.groups.end_offsets import EndOffsets
from ottla.broker.membership.end_requests import EndOffsetsRequest
from ottla.broker.topics.topics import Topics
from ottla.broker.waiting.rooms import Waiting
from ottla.cluster.end_offset_channels import ends_of, message_of
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tests.support.brokers import NOW_MS, at, batch, disk, open_broker

HERE, THERE, FAR, NOBODYS = (TopicPartition("t", index) for index in range(4))
LEADERS = {HERE: 1, THERE: 2, FAR: 3, NOBODYS: -1}


class Leaders:
    def leader_of(self, partition: TopicPartition) -> tuple[int, int]:
        return LEADERS[partition], 0


@dataclass
class Network:
    asked: list[EndOffsetsRequest] = field(default_factory=list)

    def ask_for_ends(self, request: EndOffsetsRequest) -> None:
        self.asked.append(request)


@dataclass
class OneOfThree:
    """Broker 1, which has the first partition, with three records."""

    topics: Topics
    node_id: int = 1
    replicas: Leaders = field(default_factory=Leaders)
    membership: Network = field(default_factory=Network)


def test_each_leader_is_asked_once_and_who_does_not_answer_is_left_out() -> None:
    opened = open_broker(disk("/d"))
    opened.admin.create_topic(NewTopic(name="t", partition_count=1))
    opened.appends.append(opened.topics.partition("t", 0), batch(b"a", b"b", b"c"), now_ms=NOW_MS)
    opened.appends.write_out()
    broker = OneOfThree(opened.topics)
    answered: list[Waiting[object]] = []
    ends = EndOffsets(broker, answered.append)
    waiting = ends.wait([HERE, THERE, FAR, NOBODYS])
    assert [(one.broker, one.partitions) for one in broker.membership.asked] == [
        (2, (THERE,)),
        (3, (FAR,)),
    ]
    assert waiting.result is None
    there, far = (one.number for one in broker.membership.asked)
    ends.answered(far, None, at(0))
    assert answered == []
    ends.answered(there, {THERE: 7}, at(0))
    assert waiting.result == {HERE: 3, THERE: 7}
    assert answered == [waiting]
    assert ends.wait([HERE]).result == {HERE: 3}


def test_a_leader_is_asked_by_list_offsets() -> None:
    request = EndOffsetsRequest(1, 2, (THERE, TopicPartition("u", 0), FAR))
    message = message_of(request)
    topics = message.topics  # type: ignore[attr-defined]
    asked = {one.name: [its.partition_index for its in one.partitions] for one in topics}
    assert asked == {"t": [1, 2], "u": [0]}
    partitions = [
        ListOffsetsPartitionResponse(partition_index=1, offset=7),
        ListOffsetsPartitionResponse(partition_index=2, error_code=6),
    ]
    topic = ListOffsetsTopicResponse(name="t", partitions=partitions)
    assert ends_of(ListOffsetsResponse(topics=[topic])) == {THERE: 7}
