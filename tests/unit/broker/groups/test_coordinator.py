"""The runner of the group machine over a broker: what is in the log is what is answered."""

from typing import Self

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.events import Event
from ottla.base.partitions import CONSUMER_OFFSETS, TopicPartition
from ottla.base.timers import Timers
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.groups.coordinator import GroupCoordinator
from ottla.broker.waiting.rooms import Waiting
from ottla.codec.compression import Compression
from ottla.coordinator.classic.requests import JoinAnswer, JoinRequest, SyncRequest
from ottla.coordinator.offsets.commits import CommitRequest
from ottla.coordinator.offsets.committed_offsets import NewOffset
from ottla.coordinator.offsets.records import (
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_key,
    encode_value,
)
from ottla.coordinator.placement import partition_for
from ottla.coordinator.requests import MemberClaim
from ottla.metadata.deciding.topics import NewTopic
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.storage import scan
from ottla.storage.log.producer_state import AppendOrigin
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.brokers import NOW_MS, at, disk, open_broker
from tests.support.group_requests import join_group, sync_group
from tests.support.turns import with_others_in_between

SETTINGS = {
    "offsets_topic_num_partitions": "3",
    "group_initial_rebalance_delay_ms": "0",
    "log_index_size_max_bytes": "120",
}
WHERE = ("t", 0)


@pytest.fixture
def file_system() -> FakeFileSystem:
    return disk("/d")


@pytest.fixture
def broker(file_system: FakeFileSystem) -> Broker:
    return open_broker(file_system, **SETTINGS)


def commit(broker: Broker, offset: int, group_id: str = "g", metadata: str = "") -> ErrorCode:
    request = CommitRequest(
        claim=MemberClaim(group_id=group_id),
        offsets={WHERE: NewOffset(offset=offset, metadata=metadata)},
    )
    answer = broker.groups.carry_out(broker.groups.machines(at(0))[0].commit(request, at(0)), at(0))
    broker.appends.write_out()
    return answer.partitions[WHERE]


def committed(broker: Broker, group_id: str = "g") -> int | None:
    found = (
        broker.groups.machines(at(0))[0]
        .fetch_offsets(MemberClaim(group_id=group_id), [WHERE])[WHERE]
        .committed
    )
    return None if found is None else found.offset


def join_request(member_id: str = "") -> JoinRequest:
    return JoinRequest(
        group_id="g",
        member_id=member_id,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=30_000,
        protocol_type="consumer",
        protocols={"range": b""},
        requires_member_id=False,
    )


def join_first(broker: Broker) -> JoinAnswer:
    answer = join_group(broker.groups, join_request(), at(0))
    assert isinstance(answer, JoinAnswer)
    return answer


def sync(broker: Broker, joined: JoinAnswer) -> None:
    claim = MemberClaim(group_id="g", member_id=joined.member_id, generation=joined.generation)
    sync_group(broker.groups, SyncRequest(claim=claim), at(0))
    broker.appends.write_out()


def restarted(file_system: FakeFileSystem) -> tuple[Broker, FakeFileSystem]:
    """What a kill leaves to the next start: all that was written out."""
    after = file_system.crash(CrashMode.KEEP)
    return open_broker(after, **SETTINGS), after


# The topic


def test_the_offsets_topic_is_made_when_something_is_first_written(broker: Broker) -> None:
    assert committed(broker) is None
    broker.groups.machines(at(0))[0].describe("g")
    broker.groups.machines(at(0))[0].list_groups()
    assert broker.topics.find(CONSUMER_OFFSETS) is None
    commit(broker, 1)
    topic = broker.topics.get(CONSUMER_OFFSETS)
    assert topic.is_internal
    assert topic.partition_count == 3
    assert topic.overrides == {
        "cleanup.policy": "compact",
        "compression.type": "producer",
        "segment.bytes": "104857600",
    }


