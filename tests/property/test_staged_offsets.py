"""Offsets that are committed, staged by transactions, expired and deleted in whatever order: what
the broker answers is what a restart reads, and what a plain model of Kafka's rules says."""

from collections.abc import Iterator
from dataclasses import field, replace
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import CONSUMER_OFFSETS, TopicPartition
from ottla.base.timers import AllTimers
from ottla.base.timestamps import Timestamps
from ottla.base.values import dataclass
from ottla.broker.broker import Broker
from ottla.broker.coordination.shards import LedShards
from ottla.broker.groups.coordinator import GroupCoordinator, offsets_topic
from ottla.broker.replicas.only_replicas import OnlyReplicas
from ottla.broker.topics.topics import Topic
from ottla.coordinator.offsets.commits import CommitRequest
from ottla.coordinator.offsets.committed_offsets import CommittedOffsets, NewOffset
from ottla.coordinator.requests import MemberClaim
from ottla.metadata.deciding.topics import NewTopic
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.storage.compaction.compaction import Surroundings, compact
from ottla.storage.compaction.key_filter import PlainKeyFilter
from ottla.storage.log.producer_state import AppendOrigin
from ottla.testing import CrashMode
from tests.support.brokers import NOW_MS, disk, open_broker

SETTINGS = {
    "offsets_topic_num_partitions": "1",
    "offsets_topic_segment_bytes": "300",
    "offsets_retention_minutes": "1",
    "offsets_retention_check_interval_ms": "1000",
    "log_index_size_max_bytes": "120",
    "log_cleaner_delete_retention_ms": "0",
}
GROUPS = ("g", "h")
TOPICS = ("t", "u")
PLACES = tuple(TopicPartition(topic, index) for topic in TOPICS for index in (0, 1))
PRODUCERS = (7, 8)
RETENTION_MS = 60_000
DAY_MS = 86_400_000

groups = st.sampled_from(GROUPS)
places = st.sampled_from(PLACES)
producers = st.sampled_from(PRODUCERS)


@dataclass(frozen=True, slots=True)
class Written:
    number: int
    offset: int
    expire_ms: int


@dataclass(slots=True)
class Model:
    """The offsets by group and partition, and those of open transactions by producer as well."""

    offsets: dict[tuple[str, TopicPartition], Written] = field(default_factory=dict)
    staged: dict[tuple[int, str, TopicPartition], Written] = field(default_factory=dict)

    def is_staged(self, group: str, place: TopicPartition) -> bool:
        return any(key[1:] == (group, place) for key in self.staged)

    def delete(self, group: str, place: TopicPartition) -> None:
        self.offsets.pop((group, place), None)
        for producer in PRODUCERS:
            self.staged.pop((producer, group, place), None)

    def expire(self, now_ms: int) -> None:
        for key, written in list(self.offsets.items()):
            if written.expire_ms <= now_ms and not self.is_staged(*key):
                del self.offsets[key]

    def end(self, producer: int, *, is_commit: bool) -> None:
        for key in [one for one in self.staged if one[0] == producer]:
            written = self.staged.pop(key)
            known = self.offsets.get(key[1:])
            if is_commit and (known is None or known.number < written.number):
                self.offsets[key[1:]] = written


def shown(offsets: CommittedOffsets) -> object:
    """All of a coordinator's offsets, and which of them open transactions may replace."""
    return {
        group: {
            place: (
                one.committed and replace(one.committed, commit_ms=0, expire_ms=None),
                one.is_unstable,
            )
            for place, one in offsets.fetch(group, offsets.places(group)).items()
        }
        for group in sorted(offsets.group_ids())
    }


class Cluster:
    """This broker leads the partition of the offsets topic whenever it is told so."""

    revision = 0

    def __iter__(self) -> Iterator[Topic]:
        return iter(())

    def find(self, name: str) -> Topic | None:
        return None

    def partition_count(self, topic: str) -> int | None:
        return 1

    def leader_of(self, partition: TopicPartition) -> int | None:
        return None


