"""The requests of groups, each in every version that is answered."""

import itertools
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.broker.broker import Broker
from ottla.broker.topics import NewTopic
from ottla.coordinator.group.consumer_protocol import (
    ConsumerProtocolSubscription,
    encode_subscription,
)
from ottla.coordinator.group.offsets import CommittedOffsets
from ottla.coordinator.group.records import OffsetCommitKey, OffsetCommitValue
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages.delete_groups import DeleteGroupsRequest
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.heartbeat import HeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from ottla.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from ottla.server.apis import APIS
from ottla.server.operations import GROUP_OPERATIONS
from tests.asking import Asker
from tests.brokers import NOW_MS, at, disk, id_of, open_broker

METADATA = encode_subscription(ConsumerProtocolSubscription(topics=["t"]))
NOBODY = id_of(999_999)


def versions(key: ApiKey, first: int = 0) -> range:
    return range(max(first, APIS[key].oldest), APIS[key].newest + 1)


def each_version(key: ApiKey, first: int = 0) -> Any:
    return pytest.mark.parametrize("version", versions(key, first))


@pytest.fixture
def asker() -> Asker:
    broker = open_broker(
        disk("/d"),
        offsets_topic_num_partitions="2",
        group_initial_rebalance_delay_ms="0",
        log_index_size_max_bytes="120",
    )
    broker.create_topic(NewTopic(name="t", partition_count=2))
    return Asker(broker)


def topic_id(broker: Broker, name: str = "t") -> Uuid:
    return broker.topics.get(name).topic_id


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
    member = asker.broker.groups.describe("g", at(0)).members[0]  # type: ignore[union-attr]
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
    assert asker.broker.take_answered(0) == [later.ticket]
    answer = asker.finish(later, join_request(), version)
    assert (answer.error_code, answer.generation_id) == (0, 2)
    assert answer.members == []


def test_the_session_is_also_the_rebalance_timeout_in_version_0(asker: Asker) -> None:
    asker.ask(join_request(), 0)
    member = next(iter(asker.broker.groups.machine.groups["g"].members.values()))
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
    asker.broker.take_answered(0)
    waiting, _ = asker.send(request, version)
    assert waiting is not None
    brought = sync_request(leader)
    brought.assignments[0].member_id = follower.member_id
    assert asker.ask(brought, 3).error_code == 0
    assert asker.broker.take_answered(0) == [waiting.ticket]
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


# Offsets


def commit_request(version: int, broker: Broker, *indexes: int) -> OffsetCommitRequest:
    topic = OffsetCommitRequestTopic(
        partitions=[
            OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=10 + index,
                committed_metadata="meta",
                committed_leader_epoch=4 if version >= 6 else -1,
            )
            for index in indexes
        ]
    )
    if version >= 10:
        topic.topic_id = topic_id(broker)
    else:
        topic.name = "t"
    return OffsetCommitRequest(group_id="g", topics=[topic])


def commit(asker: Asker, *indexes: int) -> None:
    answer = asker.ask(commit_request(9, asker.broker, *indexes), 9)
    assert {one.error_code for one in answer.topics[0].partitions} == {0}


def committed(asker: Asker, group_id: str = "g") -> dict[int, int]:
    found = asker.broker.groups.fetch_offsets(group_id, None, at(0))
    return {index: one.committed.offset for (_, index), one in found.items() if one.committed}


@each_version(ApiKey.OFFSET_COMMIT)
def test_offsets_are_committed_from_outside_a_group(asker: Asker, version: int) -> None:
    answer = asker.ask(commit_request(version, asker.broker, 0, 1), version)
    topic = answer.topics[0]
    assert [(one.partition_index, one.error_code) for one in topic.partitions] == [(0, 0), (1, 0)]
    assert committed(asker) == {0: 10, 1: 11}
    if version >= 10:
        assert topic.topic_id == topic_id(asker.broker)
    else:
        assert topic.name == "t"


