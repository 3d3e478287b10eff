"""ISR changes for the controller: one request at a time, repeated until answered.

Kafka's counterparts: `DefaultAlterPartitionManager`, `ZkAlterPartitionManager`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import field, replace

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.controller.events import AlteredAnswer, AlteredIsr
from ottla.controller.operations import Batch, Get, Outcome, Set, Steps
from ottla.zookeeper.notices import encode_partitions
from ottla.zookeeper.paths import state_path
from ottla.zookeeper.topics import PartitionState, decode_state, encode_state


def place_of(change: AlteredIsr) -> TopicPartition:
    assert change.topic is not None
    return TopicPartition(change.topic, change.partition)


@dataclass(slots=True)
class AlterPartitions:
    unsent: dict[TopicPartition, AlteredIsr] = field(default_factory=dict)
    in_flight: tuple[AlteredIsr, ...] = ()
    attempt: int = 0

    def clear(self) -> None:
        """Drops the changes of an expired session. In the next session the broker may lead the same
        partition again, and the new leader state does not include them.
        """
        self.unsent, self.in_flight = {}, ()
        self.attempt += 1

    def submit(self, change: AlteredIsr) -> None:
        self.unsent[place_of(change)] = change

    def next_request(self) -> tuple[AlteredIsr, ...]:
        """Returns the next request; empty without changes, or while a response is pending."""
        if self.in_flight or not self.unsent:
            return ()
        self.in_flight = tuple(self.unsent.values())
        return self.again()

    def again(self) -> tuple[AlteredIsr, ...]:
        """Returns the pending request as another attempt, after it or its response was lost."""
        self.attempt += 1
        return self.in_flight

    def answered(self, attempt: int, answers: Iterable[AlteredAnswer]) -> list[AlteredAnswer]:
        """Returns the answers to the last attempt; answers to earlier attempts are ignored.

        Changes without an answer are sent again; an empty response, after an error of the whole
        request, repeats all.
        """
        if attempt != self.attempt or not self.in_flight:
            return []
        self.in_flight, taken = (), []
        for answer in answers:
            place = place_of(answer.change)
            if self.unsent.get(place) == answer.change:
                del self.unsent[place]
                taken.append(answer)
        return taken


def write_states(
    changes: Sequence[AlteredIsr], leader: int, controller_epoch: int
) -> Steps[tuple[AlteredAnswer, ...]]:
    """Writes changed ISRs to the states' nodes in ZooKeeper by compare-and-set.

    Brokers with an inter-broker protocol before 2.7-IV2 do it so. A write that is repeated after a
    lost connection fails if the first attempt succeeded, so the node's content is then compared.
    """
    states = [
        PartitionState(
            leader=leader,
            leader_epoch=one.leader_epoch,
            controller_epoch=controller_epoch,
            isr=one.isr,
            recovery_state=one.recovery_state,
        )
        for one in changes
    ]
    paths = [state_path(place_of(one)) for one in changes]
    results = yield Batch(
        operations=tuple(
            Set(path, encode_state(state), one.partition_epoch)
            for path, state, one in zip(paths, states, changes, strict=True)
        )
    )
    found = yield Batch(operations=tuple(Get(path) for path in paths))
    answers = []
    for change, state, result, now in zip(changes, states, results, found, strict=True):
        answer = AlteredAnswer(change=change, state=state, partition_epoch=result.version)
        if not result.is_done:
            answer = replace(answer, partition_epoch=now.version)
            gone = now.outcome is Outcome.NO_NODE
            if gone or decode_state(place_of(change), now.content) != state:
                answer = AlteredAnswer(change=change, error=ErrorCode.INVALID_UPDATE_VERSION)
        answers.append(answer)
    return tuple(answers)


@dataclass(slots=True)
class IsrChangePropagation:
    """Partitions with changed ISRs, for a node of `/isr_change_notification`.

    It is created when no partition has changed for `linger_ms`, or when the last node is older than
    `max_delay_ms`.
    """

    linger_ms: float = 5_000
    max_delay_ms: float = 60_000
    changed: dict[TopicPartition, None] = field(default_factory=dict)
    last_change_ms: float = 0
    last_propagation_ms: float = 0

    def record(self, partition: TopicPartition, now_ms: float) -> None:
        self.changed[partition] = None
        self.last_change_ms = now_ms

    def due(self, now_ms: float) -> bytes | None:
        """Returns the content of the node to create, if due; `propagated` must follow."""
        is_quiet = self.last_change_ms + self.linger_ms < now_ms
        is_late = self.last_propagation_ms + self.max_delay_ms < now_ms
        return encode_partitions(self.changed) if self.changed and (is_quiet or is_late) else None

    def propagated(self, now_ms: float) -> None:
        self.changed, self.last_propagation_ms = {}, now_ms
