"""Plans for moving replicas, from a cluster's status; a reassignment carries them out."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence

from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.client.administration.cluster_status import PartitionStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """A partition's replicas before and after, the preferred leader first."""

    place: TopicPartition
    before: tuple[int, ...]
    after: tuple[int, ...]


def plan_drain(
    partitions: Iterable[PartitionStatus], broker: int, live: Collection[int]
) -> list[Move]:
    """Moves every replica of a broker to the other broker with the fewest.

    Raises `UserError` if the others already have all partitions.
    """
    known = list(partitions)
    others = [one for one in sorted(live) if one != broker]
    counts = Counter(dict.fromkeys(others, 0))
    counts.update(one for each in known for one in each.wanted_replicas if one in counts)
    moves = []
    for partition in known:
        if broker not in partition.wanted_replicas:
            continue
        free = [one for one in others if one not in partition.wanted_replicas]
        if not free:
            left = "is 1 broker" if len(others) == 1 else f"are {len(others)} brokers"
            raise UserError(
                f"{partition.place.topic}-{partition.place.partition} has "
                f"{len(partition.wanted_replicas)} replicas, and without broker {broker} there "
                f"{left}; start another one, or lower its replicas with "
                "ottla cluster reassign --to"
            )
        chosen = min(free, key=lambda one: (counts[one], one))
        counts[chosen] += 1
        moves.append(
            _moved(
                partition, [chosen if one == broker else one for one in partition.wanted_replicas]
            )
        )
    return moves


def plan_to(
    partitions: Iterable[PartitionStatus], brokers: Sequence[int], replicas: int | None = None
) -> list[Move]:
    """Spreads partitions over brokers, each with as many replicas as before, or with `replicas`.

    Raises `UserError` for more replicas than there are brokers.
    """
    moves = []
    for number, partition in enumerate(partitions):
        count = replicas or len(partition.wanted_replicas)
        if count > len(brokers):
            raise UserError(
                f"{partition.place.topic}-{partition.place.partition}: {count} replicas need as "
                f"many brokers, and {len(brokers)} are named; name more with --to, or fewer "
                "--replicas"
            )
        first, shift = number % len(brokers), number // len(brokers)
        after = [brokers[first]]
        rest = [brokers[(first + 1 + at) % len(brokers)] for at in range(len(brokers) - 1)]
        # As in Kafka's placement, the first follower shifts with each round, so that the partitions
        # of one leader do not all have the same followers.
        turn = shift % max(1, len(rest))
        after += (rest[turn:] + rest[:turn])[: count - 1]
        moves.append(_moved(partition, after))
    return [one for one in moves if one.before != one.after]


def plan_given(
    partitions: Iterable[PartitionStatus], wanted: Mapping[TopicPartition, Sequence[int]]
) -> list[Move]:
    """A plan from a user's file; raises `UserError` for a partition that does not exist."""
    known = {one.place: one for one in partitions}
    for place in wanted:
        if place not in known:
            raise UserError(f"there is no partition {place.topic}-{place.partition}")
    moves = [_moved(known[place], after) for place, after in wanted.items()]
    return [one for one in moves if one.before != one.after]


def broker_ids(text: str, live: Collection[int]) -> list[int]:
    """The brokers of a text such as `1,2,3`; raises `UserError` for one that is not up."""
    try:
        found = [int(one) for one in text.split(",")]
    except ValueError:
        raise UserError(f"--to {text}: name brokers by their ids, such as 1,2,3") from None
    for one in found:
        if one not in live:
            there = ", ".join(map(str, live))
            raise UserError(f"--to {text}: broker {one} is not up; brokers that are up: {there}")
    if len(set(found)) < len(found):
        raise UserError(f"--to {text}: a broker is named twice")
    return found


def _moved(partition: PartitionStatus, after: Sequence[int]) -> Move:
    return Move(place=partition.place, before=partition.wanted_replicas, after=tuple(after))
