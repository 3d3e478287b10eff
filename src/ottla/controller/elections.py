"""Chooses the leader of a partition. Pure.

Kafka's counterparts: `Election`, `PartitionLeaderElectionAlgorithms`.
"""

from dataclasses import replace
from enum import Enum, auto

from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.controller.context import ControllerContext
from ottla.zookeeper.topics import RECOVERED, RECOVERING, PartitionState


class Strategy(Enum):
    OFFLINE = auto()
    """The leader is gone: elect the first online replica of the assignment that is in the ISR."""
    UNCLEAN = auto()
    """Like `OFFLINE`, or any online replica if the ISR has none (unclean leader election)."""
    REASSIGNMENT = auto()
    """The leader is not in the target of a reassignment."""
    PREFERRED = auto()
    """Elect the first replica of the assignment, and no other."""
    CONTROLLED_SHUTDOWN = auto()
    """The leader is shutting down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Elected:
    """The new state, and the brokers that must be informed."""

    state: PartitionState
    recipients: tuple[int, ...]


def elect(
    context: ControllerContext,
    partition: TopicPartition,
    state: PartitionState,
    strategy: Strategy,
    *,
    has_recovery: bool,
) -> Elected | None:
    """Elects a leader; returns `None` if no replica can lead.

    `has_recovery`: whether states record an unclean election (KIP-704).
    """
    assignment, isr = context.assignment(partition), state.isr
    live = context.live_replicas(partition)

    def first(
        state: PartitionState, candidates: tuple[int, ...], recipients: tuple[int, ...]
    ) -> Elected | None:
        """Elects the first candidate that is online and in the ISR."""
        leader = next((one for one in candidates if one in live and one in state.isr), None)
        if leader is None:
            return None
        elected = context.next_state(partition, replace(state, leader=leader))
        return Elected(state=elected, recipients=recipients)

    if strategy is Strategy.PREFERRED:
        return first(state, assignment.replicas[:1], assignment.replicas)
    if strategy is Strategy.REASSIGNMENT:
        return first(state, assignment.target, assignment.target)
    if strategy is Strategy.CONTROLLED_SHUTDOWN:
        recipients = tuple(
            one
            for one in assignment.replicas
            if context.is_online(one, partition, or_shutting_down=True)
        )
        stays = tuple(one for one in isr if one not in context.shutting_down)
        return first(replace(state, isr=stays), assignment.replicas, recipients)
    in_sync = tuple(one for one in isr if one in live)
    elected = first(replace(state, isr=in_sync), assignment.replicas, tuple(live))
    if elected is None and strategy is Strategy.UNCLEAN and live:
        recovery = RECOVERING if has_recovery else RECOVERED
        elected = Elected(
            state=replace(
                context.next_state(partition, replace(state, leader=live[0])),
                isr=(live[0],),
                recovery_state=recovery,
            ),
            recipients=tuple(live),
        )
    return elected
