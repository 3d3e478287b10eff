"""Places the replicas of new partitions on brokers, evenly over racks (KIP-36). Kafka's
counterpart: `AdminUtils.assignReplicasToBrokers`. The source of randomness is passed in.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import repeat

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.values import dataclass

Racks = Mapping[int, str | None]
"""The rack of each broker that is up, in order of their ids."""

Assignment = Mapping[int, tuple[int, ...]]
"""The replicas of partitions, the preferred leader first."""

Placing = Iterator[tuple[int, tuple[int, ...]]]
"""The same, one partition after another in their order: 9,000 take 15 ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Where placement begins.

    `index` selects the first leader, `shift` the distance to the second replica. For new topics
    both are random. `partition` is the first one to be placed.
    """

    index: int = 0
    shift: int = 0
    partition: int = 0


def placing(racks: Racks, partition_count: int, replication_factor: int, start: Start) -> Placing:
    """Returns the replicas of each partition. Racks are used only if every broker has one. Raises
    `ApiError` for impossible counts.
    """
    if partition_count <= 0:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, "The number of partitions is below 1.")
    if replication_factor < 1:
        reason = "The replication factor must be 1 or more, or -1."
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    if replication_factor > len(racks):
        there = "1 broker there is" if len(racks) == 1 else f"{len(racks)} brokers there are"
        reason = f"The replication factor {replication_factor} exceeds the {there}."
        raise ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    partitions = range(start.partition, start.partition + partition_count)
    if len(racks) == 1:
        return zip(partitions, repeat(tuple(racks)), strict=False)
    if any(rack is None for rack in racks.values()):
        racks = dict.fromkeys(racks)
    return _placed(racks, partitions, replication_factor, start)


def _placed(racks: Racks, partitions: range, replication_factor: int, start: Start) -> Placing:
    brokers = _by_racks_in_turn(racks)
    shift = start.shift
    for partition in partitions:
        if partition > 0 and partition % len(brokers) == 0:
            shift += 1
        first = (partition + start.index) % len(brokers)
        yield partition, _replicas(brokers, racks, replication_factor, first, shift)


def placing_also_on(
    fenced: Racks, racks: Racks, partition_count: int, replication_factor: int, start: Start
) -> Placing:
    """As `placing`, with brokers that are down behind those that are up where these are few."""
    missing = replication_factor - len(racks)
    if missing <= 0 or not racks:
        return placing(racks, partition_count, replication_factor, start)
    if missing > len(fenced):
        every = dict(sorted({**racks, **fenced}.items()))
        return placing(every, partition_count, replication_factor, start)  # refuses it
    waiting = _by_racks_in_turn(fenced)
    return (
        (index, (*up, *(waiting[(index + step) % len(waiting)] for step in range(missing))))
        for index, up in placing(racks, partition_count, len(racks), start)
    )


def _by_racks_in_turn(racks: Racks) -> list[int]:
    """The brokers in an order that alternates between racks."""
    waiting: dict[str, list[int]] = {}
    for broker in sorted(racks):
        waiting.setdefault(racks[broker] or "", []).append(broker)
    brokers = []
    while any(waiting.values()):
        brokers += [waiting[rack].pop(0) for rack in sorted(waiting) if waiting[rack]]
    return brokers


def _replicas(
    brokers: Sequence[int], racks: Racks, count: int, first: int, shift: int
) -> tuple[int, ...]:
    """The replicas of a partition; a rack is used again only after all racks, a broker never."""
    rack_count = len(set(racks.values()))
    replicas = [brokers[first]]
    step = 0
    while len(replicas) < count:
        broker = brokers[_index(first, shift * rack_count, step, len(brokers))]
        step += 1
        used = {racks[one] for one in replicas}
        if broker not in replicas and (racks[broker] not in used or len(used) == rack_count):
            replicas.append(broker)
    return tuple(replicas)


def _index(first: int, shift: int, step: int, count: int) -> int:
    return (first + 1 + (shift + step) % (count - 1)) % count