def test_a_group_is_written_to_the_partition_of_its_hash(broker: Broker) -> None:
    for group_id in "abcdef":
        commit(broker, 1, group_id)
    for index, partition in broker.topics.get(CONSUMER_OFFSETS).partitions.items():
        expected = sum(partition_for(group_id, 3) == index for group_id in "abcdef")
        assert partition.log.log_end_offset == expected


def test_commits_are_compressed_if_that_is_wanted(file_system: FakeFileSystem) -> None:
    broker = open_broker(file_system, offsets_topic_compression_codec="1", **SETTINGS)
    commit(broker, 1)
    log = broker.topics.partition(CONSUMER_OFFSETS, partition_for("g", 3)).log
    headers = [header for one in log.segments.values for _, header in scan.headers(one.log)]
    assert [header.compression for header in headers] == [Compression.GZIP]


def test_without_room_for_its_replicas_there_is_no_coordinator(
    file_system: FakeFileSystem,
) -> None:
    broker = open_broker(file_system, offsets_topic_replication_factor="3", **SETTINGS)
    assert commit(broker, 1) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert committed(broker) is None


def test_a_commit_larger_than_a_batch_may_be_is_refused(file_system: FakeFileSystem) -> None:
    settings = {**SETTINGS, "message_max_bytes": "1000"}
    broker = open_broker(file_system, **settings)
    assert commit(broker, 1, metadata="x" * 2000) is ErrorCode.INVALID_COMMIT_OFFSET_SIZE
    assert commit(broker, 1) is ErrorCode.NONE


# After a crash


def test_what_was_committed_is_there_after_a_crash(
    broker: Broker, file_system: FakeFileSystem
) -> None:
    for offset in range(20):
        commit(broker, offset)
        commit(broker, 100 + offset, "h")
    after, _ = restarted(file_system)
    assert (committed(after), committed(after, "h")) == (19, 119)


def test_a_deleted_group_is_gone_after_a_crash(broker: Broker, file_system: FakeFileSystem) -> None:
    commit(broker, 1)
    assert (
        broker.groups.carry_out(
            broker.groups.machines(at(0))[0].delete_group("g", at(0)), at(0)
        ).error
        is ErrorCode.NONE
    )
    broker.appends.write_out()
    assert restarted(file_system)[0].groups.machines(at(0))[0].list_groups() == []


def test_a_group_continues_after_a_crash(broker: Broker, file_system: FakeFileSystem) -> None:
    joined = join_first(broker)
    sync(broker, joined)
    after, _ = restarted(file_system)
    claim = MemberClaim(group_id="g", member_id=joined.member_id, generation=joined.generation)
    assert (
        after.groups.carry_out(after.groups.machines(at(0))[0].heartbeat(claim, at(0)), at(0)).error
        is ErrorCode.NONE
    )


def append_batch(broker: Broker, batch: bytes) -> None:
    """To the partition of the group "g", as another broker would."""
    partition = broker.topics.partition(CONSUMER_OFFSETS, partition_for("g", 3))
    partition.log.writer.append_as_leader(
        bytearray(batch),
        leader_epoch=0,
        now_ms=NOW_MS,
        origin=AppendOrigin.COORDINATOR,
    )
    partition.log.writer.write_out()


