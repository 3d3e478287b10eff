"""Groups of the new protocol over a broker: what is in the log is what is answered."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import CONSUMER_OFFSETS
from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration, ConfigChange
from ottla.coordinator.classic.requests import JoinAnswer, JoinRequest
from ottla.coordinator.consumer.requests import HeartbeatAnswer, HeartbeatRequest
from ottla.coordinator.offsets.commits import CommitRequest
from ottla.coordinator.offsets.committed_offsets import NewOffset
from ottla.coordinator.requests import MemberClaim
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.brokers import at, disk, open_broker
from tests.support.group_requests import join_group

SETTINGS = {
    "offsets_topic_num_partitions": "3",
    "group_initial_rebalance_delay_ms": "0",
    "log_index_size_max_bytes": "120",
}


@pytest.fixture
def file_system() -> FakeFileSystem:
    return disk("/d")


@pytest.fixture
def broker(file_system: FakeFileSystem) -> Broker:
    broker = open_broker(file_system, **SETTINGS)
    broker.admin.create_topic(NewTopic(name="t", partition_count=2))
    return broker


def beat(
    broker: Broker, epoch: int, *, now_ms: int = 0, regex: str | None = None
) -> HeartbeatAnswer:
    is_entering = epoch == 0
    request = HeartbeatRequest(
        group_id="g",
        member_id="m",
        epoch=epoch,
        rebalance_timeout_ms=60_000 if is_entering else -1,
        topic_names=frozenset({"t"}) if is_entering else None,
        topic_regex=regex,
        owned=frozenset() if is_entering else None,
    )
    answer = broker.groups.carry_out(
        broker.groups.machines(at(now_ms))[0].consumer_heartbeat(request, at(now_ms)), at(now_ms)
    )
    broker.appends.write_out()
    return answer


def join(broker: Broker) -> JoinAnswer:
    request = JoinRequest(
        group_id="g",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols={"range": b""},
        requires_member_id=False,
    )
    answer = join_group(broker.groups, request, at(0))
    broker.appends.write_out()
    assert isinstance(answer, JoinAnswer)
    return answer


def test_a_member_continues_after_a_crash(broker: Broker, file_system: FakeFileSystem) -> None:
    assert beat(broker, 0, regex="u.*").epoch == 1
    claim = MemberClaim(group_id="g", member_id="m", generation=1)
    commit = CommitRequest(claim=claim, offsets={("t", 0): NewOffset(offset=7)})
    assert broker.groups.carry_out(
        broker.groups.machines(at(0))[0].commit(commit, at(0)), at(0)
    ).partitions == {("t", 0): ErrorCode.NONE}
    broker.appends.write_out()
    after = open_broker(file_system.crash(CrashMode.KEEP), **SETTINGS)
    assert beat(after, 1).error is ErrorCode.NONE
    assert after.groups.machines(at(0))[0].describe_consumer("g") == broker.groups.machines(at(0))[
        0
    ].describe_consumer("g")
    found = after.groups.machines(at(0))[0].fetch_offsets(claim, [("t", 0)])["t", 0].committed
    assert found is not None
    assert found.offset == 7


def test_topics_that_come_and_grow_are_noticed(broker: Broker) -> None:
    beat(broker, 0, regex="u.*")
    broker.admin.grow_topic(TopicGrowth(name="t", partition_count=3))
    assert len(beat(broker, 1).assigned or ()) == 3
    broker.admin.create_topic(NewTopic(name="u", partition_count=1))
    assert len(beat(broker, 2).assigned or ()) == 4
    broker.admin.delete_topic(broker.topics.get("u"))
    assert len(beat(broker, 3).assigned or ()) == 3


def test_a_session_ends_with_the_brokers_jobs(broker: Broker) -> None:
    beat(broker, 0)
    assert broker.answers.next_deadline_ms == 45_000
    broker.scheduler.run_due(at(45_000))
    assert beat(broker, 1, now_ms=45_000).error is ErrorCode.UNKNOWN_MEMBER_ID


def test_without_room_for_its_replicas_there_is_no_coordinator(
    file_system: FakeFileSystem,
) -> None:
    broker = open_broker(file_system, offsets_topic_replication_factor="3", **SETTINGS)
    answer = beat(broker, 0)
    assert answer.error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert broker.groups.machines(at(0))[0].list_groups() == []


def test_an_empty_group_goes_from_protocol_to_protocol(
    broker: Broker, file_system: FakeFileSystem
) -> None:
    beat(broker, 0)
    assert join(broker).error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    beat(broker, -1)
    assert join(broker).error is ErrorCode.NONE
    assert [one.group_type for one in broker.groups.machines(at(0))[0].list_groups()] == ["classic"]
    after = open_broker(file_system.crash(CrashMode.KEEP), **SETTINGS)
    assert after.groups.machines(at(0))[0].list_groups() == [], (
        "the old one is gone, the new one not yet there"
    )


def test_a_group_that_cannot_be_given_up_is_not_joined(broker: Broker) -> None:
    beat(broker, 0)
    beat(broker, -1)
    tiny = Alteration(changes=[ConfigChange(name="max.message.bytes", value="1")])
    broker.admin.alter_topic(CONSUMER_OFFSETS, tiny)
    assert join(broker).error is ErrorCode.UNKNOWN_SERVER_ERROR
    assert [one.group_type for one in broker.groups.machines(at(0))[0].list_groups()] == [
        "consumer"
    ]
