"""How far leaderships are from the preferred replicas, the first ones of assignments.

Kafka's counterpart: `KafkaController.checkAndTriggerAutoLeaderRebalance`.
"""

from collections.abc import Iterable, Mapping
from typing import TypeVar

T = TypeVar("T")


def led_elsewhere(
    partitions: Iterable[tuple[T, int, int | None]], percentage: int
) -> Mapping[int, list[T]]:
    """By preferred broker the partitions that another one leads, or nobody, if they are more than
    the allowed percentage of those that it should lead.

    `partitions` are what names them, the preferred broker and the leader, if there is a state of
    it at all.
    """
    counts: dict[int, int] = {}
    elsewhere: dict[int, list[T]] = {}
    for one, preferred, leader in partitions:
        counts[preferred] = counts.get(preferred, 0) + 1
        if leader is not None and leader != preferred:
            elsewhere.setdefault(preferred, []).append(one)
    return {
        broker: found
        for broker, found in sorted(elsewhere.items())
        if len(found) * 100 > counts[broker] * percentage
    }
