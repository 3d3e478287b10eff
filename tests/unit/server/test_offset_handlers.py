"""OffsetCommit, OffsetFetch and OffsetDelete in every version that is answered."""

from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.broker.broker import Broker
from ottla.coordinator.offsets.committed_offsets import CommittedOffsets
from ottla.coordinator.offsets.records import OffsetCommitKey, OffsetCommitValue
from ottla.coordinator.requests import MemberClaim
from ottla.protocol.api_keys import ApiKey
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
from tests.support.asking import Asker
from tests.support.brokers import NOW_MS, at, id_of
from tests.support.group_asking import commit_request, each_version, group_asker

NOBODY = id_of(999_999)


@pytest.fixture
def asker() -> Asker:
    return group_asker()


def topic_id(broker: Broker) -> Uuid:
    return broker.topics.get("t").topic_id


def commit(asker: Asker, *indexes: int) -> None:
    answer = asker.ask(commit_request(9, asker.broker, *indexes), 9)
    assert {one.error_code for one in answer.topics[0].partitions} == {0}


def committed(asker: Asker, group_id: str = "g") -> dict[int, int]:
    found = asker.broker.groups.machines(at(0))[0].fetch_offsets(
        MemberClaim(group_id=group_id), None
    )
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
    found = (
        asker.broker.groups.machines(at(0))[0]
        .fetch_offsets(MemberClaim(group_id="g"), None)["t", 0]
        .committed
    )
    assert found is not None
    assert (found.commit_ms, found.expire_ms) == (1234, None)
    request = commit_request(2, asker.broker, 0)
    request.retention_time_ms = 5000
    asker.ask(request, 2)
    found = (
        asker.broker.groups.machines(at(0))[0]
        .fetch_offsets(MemberClaim(group_id="g"), None)["t", 0]
        .committed
    )
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
    asker.broker.admin.delete_topic(asker.broker.topics.get("t"))
    answer = asker.ask(fetch_request(10, None, ZERO_UUID), 10)
    assert answer.groups[0].topics == []


@each_version(ApiKey.OFFSET_FETCH)
def test_an_offset_that_a_transaction_is_about_to_move_is_unstable(
    asker: Asker, version: int
) -> None:
    commit(asker, 0)
    offsets: CommittedOffsets = asker.broker.groups.known[0].offsets
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
