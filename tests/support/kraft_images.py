"""Images of clusters with KRaft, for decisions on them."""

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.base.ids import Uuid
from ottla.codec.api_messages import encode_record
from ottla.metadata.brokers import BrokerRegistration, Endpoint
from ottla.metadata.image import METADATA_VERSION, MetadataImage
from ottla.metadata.levels import SUPPORTED
from ottla.metadata.record_versions import VersionedRecord
from ottla.metadata.records import Feature as FeatureRange
from ottla.metadata.records import (
    FeatureLevelRecord,
    PartitionRecord,
    RegisterControllerRecord,
    TopicRecord,
    decode_record,
)
from ottla.metadata.replay import MetadataReplay
from ottla.metadata.values import broker_record

CLUSTER = "cluster"


def an_id(number: int) -> Uuid:
    return Uuid((1 << 100 | number).to_bytes(16, "big"))


def ranges(supported: Mapping[str, tuple[int, int]] = SUPPORTED) -> dict[str, dict[str, int]]:
    return {
        name: {"min_version": low, "max_version": high} for name, (low, high) in supported.items()
    }


def a_broker(number: int = 1, **changes: Any) -> BrokerRegistration:
    """What a broker says of itself, with one directory."""
    fields: dict[str, Any] = {
        "endpoints": (
            Endpoint(listener="L", host="h", port=9092 + number, security_protocol="PLAINTEXT"),
        ),
        "features": ranges(),
        "incarnation_id": an_id(100 + number),
        "directories": (an_id(200 + number),),
    }
    return BrokerRegistration(**{**fields, **changes})


def a_controller(number: int, supported: Mapping[str, tuple[int, int]]) -> RegisterControllerRecord:
    return RegisterControllerRecord(
        controller_id=number,
        incarnation_id=an_id(300 + number),
        end_points=[],
        features=[
            FeatureRange(name=name, min_supported_version=low, max_supported_version=high)
            for name, (low, high) in supported.items()
        ],
    )


def then(image: MetadataImage, records: Iterable[VersionedRecord]) -> MetadataImage:
    """The image after records, each as it is read in its version."""
    replay = MetadataReplay.of(image)
    for record, version in records:
        again, _ = decode_record(encode_record(record, version))
        replay.replay(again)
        replay.end_offset += 1
    return replay.image()


def an_image(
    level: int = SUPPORTED[METADATA_VERSION][1],
    brokers: Mapping[int, BrokerRegistration] | None = None,
    partitions: Mapping[int, tuple[int, ...]] | None = None,
    **features: int,
) -> MetadataImage:
    """A cluster with brokers and one topic `t`, whose partitions have these replicas, all of them
    in sync, and the first one as leader. Features have `_` for `.`.
    """
    levels = {METADATA_VERSION: level, **{k.replace("_", "."): v for k, v in features.items()}}
    image = then(
        MetadataImage(),
        [(FeatureLevelRecord(name=k, feature_level=v), 0) for k, v in levels.items()],
    )
    brokers = brokers or {}
    registered = [broker_record(number, broker) for number, broker in brokers.items()]
    replay = MetadataReplay.of(image)
    for record in registered:
        replay.replay(record)
    if partitions is not None:
        replay.replay(TopicRecord(name="t", topic_id=an_id(1)))
    for index, replicas in (partitions or {}).items():
        replay.replay(
            PartitionRecord(
                partition_id=index,
                topic_id=an_id(1),
                replicas=[*replicas],
                isr=[*replicas],
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=[(brokers[one].directories or (an_id(0),))[0] for one in replicas],
            )
        )
    return replay.image()
