"""Decides about new topics and new partitions: names, counts, replicas.

Every controller asks these functions, whether it then writes records or nodes. Kafka's counterpart:
`ReplicationControlManager`, `createTopic` and `createPartitions`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import field
from itertools import product
from typing import Final, NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.partitions import CLUSTER_METADATA
from ottla.base.turns import in_turns
from ottla.base.values import dataclass
from ottla.metadata.deciding.placement import (
    Placing,
    Racks,
    Start,
    placing_also_on,
)
from ottla.metadata.deciding.topic_rules import INTERNAL_TOPICS, check_name, metric_name
from ottla.metadata.image import TopicImage

MAX_PARTITION_COUNT: Final = 10_000
"""The most that Kafka's controller creates in one request."""

SPELLING_COST: Final = 16
"""Names that a spelling takes as long to look up as they take to be compared."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to create; -1 stands for the broker's default.

    `assignments` are broker ids by partition, and replace both counts. `topic_id` is the id of a
    topic elsewhere that this one is a copy of, whose settings may be `unknown`; other topics get a
    new id.
    """

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignments: Mapping[int, list[int]] = field(default_factory=dict)
    overrides: Mapping[str, str | None] = field(default_factory=dict)
    topic_id: Uuid | None = None
    unknown: str | None = None
    """Why its settings are not known, if they are not."""

    @property
    def settings(self) -> dict[str, str]:
        """The settings that have a value, as all valid ones have."""
        return {name: text for name, text in self.overrides.items() if text is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicGrowth:
    """The new partition count of a topic; `assignments` are the brokers of the new partitions."""

    name: str
    partition_count: int
    assignments: Sequence[Sequence[int]] | None = None


NO_RACKS: Final[Racks] = {}


class Defaults(NamedTuple):
    """What a new topic has where its request says -1."""

    partition_count: int
    replication_factor: int


# Names


def check_new_name(name: str, topics: Collection[str]) -> None:
    """Raises `ApiError` if no topic of that name can be created beside `topics`."""
    check_name(name)
    if name == CLUSTER_METADATA:
        # The code that Kafka's controller answers with (`ControllerApis.createTopics`).
        raise ApiError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            f"'{name}' is the name of Kafka's metadata log, and no topic's.",
        )
    if name in topics:
        raise ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = same_in_metrics(name, topics)
    if other is not None:
        raise ApiError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"Topic '{name}' collides with the existing topic '{other}': "
            "metrics do not distinguish '.' from '_'.",
        )


def same_in_metrics(name: str, topics: Collection[str]) -> str | None:
    """Returns a topic whose name metrics show as they do this one; in turns."""
    shown = metric_name(name)
    marks = shown.count("_")
    if not marks:
        return None  # what is shown without a mark is spelled as it is shown
    if SPELLING_COST << marks < len(topics):
        found = (one for one in in_turns(_spellings(shown)) if one in topics)
    else:
        found = (one for one in in_turns(topics) if metric_name(one) == shown)
    return next(found, None)


def _spellings(shown: str) -> Iterator[str]:
    """The names that metrics show so."""
    pieces = shown.split("_")
    for marks in product("_.", repeat=len(pieces) - 1):
        yield "".join(map("".join, zip(pieces, (*marks, ""), strict=True)))


# Counts


def check_partition_count(count: int) -> None:
    """Raises `ApiError` unless a new topic may have this number of partitions."""
    if not 1 <= count <= MAX_PARTITION_COUNT:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The number of partitions must be 1 to {MAX_PARTITION_COUNT}, not {count}.",
        )


def check_total_count(count: int) -> None:
    """Raises `ApiError` unless one request may create so many partitions in all its topics."""
    if count > MAX_PARTITION_COUNT:
        raise ApiError(
            ErrorCode.POLICY_VIOLATION,
            f"One request makes at most {MAX_PARTITION_COUNT} partitions, not {count}.",
        )