def transactional_commit(offset: int) -> bytes:
    builder = RecordBatchBuilder(
        producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    key = OffsetCommitKey(group="g", topic="t", partition=0)
    value = OffsetCommitValue(offset=offset, commit_timestamp_ms=NOW_MS)
    builder.append(encode_key(key), encode_value(value), NOW_MS)
    return builder.build()


def marker(*, is_commit: bool) -> bytes:
    return build_end_transaction_marker(
        EndTransactionMarker(is_commit=is_commit, coordinator_epoch=0),
        producer_id=7,
        producer_epoch=0,
        timestamp_ms=NOW_MS,
    )


@pytest.mark.parametrize(("is_commit", "expected"), [(True, 5), (False, 1)])
def test_offsets_of_a_transaction_count_as_its_marker_says(
    broker: Broker, file_system: FakeFileSystem, is_commit: bool, expected: int
) -> None:
    commit(broker, 1)
    append_batch(broker, transactional_commit(5))
    between, file_system = restarted(file_system)
    assert committed(between) == 1
    assert (
        between.groups.machines(at(0))[0]
        .fetch_offsets(MemberClaim(group_id="g"), [WHERE])[WHERE]
        .is_unstable
    )
    append_batch(between, marker(is_commit=is_commit))
    after, _ = restarted(file_system)
    assert committed(after) == expected
    found = after.groups.machines(at(0))[0].fetch_offsets(MemberClaim(group_id="g"), [WHERE])
    assert not found[WHERE].is_unstable


def test_a_later_commit_wins_over_a_transaction_that_began_before(
    broker: Broker, file_system: FakeFileSystem
) -> None:
    commit(broker, 1)
    append_batch(broker, transactional_commit(5))
    commit(broker, 3)
    append_batch(broker, marker(is_commit=True))
    assert committed(restarted(file_system)[0]) == 3


def test_records_that_this_broker_does_not_know_are_left_alone(
    broker: Broker, file_system: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    commit(broker, 1)
    builder = RecordBatchBuilder()
    builder.append(b"\0\x63of a kind to come", b"?", NOW_MS)
    builder.append(encode_key(GroupMetadataKey(group="damaged")), b"\0\1\xff", NOW_MS)
    append_batch(broker, builder.build())
    after, _ = restarted(file_system)
    assert committed(after) == 1
    assert [one.group_id for one in after.groups.machines(at(0))[0].list_groups()] == ["g"]
    assert "__consumer_offsets, offset 2" in caplog.text


def test_a_group_of_the_new_protocol_is_read_from_the_log(
    broker: Broker, file_system: FakeFileSystem
) -> None:
    commit(broker, 1)
    builder = RecordBatchBuilder()
    builder.append(encode_key(ConsumerGroupMetadataKey(group_id="new")), b"\0\0\0\0\0\7\0", NOW_MS)
    append_batch(broker, builder.build())
    after, _ = restarted(file_system)
    listed = {one.group_id: one.group_type for one in after.groups.machines(at(0))[0].list_groups()}
    assert listed == {"g": "classic", "new": "consumer"}
    described = after.groups.machines(at(0))[0].describe_consumer("new")
    assert described is not None
    assert described.epoch == 7


def test_a_log_that_cannot_be_read_answers_for_no_group(
    broker: Broker, file_system: FakeFileSystem
) -> None:
    commit(broker, 1)
    builder = RecordBatchBuilder()
    builder.append(b"\0\1", b"", NOW_MS)
    batch = bytearray(builder.build())
    batch[-3:] = b"\xff\xff\xff"
    partition = broker.topics.partition(CONSUMER_OFFSETS, partition_for("g", 3))
    file = file_system.open(f"{partition.log.directory}/{0:020}.log", writable=True)
    file.pwrite(batch[61:], 61)
    coordinator = GroupCoordinator(
        broker, broker.settings.config, broker.options.new_id, broker.settings.groups.of, Timers()
    )
    assert coordinator.machines(at(0))[0].refusal("g") is ErrorCode.NOT_COORDINATOR


# Those who wait


def test_members_that_wait_are_answered_when_the_last_has_joined(broker: Broker) -> None:
    joined = join_first(broker)
    sync(broker, joined)
    waiting = join_group(broker.groups, join_request(), at(0))
    assert isinstance(waiting, Waiting)
    assert not broker.answers.has_answers
    assert broker.answers.take_answered(0) == []
    again = join_group(broker.groups, join_request(joined.member_id), at(0))
    assert isinstance(again, JoinAnswer)
    assert broker.answers.has_answers
    assert broker.answers.take_answered(0) == [waiting]
    assert waiting.result is not None
    assert waiting.result.generation == again.generation
    assert broker.answers.take_answered(0) == []


def test_members_that_wait_are_answered_when_time_is_up(broker: Broker) -> None:
    joined = join_first(broker)
    sync(broker, joined)
    waiting = join_group(broker.groups, join_request(), at(0))
    assert isinstance(waiting, Waiting)
    assert broker.scheduler.next_deadline_ms == 10_000
    broker.scheduler.run_due(at(9_999))
    assert broker.answers.take_answered(9_999) == []
    broker.scheduler.run_due(at(10_000))
    assert broker.answers.take_answered(10_000) == [waiting]
    assert waiting.result is not None
    assert waiting.result.error is ErrorCode.NONE


def test_a_member_whose_client_is_gone_has_joined_all_the_same(broker: Broker) -> None:
    joined = join_first(broker)
    sync(broker, joined)
    waiting = join_group(broker.groups, join_request(), at(0))
    assert isinstance(waiting, Waiting)
    broker.fetches.cancel(waiting)
    again = join_group(broker.groups, join_request(joined.member_id), at(0))
    assert isinstance(again, JoinAnswer)
    assert len(again.members) == 2


# Topics that go


def test_offsets_of_a_deleted_topic_are_forgotten(
    broker: Broker, file_system: FakeFileSystem
) -> None:
    topic = broker.admin.create_topic(NewTopic(name="t"))
    commit(broker, 1)
    broker.admin.delete_topic(topic)
    broker.scheduler.run_due(at(0))
    broker.appends.write_out()
    assert committed(broker) is None
    assert committed(restarted(file_system)[0]) is None


# A disk that fails


def test_a_disk_that_is_gone_takes_no_commits(broker: Broker) -> None:
    commit(broker, 1)
    partition = broker.topics.partition(CONSUMER_OFFSETS, partition_for("g", 3))
    partition.directory.health.fail(OSError("broken"))
    request = CommitRequest(claim=MemberClaim(group_id="g"), offsets={WHERE: NewOffset(offset=2)})
    answer = broker.groups.carry_out(broker.groups.machines(at(0))[0].commit(request, at(0)), at(0))
    assert answer.partitions[WHERE] is ErrorCode.NOT_COORDINATOR
    assert committed(broker) == 1


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_EPOCH),
        (ErrorCode.POLICY_VIOLATION, ErrorCode.POLICY_VIOLATION),
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_COMMIT_OFFSET_SIZE),
    ],
)
def test_clients_hear_why_the_log_has_refused(
    broker: Broker, code: ErrorCode, expected: ErrorCode
) -> None:
    class Refusing:
        topics = broker.topics
        budget = broker.budget
        replicas = broker.replicas

        @property
        def admin(self) -> Self:
            return self

        def create_topic(self, new: NewTopic) -> None:
            raise ApiError(code)

        def on_event(self, event: Event) -> None:
            raise AssertionError("nothing has taken effect")

    coordinator = GroupCoordinator(
        Refusing(),  # type: ignore[arg-type]
        broker.settings.config,
        broker.options.new_id,
        broker.settings.groups.of,
        Timers(),
    )
    request = CommitRequest(claim=MemberClaim(group_id="g"), offsets={WHERE: NewOffset(offset=2)})
    now = Timestamps(now_ms=NOW_MS, monotonic_ms=0)
    answer = coordinator.carry_out(coordinator.machines(now)[0].commit(request, now), now)
    assert answer.partitions[WHERE] is expected


