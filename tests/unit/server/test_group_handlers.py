"""The requests of groups, each in every version that is answered."""

import itertools
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.coordinator.classic.consumer_protocol import (
    ConsumerProtocolSubscription,
    encode_subscription,
)
from ottla.coordinator.requests import MemberClaim
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.server.handling.operations import GROUP_OPERATIONS
from tests.support.asking import Asker
from tests.support.brokers import at
from tests.support.group_asking import commit_request, each_version, group_asker

METADATA = encode_subscription(ConsumerProtocolSubscription(topics=["t"]))


@pytest.fixture
def asker() -> Asker:
    return group_asker()


def join_request(member_id: str = "", instance_id: str | None = None) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=20_000,
        member_id=member_id,
        group_instance_id=instance_id,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=METADATA)],
    )


def join(asker: Asker, version: int = 3) -> Any:
    """Joins a group whose members are all there."""
    answer = asker.ask(join_request(), version)
    if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
        answer = asker.ask(join_request(answer.member_id), version)
    assert answer.error_code == 0
    return answer


def sync_request(joined: Any, assignment: bytes = b"mine") -> SyncGroupRequest:
    assigned = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=assignment)
    return SyncGroupRequest(
        group_id="g",
        generation_id=joined.generation_id,
        member_id=joined.member_id,
        assignments=[assigned],
    )


def stable(asker: Asker) -> Any:
    joined = join(asker)
    assert asker.ask(sync_request(joined), 3).error_code == 0
    return joined


# Members


@each_version(ApiKey.JOIN_GROUP)
def test_the_first_member_joins_at_once(asker: Asker, version: int) -> None:
    answer = join(asker, version)
    assert answer.generation_id == 1
    assert answer.protocol_name == "range"
    assert answer.leader == answer.member_id
    assert answer.member_id.startswith("test-")
    assert [(one.member_id, one.metadata) for one in answer.members] == [
        (answer.member_id, METADATA)
    ]
    assert answer.protocol_type == ("consumer" if version >= 7 else None)
    member = asker.broker.groups.machines(at(0))[0].describe("g").members[0]  # type: ignore[union-attr]
    assert (member.client_id, member.client_host) == ("test", "/10.0.0.9")


@each_version(ApiKey.JOIN_GROUP)
def test_a_new_member_is_told_its_id_first_from_version_4(asker: Asker, version: int) -> None:
    answer = asker.ask(join_request(), version)
    is_told_first = answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert is_told_first == (version >= 4)
    assert answer.member_id


@each_version(ApiKey.JOIN_GROUP)
def test_a_refused_join_is_written_in_every_version(asker: Asker, version: int) -> None:
    answer = asker.ask(join_request("unknown"), version)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert (answer.member_id, answer.generation_id) == ("unknown", -1)
    assert answer.protocol_name == (None if version >= 7 else "")


@each_version(ApiKey.JOIN_GROUP)
def test_a_second_member_waits_for_the_first(asker: Asker, version: int) -> None:
    joined = stable(asker)
    member_id = ""
    if version >= 4:
        member_id = asker.ask(join_request(), version).member_id
    later, _ = asker.send(join_request(member_id), version)
    assert later is not None
    again = asker.ask(join_request(joined.member_id), version)
    assert again.error_code == 0
    assert asker.broker.answers.take_answered(0) == [later.pending_id]
    answer = asker.finish(later, join_request(), version)
    assert (answer.error_code, answer.generation_id) == (0, 2)
    assert answer.members == []


def test_the_session_is_also_the_rebalance_timeout_in_version_0(asker: Asker) -> None:
    asker.ask(join_request(), 0)
    member = next(iter(asker.broker.groups.known[0].groups["g"].members.values()))
    assert member.rebalance_timeout_ms == 10_000


@each_version(ApiKey.JOIN_GROUP, 5)
def test_a_static_leader_that_comes_back_need_not_assign_from_version_9(
    asker: Asker, version: int
) -> None:
    joined = asker.ask(join_request(instance_id="a"), version)
    request = sync_request(joined)
    request.group_instance_id = "a"
    asker.ask(request, 3)
    back = asker.ask(join_request(instance_id="a"), version)
    assert back.skip_assignment == (version >= 9)
    assert (back.leader == back.member_id) == (version >= 9)
    assert len(back.members) == (1 if version >= 9 else 0)


@each_version(ApiKey.SYNC_GROUP)
def test_a_member_gets_its_assignment(asker: Asker, version: int) -> None:
    request = sync_request(join(asker))
    if version >= 5:
        request.protocol_type, request.protocol_name = "consumer", "range"
    answer = asker.ask(request, version)
    assert (answer.error_code, answer.assignment) == (0, b"mine")
    expected = ("consumer", "range") if version >= 5 else (None, None)
    assert (answer.protocol_type, answer.protocol_name) == expected


def test_from_version_5_a_sync_must_name_its_protocol(asker: Asker) -> None:
    answer = asker.ask(sync_request(join(asker)), 5)
    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


