"""Members of groups as machines: what they ask, and what the application hears of the answers."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.client.consumer.assignors import ASSIGNORS, listed
from ottla.client.consumer.classic_member import ClassicMember
from ottla.client.consumer.consumer_member import ConsumerMember
from ottla.client.consumer.membership import Event, EventKind, FatalError, MemberOptions
from ottla.coordinator.classic.consumer_protocol import (
    ConsumerProtocolAssignment,
    encode_assignment,
)
from ottla.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from ottla.protocol.messages.leave_group import LeaveGroupRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID = Uuid(bytes(range(16)))
OPTIONS = MemberOptions(group_id="g", heartbeat_interval_ms=1000, retry_backoff_ms=100)


def joined(member: ClassicMember, *partitions: TopicPartition, generation: int = 1) -> None:
    """Through a join and a sync as a follower, up to the events that come of them."""
    request = member.next_request(0)
    assert isinstance(request, JoinGroupRequest)
    join = JoinGroupResponse(
        generation_id=generation, protocol_name="range", leader="another", member_id="m"
    )
    member.answered(request, join, 0)
    request = member.next_request(0)
    assert isinstance(request, SyncGroupRequest)
    assigned = ConsumerProtocolAssignment(assigned_partitions=listed(partitions))
    member.answered(request, SyncGroupResponse(assignment=encode_assignment(assigned)), 0)


def handle_all(member: Any) -> list[Event]:
    events = list(member.events)
    for _ in events:
        member.handled()
    return events


def classic(*names: str) -> ClassicMember:
    member = ClassicMember(OPTIONS, [ASSIGNORS[name] for name in names])
    member.subscribe(["t"])
    return member


def refuse(member: Any, code: ErrorCode, now_ms: float = 1000) -> None:
    request = member.next_request(now_ms)
    assert isinstance(request, HeartbeatRequest)
    member.answered(request, HeartbeatResponse(error_code=code), now_ms)


def test_an_eager_member_gives_up_everything_before_it_joins_again() -> None:
    member = classic("range")
    joined(member, T0, T1)
    assert handle_all(member) == [Event(EventKind.ASSIGNED, frozenset({T0, T1}))]
    refuse(member, ErrorCode.REBALANCE_IN_PROGRESS)
    assert member.next_request(1000) is None
    assert list(member.events) == [Event(EventKind.REVOKED, frozenset({T0, T1}))]
    assert isinstance(member.next_request(2000), HeartbeatRequest)  # The application takes long.
    handle_all(member)
    assert isinstance(member.next_request(2000), JoinGroupRequest)


def test_a_cooperative_member_keeps_what_stays_and_joins_once_more() -> None:
    member = classic("cooperative-sticky")
    joined(member, T0, T1)
    handle_all(member)
    refuse(member, ErrorCode.REBALANCE_IN_PROGRESS)
    joined(member, T0, generation=2)
    assert handle_all(member) == [
        Event(EventKind.REVOKED, frozenset({T1})),
        Event(EventKind.ASSIGNED, frozenset()),
    ]
    assert member.owned == {T0}
    assert isinstance(member.next_request(1000), JoinGroupRequest)


@pytest.mark.parametrize(
    ("code", "member_id"),
    [(ErrorCode.UNKNOWN_MEMBER_ID, ""), (ErrorCode.ILLEGAL_GENERATION, "m")],
)
def test_a_forgotten_member_has_lost_everything_and_joins_again(
    code: ErrorCode, member_id: str
) -> None:
    member = classic("range")
    joined(member, T0)
    handle_all(member)
    refuse(member, code)
    assert member.identity is None
    assert member.next_request(1000) is None
    assert handle_all(member) == [Event(EventKind.LOST, frozenset({T0}))]
    request = member.next_request(1000)
    assert isinstance(request, JoinGroupRequest)
    assert request.member_id == member_id


def test_a_member_id_is_taken_and_another_coordinator_looked_for() -> None:
    member = classic("range")
    request = member.next_request(0)
    assert request is not None
    required = ErrorCode.MEMBER_ID_REQUIRED
    member.answered(request, JoinGroupResponse(error_code=required, member_id="m"), 0)
    request = member.next_request(0)
    assert isinstance(request, JoinGroupRequest)
    assert request.member_id == "m"
    member.answered(request, JoinGroupResponse(error_code=ErrorCode.NOT_COORDINATOR), 0)
    assert member.is_coordinator_lost
    assert member.next_request(50) is None
    assert isinstance(member.next_request(100), JoinGroupRequest)


def test_the_leader_assigns_once_it_knows_the_partitions_and_again_when_they_change() -> None:
    member = classic("range")
    request = member.next_request(0)
    assert isinstance(request, JoinGroupRequest)
    (protocol,) = request.protocols
    joining = JoinGroupResponseMember(member_id="m", metadata=protocol.metadata)
    answer = JoinGroupResponse(
        generation_id=1, protocol_name="range", leader="m", member_id="m", members=[joining]
    )
    member.answered(request, answer, 0)
    assert member.needs_topics
    assert member.wanted_topics == {"t"}
    member.take_topics({"t": 2}, {})
    request = member.next_request(0)
    assert isinstance(request, SyncGroupRequest)
    member.answered(request, SyncGroupResponse(assignment=request.assignments[0].assignment), 0)
    handle_all(member)
    assert member.owned == {T0, T1}
    member.take_topics({"t": 2}, {})
    assert not member._must_rejoin
    member.take_topics({"t": 3}, {})
    assert member._must_rejoin


def test_a_member_that_is_refused_for_good_says_so() -> None:
    member = classic("range")
    joined(member)
    handle_all(member)
    with pytest.raises(FatalError):
        refuse(member, ErrorCode.FENCED_INSTANCE_ID)
    assert member.next_request(10**6) is None


def test_only_a_dynamic_member_informs_the_coordinator_that_it_leaves() -> None:
    member = classic("range")
    joined(member, T0)
    handle_all(member)
    assert isinstance(member.leave(), LeaveGroupRequest)
    assert list(member.events) == [Event(EventKind.LOST, frozenset({T0}))]
    static = ClassicMember(MemberOptions(group_id="g", instance_id="i"), [ASSIGNORS["range"]])
    joined(static, T0)
    assert static.leave() is None


def test_a_member_that_left_before_it_was_known_leaves_by_the_id_that_the_answer_brings() -> None:
    member = classic("range")
    assert not member.is_entering
    assert member.next_request(0) is not None
    assert member.is_entering
    assert member.leave() is None
    answer = JoinGroupResponse(error_code=ErrorCode.MEMBER_ID_REQUIRED, member_id="m")
    farewell = member.leave_after(answer)
    assert isinstance(farewell, LeaveGroupRequest)
    assert [one.member_id for one in farewell.members] == ["m"]
    assert member.leave_after(JoinGroupResponse(error_code=ErrorCode.NOT_COORDINATOR)) is None


# The consumer protocol


def beat(
    member: ConsumerMember, now_ms: float, *partitions: int, epoch: int = 1
) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat, answered with an assignment."""
    request = member.next_request(now_ms)
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assigned = TopicPartitions(topic_id=TOPIC_ID, partitions=list(partitions))
    answer = ConsumerGroupHeartbeatResponse(
        member_id="m",
        member_epoch=epoch,
        heartbeat_interval_ms=1000,
        assignment=Assignment(topic_partitions=[assigned]),
    )
    member.answered(request, answer, now_ms)
    return request


