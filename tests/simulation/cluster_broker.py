"""A model of a broker: what it keeps of partitions, and how it follows and leads.

A log is a list of (leader epoch, value). The rules are Kafka's: a follower that parts from its
leader is truncated by epochs, a leader counts everyone who may be in its ISR for the high
watermark, and an ISR changes only as the controller says.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.controller.events import AlteredAnswer, AlteredIsr, AlterPartition
from ottla.controller.requests import (
    LeaderAndIsr,
    Outgoing,
    PartitionOrder,
    StopReplica,
    UpdateMetadata,
)

MIN_ISR = 2
LAG_MS = 400

NOT_WRITTEN = {ErrorCode.INELIGIBLE_REPLICA, ErrorCode.INVALID_REQUEST}
"""Answers after which the ISR is what it was; after others the controller says what it is."""

Entry = tuple[int, str]


@dataclass(slots=True)
class ModelReplica:
    log: list[Entry] = field(default_factory=list)
    high_watermark: int = 0
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    isr: tuple[int, ...] = ()
    replicas: tuple[int, ...] = ()
    pending: tuple[int, ...] | None = None
    """The ISR that the controller was asked for."""
    positions: dict[int, int] = field(default_factory=dict)
    """How far each follower has fetched in this leader epoch."""
    caught_up_ms: dict[int, float] = field(default_factory=dict)
    waiting: list[tuple[int, str]] = field(default_factory=list)
    """Offsets of produces that are not committed."""
    epoch_start: int = 0

    def end_of(self, epoch: int) -> tuple[int, int]:
        """The largest epoch up to one, and the offset after it."""
        found = [(it, at + 1) for at, (it, _) in enumerate(self.log) if it <= epoch]
        return found[-1] if found else (-1, 0)

    def truncate(self, size: int) -> None:
        del self.log[size:]
        self.high_watermark = min(self.high_watermark, size)


@dataclass(frozen=True, slots=True)
class Fetch:
    partition: TopicPartition
    follower: int
    leader_epoch: int
    position: int
    last_epoch: int


@dataclass(frozen=True, slots=True)
class Fetched:
    partition: TopicPartition
    leader_epoch: int
    position: int
    entries: tuple[Entry, ...] = ()
    high_watermark: int = 0
    truncate_to: tuple[int, int] | None = None


@dataclass(slots=True)
class ModelBroker:
    """What a broker's process knows; `logs` of it is on its disk."""

    id: int
    epoch: int = -1
    controller_epoch: int = 0
    controller: int = -1
    replicas: dict[TopicPartition, ModelReplica] = field(default_factory=dict)
    began_to_lead: list[tuple[TopicPartition, ModelReplica]] = field(default_factory=list)
    committed: list[tuple[TopicPartition, str]] = field(default_factory=list)
    """For the world to look at, which takes them."""

    def restart(self) -> None:
        """Only the logs are left."""
        for one in self.replicas.values():
            log = one.log
            one.__init__(log=log)  # type: ignore[misc]
        self.controller = self.epoch = -1
        self.controller_epoch = 0

    def stop_leading(self) -> None:
        """The session is lost: another may lead from now on."""
        for one in self.replicas.values():
            if one.leader == self.id:
                one.leader, one.waiting = -1, []

    # Requests of the controller

    def apply(self, request: Outgoing, now_ms: float) -> Mapping[TopicPartition, ErrorCode] | None:
        """The errors by partition; `None` for what is refused."""
        if request.controller_epoch < self.controller_epoch or request.broker_epoch != self.epoch:
            return None
        self.controller_epoch = request.controller_epoch
        match request.order:
            case LeaderAndIsr(orders=orders):
                for partition, order in orders.items():
                    self._take(partition, order, now_ms)
                return dict.fromkeys(orders, ErrorCode.NONE)
            case StopReplica(orders=stops):
                for partition, stop in stops.items():
                    known = self.replicas.get(partition)
                    if known is None or -1 < stop.leader_epoch < known.leader_epoch:
                        continue
                    known.leader, known.waiting = -1, []
                    if stop.delete:
                        del self.replicas[partition]
                return {one: ErrorCode.NONE for one, stop in stops.items() if stop.delete}
            case UpdateMetadata():
                return {}

    def _take(self, partition: TopicPartition, order: PartitionOrder, now_ms: float) -> None:
        one = self.replicas.setdefault(partition, ModelReplica())
        state = order.state
        is_again = state.leader_epoch == one.leader_epoch and one.leader == -1
        if state.leader_epoch <= one.leader_epoch and not is_again:
            return
        one.leader, one.leader_epoch, one.isr = state.leader, state.leader_epoch, state.isr
        one.partition_epoch, one.replicas = order.partition_epoch, order.assignment.replicas
        one.pending, one.positions, one.waiting = None, {}, []
        if state.leader == self.id:
            one.epoch_start = len(one.log)
            one.caught_up_ms = dict.fromkeys(one.replicas, now_ms)
            self.began_to_lead.append((partition, one))
            self._advance(partition, one)

    # Leading

    def produce(self, partition: TopicPartition, value: str) -> None:
        one = self.replicas.get(partition)
        if one is not None and one.leader == self.id and len(one.isr) >= MIN_ISR:
            one.log.append((one.leader_epoch, value))
            one.waiting.append((len(one.log), value))
            self._advance(partition, one)

    def _advance(self, partition: TopicPartition, one: ModelReplica) -> None:
        """Everyone who may be in the ISR must have it."""
        members = set(one.isr) | set(one.pending or ())
        ends = [one.positions.get(member, 0) for member in members if member != self.id]
        one.high_watermark = max(one.high_watermark, min([len(one.log), *ends]))
        while one.waiting and one.waiting[0][0] <= one.high_watermark and len(one.isr) >= MIN_ISR:
            self.committed.append((partition, one.waiting.pop(0)[1]))

    def serve(self, fetch: Fetch, now_ms: float) -> Fetched | None:
        one = self.replicas.get(fetch.partition)
        is_known = one is not None and one.leader == self.id
        if one is None or not is_known or fetch.leader_epoch != one.leader_epoch:
            return None
        epoch, end = one.end_of(fetch.last_epoch)
        if fetch.position and (epoch != fetch.last_epoch or end < fetch.position):
            return Fetched(
                fetch.partition, one.leader_epoch, fetch.position, truncate_to=(epoch, end)
            )
        one.positions[fetch.follower] = fetch.position
        if fetch.position >= len(one.log):
            one.caught_up_ms[fetch.follower] = now_ms
        self._advance(fetch.partition, one)
        return Fetched(
            fetch.partition,
            one.leader_epoch,
            fetch.position,
            tuple(one.log[fetch.position : fetch.position + 5]),
            one.high_watermark,
        )

    def wanted_isr(self, now_ms: float) -> AlterPartition | None:
        """What the ISRs should be, of all partitions that wait for no answer."""
        changes = []
        for partition, one in self.replicas.items():
            if one.leader != self.id or one.pending is not None:
                continue
            isr = tuple(
                it for it in one.replicas if it == self.id or self._is_in_sync(one, it, now_ms)
            )
            if set(isr) != set(one.isr):
                one.pending = isr
                changes.append(
                    AlteredIsr(
                        topic=partition.topic,
                        partition=partition.partition,
                        leader_epoch=one.leader_epoch,
                        partition_epoch=one.partition_epoch,
                        isr=isr,
                    )
                )
        if not changes:
            return None
        return AlterPartition(
            pending_id=None, broker=self.id, broker_epoch=self.epoch, changes=tuple(changes)
        )

    def _is_in_sync(self, one: ModelReplica, member: int, now_ms: float) -> bool:
        if member in one.isr:
            return now_ms - one.caught_up_ms.get(member, now_ms) <= LAG_MS
        position = one.positions.get(member, -1)
        return position >= max(one.high_watermark, one.epoch_start)

    def altered(self, answers: tuple[AlteredAnswer, ...], asked: AlterPartition) -> None:
        """Answers that came; what has none is asked again."""
        by_change = {one.change: one for one in answers}
        for change in asked.changes:
            partition = TopicPartition(str(change.topic), change.partition)
            one = self.replicas.get(partition)
            if one is None or one.leader_epoch != change.leader_epoch or one.leader != self.id:
                continue
            answer = by_change.get(change)
            if answer is not None and answer.state is not None:
                if answer.partition_epoch >= one.partition_epoch:
                    one.isr, one.partition_epoch = answer.state.isr, answer.partition_epoch
                one.pending = None
                self._advance(partition, one)
            elif answer is not None and answer.error in NOT_WRITTEN:
                one.pending = None

    # Following

    def fetches(self) -> list[tuple[int, Fetch]]:
        found = []
        for partition, one in self.replicas.items():
            if one.leader not in (-1, self.id):
                last_epoch = one.log[-1][0] if one.log else -1
                fetch = Fetch(partition, self.id, one.leader_epoch, len(one.log), last_epoch)
                found.append((one.leader, fetch))
        return found

    def take(self, fetched: Fetched) -> None:
        one = self.replicas.get(fetched.partition)
        if one is None or one.leader_epoch != fetched.leader_epoch or one.leader == self.id:
            return
        if fetched.truncate_to is not None:
            epoch, end = fetched.truncate_to
            one.truncate(min(end, one.end_of(epoch)[1]))
        elif fetched.position == len(one.log):
            one.log += fetched.entries
            one.high_watermark = max(one.high_watermark, min(fetched.high_watermark, len(one.log)))
