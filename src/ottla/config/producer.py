"""The settings of a producer, with Kafka's names and defaults.

Kafka's counterpart: `ProducerConfig`.
"""

from collections.abc import Mapping
from typing import Any

from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.config.client import ClientConfig
from ottla.config.setting import setting, value_text, with_values

ACKS = {"all": -1, "-1": -1, "0": 0, "1": 1}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
PARTITIONERS = ("murmur2", "consistent", "random")


def acks_of(text: str) -> int:
    """Raises `ValueError`."""
    if text not in ACKS:
        raise ValueError("one of all, -1, 0, 1")
    return ACKS[text]


def _codec(text: str) -> str:
    if text not in CODECS:
        raise ValueError(f"one of {', '.join(CODECS)}")
    return text


def _partitioner(text: str) -> str:
    if text not in PARTITIONERS:
        raise ValueError(f"one of {', '.join(PARTITIONERS)}; or hand in a function")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig(ClientConfig):
    """Attributes are Kafka's names with underscores."""

    acks: str = setting(
        "acks",
        "string",
        "all",
        "Replicas that must have a record before it counts as sent: all, 1, or 0 for no "
        "acknowledgement.",
        reading=acks_of,
    )
    batch_size: int = setting("batch.size", "int", 131_072, "Maximum bytes of a batch.", at_least=1)
    buffer_memory: int = setting(
        "buffer.memory",
        "long",
        33_554_432,
        "Bytes of records that may be buffered; calls block while the buffer is full.",
        at_least=1,
    )
    compression_type: str = setting(
        "compression.type",
        "string",
        "none",
        "The codec of batches: none, gzip, snappy, lz4, zstd.",
        reading=_codec,
    )
    delivery_timeout_ms: int = setting(
        "delivery.timeout.ms",
        "int",
        120_000,
        "Time limit for a record from the call to its acknowledgement, including retries.",
        at_least=0,
    )
    enable_idempotence: bool = setting(
        "enable.idempotence",
        "boolean",
        True,
        "Whether brokers drop repeated batches, so that each record is stored once.",
    )
    linger_ms: int = setting(
        "linger.ms", "int", 5, "How long a batch waits for more records.", at_least=0
    )
    max_block_ms: int = setting(
        "max.block.ms",
        "long",
        60_000,
        "How long a call waits for room in the buffer.",
        at_least=0,
    )
    max_request_size: int = setting(
        "max.request.size", "int", 1_048_576, "Maximum size of a record in bytes.", at_least=0
    )
    partitioner: str = setting(
        "partitioner",
        "string",
        "murmur2",
        "How a key chooses the partition: murmur2 (Kafka's), consistent (CRC32, librdkafka's), "
        "random. Records without a key go to one partition until its batch is full.",
        reading=_partitioner,
    )
    transaction_timeout_ms: int = setting(
        "transaction.timeout.ms",
        "int",
        60_000,
        "How long a transaction may take before the broker aborts it.",
        at_least=1,
    )
    transactional_id: str = setting(
        "transactional.id", "string", "", "Identity of the transactional producer."
    )

    @property
    def is_idempotent(self) -> bool:
        return self.enable_idempotence and acks_of(self.acks) == ACKS["all"]


def producer_config(settings: Mapping[str, Any]) -> ProducerConfig:
    """Parses settings by Kafka's names; raises `SettingError`."""
    texts = {name: value_text(value) for name, value in settings.items()}
    config = with_values(ProducerConfig(), texts, "producer")
    if "enable.idempotence" in texts and config.enable_idempotence and not config.is_idempotent:
        raise UserError("enable.idempotence=true needs acks=all; change one of them")
    if config.transactional_id and not config.is_idempotent:
        raise UserError("transactional.id needs acks=all and enable.idempotence=true; set both")
    return config