# Many offsets, a few at a time

MANY = 600
"""Whose tombstones do not fit into one batch of `LITTLE`."""

LITTLE = {**SETTINGS, "message_max_bytes": "20000"}


def commit_many(broker: Broker, group_id: str, topic: str = "t") -> None:
    for first in range(0, MANY, 100):
        offsets = {(topic, index): NewOffset(offset=1) for index in range(first, first + 100)}
        request = CommitRequest(
            claim=MemberClaim(group_id=group_id),
            offsets={TopicPartition(*where): new for where, new in offsets.items()},
        )
        decision = broker.groups.machines(at(0))[0].commit(request, at(0))
        assert not any(broker.groups.carry_out(decision, at(0)).partitions.values())


def count_of(broker: Broker, group_id: str) -> int:
    return len(broker.groups.machines(at(0))[0].offsets.of(group_id))


def spent(broker: Broker) -> None:
    """Each round has time for one step only."""
    broker.budget.is_spent = lambda: True


def test_a_group_with_more_offsets_than_fit_into_a_batch_is_deleted(
    file_system: FakeFileSystem,
) -> None:
    broker = open_broker(file_system, **LITTLE)
    commit_many(broker, "g")
    assert broker.groups.delete_group("g", at(0)) is ErrorCode.NONE
    assert count_of(broker, "g") == 0
    assert restarted(file_system)[0].groups.machines(at(0))[0].list_groups() == []