@pytest.fixture
def modern() -> ConsumerMember:
    member = ConsumerMember(OPTIONS, "m")
    member.subscribe(["t"])
    beat(member, 0, 0, 1)
    assert member.unknown_ids == {TOPIC_ID}
    member.take_topics({"t": 2}, {TOPIC_ID: "t"})
    assert handle_all(member) == [Event(EventKind.ASSIGNED, frozenset({T0, T1}))]
    return member


def test_an_assignment_is_acknowledged_when_the_application_has_it(modern: ConsumerMember) -> None:
    request = beat(modern, 10, 0, epoch=2)
    assert request.topic_partitions == [TopicPartitions(topic_id=TOPIC_ID, partitions=[0, 1])]
    assert list(modern.events) == [Event(EventKind.REVOKED, frozenset({T1}))]
    assert modern.next_request(20) is None
    quiet = modern.next_request(1010)  # The application takes long.
    assert isinstance(quiet, ConsumerGroupHeartbeatRequest)
    assert quiet.topic_partitions is None
    assert quiet.subscribed_topic_names is None
    handle_all(modern)
    request = beat(modern, 1010, 0, epoch=2)
    assert request.topic_partitions == [TopicPartitions(topic_id=TOPIC_ID, partitions=[0])]


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_a_fenced_member_has_lost_everything_and_joins_again(
    modern: ConsumerMember, code: ErrorCode
) -> None:
    request = modern.next_request(0)
    assert request is not None
    modern.answered(request, ConsumerGroupHeartbeatResponse(error_code=code), 0)
    assert modern.identity is None
    assert modern.next_request(0) is None
    assert handle_all(modern) == [Event(EventKind.LOST, frozenset({T0, T1}))]
    request = modern.next_request(0)
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert (request.member_epoch, request.topic_partitions) == (0, [])
    assert request.subscribed_topic_names == ["t"]


def test_after_a_lost_answer_everything_is_said_again(modern: ConsumerMember) -> None:
    assert modern.next_request(0) is not None
    modern.unreachable(0)
    assert modern.is_coordinator_lost
    request = modern.next_request(100)
    assert isinstance(request, ConsumerGroupHeartbeatRequest)
    assert request.subscribed_topic_names == ["t"]
    assert request.topic_partitions == [TopicPartitions(topic_id=TOPIC_ID, partitions=[0, 1])]


def test_a_member_that_left_while_it_joined_says_so_once_it_is_in() -> None:
    member = ConsumerMember(OPTIONS, "m")
    member.subscribe(["t"])
    assert member.next_request(0) is not None
    assert member.is_entering
    assert member.leave() is None
    refused = ConsumerGroupHeartbeatResponse(error_code=ErrorCode.NOT_COORDINATOR)
    assert member.leave_after(refused) is None
    farewell = member.leave_after(ConsumerGroupHeartbeatResponse(member_id="m", member_epoch=1))
    assert isinstance(farewell, ConsumerGroupHeartbeatRequest)
    assert (farewell.member_id, farewell.member_epoch) == ("m", -1)


@pytest.mark.parametrize(
    ("make", "epoch"),
    [
        (lambda: MemberOptions(group_id="g"), -1),
        (lambda: MemberOptions(group_id="g", instance_id="i"), -2),
    ],
)
def test_a_static_member_leaves_so_that_it_may_come_back(
    make: Callable[[], MemberOptions], epoch: int
) -> None:
    member = ConsumerMember(make(), "m")
    member.subscribe(["t"])
    beat(member, 0)
    farewell = member.leave()
    assert isinstance(farewell, ConsumerGroupHeartbeatRequest)
    assert farewell.member_epoch == epoch
    assert member.next_request(10**6) is None
