"""Settings of a topic that are valid individually, but hardly sensible together.

`TopicConfig.check` refuses impossible settings; this module warns of doubtful ones. Not in Kafka.
"""

from collections.abc import Iterator

from ottla.base.values import dataclass
from ottla.config.setting import settings_of
from ottla.config.topic import TopicConfig

TIME_ENTRY_SIZE = 12
"""The entry size of the time index, which fills up before the offset index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Contradiction:
    """`change` is the KEY=VALUE that resolves it; a note affects neither data nor service."""

    text: str
    names: tuple[str, ...]
    """The settings that contradict each other."""
    change: str
    is_note: bool = False


def contradictions(config: TopicConfig, *, is_alone: bool = True) -> Iterator[Contradiction]:
    """Returns the contradictions in a topic's settings; `is_alone`: for a broker without a
    cluster.
    """
    if is_alone and config.min_insync_replicas > 1:
        yield Contradiction(
            text=f"min.insync.replicas={config.min_insync_replicas} with one broker: every append "
            "with acks=all is refused (NOT_ENOUGH_REPLICAS)",
            names=("min.insync.replicas",),
            change="min.insync.replicas=1",
        )
    if config.max_message_bytes > config.segment_bytes:
        yield Contradiction(
            text=f"max.message.bytes={config.max_message_bytes} is more than "
            f"segment.bytes={config.segment_bytes}: larger batches than a segment are refused",
            names=("max.message.bytes", "segment.bytes"),
            change=f"segment.bytes={config.max_message_bytes}",
        )
    if config.deletes:
        yield from _of_retention(config)
    yield from _of_indexes(config)
    for name, text in idle_tier_settings(config):
        yield Contradiction(
            text=f"{name}={text} has no effect without remote.storage.enable=true",
            names=(name,),
            change=f"{name}={OF_TIERED_TOPICS[name]}",
            is_note=True,
        )


OF_TIERED_TOPICS = {
    "local.retention.bytes": "-2",
    "local.retention.ms": "-2",
    "remote.log.copy.disable": "false",
}
"""Settings that have an effect only in tiered topics, with their defaults."""


def idle_tier_settings(config: TopicConfig) -> Iterator[tuple[str, str]]:
    """Returns those of them that a topic without a tier has changed, with their values."""
    rows = settings_of(TopicConfig)
    for name, default in () if config.remote_storage_enable else OF_TIERED_TOPICS.items():
        row = rows[name]
        text = row.format(getattr(config, row.attribute))
        if text != default:
            yield name, text


def _of_retention(config: TopicConfig) -> Iterator[Contradiction]:
    if 0 <= config.retention_ms < config.segment_ms:
        yield Contradiction(
            text=f"segment.ms={config.segment_ms} is more than retention.ms={config.retention_ms}: "
            "while records keep coming, the active segment keeps them for up to segment.ms more",
            names=("segment.ms", "retention.ms"),
            change=f"segment.ms={max(1, config.retention_ms)}",
        )
    if 0 <= config.retention_bytes < config.segment_bytes:
        yield Contradiction(
            text=f"retention.bytes={config.retention_bytes} is less than "
            f"segment.bytes={config.segment_bytes}: the log grows by a whole segment before any "
            f"is deleted",
            names=("retention.bytes", "segment.bytes"),
            change=f"segment.bytes={max(14, config.retention_bytes // 4)}",
        )
    if max(config.local_limit_ms, config.local_limit_bytes) < 0 and not config.is_compacted:
        yield Contradiction(
            text="retention.ms=-1 and retention.bytes=-1: nothing is ever deleted, until the disk "
            "is full",
            names=("retention.ms", "retention.bytes"),
            change="retention.ms=604800000",
            is_note=True,
        )


def _of_indexes(config: TopicConfig) -> Iterator[Contradiction]:
    entries = config.segment_bytes // max(1, config.index_interval_bytes)
    if entries * TIME_ENTRY_SIZE > config.segment_index_bytes:
        fitting = config.segment_index_bytes // TIME_ENTRY_SIZE * config.index_interval_bytes
        yield Contradiction(
            text=f"segment.index.bytes={config.segment_index_bytes} is full after about {fitting} "
            f"bytes: segments are rolled before segment.bytes={config.segment_bytes}",
            names=("segment.index.bytes", "index.interval.bytes", "segment.bytes"),
            change=f"segment.index.bytes={entries * TIME_ENTRY_SIZE}",
            is_note=True,
        )
