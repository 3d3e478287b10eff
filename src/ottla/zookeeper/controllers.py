"""Nodes of the cluster: its id, controller, producer ids and features.

Kafka's counterparts: `ControllerZNode`, `ControllerEpochZNode`, `ClusterIdZNode`,
`ProducerIdBlockZNode`, `FeatureZNode`.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final

from ottla.base.values import dataclass
from ottla.zookeeper.nodes import decode_node, decode_number, encode_node, number, text
from ottla.zookeeper.paths import (
    CLUSTER_ID,
    CONTROLLER,
    CONTROLLER_EPOCH,
    FEATURE,
    PRODUCER_ID_BLOCK,
)

NO_KRAFT_CONTROLLER: Final = -1
BLOCK_SIZE: Final = 1000
"""The number of producer ids in a block."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerRegistration:
    """`/controller`, ephemeral. A migrating KRaft controller also writes its epoch."""

    broker_id: int
    timestamp_ms: int = 0
    kraft_epoch: int = NO_KRAFT_CONTROLLER


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdBlock:
    """The last allocated block, `end` inclusive, and the broker that allocated it."""

    broker_id: int
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureState:
    """`/feature` (KIP-584): names with `max_version_level`, in version 1 also a minimum."""

    is_enabled: bool
    features: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    version: int = 2


def encode_cluster_id(cluster_id: str) -> bytes:
    return encode_node({"version": "1", "id": cluster_id})


def decode_cluster_id(content: bytes | None) -> str:
    return decode_node(CLUSTER_ID, content, lambda fields: text(fields["id"]))


def encode_controller(controller: ControllerRegistration) -> bytes:
    return encode_node(
        {
            "version": 2,
            "brokerid": controller.broker_id,
            "timestamp": str(controller.timestamp_ms),
            "kraftControllerEpoch": controller.kraft_epoch,
        }
    )


def decode_controller(content: bytes | None) -> ControllerRegistration:
    """Decodes `/controller`; version 1 has no `kraftControllerEpoch`. Raises `NodeError`."""
    return decode_node(CONTROLLER, content, _parse_controller)


def _parse_controller(fields: Any) -> ControllerRegistration:
    return ControllerRegistration(
        broker_id=number(fields["brokerid"]),
        timestamp_ms=int(fields.get("timestamp", 0)),
        kraft_epoch=number(fields.get("kraftControllerEpoch", NO_KRAFT_CONTROLLER)),
    )


def encode_controller_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


def decode_controller_epoch(content: bytes | None) -> int:
    return decode_number(CONTROLLER_EPOCH, content)


def encode_producer_ids(block: ProducerIdBlock) -> bytes:
    return encode_node(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.start),
            "block_end": str(block.end),
        }
    )


def decode_producer_ids(content: bytes | None) -> ProducerIdBlock | None:
    """Decodes the last block; `None` if the node has no content: no block was allocated yet."""
    if not content:
        return None
    return decode_node(PRODUCER_ID_BLOCK, content, _parse_producer_ids)


def _parse_producer_ids(fields: Any) -> ProducerIdBlock:
    return ProducerIdBlock(
        broker_id=number(fields["broker"]),
        start=int(fields["block_start"]),
        end=int(fields["block_end"]),
    )


def next_producer_ids(last: ProducerIdBlock | None, broker_id: int) -> ProducerIdBlock:
    """The block after the last one, for a broker."""
    start = 0 if last is None else last.end + 1
    return ProducerIdBlock(broker_id=broker_id, start=start, end=start + BLOCK_SIZE - 1)


def encode_features(state: FeatureState) -> bytes:
    return encode_node(
        {
            "features": {name: dict(one) for name, one in state.features.items()},
            "version": state.version,
            "status": int(state.is_enabled),
        }
    )


def decode_features(content: bytes | None) -> FeatureState:
    return decode_node(FEATURE, content, _parse_features)


def _parse_features(fields: Any) -> FeatureState:
    version, status = number(fields["version"]), number(fields["status"])
    if version < 1 or status not in (0, 1):
        raise ValueError(f"version {version}, status {status}")
    return FeatureState(
        is_enabled=bool(status),
        features={
            name: {label: number(level) for label, level in one.items()}
            for name, one in (fields.get("features") or {}).items()
        },
        version=version,
    )