def _check_grown_count(name: str, count: int, wanted: int) -> None:
    """Raises `ApiError` unless a topic of `count` partitions may have `wanted`."""
    if wanted == count:
        raise ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
    if wanted < count:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"The topic {name} currently has {count} partition(s); "
            f"{wanted} would not be an increase.",
        )
    if wanted > MAX_PARTITION_COUNT:
        raise ApiError(
            ErrorCode.INVALID_PARTITIONS, f"A topic has at most {MAX_PARTITION_COUNT} partitions."
        )


# Replicas


def new_placing(
    new: NewTopic,
    racks: Racks,
    defaults: Defaults,
    chance: Callable[[], int],
    fenced: Racks = NO_RACKS,
) -> Placing:
    """Returns the replicas of a new topic's partitions, on brokers that are up, whose `racks` these
    are, and where they are too few also on those that are `fenced`; raises `ApiError`, perhaps only
    at a partition. `chance` returns a large random number, by which they are spread.
    """
    if new.assignments:
        if new.partition_count != -1 or new.replication_factor != -1:
            raise ApiError(
                ErrorCode.INVALID_REQUEST,
                "With replicas assigned, the partitions and the replication factor must be -1.",
            )
        count = len(new.assignments)
        check_partition_count(count)
        return _checked_assignment(new.assignments, range(count), {**racks, **fenced})
    count = defaults.partition_count if new.partition_count == -1 else new.partition_count
    factor = new.replication_factor
    factor = defaults.replication_factor if factor == -1 else factor
    check_partition_count(count)
    if len(racks) < 2:
        return placing_also_on(fenced, racks, count, factor, Start())
    index, shift = chance(), chance()
    start = Start(index=index % len(racks), shift=shift % len(racks))
    return placing_also_on(fenced, racks, count, factor, start)


def added_placing(
    growth: TopicGrowth, topic: TopicImage | None, racks: Racks, fenced: Racks = NO_RACKS
) -> Placing:
    """Returns the replicas of the partitions that a topic gets; raises `ApiError`, perhaps only at
    a partition.
    """
    if topic is None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    if topic.name in INTERNAL_TOPICS:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"'{topic.name}' is internal.")
    count, wanted = topic.partition_count, growth.partition_count
    _check_grown_count(topic.name, count, wanted)
    added, one = range(count, wanted), topic.partitions[min(topic.partitions)]
    first = tuple(broker for broker in one.replicas if broker not in one.removing)
    if growth.assignments is not None:
        assigned = dict(enumerate(growth.assignments, count))
        checked = _checked_assignment(assigned, added, {**racks, **fenced})
        if any(len(replicas) != len(first) for replicas in assigned.values()):
            raise ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The partitions of {topic.name} have {len(first)} replicas each.",
            )
        return checked
    # As Kafka: from the first broker at or after the one that leads the first partition.
    index = next((at for at, one in enumerate(racks) if one >= first[0]), 0)
    start = Start(index=index, shift=index, partition=count)
    return placing_also_on(fenced, racks, len(added), len(first), start)


def _checked_assignment(
    assigned: Mapping[int, Sequence[int]], wanted: range, brokers: Collection[int]
) -> Placing:
    """Raises `ApiError` unless the wanted partitions have replicas, on brokers that are up."""
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if sorted(assigned) != list(wanted):
        raise ApiError(
            code,
            f"{len(wanted)} partition(s) must be assigned from {wanted.start} on, gapless, and "
            f"{len(assigned)} are.",
        )
    if len({len(replicas) for replicas in assigned.values()}) > 1:
        raise ApiError(code, "All partitions must have the same number of replicas.")
    return ((index, _checked(index, assigned[index], brokers)) for index in wanted)


def _checked(index: int, replicas: Sequence[int], brokers: Collection[int]) -> tuple[int, ...]:
    check_replicas(replicas, brokers, f"Partition {index}")
    return tuple(replicas)


def check_replicas(replicas: Sequence[int], brokers: Collection[int], what: str) -> None:
    """Raises `ApiError` unless these are one broker or more, each once, of those that there are."""
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not replicas or len(set(replicas)) < len(replicas):
        raise ApiError(code, f"{what} needs replicas, each broker once.")
    unknown = [one for one in replicas if one not in brokers]
    if unknown:
        raise ApiError(code, f"There is no broker {unknown[0]}.")
