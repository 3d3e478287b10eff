"""What must hold of a cluster at every step, looked at as brokers do what their machines want.

High watermarks never go back, an epoch has one leader, what is committed is equal on all members of
the ISR and never truncated, two leaders never commit different records, what was acknowledged is on
enough brokers, and who begins to lead has every record that was committed, at its offset.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeAlias

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.broker.replication.effects import (
    AnswerDelayed,
    BecameLeader,
    Effect,
    MoveHighWatermark,
    Stopped,
    TruncateTo,
)
from ottla.zookeeper import paths
from ottla.zookeeper.topics import decode_state, decode_topic
from tests.simulation.cluster_broker import MIN_ISR, ModelBroker, ModelLog, Record
from tests.simulation.cluster_logs import LogBroker, LogView
from tests.support.model_zookeeper import ModelZooKeeper


class Fact(NamedTuple):
    """How a partition is; `is_deleted` if its topic is to go."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    is_deleted: bool = False


class Facts(Protocol):
    """What is true of partitions, whoever knows it."""

    def of(self, partition: TopicPartition) -> Fact | None:
        """`None` of one that there is not."""


class ZooKeeperFacts:
    def __init__(self, zookeeper: ModelZooKeeper) -> None:
        self._zookeeper = zookeeper

    def of(self, partition: TopicPartition) -> Fact | None:
        nodes, topic = self._zookeeper.nodes, partition.topic
        node = nodes.get(paths.state_path(partition))
        if node is None:
            return None
        state = decode_state(partition, node.content)
        replicas: tuple[int, ...] = ()
        if paths.topic_path(topic) in nodes:
            known = decode_topic(topic, self._zookeeper.content(paths.topic_path(topic)))
            replicas = known.partitions[partition.partition].replicas
        is_deleted = paths.delete_topic_path(topic) in nodes
        return Fact(state.leader, state.leader_epoch, state.isr, replicas, is_deleted)


AnyBroker: TypeAlias = ModelBroker | LogBroker
AnyLog: TypeAlias = ModelLog | LogView