def test_nobody_commits_to_a_group_that_is_being_deleted(file_system: FakeFileSystem) -> None:
    broker = open_broker(file_system, **LITTLE)
    commit_many(broker, "g")
    refused: list[ErrorCode] = []
    with with_others_in_between(lambda: refused.append(commit(broker, 9))):
        assert broker.groups.delete_group("g", at(0)) is ErrorCode.NONE
    assert set(refused) == {ErrorCode.COORDINATOR_NOT_AVAILABLE}
    assert count_of(broker, "g") == 0
    assert commit(broker, 9) is ErrorCode.NONE


def test_offsets_of_a_deleted_topic_go_in_steps_and_all_of_them(
    file_system: FakeFileSystem,
) -> None:
    broker = open_broker(file_system, **LITTLE)
    topic = broker.admin.create_topic(NewTopic(name="gone", partition_count=1))
    commit_many(broker, "g", "gone")
    commit(broker, 5)
    spent(broker)
    broker.admin.delete_topic(topic)
    broker.groups.advance(at(0))
    assert 1 < count_of(broker, "g") < MANY + 1
    assert broker.answers.next_deadline_ms == 0.0, "the next round continues"
    for _ in range(10):
        broker.groups.advance(at(0))
    assert count_of(broker, "g") == 1
    assert committed(broker) == 5
    assert broker.answers.next_deadline_ms != 0.0
    broker.appends.write_out()
    assert count_of(restarted(file_system)[0], "g") == 1


def test_a_topic_of_the_same_name_begins_without_the_offsets_of_the_former_one(
    file_system: FakeFileSystem,
) -> None:
    broker = open_broker(file_system, **LITTLE)
    topic = broker.admin.create_topic(NewTopic(name="t", partition_count=1))
    commit_many(broker, "g")
    spent(broker)
    broker.admin.delete_topic(topic)
    assert broker.groups.forget_some(at(0))
    broker.admin.create_topic(NewTopic(name="t", partition_count=1))
    assert broker.groups.machine_of("g", at(0)).offsets.of("g") == {}
    assert commit(broker, 7) is ErrorCode.NONE
    broker.groups.advance(at(0))
    assert committed(broker) == 7


def test_expired_offsets_go_in_steps_while_groups_are_served(file_system: FakeFileSystem) -> None:
    settings = {"offsets_retention_minutes": "1", "offsets_retention_check_interval_ms": "1000"}
    broker = open_broker(file_system, **LITTLE, **settings)
    commit_many(broker, "g")
    spent(broker)
    later = Timestamps(now_ms=NOW_MS + 120_000, monotonic_ms=120_000.0)
    counts = []
    for _ in range(3):
        broker.groups.advance(later)
        counts.append(len(broker.groups.known[0].offsets.of("g")))
        assert broker.answers.next_deadline_ms == later.monotonic_ms
    assert counts == [MANY - 256, MANY - 512, 0]
    broker.groups.advance(later)
    assert broker.answers.next_deadline_ms == later.monotonic_ms + 1000
