"""The settings of a share consumer (KIP-932), with Kafka's names and defaults.

Kafka's counterpart: `ShareConsumerConfig`. How long locks last, and how often a record is delivered
at most, are settings of the group.
"""

from collections.abc import Mapping
from typing import Any

from ottla.base.values import dataclass
from ottla.config.reading import ReadingConfig
from ottla.config.setting import setting, value_text, with_values


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareConsumerConfig(ReadingConfig):
    """Attributes are Kafka's names with underscores."""

    share_acknowledgement_mode: str = setting(
        "share.acknowledgement.mode",
        "string",
        "implicit",
        "implicit: records are accepted by the next call that reads, unless something else was "
        "said of them; explicit: a record stays locked until something is said of it.",
        one_of=("implicit", "explicit"),
    )
    share_acquire_mode: str = setting(
        "share.acquire.mode",
        "string",
        "batch_optimized",
        "batch_optimized: whole record batches are locked, which may be more than "
        "max.poll.records; record_limit: no more than that.",
        one_of=("batch_optimized", "record_limit"),
    )


def share_consumer_config(settings: Mapping[str, Any]) -> ShareConsumerConfig:
    """Parses settings by Kafka's names; raises `SettingError`."""
    texts = {name: value_text(value) for name, value in settings.items()}
    return with_values(ShareConsumerConfig(), texts, "share consumer")
