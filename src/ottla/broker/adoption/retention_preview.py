"""Which records topics with unknown settings would keep under proposed settings."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from typing import Final

from ottla.base.errors import CorruptionError, StorageError
from ottla.base.values import dataclass
from ottla.broker.adoption.accepted_settings import accepted_topic_configs
from ottla.broker.topics.topics import Topic
from ottla.config.topic import DECIDING, TopicConfig
from ottla.metadata.deciding.topic_rules import topic_config
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.retention import retention

ALL_SEGMENTS: Final = 1 << 31

Configs = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """One topic; sizes in bytes.

    `settings` are the supported settings of its own, `refused` the unsupported ones.
    `deletable_size` is what retention would delete immediately.
    """

    topic: str
    reason: str
    settings: Configs
    refused: Configs = field(default_factory=dict)
    config: TopicConfig
    partition_count: int
    size: int
    deletable_size: int

    @property
    def is_decided(self) -> bool:
        """Whether all settings that decide which records the topic keeps are supported."""
        return not DECIDING & self.refused.keys()


def prospects(
    topics: Iterable[Topic],
    unknown: Mapping[str, str],
    defaults: TopicConfig,
    given: Mapping[str, Configs] | None,
    now_ms: int,
) -> list[Prospect]:
    """Returns the unknown topics that `given` names, under the settings given.

    Without `given`, returns all unknown topics, under the defaults. `unknown` maps them to the
    reasons.
    """
    return [
        _prospect(topic, unknown[topic.name], defaults, (given or {}).get(topic.name, {}), now_ms)
        for topic in sorted(topics, key=lambda one: one.name)
        if topic.name in unknown and (given is None or topic.name in given)
    ]


def _prospect(
    topic: Topic, reason: str, defaults: TopicConfig, wanted: Configs, now_ms: int
) -> Prospect:
    settings, refused = accepted_topic_configs(wanted)
    config = topic_config(defaults, settings)
    logs = [partition.log for partition in topic.partitions.values()]
    return Prospect(
        topic=topic.name,
        reason=reason,
        settings=settings,
        refused=refused,
        config=config,
        partition_count=topic.partition_count,
        size=sum(log.size for log in logs),
        deletable_size=_deletable_size(logs, config, now_ms),
    )


def _deletable_size(logs: Sequence[PartitionLog], config: TopicConfig, now_ms: int) -> int:
    total = 0
    for log in logs:
        facts = replace(retention.facts_of(log), config=config)
        # Retention skips a log that cannot be read, and logs its name.
        with suppress(CorruptionError, StorageError), log.health.guarding(changes_files=True):
            going = retention.plan_retention(facts, now_ms, ALL_SEGMENTS).going
            total += sum(one.size for one in going)
    return total
