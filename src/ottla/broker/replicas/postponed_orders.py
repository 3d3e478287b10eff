"""What the controller over ZooKeeper has ordered of partitions whose logs cannot be made yet.

It does not repeat an order, and would count a replica whose order was refused as offline until the
next start: the replicas are made as soon as there are descriptors and memory, as those of an image
are (`broker/control/image_following.py`). Kafka refuses the order.
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final, Protocol

from ottla.base.partitions import TopicPartition
from ottla.base.timers import NEXT, AllTimers, Timers
from ottla.base.timestamps import Timestamps
from ottla.controller.requests import LeaderAndIsr

logger = logging.getLogger(__name__)

RETRY_MS: Final = 1000.0

MADE_AT_ONCE: Final = 4
"""Partitions that are made in one round, after which the next ones follow at once."""

NONE_WAITS: Final = "no partition waits to be made here any more"


def waiting_line(awaited: Mapping[TopicPartition, str]) -> str:
    """What is said of partitions that wait for descriptors or memory, and why."""
    (topic, index), reason = next(iter(awaited.items()))
    others = f" and {len(awaited) - 1} more" if len(awaited) > 1 else ""
    return f"{topic}-{index}{others} cannot be made here yet, and clients wait: {reason}"


class OrderedReplicas(Protocol):
    @property
    def awaited(self) -> dict[TopicPartition, str]:
        """The partitions whose logs could not be made, and why."""

    def make_logs(self, order: LeaderAndIsr) -> None: ...

    def follow(self, order: LeaderAndIsr, at: Timestamps) -> object: ...


class PostponedOrders:
    """Those of one broker, used under its lock."""

    def __init__(self, replicas: OrderedReplicas, timers: AllTimers) -> None:
        self._replicas = replicas
        self._orders: dict[TopicPartition, LeaderAndIsr] = {}
        """One partition in each."""
        self._next_try: Timers[str] = timers.new_room()

    def take(self, order: LeaderAndIsr, now_ms: float) -> LeaderAndIsr:
        """Keeps what an order says of partitions that are awaited; returns the rest of it."""
        awaited = self._replicas.awaited
        late = {place: one for place, one in order.orders.items() if place in awaited}
        if not late:
            return order
        if not self._orders:
            logger.error("%s", waiting_line(awaited))
        for place, one in late.items():
            self._orders[place] = replace(order, orders={place: one})
        self._next_try.set(NEXT, now_ms + RETRY_MS)
        ready = {place: one for place, one in order.orders.items() if place not in late}
        return replace(order, orders=ready)

    def forget(self, places: Iterable[TopicPartition] | None = None) -> None:
        """What was ordered of these partitions, or of all, holds no longer."""
        if self._orders:
            for place in list(self._orders if places is None else places):
                if self._orders.pop(place, None) is not None:
                    self._replicas.awaited.pop(place, None)

    def advance(self, at: Timestamps) -> None:
        if self._next_try.take_due(at.monotonic_ms) is None:
            return
        replicas, wait_ms = self._replicas, 0.0
        for place, order in list(self._orders.items())[:MADE_AT_ONCE]:
            replicas.make_logs(order)
            if place in replicas.awaited:
                wait_ms = RETRY_MS
                break
            del self._orders[place]
            replicas.follow(order, at)
        if self._orders:
            self._next_try.set(NEXT, at.monotonic_ms + wait_ms)
        else:
            logger.warning("%s", NONE_WAITS)
