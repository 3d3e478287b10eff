"""Images of clusters with KRaft that have one topic, by its partitions."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ottla.base.ids import Uuid
from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.image import METADATA_VERSION, MetadataImage, PartitionImage, TopicImage
from ottla.metadata.levels import ELR_VERSION

TOPIC = "t"
TOPIC_ID = Uuid(b"t" * 16)
ELR = {METADATA_VERSION: 23, ELR_VERSION: 1}


def directory(broker_id: int, number: int = 0) -> Uuid:
    return Uuid(bytes([1]) * 13 + bytes([number]) + broker_id.to_bytes(2, "big"))


def broker(broker_id: int, **values: object) -> BrokerRegistration:
    known: dict[str, object] = {
        "endpoints": (),
        "epoch": 100 + broker_id,
        "directories": (directory(broker_id),),
    }
    return BrokerRegistration(**(known | values))  # type: ignore[arg-type]


def partition(
    replicas: tuple[int, ...], isr: tuple[int, ...] | None = None, **values: object
) -> PartitionImage:
    """Led by the first one in sync, unless something else is said."""
    in_sync = replicas if isr is None else isr
    known: dict[str, object] = {
        "replicas": replicas,
        "isr": in_sync,
        "leader": in_sync[0] if in_sync else -1,
        "leader_epoch": 5,
        "partition_epoch": 9,
        "directories": tuple(map(directory, replicas)),
    }
    return PartitionImage(**(known | values))  # type: ignore[arg-type]


def cluster(
    *partitions: PartitionImage,
    fenced: Iterable[int] = (),
    configs: Mapping[str, str] | None = None,
    features: Mapping[str, int] | None = None,
    count: int = 4,
) -> MetadataImage:
    """Brokers 1 to `count`, and one topic."""
    topic = TopicImage(TOPIC, TOPIC_ID, dict(enumerate(partitions)), configs or {})
    return MetadataImage(
        topics={TOPIC: topic} if partitions else {},
        topic_names={TOPIC_ID: TOPIC} if partitions else {},
        features=features or {METADATA_VERSION: 21},
        brokers={one: broker(one, is_fenced=one in fenced) for one in range(1, count + 1)},
    )


def with_brokers(image: MetadataImage, **changes: BrokerRegistration) -> MetadataImage:
    """`_1=...` replaces broker 1."""
    brokers = {int(name[1:]): one for name, one in changes.items()}
    return replace(image, brokers={**image.brokers, **brokers})


def partitions_of(image: MetadataImage) -> list[PartitionImage]:
    return list(image.topics[TOPIC].partitions.values())