@each_version(ApiKey.OFFSET_COMMIT)
def test_offsets_in_a_topic_that_does_not_exist_are_refused(asker: Asker, version: int) -> None:
    request = commit_request(version, asker.broker, 0)
    known, unknown = request.topics[0], commit_request(version, asker.broker, 0).topics[0]
    if version >= 10:
        unknown.topic_id = NOBODY
    else:
        unknown.name = "unknown"
    request.topics = [unknown, known]
    answer = asker.ask(request, version)
    expected = ErrorCode.UNKNOWN_TOPIC_ID if version >= 10 else 3
    assert [one.partitions[0].error_code for one in answer.topics] == [expected, 0]


@each_version(ApiKey.OFFSET_COMMIT, 1)
def test_a_member_of_no_group_is_told_what_its_version_knows(asker: Asker, version: int) -> None:
    request = commit_request(version, asker.broker, 0)
    request.generation_id_or_member_epoch, request.member_id = 1, "m"
    answer = asker.ask(request, version)
    expected = ErrorCode.GROUP_ID_NOT_FOUND if version >= 9 else ErrorCode.ILLEGAL_GENERATION
    assert answer.topics[0].partitions[0].error_code == expected


def test_clients_of_old_choose_times_themselves(asker: Asker) -> None:
    request = commit_request(1, asker.broker, 0)
    request.topics[0].partitions[0].commit_timestamp = 1234
    asker.ask(request, 1)
    found = asker.broker.groups.fetch_offsets("g", None, at(0))["t", 0].committed
    assert found is not None
    assert (found.commit_ms, found.expire_ms) == (1234, None)
    request = commit_request(2, asker.broker, 0)
    request.retention_time_ms = 5000
    asker.ask(request, 2)
    found = asker.broker.groups.fetch_offsets("g", None, at(0))["t", 0].committed
    assert found is not None
    assert (found.commit_ms, found.expire_ms) == (NOW_MS, NOW_MS + 5000)


def fetch_request(version: int, wanted: list[int] | None, id_: Uuid) -> OffsetFetchRequest:
    if version < 8:
        topics = None
        if wanted is not None:
            topics = [OffsetFetchRequestTopic(name="t", partition_indexes=wanted)]
        return OffsetFetchRequest(group_id="g", topics=topics)
    group = OffsetFetchRequestGroup(group_id="g", topics=None)
    if wanted is not None:
        topic = OffsetFetchRequestTopics(partition_indexes=wanted)
        if version >= 10:
            topic.topic_id = id_
        else:
            topic.name = "t"
        group.topics = [topic]
    return OffsetFetchRequest(groups=[group])


def fetched(asker: Asker, version: int, wanted: list[int] | None, **options: Any) -> Any:
    """The partitions of the topic that was found; none when there is none."""
    request = fetch_request(version, wanted, topic_id(asker.broker))
    for name, value in options.items():
        setattr(request, name, value)
    answer = asker.ask(request, version)
    if version >= 8:
        assert [one.group_id for one in answer.groups] == ["g"]
        answer = answer.groups[0]
    assert answer.error_code == 0
    for topic in answer.topics:
        found = topic.topic_id if version >= 10 else topic.name
        assert found == (topic_id(asker.broker) if version >= 10 else "t")
    return [one for topic in answer.topics for one in topic.partitions]


@each_version(ApiKey.OFFSET_FETCH)
def test_committed_offsets_are_fetched(asker: Asker, version: int) -> None:
    commit(asker, 0)
    found = fetched(asker, version, [0, 1])
    assert [(one.partition_index, one.committed_offset) for one in found] == [(0, 10), (1, -1)]
    assert [one.metadata for one in found] == ["meta", ""]
    assert [one.error_code for one in found] == [0, 0]
    assert [one.committed_leader_epoch for one in found] == [4 if version >= 5 else -1, -1]


