"""The topics that the metadata log of a directory has.

A directory without a metadata log has none, and then every partition in it counts. Format page:
docs/format/cluster-metadata.md.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final

from ottla.base.files import FileSystem
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.values import dataclass
from ottla.storage.files.metadata_files import has_metadata_log, read_metadata_log

if TYPE_CHECKING:
    from ottla.metadata.image import MetadataImage, TopicImage

REMOTE_STORAGE_ENABLE: Final = "remote.storage.enable"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTopics:
    """The topics by name, and the ids of deleted topics that a directory may still contain."""

    entries: "Mapping[str, TopicImage]" = field(default_factory=dict)
    gone: frozenset[Uuid] = frozenset()
    is_found: bool = True
    """Whether there is a metadata log at all."""

    def still_has(self, topic: str, partition: int) -> bool:
        """Whether a partition in a checkpoint belongs to a topic that was not deleted.

        Without a metadata log all partitions count.
        """
        if not self.is_found:
            return True
        entry = self.entries.get(topic)
        return entry is not None and partition in entry.partitions

    def is_tiered(self, topic: str) -> bool:
        """Whether a topic is known to have a remote tier, so that its first segments may be there
        only.
        """
        entry = self.entries.get(topic)
        text = "" if entry is None else entry.configs.get(REMOTE_STORAGE_ENABLE, "")
        return text.strip().lower() == "true"

    def owner(self, topic_id: Uuid, name: str) -> str | None:
        """The topic with an id, `name` if that topic has it; `None` if there is none."""
        here = self.entries.get(name)
        if topic_id == ZERO_UUID or (here is not None and here.topic_id == topic_id):
            return name
        entries = self.entries.values()
        return next((entry.name for entry in entries if entry.topic_id == topic_id), None)


NO_TOPICS = KnownTopics(is_found=False)


def read_known_topics(file_system: FileSystem, directory: str) -> KnownTopics:
    """The topics of a directory's metadata log, before its damage if it is damaged; raises
    `OSError`.
    """
    if not has_metadata_log(file_system, directory):
        return NO_TOPICS
    return known_topics_of(read_metadata_log(file_system, directory).content)


def known_topics_of(image: "MetadataImage") -> KnownTopics:
    """The topics of an image; of a cluster with several brokers each has only some partitions."""
    return KnownTopics(
        is_found=len(image.brokers) < 2,
        entries=image.topics,
        gone=image.removed,
    )
