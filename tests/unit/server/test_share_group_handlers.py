"""The requests of members and administrators of share groups."""

from collections.abc import Sequence
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.timestamps import Timestamps
from ottla.broker.membership.state_requests import StateRequest
from ottla.broker.shares.states import SharePersister, TakeAnswers
from ottla.coordinator.share.coordinator import ShareStateAnswer
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.protocol.messages import delete_share_group_offsets as deleting
from ottla.protocol.messages import describe_share_group_offsets as describing
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.server.handling.operations import GROUP_OPERATIONS
from tests.support.brokers import NOW_MS, batch
from tests.support.group_asking import commit_request
from tests.support.share_group_asking import ShareAsker


@pytest.fixture
def asker() -> ShareAsker:
    return ShareAsker()


def assigned(answer: Any) -> list[tuple[Uuid, list[int]]]:
    return [(one.topic_id, one.partitions) for one in answer.assignment.topic_partitions]


# Members


def test_a_member_is_given_partitions_once_their_states_have_begun(asker: ShareAsker) -> None:
    first = asker.beat()
    assert (first.error_code, first.member_id, first.member_epoch) == (0, "m", 1)
    assert (first.assignment.topic_partitions, first.heartbeat_interval_ms) == ([], 500)
    asker.run()
    second = asker.beat(epoch=1)
    assert assigned(second) == [(asker.topic_id, [0, 1])]
    assert second.heartbeat_interval_ms == 5000
    assert asker.beat(epoch=second.member_epoch).assignment is None


def test_a_member_has_partitions_at_once_if_their_states_begin_at_once(asker: ShareAsker) -> None:
    asker.settle()
    asker.broker.admin.create_topic(NewTopic(name="u", partition_count=1))
    answer = asker.beat("n", group_id="h", subscribed_topic_names=["t", "u"])
    assert sorted(index for _, its in assigned(answer) for index in its) == [0, 0, 1]


def test_a_new_partition_of_a_known_topic_begins_at_its_beginning(asker: ShareAsker) -> None:
    asker.settle()
    asker.broker.admin.grow_topic(TopicGrowth(name="t", partition_count=3))
    asker.settle()
    (topic,) = asker.offsets().topics
    assert [one.start_offset for one in topic.partitions] == [-1, -1, 0]


def test_members_share_partitions(asker: ShareAsker) -> None:
    asker.settle()
    asker.settle("n")
    assert len(assigned(asker.beat("n"))[0][1]) == 1
    assert asker.beat("m", 77).error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_who_leaves_or_is_silent_for_too_long_is_gone(asker: ShareAsker) -> None:
    asker.settle()
    asker.settle("n")
    assert asker.leave().member_epoch == -1
    assert asker.beat(epoch=1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    asker.pass_to(asker.monotonic_ms + 45_000)
    asker.run()
    assert asker.beat("n", 2).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_what_has_not_begun_is_logged_and_asked_for_again(
    asker: ShareAsker, caplog: pytest.LogCaptureFixture
) -> None:
    persister = _Unreachable(asker.broker.share_persister)
    asker.broker.share_groups._find_persister = lambda: persister
    answer = asker.beat()
    assert caplog.messages == [
        "share group g: the states of 2 partitions have not begun: "
        f"{ErrorCode.COORDINATOR_NOT_AVAILABLE.description}"
    ]
    persister.is_reachable = True
    asker.run()
    asker.pass_to(29_000)
    assert asker.beat(epoch=answer.member_epoch).heartbeat_interval_ms == 500
    asker.pass_to(30_000)
    assert asker.settle(epoch=answer.member_epoch) is not None
    assert asker.broker.groups.known[0].shares.find("g").initializing == {}


class _Unreachable:
    """No share coordinator answers, until `is_reachable`."""

    def __init__(self, persister: SharePersister) -> None:
        self._persister = persister
        self.is_reachable = False
        self.wait = persister.wait

    def ask(self, requests: Sequence[StateRequest], take: TakeAnswers, at: Timestamps) -> None:
        if self.is_reachable:
            self._persister.ask(requests, take, at)
        else:
            take([ShareStateAnswer(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)] * len(requests))


# Descriptions


def describe(asker: ShareAsker, group_id: str = "g") -> Any:
    request = ShareGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=True)
    return asker.wait_for(request, 1).groups[0]