@each_version(ApiKey.OFFSET_FETCH)
def test_a_group_that_does_not_exist_has_committed_nothing(asker: Asker, version: int) -> None:
    found = fetched(asker, version, [0])
    assert [(one.committed_offset, one.error_code) for one in found] == [(-1, 0)]


@each_version(ApiKey.OFFSET_FETCH, 2)
def test_everything_a_group_has_committed_is_fetched(asker: Asker, version: int) -> None:
    assert fetched(asker, version, None) == []
    commit(asker, 0, 1)
    found = fetched(asker, version, None)
    assert [(one.partition_index, one.committed_offset) for one in found] == [(0, 10), (1, 11)]


@each_version(ApiKey.OFFSET_FETCH, 8)
def test_several_groups_are_fetched_at_once(asker: Asker, version: int) -> None:
    commit(asker, 0)
    request = fetch_request(version, [0], topic_id(asker.broker))
    other = fetch_request(version, [0], topic_id(asker.broker)).groups[0]
    other.group_id = "other"
    request.groups.append(other)
    answer = asker.ask(request, version)
    offsets = {one.group_id: one.topics[0].partitions[0].committed_offset for one in answer.groups}
    assert offsets == {"g": 10, "other": -1}


def test_offsets_by_an_id_that_nobody_knows_are_an_error(asker: Asker) -> None:
    answer = asker.ask(fetch_request(10, [0], NOBODY), 10)
    topic = answer.groups[0].topics[0]
    assert topic.topic_id == NOBODY
    assert topic.partitions[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


def test_offsets_of_a_topic_that_is_gone_have_no_id(asker: Asker) -> None:
    commit(asker, 0)
    asker.broker.delete_topic(asker.broker.topics.get("t"))
    answer = asker.ask(fetch_request(10, None, ZERO_UUID), 10)
    assert answer.groups[0].topics == []


@each_version(ApiKey.OFFSET_FETCH)
def test_an_offset_that_a_transaction_is_about_to_move_is_unstable(
    asker: Asker, version: int
) -> None:
    commit(asker, 0)
    offsets: CommittedOffsets = asker.broker.groups.machine.offsets
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    offsets.replay(key, OffsetCommitValue(offset=99), 5, producer_id=7)
    (one,) = fetched(asker, version, [0])
    assert (one.committed_offset, one.error_code) == (10, 0)
    if version >= 7:
        (one,) = fetched(asker, version, [0], require_stable=True)
        assert (one.committed_offset, one.error_code) == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)


def delete_offsets(asker: Asker, group_id: str, *topics: str) -> Any:
    return asker.ask(
        OffsetDeleteRequest(
            group_id=group_id,
            topics=[
                OffsetDeleteRequestTopic(
                    name=topic, partitions=[OffsetDeleteRequestPartition(partition_index=0)]
                )
                for topic in topics
            ],
        ),
        0,
    )


def test_offsets_are_deleted(asker: Asker) -> None:
    commit(asker, 0, 1)
    answer = delete_offsets(asker, "g", "t", "unknown")
    assert answer.error_code == 0
    assert [one.partitions[0].error_code for one in answer.topics] == [0, 3]
    assert committed(asker) == {1: 11}


def test_offsets_of_no_group_are_not_deleted(asker: Asker) -> None:
    answer = delete_offsets(asker, "none", "t")
    assert (answer.error_code, answer.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


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
    request = commit_request(9, asker.broker, 0)
    request.group_id = "simple"
    asker.ask(request, 9)
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
    request = commit_request(9, asker.broker, 0)
    request.group_id = "simple"
    asker.ask(request, 9)
    answer = asker.ask(DeleteGroupsRequest(groups_names=["g", "simple", "none"]), version)
    assert {one.group_id: one.error_code for one in answer.results} == {
        "g": ErrorCode.NON_EMPTY_GROUP,
        "simple": ErrorCode.NONE,
        "none": ErrorCode.GROUP_ID_NOT_FOUND,
    }
    assert committed(asker, "simple") == {}
