"""The requests of the new group protocol, and what the older ones make of its groups."""

from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from ottla.server.handling.operations import GROUP_OPERATIONS
from tests.support.asking import Asker
from tests.support.brokers import disk, open_broker
from tests.support.group_asking import commit_request, each_version, group_asker


@pytest.fixture
def asker() -> Asker:
    return group_asker()


def enter(asker: Asker, version: int = 1, member_id: str = "m", **options: Any) -> Any:
    options.setdefault("subscribed_topic_names", ["t"])
    request = ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        rebalance_timeout_ms=60_000,
        topic_partitions=[],
        **options,
    )
    return asker.ask(request, version)


def beat(asker: Asker, member_id: str = "m", epoch: int = 1, **options: Any) -> Any:
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member_id, member_epoch=epoch, **options
    )
    return asker.ask(request, 1)


def topic_id(asker: Asker) -> Uuid:
    return asker.broker.topics.get("t").topic_id


def assigned(answer: Any) -> list[tuple[Uuid, list[int]]]:
    return [(one.topic_id, one.partitions) for one in answer.assignment.topic_partitions]


@each_version(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def test_who_enters_is_given_partitions_by_topic_id(asker: Asker, version: int) -> None:
    answer = enter(asker, version)
    assert (answer.error_code, answer.error_message) == (0, None)
    assert (answer.member_id, answer.member_epoch) == ("m", 1)
    assert answer.heartbeat_interval_ms == 5000
    assert assigned(answer) == [(topic_id(asker), [0, 1])]
    assert beat(asker).assignment is None


@each_version(ApiKey.CONSUMER_GROUP_HEARTBEAT)
def test_only_an_old_client_may_come_without_an_id(asker: Asker, version: int) -> None:
    answer = enter(asker, version, member_id="")
    if version == 0:
        assert answer.error_code == 0
        assert answer.member_id
    else:
        assert answer.error_code == ErrorCode.INVALID_REQUEST
        assert answer.error_message == "MemberId can't be empty."


def test_topics_are_subscribed_to_by_an_expression(asker: Asker) -> None:
    enter(asker, subscribed_topic_names=None, subscribed_topic_regex="u.*|t")
    asker.broker.admin.create_topic(NewTopic(name="u1", partition_count=1))
    answer = beat(asker)
    assert answer.member_epoch == 2
    assert len(answer.assignment.topic_partitions) == 2


def test_a_topic_that_grows_gives_its_readers_more(asker: Asker) -> None:
    enter(asker)
    asker.broker.admin.grow_topic(TopicGrowth(name="t", partition_count=3))
    assert assigned(beat(asker)) == [(topic_id(asker), [0, 1, 2])]


def test_partitions_go_from_member_to_member(asker: Asker) -> None:
    enter(asker)
    assert enter(asker, member_id="n").assignment.topic_partitions == []
    owns = [TopicPartitions(topic_id=topic_id(asker), partitions=[0, 1])]
    asked = beat(asker, topic_partitions=owns)
    assert (asked.member_epoch, assigned(asked)) == (1, [(topic_id(asker), [0])])
    owns = [TopicPartitions(topic_id=topic_id(asker), partitions=[0])]
    assert beat(asker, topic_partitions=owns).member_epoch == 2
    assert assigned(beat(asker, "n", 2)) == [(topic_id(asker), [1])]


def test_errors_are_reported_with_their_reasons(asker: Asker) -> None:
    enter(asker)
    answer = beat(asker, epoch=9)
    assert answer.error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert "greater member epoch (9)" in answer.error_message
    assert answer.assignment is None


def test_who_leaves_is_gone(asker: Asker) -> None:
    enter(asker)
    assert beat(asker, epoch=-1).member_epoch == -1
    assert beat(asker).error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_the_new_protocol_can_be_switched_off() -> None:
    broker = open_broker(disk("/d"), group_coordinator_rebalance_protocols="classic")
    asker = Asker(broker)
    assert enter(asker).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert describe(asker, 1).error_code == ErrorCode.UNSUPPORTED_VERSION


# Administrators


def describe(asker: Asker, version: int, group_id: str = "g") -> Any:
    request = ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=True)
    return asker.ask(request, version).groups[0]


@each_version(ApiKey.CONSUMER_GROUP_DESCRIBE)
def test_a_group_is_described_with_its_members(asker: Asker, version: int) -> None:
    enter(asker, instance_id="one", rack_id="r", server_assignor="range")
    group = describe(asker, version)
    assert (group.error_code, group.group_state) == (0, "Stable")
    assert (group.group_epoch, group.assignment_epoch, group.assignor_name) == (1, 1, "range")
    assert group.authorized_operations == GROUP_OPERATIONS
    (member,) = group.members
    assert (member.member_id, member.instance_id, member.rack_id) == ("m", "one", "r")
    assert (member.member_epoch, member.client_id, member.client_host) == (1, "test", "/10.0.0.9")
    assert (member.subscribed_topic_names, member.subscribed_topic_regex) == (["t"], None)
    assert member.assignment == member.target_assignment
    (topic,) = member.assignment.topic_partitions
    assert (topic.topic_id, topic.topic_name, topic.partitions) == (topic_id(asker), "t", [0, 1])
    assert member.member_type == (1 if version >= 1 else -1)