def test_a_group_is_described_with_its_members(asker: ShareAsker) -> None:
    asker.settle(rack_id="r")
    group = describe(asker)
    assert (group.error_code, group.group_state, group.assignor_name) == (0, "Stable", "simple")
    assert group.group_epoch == group.assignment_epoch > 0
    assert group.authorized_operations == GROUP_OPERATIONS
    (member,) = group.members
    assert (member.member_id, member.rack_id, member.client_id) == ("m", "r", "test")
    assert (member.client_host, member.subscribed_topic_names) == ("/10.0.0.9", ["t"])
    (topic,) = member.assignment.topic_partitions
    assert (topic.topic_id, topic.topic_name, topic.partitions) == (asker.topic_id, "t", [0, 1])


def test_what_is_no_share_group_is_not_found(asker: ShareAsker) -> None:
    asker.ask(commit_request(9, asker.broker, 0, group_id="simple"), 9)
    for group_id, reason in (("simple", "is not a share group"), ("none", "not found")):
        group = describe(asker, group_id)
        assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert reason in group.error_message
        assert asker.offsets(group_id).error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert describe(asker, "").error_code == ErrorCode.INVALID_GROUP_ID
    assert asker.beat(group_id="simple").error_code == ErrorCode.GROUP_ID_NOT_FOUND


def test_other_protocols_do_not_know_a_share_group(asker: ShareAsker) -> None:
    asker.settle()
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="c",
        subscribed_topic_names=["t"],
        rebalance_timeout_ms=60_000,
        topic_partitions=[],
    )
    answer = asker.ask(request, 1)
    assert answer.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert answer.error_message == "Group g is not a consumer group."
    (group,) = asker.ask(DescribeGroupsRequest(groups=["g"]), 6).groups
    assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    (topic,) = asker.ask(commit_request(9, asker.broker, 0), 9).topics
    assert topic.partitions[0].error_code == ErrorCode.GROUP_ID_NOT_FOUND


@pytest.mark.parametrize(
    ("states", "types", "is_listed"),
    [
        ([], ["share"], True),
        (["stable"], [], True),
        (["Empty"], [], False),
        ([], ["classic"], False),
    ],
)
def test_groups_are_listed_by_state_and_type(
    asker: ShareAsker, states: list[str], types: list[str], is_listed: bool
) -> None:
    asker.settle()
    listed = asker.ask(ListGroupsRequest(states_filter=states, types_filter=types), 5).groups
    found = [(one.group_id, one.group_type, one.protocol_type) for one in listed]
    assert found == ([("g", "share", "share")] if is_listed else [])


# Offsets


def test_the_lag_is_what_is_not_finished(asker: ShareAsker) -> None:
    asker.settle()
    partition = asker.broker.topics.partition("t", 0)
    asker.broker.appends.append(partition, batch(*[b"v"] * 5), now_ms=NOW_MS)
    asker.broker.appends.write_out()
    asker.leave()
    asker.alter(p0=2)
    (topic,) = asker.offsets().topics
    assert (topic.topic_name, topic.topic_id) == ("t", asker.topic_id)
    found = [(one.start_offset, one.lag, one.error_code) for one in topic.partitions]
    assert found == [(2, 3, 0), (-1, -1, 0)]


