"""What differs between two images. Kafka's counterpart: `MetadataDelta`."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import field
from typing import Final, TypeVar

from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.resource_kinds import ResourceKind
from ottla.base.values import dataclass
from ottla.metadata.image import MetadataImage

K = TypeVar("K")
V = TypeVar("V")

NOTHING: Final[frozenset[TopicPartition]] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageChanges:
    """Names what differs, and perhaps more; the new values are in the image.

    A topic that was deleted and created again is in `removed_topics` with the id that it had, and
    its new partitions are in `partitions`.
    """

    partitions: Set[TopicPartition] = NOTHING
    """Those that were created or changed."""
    removed_topics: Mapping[str, Uuid] = field(default_factory=dict)
    configs: Set[tuple[int, str]] = frozenset()
    """Resources with other settings, topics among them: type and name."""
    brokers: Set[int] = frozenset()
    """Those that came, changed or went."""
    quotas: bool = False
    credentials: bool = False
    acls: bool = False
    tokens: bool = False
    features: bool = False
    controllers: bool = False

    @classmethod
    def between(cls, old: MetadataImage, new: MetadataImage) -> "ImageChanges":
        """What differs between two images, compared as a whole."""
        return cls(
            partitions=frozenset(_partitions(old, new)),
            removed_topics=dict(_removed(old, new)),
            configs=frozenset(_configs(old, new)),
            brokers=frozenset(differing(old.brokers, new.brokers)),
            quotas=_differ(old.quotas, new.quotas),
            credentials=_differ(old.credentials, new.credentials),
            acls=_differ(old.acls, new.acls),
            tokens=_differ(old.tokens, new.tokens),
            features=_differ(old.features, new.features),
            controllers=_differ(old.controllers, new.controllers),
        )

    def then(self, later: "ImageChanges") -> "ImageChanges":
        """These changes, and later ones."""
        gone = later.removed_topics
        stayed = {one for one in self.partitions if one.topic not in gone} if gone else None
        return ImageChanges(
            partitions=(self.partitions if stayed is None else stayed) | later.partitions,
            removed_topics={**gone, **self.removed_topics},
            configs=self.configs | later.configs,
            brokers=self.brokers | later.brokers,
            quotas=self.quotas or later.quotas,
            credentials=self.credentials or later.credentials,
            acls=self.acls or later.acls,
            tokens=self.tokens or later.tokens,
            features=self.features or later.features,
            controllers=self.controllers or later.controllers,
        )


def _differ(old: object, new: object) -> bool:
    """Images share what is the same; equal mappings are compared entry by entry otherwise."""
    return old is not new and old != new


def _removed(old: MetadataImage, new: MetadataImage) -> Iterator[tuple[str, Uuid]]:
    if old.topics is new.topics:
        return
    for name, topic in old.topics.items():
        after = new.topics.get(name)
        if after is not topic and (after is None or after.topic_id != topic.topic_id):
            yield name, topic.topic_id


def _partitions(old: MetadataImage, new: MetadataImage) -> Iterator[TopicPartition]:
    if old.topics is new.topics:
        return
    for name, topic in new.topics.items():
        before = old.topics.get(name)
        is_same = before is not None and before.topic_id == topic.topic_id
        known = before.partitions if before is not None and is_same else {}
        if known is topic.partitions:
            continue
        for index, partition in topic.partitions.items():
            was = known.get(index)
            if was is not partition and was != partition:
                yield TopicPartition(name, index)


def _configs(old: MetadataImage, new: MetadataImage) -> Iterator[tuple[int, str]]:
    for name in () if old.topics is new.topics else {**old.topics, **new.topics}:
        before, after = old.topics.get(name), new.topics.get(name)
        if before is not after and (before.configs if before else {}) != (
            after.configs if after else {}
        ):
            yield ResourceKind.TOPIC, name
    for kind in {**old.configs, **new.configs}:
        for name in differing(old.configs.get(kind, {}), new.configs.get(kind, {})):
            yield kind, name


def differing(old: Mapping[K, V], new: Mapping[K, V]) -> Iterator[K]:
    """The keys with another value, or with none any more."""
    if old is new:
        return
    yield from (key for key, value in new.items() if key not in old or old[key] != value)
    yield from (key for key in old if key not in new)