@each_version(ApiKey.SYNC_GROUP)
def test_a_follower_waits_for_the_leader(asker: Asker, version: int) -> None:
    joined = stable(asker)
    later, _ = asker.send(join_request(), 3)
    assert later is not None
    leader = asker.ask(join_request(joined.member_id), 3)
    follower = asker.finish(later, join_request(), 3)
    request = sync_request(follower)
    request.assignments = []
    if version >= 5:
        request.protocol_type, request.protocol_name = "consumer", "range"
    asker.broker.answers.take_answered(0)
    waiting, _ = asker.send(request, version)
    assert waiting is not None
    brought = sync_request(leader)
    brought.assignments[0].member_id = follower.member_id
    assert asker.ask(brought, 3).error_code == 0
    assert asker.broker.answers.take_answered(0) == [waiting.pending_id]
    assert asker.finish(waiting, request, version).assignment == b"mine"


@each_version(ApiKey.HEARTBEAT)
def test_a_heartbeat_says_whether_all_is_well(asker: Asker, version: int) -> None:
    joined = stable(asker)
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id=joined.member_id)
    assert asker.ask(request, version).error_code == 0
    request.generation_id = 2
    assert asker.ask(request, version).error_code == ErrorCode.ILLEGAL_GENERATION


@each_version(ApiKey.LEAVE_GROUP)
def test_a_member_leaves(asker: Asker, version: int) -> None:
    joined = stable(asker)
    request = LeaveGroupRequest(group_id="g")
    if version >= 3:
        request.members = [MemberIdentity(member_id=joined.member_id)]
    else:
        request.member_id = joined.member_id
    codes = [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID]
    for expected in codes:
        answer = asker.ask(request, version)
        if version >= 3:
            assert (answer.error_code, answer.members[0].error_code) == (0, expected)
            assert answer.members[0].member_id == joined.member_id
        else:
            assert answer.error_code == expected


@each_version(ApiKey.LEAVE_GROUP)
def test_nobody_leaves_a_group_that_does_not_exist(asker: Asker, version: int) -> None:
    request = LeaveGroupRequest(group_id="none")
    if version >= 3:
        request.members = [MemberIdentity(member_id="m")]
    answer = asker.ask(request, version)
    assert answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert answer.members == []


# Administrators


@each_version(ApiKey.DESCRIBE_GROUPS)
def test_a_group_is_described(asker: Asker, version: int) -> None:
    joined = stable(asker)
    request = DescribeGroupsRequest(groups=["g"])
    if version >= 3:
        request.include_authorized_operations = True
    (group,) = asker.ask(request, version).groups
    assert (group.error_code, group.group_id, group.group_state) == (0, "g", "Stable")
    assert (group.protocol_type, group.protocol_data) == ("consumer", "range")
    (member,) = group.members
    assert (member.member_id, member.client_host) == (joined.member_id, "/10.0.0.9")
    assert (member.member_metadata, member.member_assignment) == (METADATA, b"mine")
    expected = GROUP_OPERATIONS if version >= 3 else -(2**31)
    assert group.authorized_operations == expected


@each_version(ApiKey.DESCRIBE_GROUPS)
def test_a_group_that_does_not_exist_is_dead(asker: Asker, version: int) -> None:
    (group,) = asker.ask(DescribeGroupsRequest(groups=["none"]), version).groups
    assert (group.group_id, group.group_state, group.members) == ("none", "Dead", [])
    expected = (
        (ErrorCode.GROUP_ID_NOT_FOUND, "Group none not found.") if version >= 6 else (0, None)
    )
    assert (group.error_code, group.error_message) == expected


@each_version(ApiKey.LIST_GROUPS)
def test_groups_are_listed(asker: Asker, version: int) -> None:
    stable(asker)
    asker.ask(commit_request(9, asker.broker, 0, group_id="simple"), 9)
    listed = asker.ask(ListGroupsRequest(), version).groups
    assert [(one.group_id, one.protocol_type) for one in listed] == [
        ("g", "consumer"),
        ("simple", ""),
    ]
    assert [one.group_state for one in listed] == (
        ["Stable", "Empty"] if version >= 4 else ["", ""]
    )
    assert {one.group_type for one in listed} == {"classic" if version >= 5 else ""}


def test_groups_are_listed_by_state_and_type(asker: Asker) -> None:
    stable(asker)
    for states, types in itertools.product(
        ([], ["stable"], ["Empty", "Stable"], ["Empty"]), ([], ["Classic"], ["consumer"])
    ):
        request = ListGroupsRequest(states_filter=states, types_filter=types)
        listed = [one.group_id for one in asker.ask(request, 5).groups]
        is_wanted = states != ["Empty"] and types != ["consumer"]
        assert listed == (["g"] if is_wanted else [])


@each_version(ApiKey.DELETE_GROUPS)
def test_groups_are_deleted(asker: Asker, version: int) -> None:
    stable(asker)
    asker.ask(commit_request(9, asker.broker, 0, group_id="simple"), 9)
    answer = asker.ask(DeleteGroupsRequest(groups_names=["g", "simple", "none"]), version)
    assert {one.group_id: one.error_code for one in answer.results} == {
        "g": ErrorCode.NON_EMPTY_GROUP,
        "simple": ErrorCode.NONE,
        "none": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert (
        asker.broker.groups.machines(at(0))[0].fetch_offsets(MemberClaim(group_id="simple"), None)
        == {}
    )