def test_a_topic_that_is_not_there_has_no_offsets(asker: ShareAsker) -> None:
    asker.settle()
    wanted = describing.WantedTopic(topic_name="none", partitions=[0])
    request = describing.DescribeShareGroupOffsetsRequest(
        groups=[describing.WantedGroup(group_id="g", topics=[wanted])]
    )
    (group,) = asker.wait_for(request, 0).groups
    (partition,) = group.topics[0].partitions
    assert partition.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert partition.start_offset == -1


def test_offsets_are_altered_while_the_group_is_empty(asker: ShareAsker) -> None:
    asker.settle()
    refused = asker.alter(p0=7)
    assert refused.error_code == ErrorCode.NON_EMPTY_GROUP
    assert "has members" in refused.error_message
    asker.leave()
    answer = asker.alter(p0=7, p9=1)
    assert answer.error_code == 0
    (topic,) = answer.responses
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [
        (0, 0),
        (9, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert asker.offsets().topics[0].partitions[0].start_offset == 7
    (unknown,) = asker.alter(topic="none", p0=1).responses
    assert unknown.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert asker.alter(group_id="", p0=1).error_code == ErrorCode.INVALID_GROUP_ID


def test_a_group_is_told_where_to_begin_before_its_first_member_comes(asker: ShareAsker) -> None:
    assert asker.alter(p0=3, p1=4).error_code == 0
    asker.settle()
    (topic,) = asker.offsets().topics
    assert [one.start_offset for one in topic.partitions] == [3, 4]


def test_a_share_coordinator_that_does_not_answer_is_told_of_as_such(asker: ShareAsker) -> None:
    persister = _Unreachable(asker.broker.share_persister)
    asker.broker.share_groups._find_persister = lambda: persister
    (topic,) = asker.alter(p0=3).responses
    assert topic.partitions[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def delete_offsets(asker: ShareAsker, *topics: str) -> Any:
    wanted = [deleting.WantedTopic(topic_name=one) for one in topics]
    request = deleting.DeleteShareGroupOffsetsRequest(group_id="g", topics=wanted)
    return asker.wait_for(request, 0)


def test_offsets_of_a_topic_are_deleted_while_the_group_is_empty(asker: ShareAsker) -> None:
    asker.broker.admin.create_topic(NewTopic(name="u", partition_count=1))
    assert delete_offsets(asker, "t").error_code == ErrorCode.GROUP_ID_NOT_FOUND
    asker.settle()
    assert delete_offsets(asker, "t").error_code == ErrorCode.NON_EMPTY_GROUP
    asker.leave()
    answer = delete_offsets(asker, "t", "u", "none")
    found = [(one.topic_name, one.error_code, one.error_message) for one in answer.responses]
    unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert found == [
        ("t", 0, None),
        ("u", unknown, "There is no offset information to delete."),
        ("none", unknown, unknown.description),
    ]
    assert asker.offsets().topics == []
    assert asker.broker.groups.known[0].shares.find("g").deleting == {}


def test_a_group_is_deleted_with_its_states_once_it_is_empty(asker: ShareAsker) -> None:
    asker.settle()
    request = DeleteGroupsRequest(groups_names=["g", "none"])
    results = asker.wait_for(request, 2).results
    codes = [ErrorCode.NON_EMPTY_GROUP, ErrorCode.GROUP_ID_NOT_FOUND]
    assert [one.error_code for one in results] == codes
    asker.leave()
    asker.alter(p0=7)
    results = asker.wait_for(request, 2).results
    assert [one.error_code for one in results] == [0, ErrorCode.GROUP_ID_NOT_FOUND]
    assert asker.ask(ListGroupsRequest(), 5).groups == []
    asker.settle()
    assert [one.start_offset for one in asker.offsets().topics[0].partitions] == [-1, -1]


def test_a_deleted_topic_is_forgotten(asker: ShareAsker) -> None:
    asker.settle()
    asker.leave()
    asker.broker.admin.delete_topic(asker.broker.topics.get("t"))
    asker.run()
    assert asker.offsets().topics == []
