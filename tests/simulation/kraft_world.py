"""Three nodes that are a KRaft cluster by themselves, from a seed; time is simulated.

Each node has a vote, decides while it leads the quorum, and is a broker. Messages are lost,
doubled, late and out of order; nodes are killed, crash at a write and forget what was not synced,
are paused and cut off, their clocks jump, and they make snapshots, while topics are created, grow,
move and are deleted, brokers shut down, and a client writes with acks=all. At every step
`cluster_invariants.py` says what must hold of records, and here is what must hold of the metadata:
what is committed is the same everywhere and never changes, all images of it agree, leader epochs
never go back, and only members of an ISR are elected. In the end everything that was asked for is
done.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from random import Random
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.broker.controlling.active_controller import ActiveController
from ottla.codec.schema import Message
from ottla.metadata.deciding.features import feature_records, new_features
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.metadata.image import RECOVERING, MetadataImage, PartitionImage
from ottla.metadata.record_versions import VersionedRecord
from ottla.metadata.records import PartitionChangeRecord, decode_record
from ottla.metadata.replay import MetadataReplay
from ottla.quorum.voters import ReplicaKey, Voter, VoterSet
from ottla.record.batch import batch_at
from ottla.record.record import read_records
from ottla.zookeeper.topics import NO_LEADER
from tests.simulation.cluster_invariants import AnyBroker, ClusterInvariants, Fact
from tests.simulation.kraft_node import Node, endpoint_of
from tests.simulation.quorum_disk import Entry

CHAOS_MS = 9_000
DEADLINE_MS = 60_000
RELEASES = ("3.6", "3.7", "3.9", "4.0", "4.1", None)


class Truth:
    """What is committed: the records that any node has ever called so, replayed one by one."""

    def __init__(self, counts: Counter[str]) -> None:
        self.counts = counts
        self.image = MetadataImage()
        self.images: dict[int, MetadataImage] = {0: self.image}
        self._entries: dict[int, Entry] = {}
        self._replay = MetadataReplay()
        self.end_offset = 0

    def of(self, partition: TopicPartition) -> Fact | None:
        known = self.image.partition(partition)
        if known is None:
            return None
        return Fact(known.leader, known.leader_epoch, known.isr, known.replicas)

    def committed(self, entries: Sequence[Entry], until: int) -> None:
        for one in entries:
            if one.base_offset >= until:
                break
            known = self._entries.setdefault(one.base_offset, one)
            assert known == one, f"two records are committed at {one.base_offset}"
            if one.base_offset == self.end_offset:
                self._take(one)

    def _take(self, entry: Entry) -> None:
        batch = batch_at(entry.content, 0)
        if not batch.is_control:
            for one in read_records(batch):
                record, _ = decode_record(one.value or b"")
                self._look_at(record)
        self.end_offset = self._replay.end_offset = entry.next_offset
        self._replay.epoch = entry.epoch
        self.image = self.images[entry.next_offset] = self._replay.image()
        for topic in self.image.topics.values():
            for index, one in topic.partitions.items():
                leader = self.image.brokers.get(one.leader)
                is_led = one.leader != NO_LEADER
                assert not is_led or (leader and not leader.is_fenced), f"{topic.name}-{index}"

    def _look_at(self, record: Message) -> None:
        self.counts[type(record).__name__] += 1
        before = self._replay.image()
        self._replay.replay(record)
        if isinstance(record, PartitionChangeRecord):
            name = before.topic_names.get(record.topic_id)
            if name is not None:
                after = self._replay.image().topics[name].partitions[record.partition_id]
                old = before.topics[name].partitions[record.partition_id]
                self._changed(f"{name}-{record.partition_id}", old, after)

    def _changed(self, what: str, old: PartitionImage, new: PartitionImage) -> None:
        assert new.leader_epoch >= old.leader_epoch, what
        assert new.partition_epoch == old.partition_epoch + 1, what
        assert {*new.isr} <= {*new.replicas}, f"{what}: {new}"
        assert new.isr or new.elr or new.last_known_elr, f"{what}: {new}"
        assert new.leader == NO_LEADER or new.leader in new.isr, f"{what}: {new}"
        if new.leader_epoch == old.leader_epoch:
            assert new.leader == old.leader, what
        elif new.leader != NO_LEADER:
            able = {*old.isr, *old.elr}
            if old.removing or old.adding:
                able |= {*new.isr}  # by the old leader's word, with which the move is complete
            if new.recovery_state == RECOVERING:
                able |= {*old.last_known_elr}  # nobody else has everything any more (KIP-966)
            assert new.leader in able or not able, f"{what}: {old} then {new}"


def comparable(image: MetadataImage) -> tuple[object, ...]:
    """What all nodes must have equal; snapshots have no epochs, and know of no removed topics."""
    return (
        image.topics, image.topic_names, image.configs, image.features, image.brokers,
        image.controllers, image.next_producer_id,
    )  # fmt: skip


class World:
    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.now_ms = 0.0
        self.counts: Counter[str] = Counter()
        self.truth = Truth(self.counts)
        self.invariants = ClusterInvariants(self.truth, self.counts)
        self._numbers = count()
        self._ids = count(1000)
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self.loss = self.chance.choice((0, 0.01, 0.05))
        self.crash_rate = self.chance.choice((0, 0.0005, 0.003))
        self.sync_times_ms = self.chance.choice(((0,), (0, 1, 20), (0, 5, 100)))
        self.release = self.chance.choice(RELEASES)
        self.cut: set[tuple[int, int]] = set()
        self.is_calm = False
        self.topics: list[str] = []
        self.voters = VoterSet.of(
            Voter(ReplicaKey(one, ZERO_UUID), (endpoint_of(one),)) for one in (1, 2, 3)
        )
        self.nodes = {one: Node(self, one) for one in (1, 2, 3)}
        brokers: dict[int, AnyBroker] = {one.id: one.broker for one in self.nodes.values()}
        self.invariants.brokers = brokers

    @property
    def bootstrap(self) -> list[VersionedRecord]:
        return feature_records(new_features(self.release))

    def node(self, node_id: int) -> Node:
        return self.nodes[node_id]

    def new_id(self) -> Uuid:
        return Uuid(next(self._ids).to_bytes(16, "big"))

    # Time, disks and the network

    def at(self, delay_ms: float, action: Callable[[], None]) -> None:
        heapq.heappush(self._due, (self.now_ms + delay_ms, next(self._numbers), action))

    def delay(self) -> float:
        late = 300 if not self.is_calm and self.chance.random() < 0.01 else 0
        return self.chance.choice((1, 2, 4, 8)) + self.chance.random() * (1 + late)

    def crashes_at_write(self) -> bool:
        return not self.is_calm and self.chance.random() < self.crash_rate

    def sync_ms(self) -> float:
        return 0 if self.is_calm else self.chance.choice(self.sync_times_ms)

    def send(self, source: Node, to: Node, action: Callable[[], None]) -> None:
        """Lost where the network is cut, or by chance, or in a process that has ended."""
        is_lossy = not self.is_calm and self.chance.random() < self.loss
        if (source.id, to.id) in self.cut or is_lossy:
            self.counts["lost"] += 1
            return
        self.at(self.delay(), lambda: to.later(0, action) if to.is_up else None)

    def ask(self, source: Node, to: Node, action: Callable[[], None]) -> None:
        """A request, which may come twice."""
        self.send(source, to, action)
        if not self.is_calm and self.chance.random() < self.loss:
            self.counts["doubled"] += 1
            self.send(source, to, action)

    # A run

    def run(self) -> None:
        for node in self.nodes.values():
            self.at(self.chance.random() * 100, node.start)
        self.at(1500, self._chaos)
        self.at(500, self._administer)
        self.at(500, self._write)
        self.at(CHAOS_MS, self._calm_down)
        while not (self.is_calm and not self._what_is_left()):
            assert self.now_ms < DEADLINE_MS, self._what_is_left()
            until = self.now_ms + 200
            while self._due and self._due[0][0] <= until:
                self.now_ms, _, action = heapq.heappop(self._due)
                action()
            self.now_ms = until
        for name, topic in self.truth.image.topics.items():
            for index, partition in topic.partitions.items():
                place = TopicPartition(name, index)
                self.invariants.look_at_logs(place, partition.replicas)

    # What must hold of metadata

    def committed(self, node: Node, until: int) -> None:
        self.truth.committed(node.disk.content.entries, until)

    def published(self, node: Node, image: MetadataImage) -> None:
        true = self.truth.images[image.end_offset]
        assert comparable(image) == comparable(true), f"node {node.id} at {image.end_offset}"
        controller = node.controller
        if controller is not None and controller.image.end_offset == image.end_offset:
            self.counts["decided and committed"] += 1
            assert comparable(controller.image) == comparable(true), f"controller {node.id}"

    # Chaos

    def _chaos(self) -> None:
        if self.is_calm:
            return
        chance, node = self.chance, self.chance.choice(list(self.nodes.values()))
        match chance.randrange(11):
            case 0 | 1 if node.is_up and sum(one.is_up for one in self.nodes.values()) > 1:
                self._stop(node, "crashes" if chance.random() < 0.5 else "kills")
            case 2 if chance.random() < 0.1:
                self.counts["blackouts"] += 1
                for one in self.nodes.values():
                    if one.is_up:
                        self._stop(one, "crashes")
            case 3 | 4:
                self._cut_off(node)
            case 5 if node.is_up:
                self.counts["shutdowns"] += 1
                node.lifecycle.leave(node.at.monotonic_ms)
            case 6:
                self.counts["pauses"] += 1
                node.busy_until_ms = self.now_ms + chance.choice((40, 300, 1500))
            case 7:
                self.counts["clock jumps"] += 1
                node.clock_ms += chance.choice((10, 500, 100_000))
                if node.is_up:
                    node.later(0, node.wake)
            case 8 | 9 if node.is_up and not node.is_busy:
                node.make_snapshot()
            case _:
                pass
        self.at(chance.random() * 500, self._chaos)

    def _stop(self, node: Node, how: str) -> None:
        self.counts[how] += 1
        if how == "crashes":
            node.crash()
        else:
            node.kill()

    def _cut_off(self, node: Node) -> None:
        others = [one for one in self.nodes if one != node.id]
        pairs = set()
        for other in self.chance.sample(others, self.chance.choice((1, 2))):
            pairs.add((node.id, other))
            if self.chance.random() < 0.6:
                pairs.add((other, node.id))
        self.counts["cuts"] += 1
        self.cut |= pairs
        lasts_ms = self.chance.choice((200, 1200))
        self.at(lasts_ms, lambda: self.cut.difference_update(pairs))

    def _calm_down(self) -> None:
        self.is_calm = True
        self.cut.clear()
        for node in self.nodes.values():
            node.busy_until_ms = 0

    # What is asked of the controller

    def _active(self) -> Node | None:
        found = [
            one
            for one in self.nodes.values()
            if one.is_up and not one.is_busy and one.controller is not None
        ]
        return max(found, key=lambda one: one.quorum.epoch, default=None)

    def _administer(self) -> None:
        if self.is_calm:
            return
        active = self._active()
        if active is not None:
            name, verb = self._request()

            def done(outcome: Any) -> None:
                for one in outcome if isinstance(outcome, list) else [outcome]:
                    error = f" {one.code.name}" if isinstance(one, ApiError) else ""
                    self.counts[name + error] += 1

            active.later(0, lambda: active.decide(verb, done))
        self.at(self.chance.random() * 250, self._administer)

    def _request(self) -> tuple[str, Callable[[ActiveController], Any]]:
        chance, image = self.chance, self.truth.image
        if len(image.topics) < 2 or chance.random() < 0.1:
            size = chance.choice((1, 2, 4))
            new = NewTopic(name=f"t{next(self._numbers)}", partition_count=size)
            return "created", lambda one: one.create_topics([new], validate_only=False)
        topic = chance.choice(sorted(image.topics))
        partitions = image.topics[topic].partitions
        place = TopicPartition(topic, chance.choice(sorted(partitions)))
        match chance.randrange(8):
            case 0 if len(image.topics) > 2:
                return "deleted", lambda one: one.delete_topics([topic])
            case 1 if len(partitions) < 6:
                grown = TopicGrowth(name=topic, partition_count=len(partitions) + 1)
                return "grown", lambda one: one.create_partitions([grown], validate_only=False)
            case 2:
                return "cancelled", lambda one: one.alter_reassignments(
                    {place: None}, may_change_count=True
                )
            case 3 | 4 | 5:
                target = tuple(chance.sample(sorted(self.nodes), chance.choice((2, 3))))
                return "moved", lambda one: one.alter_reassignments(
                    {place: target}, may_change_count=True
                )
        return "elected", lambda one: one.elect_leaders(None, is_unclean=False)

    # A client that writes with acks=all

    def _write(self) -> None:
        if self.is_calm:
            return
        for node in self.nodes.values():
            is_awake = node.is_up and not node.is_busy
            for partition in node.broker.led() if is_awake else ():
                if self.chance.random() < 0.3:
                    value = f"v{next(self._numbers)}"
                    error = node.broker.produce(partition, value, node.at.monotonic_ms)
                    self.counts[error.name] += error is not ErrorCode.NONE
        self.at(30, self._write)

    # The end

    def _what_is_left(self) -> list[str]:
        image, left = self.truth.image, []
        active = [one for one in self.nodes.values() if one.is_up and one.controller is not None]
        if len(active) != 1:
            left.append(f"controllers {[one.id for one in active]}")
        for node in self.nodes.values():
            broker = image.brokers.get(node.id)
            if not node.is_up or broker is None or broker.is_fenced or broker.is_shutting_down:
                left.append(f"broker {node.id}: {broker}")
            elif node.applied.topics != image.topics:
                left.append(f"image of {node.id}")
        for name, topic in image.topics.items():
            for index, one in topic.partitions.items():
                place = TopicPartition(name, index)
                is_moving = one.adding or one.removing
                if is_moving or one.leader == NO_LEADER or {*one.isr} != {*one.replicas}:
                    left.append(f"{place}: {one}")
                elif not self._is_equal(place, one.replicas):
                    left.append(f"{place}: not yet equal")
        return left

    def _is_equal(self, place: TopicPartition, replicas: tuple[int, ...]) -> bool:
        brokers = [self.nodes[one].broker for one in replicas]
        logs = [one.logs.get(place) for one in brokers]
        marks = [
            hosted.local.high_watermark
            for one in brokers
            if (hosted := one.hosted(place)) is not None
        ]
        found = [one for one in logs if one is not None]
        if len(found) < len(logs):
            return False
        first = found[0].records
        return all(one.records == first for one in found) and marks == [
            one.log_end_offset for one in found
        ]