def test_what_is_no_group_of_the_new_protocol_is_not_found(asker: Asker) -> None:
    asker.ask(commit_request(9, asker.broker, 0, group_id="simple"), 9)
    for group_id, reason in (("simple", "is not a consumer group"), ("none", "not found")):
        group = describe(asker, 1, group_id)
        assert group.error_code == ErrorCode.GROUP_ID_NOT_FOUND
        assert reason in group.error_message
    assert describe(asker, 1, "").error_code == ErrorCode.INVALID_GROUP_ID


def test_a_deleted_topic_is_left_out_of_a_description(asker: Asker) -> None:
    enter(asker)
    asker.broker.admin.delete_topic(asker.broker.topics.get("t"))
    (member,) = describe(asker, 1).members
    assert member.assignment.topic_partitions == []


@each_version(ApiKey.DESCRIBE_GROUPS)
def test_the_classic_description_knows_no_group_of_the_new_protocol(
    asker: Asker, version: int
) -> None:
    enter(asker)
    (group,) = asker.ask(DescribeGroupsRequest(groups=["g"]), version).groups
    assert group.group_state == "Dead"
    assert group.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if version >= 6 else 0)
    if version >= 6:
        assert group.error_message == "Group g is not a classic group."


@pytest.mark.parametrize(
    ("states", "types", "expected"),
    [
        ([], [], {"g", "simple"}),
        ([], ["consumer"], {"g"}),
        ([], ["Classic"], {"simple"}),
        ([], ["share"], set()),
        (["stable"], [], {"g"}),
        (["Empty"], ["consumer"], set()),
        (["Empty", "Stable"], ["classic", "consumer"], {"g", "simple"}),
    ],
)
def test_groups_are_listed_by_state_and_type(
    asker: Asker, states: list[str], types: list[str], expected: set[str]
) -> None:
    enter(asker)
    asker.ask(commit_request(9, asker.broker, 0, group_id="simple"), 9)
    request = ListGroupsRequest(states_filter=states, types_filter=types)
    listed = asker.ask(request, 5).groups
    assert {one.group_id for one in listed} == expected
    assert {one.group_type for one in listed if one.group_id == "g"} <= {"consumer"}
    assert {one.protocol_type for one in listed if one.group_id == "g"} <= {"consumer"}


@each_version(ApiKey.DELETE_GROUPS)
def test_a_group_is_deleted_once_it_is_empty(asker: Asker, version: int) -> None:
    enter(asker)
    request = DeleteGroupsRequest(groups_names=["g"])
    (result,) = asker.ask(request, version).results
    assert result.error_code == ErrorCode.NON_EMPTY_GROUP
    beat(asker, epoch=-1)
    (result,) = asker.ask(request, version).results
    assert result.error_code == 0
    assert asker.ask(ListGroupsRequest(), 5).groups == []


# Offsets


@each_version(ApiKey.OFFSET_COMMIT, 1)
def test_a_commit_from_an_epoch_that_is_over_is_refused(asker: Asker, version: int) -> None:
    enter(asker)
    request = commit_request(version, asker.broker, 0)
    request.member_id = "m"
    request.generation_id_or_member_epoch = 1
    (topic,) = asker.ask(request, version).topics
    assert topic.partitions[0].error_code == 0
    request.generation_id_or_member_epoch = 7
    (topic,) = asker.ask(request, version).topics
    stale = ErrorCode.STALE_MEMBER_EPOCH if version >= 9 else ErrorCode.UNSUPPORTED_VERSION
    assert topic.partitions[0].error_code == stale


@each_version(ApiKey.OFFSET_FETCH, 9)
def test_who_asks_for_offsets_in_an_epoch_that_is_over_is_refused(
    asker: Asker, version: int
) -> None:
    enter(asker)
    for member_id, epoch, code in (
        ("m", 1, 0),
        (None, -1, 0),
        ("m", 7, ErrorCode.STALE_MEMBER_EPOCH),
        ("n", 1, ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        group = OffsetFetchRequestGroup(
            group_id="g", member_id=member_id, member_epoch=epoch, topics=None
        )
        answer = asker.ask(OffsetFetchRequest(groups=[group]), version)
        assert answer.groups[0].error_code == code


# The other protocol


def join(asker: Asker) -> Any:
    request = JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
    )
    return asker.ask(request, 3)


def test_who_joins_a_group_of_the_new_protocol_is_refused_while_it_has_members(
    asker: Asker,
) -> None:
    enter(asker)
    assert join(asker).error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    beat(asker, epoch=-1)
    assert join(asker).error_code == 0
    assert enter(asker).error_code == ErrorCode.GROUP_ID_NOT_FOUND
