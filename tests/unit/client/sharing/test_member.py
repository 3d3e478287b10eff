"""A member of a share group as a machine: what it asks, and which partitions it has."""

from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.client.consumer.membership import FatalError, MemberOptions
from ottla.client.sharing.member import ShareMember
from ottla.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)

TOPIC_ID = Uuid(bytes(range(16)))
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def member() -> ShareMember:
    made = ShareMember(MemberOptions(group_id="g", rack="r"), "m")
    made.subscribe(["t"])
    return made


def beat(one: ShareMember, now_ms: float = 0.0, **answer: Any) -> ShareGroupHeartbeatRequest:
    request = one.next_request(now_ms)
    assert isinstance(request, ShareGroupHeartbeatRequest)
    one.answered(request, ShareGroupHeartbeatResponse(member_id="m", **answer), now_ms)
    return request


def assigned(*numbers: int) -> Assignment:
    return Assignment(
        topic_partitions=[TopicPartitions(topic_id=TOPIC_ID, partitions=list(numbers))]
    )


def joined(*numbers: int) -> ShareMember:
    one = member()
    beat(one, member_epoch=1, heartbeat_interval_ms=5000, assignment=assigned(*numbers))
    one.take_topics({}, {TOPIC_ID: "t"})
    return one


def test_it_joins_with_all_that_it_is_and_then_says_only_what_changed() -> None:
    one = member()
    first = beat(one, member_epoch=1, heartbeat_interval_ms=5000, assignment=assigned(0))
    assert (first.member_epoch, first.rack_id, first.subscribed_topic_names) == (0, "r", ["t"])
    assert one.next_request(4999.0) is None
    second = beat(one, 5000.0, member_epoch=1, heartbeat_interval_ms=5000)
    assert (second.member_epoch, second.rack_id, second.subscribed_topic_names) == (1, None, None)
    one.subscribe(["u"])
    assert beat(one, 5001.0, member_epoch=2).subscribed_topic_names == ["u"]


def test_as_long_as_it_has_nothing_it_asks_again_soon_and_then_later() -> None:
    one = member()
    now_ms, pauses = 0.0, []
    for _ in range(10):
        beat(one, now_ms, member_epoch=1, heartbeat_interval_ms=5000)
        pauses.append(one.due_ms(now_ms) - now_ms)
        now_ms = one.due_ms(now_ms)
    assert pauses == [20, 40, 80, 160, 320, 640, 1280, 2560, 5000, 5000]


def test_an_assignment_holds_once_the_topics_of_its_ids_are_known() -> None:
    one = member()
    beat(one, member_epoch=1, assignment=assigned(0, 1))
    assert one.owned == frozenset()
    assert one.needs_topics
    one.take_topics({}, {TOPIC_ID: "t"})
    assert one.topic_ids == {T0: TOPIC_ID, T1: TOPIC_ID}
    beat(one, 0.0, member_epoch=2, assignment=assigned(1))
    assert one.owned == {T1}
    assert not one.events


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_a_fenced_member_has_nothing_and_joins_again_under_its_id(code: ErrorCode) -> None:
    one = joined(0)
    beat(one, 5000.0, error_code=code)
    assert one.owned == frozenset()
    again = beat(one, 5000.0, member_epoch=7, assignment=assigned(0))
    assert (again.member_id, again.member_epoch) == ("m", 0)
    assert one.owned == {T0}


def test_after_a_lost_answer_all_is_said_again_to_another_coordinator() -> None:
    one = joined(0)
    assert one.next_request(5000.0) is not None
    one.unreachable(5000.0)
    assert one.is_coordinator_lost
    assert one.next_request(5000.0) is None
    one.is_coordinator_lost = False
    again = beat(one, 5100.0, member_epoch=1)
    assert (again.member_epoch, again.subscribed_topic_names) == (1, ["t"])


def test_a_member_that_leaves_says_so_once() -> None:
    one = joined(0)
    farewell = one.leave()
    assert isinstance(farewell, ShareGroupHeartbeatRequest)
    assert farewell.member_epoch == -1
    assert one.leave() is None
    assert one.due_ms(0.0) == float("inf")


def test_a_refusal_for_good_ends_the_membership() -> None:
    one = member()
    with pytest.raises(FatalError):
        beat(one, error_code=ErrorCode.GROUP_MAX_SIZE_REACHED)
    assert one.leave() is None
