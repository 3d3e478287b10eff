"""Which record of a share group is where, since when, how often delivered, and why again."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ottla.base.ids import Uuid
from ottla.base.timestamps import Timestamps
from ottla.coordinator.share.records_in_flight import DeliveryState, ReturnReason, Run


class InFlight(NamedTuple):
    """Neighbouring records of a partition that the group has not finished, all in one state.

    `state` is AVAILABLE (to be delivered again), ACQUIRED (by `member`, whose lock ends at
    `locked_until_ms`) or ARCHIVING (on the way to the dead letter topic). `since_ms` is when it
    came into this state, at the latest when its leader began to lead; times are in ms since the
    epoch. `reasons` has one entry for each delivery that ended without a final state, the oldest
    first: RELEASED, LOCK_EXPIRED, MEMBER_LOST, REJECTED, or UNKNOWN of deliveries by a leader
    before this one.

    A broker tells it by `Broker.shares.in_flight`, and clients ask for it by DescribeProducers with
    a field of Ottla's own: `Admin.records_in_flight`.
    """

    topic: str
    topic_id: Uuid
    partition: int
    first: int
    last: int
    state: DeliveryState
    member: str
    since_ms: int
    locked_until_ms: int | None
    delivery_count: int
    reasons: tuple[ReturnReason, ...]


def in_flight(
    topic: str, place: tuple[Uuid, int], runs: Iterable[Run], at: Timestamps
) -> Iterator[InFlight]:
    """Describes the runs of a partition that are not final; runs have times of the monotonic
    clock.
    """

    def wall_ms(monotonic_ms: float) -> int:
        return round(at.now_ms + monotonic_ms - at.monotonic_ms)

    for run in runs:
        if run.is_final:
            continue
        is_acquired = run.state == DeliveryState.ACQUIRED
        yield InFlight(
            topic,
            *place,
            first=run.first,
            last=run.last,
            state=run.state,
            member=run.member,
            since_ms=wall_ms(run.since_ms),
            locked_until_ms=wall_ms(run.deadline_ms) if is_acquired else None,
            delivery_count=run.delivery_count,
            reasons=run.reasons,
        )