class LedReplicas(OnlyReplicas):
    """Those of a member: a shard for each partition that it leads."""

    topics: Any = Cluster()

    def __init__(self) -> None:
        """Without the topics of a broker alone."""

    def shards(self, timers: AllTimers, new_machine: Any, owner: Any) -> LedShards[Any]:
        return LedShards(timers, new_machine, owner)


class Member:
    """The parts of a broker that coordinators ask for, with the replicas of a member."""

    replicas = LedReplicas()

    def __init__(self, broker: Broker) -> None:
        self.topics, self.appends, self.budget = broker.topics, broker.appends, broker.budget
        self.on_event, self.admin = broker.on_event, broker.admin


def new_groups(broker: Broker, *, is_member: bool = False) -> GroupCoordinator:
    of_group = broker.settings.groups.of
    return GroupCoordinator(
        Member(broker) if is_member else broker,
        broker.settings.config,
        broker.options.new_id,
        of_group,
        AllTimers(),
    )


class StagedOffsets(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = disk("/d")
        self.elapsed_ms = 0
        self.number = 0
        self.model = Model()
        self.broker = self._opened()

    @property
    def at(self) -> Timestamps:
        return Timestamps(now_ms=NOW_MS + self.elapsed_ms, monotonic_ms=float(self.elapsed_ms))

    def _opened(self) -> Broker:
        broker = open_broker(self.disk, **SETTINGS)
        for name in TOPICS:
            if broker.topics.find(name) is None:
                broker.admin.create_topic(NewTopic(name=name, partition_count=2))
        return broker

    @property
    def coordinator(self) -> GroupCoordinator:
        return self.broker.groups

    def _write(self, group: str, place: TopicPartition, producer: int | None) -> Written:
        self.number += 1
        request = CommitRequest(
            claim=MemberClaim(group_id=group),
            offsets={place: NewOffset(offset=self.number)},
            producer=None if producer is None else (producer, 0),
        )
        machine = self.coordinator.machine_of(group, self.at)
        answer = self.coordinator.carry_out(machine.commit(request, self.at), self.at)
        assert answer.partitions == {place: ErrorCode.NONE}
        expire_ms = self.at.now_ms + RETENTION_MS
        return Written(self.number, self.number, expire_ms)

    @rule(group=groups, place=places)
    def commit(self, group: str, place: TopicPartition) -> None:
        self.model.offsets[group, place] = self._write(group, place, None)

    @rule(group=groups, place=places, producer=producers)
    def stage(self, group: str, place: TopicPartition, producer: int) -> None:
        self.model.staged[producer, group, place] = self._write(group, place, producer)

    @rule(producer=producers, is_commit=st.booleans())
    def end(self, producer: int, is_commit: bool) -> None:
        if self.broker.topics.find(CONSUMER_OFFSETS) is None:
            return
        marker = EndTransactionMarker(is_commit=is_commit, coordinator_epoch=0)
        batch = build_end_transaction_marker(
            marker, producer_id=producer, producer_epoch=0, timestamp_ms=self.at.now_ms
        )
        partition = self.broker.topics.partition(CONSUMER_OFFSETS, 0)
        self.broker.appends.append(
            partition, bytearray(batch), now_ms=self.at.now_ms, origin=AppendOrigin.COORDINATOR
        )
        self.coordinator.end_transaction(0, producer, is_commit=is_commit)
        self.model.end(producer, is_commit=is_commit)

    @rule(elapsed_ms=st.sampled_from([1_000, RETENTION_MS // 2, RETENTION_MS, 2 * DAY_MS]))
    def expire(self, elapsed_ms: int) -> None:
        self.coordinator.machine_of(GROUPS[0], self.at)
        self.elapsed_ms += elapsed_ms
        self.coordinator.advance(self.at)
        self.model.expire(self.at.now_ms)

    @rule(group=groups, place=places)
    def delete_offset(self, group: str, place: TopicPartition) -> None:
        machine = self.coordinator.machine_of(group, self.at)
        self.coordinator.carry_out(machine.delete_offsets(group, [place], self.at), self.at)
        self.model.delete(group, place)

    @rule(group=groups)
    def delete_group(self, group: str) -> None:
        machine = self.coordinator.machine_of(group, self.at)
        answer = self.coordinator.carry_out(machine.delete_group(group, self.at), self.at)
        is_known = any(group in key for key in (*self.model.offsets, *self.model.staged))
        assert (answer.error is ErrorCode.NONE) is is_known
        for place in PLACES:
            self.model.delete(group, place)

    @rule(topic=st.sampled_from(TOPICS))
    def delete_topic(self, topic: str) -> None:
        self.broker.admin.delete_topics([self.broker.topics.get(topic)])
        self.coordinator.advance(self.at)
        self.broker.admin.create_topic(NewTopic(name=topic, partition_count=2))
        for group in GROUPS:
            for place in PLACES:
                if place.topic == topic:
                    self.model.delete(group, place)

    @rule()
    def clean(self) -> None:
        self.broker.appends.write_out()
        for topic in self.broker.topics:
            for partition in topic.partitions.values():
                partition.log.writer.flush()
        while (task := self.broker.log_jobs.cleaner.next_task(self.at)) is not None:
            key_filter = PlainKeyFilter(task.plan.map_bytes, task.plan.load_factor)
            result = compact(task.plan, key_filter, Surroundings(file_system=self.disk))
            self.broker.log_jobs.cleaner.finish(task, result, self.at)

    @rule()
    def restart(self) -> None:
        self.broker.appends.write_out()
        self.disk = self.disk.crash(CrashMode.KEEP)
        self.broker = self._opened()

    @invariant()
    def all_is_answered_as_the_model_says(self) -> None:
        for group in GROUPS:
            machine = self.coordinator.machine_of(group, self.at)
            fetched = machine.fetch_offsets(MemberClaim(group_id=group), PLACES)
            for place, one in fetched.items():
                known = self.model.offsets.get((group, place))
                assert (one.committed and one.committed.offset) == (known and known.offset)
                assert one.is_unstable == self.model.is_staged(group, place)

    @invariant()
    def a_restart_reads_the_same(self) -> None:
        live = self.coordinator.machine_of(GROUPS[0], self.at)
        self.broker.appends.write_out()
        again = new_groups(self.broker).machines(self.at)[0]
        assert shown(again.offsets) == shown(live.offsets)
        assert {one.group_id for one in again.list_groups()} == {
            one.group_id for one in live.list_groups()
        }


class StagedOffsetsInACluster(StagedOffsets):
    """The partition changes its leader, here and back."""

    def __init__(self) -> None:
        self.in_cluster: GroupCoordinator | None = None
        super().__init__()
        self.epoch = 0
        self.broker.admin.create_topic(offsets_topic(self.broker.settings.config))
        self._begin()

    @property
    def coordinator(self) -> GroupCoordinator:
        assert self.in_cluster is not None
        return self.in_cluster

    def _begin(self) -> None:
        self.in_cluster = new_groups(self.broker, is_member=True)
        self._lead()
        self._load()

    def _lead(self) -> None:
        self.epoch += 1
        self.coordinator.shards.became_leader(0, self.epoch)

    def _load(self) -> None:
        while self.coordinator.shards.is_busy:
            self.coordinator.advance(self.at)

    @rule()
    def restart(self) -> None:
        super().restart()
        self._begin()

    @rule(deleted=st.sampled_from((None, *TOPICS)))
    def change_leader(self, deleted: str | None) -> None:
        self.coordinator.shards.resigned(0, self.epoch)
        self._lead()
        if deleted is not None:
            self.delete_topic(deleted)
        self._load()

    @rule(topic=st.sampled_from(TOPICS))
    def delete_topic(self, topic: str) -> None:
        self.coordinator.topics_deleted([topic])
        super().delete_topic(topic)


StagedOffsets.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestStagedOffsets = pytest.mark.slow(StagedOffsets.TestCase)
StagedOffsetsInACluster.TestCase.settings = StagedOffsets.TestCase.settings
TestStagedOffsetsInACluster = pytest.mark.slow(StagedOffsetsInACluster.TestCase)