@dataclass(slots=True)
class ClusterInvariants:
    facts: Facts
    counts: Counter[str]
    brokers: dict[int, AnyBroker] = field(default_factory=dict)
    acknowledged: dict[TopicPartition, dict[int, str]] = field(default_factory=dict)
    deleted: dict[TopicPartition, int] = field(default_factory=dict)
    """The furthest that a leader's log began: before it replicas need not be equal."""
    _committed: dict[TopicPartition, dict[int, Record]] = field(default_factory=dict)
    _high_watermarks: dict[tuple[int, TopicPartition], int] = field(default_factory=dict)
    _leaders: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)
    _removed: dict[TopicPartition, dict[int, int]] = field(default_factory=dict)
    """Where the logs of removed replicas ended, by broker: the leader may hear of their last fetch,
    which commits records, after an administrator has removed them."""

    def first_to_compare(self, partition: TopicPartition, log: AnyLog) -> int:
        return max(log.log_start_offset, self.deleted.get(partition, 0))

    def look_at_logs(self, partition: TopicPartition, brokers: Iterable[int]) -> None:
        """In the end all replicas have all that was acknowledged, and know the same of it."""
        logs = [self.brokers[broker].logs[partition] for broker in brokers]
        for log in logs:
            first = self.first_to_compare(partition, log)
            for offset, value in self.acknowledged.get(partition, {}).items():
                if offset >= first:
                    assert (log.record(offset) or (-1, ""))[1] == value
        # A log that began again does not know of transactions that had begun before.
        start = max(self.first_to_compare(partition, log) for log in logs)
        known = [log.transactions(start) for log in logs if isinstance(log, LogView)]
        assert known == known[:1] * len(known), partition
        self.counts["aborted"] += sum(len(aborted) for aborted, _ in known)

    def forget_high_watermarks(self, broker: int) -> None:
        """A restarted broker begins with what it recorded last."""
        for key in [one for one in self._high_watermarks if one[0] == broker]:
            del self._high_watermarks[key]

    def look_at(self, broker: AnyBroker, effect: Effect) -> None:
        partition, key = effect.partition, (broker.id, effect.partition)
        match effect:
            case BecameLeader(leader_epoch=epoch):
                self._begins_to_lead(broker, partition, epoch)
            case MoveHighWatermark(offset=offset):
                assert offset > self._high_watermarks.get(key, -1), f"{key} back to {offset}"
                self._high_watermarks[key] = offset
                self._commits(broker, partition, offset)
            case TruncateTo(offset=offset):
                assert offset >= self._high_watermarks.get(key, 0), f"{key} cut to {offset}"
                self._truncates(broker, partition, offset)
            case Stopped(delete=True):
                self._high_watermarks.pop(key, None)
                if (log := broker.logs.get(partition)) is not None:
                    self._removed.setdefault(partition, {})[broker.id] = log.log_end_offset
            case AnswerDelayed(pending_id=(offset, value), error=error):
                self.counts[f"answer {error.name}"] += 1
                if error is ErrorCode.NONE:
                    self._acknowledges(broker, partition, offset, value)
            case _:
                self.counts[type(effect).__name__] += 1

    def _begins_to_lead(self, broker: AnyBroker, partition: TopicPartition, epoch: int) -> None:
        key, log = (partition, epoch), broker.logs[partition]
        assert self._leaders.setdefault(key, broker.id) == broker.id, f"{key} led by two"
        fact = self.facts.of(partition)
        if fact is None or epoch < fact.leader_epoch:
            return  # it hears late of what is over, and nobody follows it
        first = self.first_to_compare(partition, log)
        for offset, record in self._committed.get(partition, {}).items():
            if offset >= first:
                found = log.record(offset)
                assert found == record, f"{broker.id} leads {partition} without {offset}: {record}"

    def _commits(self, broker: AnyBroker, partition: TopicPartition, end: int) -> None:
        """Nobody has committed anything else, and every member of the ISR has it."""
        log, committed = broker.logs[partition], self._committed.setdefault(partition, {})
        fact, hosted = self.facts.of(partition), broker.hosted(partition)
        members = []
        is_leader = hosted is not None and hosted.leader == broker.id
        if fact is not None and is_leader and fact.leader == broker.id and not fact.is_deleted:
            # One that is none any more may be there still, from a leader that wrote before it knew.
            isr = [one for one in fact.isr if one in fact.replicas]
            members = [self.brokers[one].logs.get(partition) for one in isr]
        for member in members:
            assert member is not None, f"{partition} is missing in {fact}"
            assert member.log_end_offset >= end, f"{partition}: not all of {fact} have {end}"
        first = self.first_to_compare(partition, log)
        for offset in range(first, end):
            record = log.record(offset)
            assert record is not None
            assert committed.setdefault(offset, record) == record, f"{partition} {offset} twice"
            for member in members:
                if member is not None and offset >= member.log_start_offset:
                    assert member.record(offset) == record, f"{partition} {offset} differs"

    def _truncates(self, broker: AnyBroker, partition: TopicPartition, end: int) -> None:
        log = broker.logs[partition]
        self.counts["records truncated"] += log.log_end_offset - end
        for offset in range(end, log.log_end_offset):
            record = self._committed.get(partition, {}).get(offset)
            assert log.record(offset) != record, f"{broker.id} cuts {partition} {offset}"

    def _acknowledges(
        self, broker: AnyBroker, partition: TopicPartition, offset: int, value: str
    ) -> None:
        log = broker.logs[partition]
        if offset >= log.log_start_offset:
            record = log.record(offset)
            assert (record or (-1, ""))[1] == value, f"{partition} {offset}: {record}"
        taken = self.acknowledged.setdefault(partition, {})
        assert taken.setdefault(offset, value) == value, f"{partition} {offset} twice"
        ends = dict(self._removed.get(partition, {}))
        ends |= {
            one.id: its.log_end_offset
            for one in self.brokers.values()
            if (its := one.logs.get(partition)) is not None
        }
        holders = [one for one, end in ends.items() if end > offset]
        fact = self.facts.of(partition)
        if fact is not None and not fact.is_deleted:
            assert len(holders) >= MIN_ISR, f"{partition} {offset} is only on {holders}"
        self.counts["acknowledged"] += 1
