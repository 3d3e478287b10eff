"""Compaction of a topic of an open log, at the caller's request."""

import time
from typing import TYPE_CHECKING

from ottla.base.clock import read_clock
from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.base.values import dataclass
from ottla.broker.log_jobs.cleaner import CleaningTask
from ottla.runtime.cleaning import Cleaning

if TYPE_CHECKING:
    from ottla.embedded.log import Log

PAUSE_S = 0.001


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactedPartition:
    """The result of a pass over a partition; sizes in bytes, including the active segment.

    `end_offset` is where the compacted part ends; `None` if there was nothing to compact.
    """

    partition: int
    size_before: int
    size_after: int
    end_offset: int | None


def check_compaction(log: "Log", topic: str) -> list[TopicPartition]:
    """The partitions of a topic that can be compacted; raises `UserError` for other topics."""
    with log.looking() as broker:
        found = log.find_topic(topic)
        if not found.config.is_compacted:
            raise UserError(
                f"topic {topic} is not compacted; its cleanup.policy must contain compact"
            )
        reason = broker.unconfirmed.unknown.get(topic)
        if reason is not None:
            raise UserError(f"topic {topic} cannot be compacted, since {reason}; run ottla adopt")
        return [TopicPartition(topic, index) for index in sorted(found.partitions)]


def compact_partition(log: "Log", cleaning: Cleaning, place: TopicPartition) -> CompactedPartition:
    with log.looking() as broker:
        partition = broker.topics.online_partition(*place)
        size_before = partition.log.size
    task = _cleaning_task(log, place)
    if task is not None:
        cleaning.carry_out(task)
        trouble = log.broker.log_jobs.cleaner.trouble_of(task.key)
        if trouble.failure_count:
            raise UserError(f"{task.log.name} could not be compacted: {trouble.reason}")
    return CompactedPartition(
        partition=place.partition,
        size_before=size_before,
        size_after=partition.log.size,
        end_offset=task.plan.end_offset if task else None,
    )


def _cleaning_task(log: "Log", key: TopicPartition) -> CleaningTask | None:
    """A pass over one log, after any pass that is already running."""
    while True:
        with log.looking() as broker:
            if broker.log_jobs.cleaner.states.is_free(key):
                return broker.log_jobs.cleaner.task_for(key, read_clock(log.environment.clock))
        time.sleep(PAUSE_S)
