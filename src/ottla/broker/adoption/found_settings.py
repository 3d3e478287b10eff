"""The settings found in a broker's directories, and why those of some topics are unknown."""

from dataclasses import field
from enum import Enum, auto

from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.broker.adoption.adoption_file import Adoption
from ottla.broker.configs.cluster_file import ClusterState
from ottla.broker.security.security_file import SecurityState
from ottla.broker.topics.topic_rules import INTERNAL_TOPICS
from ottla.storage.files.topic_file import TopicFile


class SettingsPlace(Enum):
    """Where the settings of topics are that have no entry in Ottla's topic file."""

    NOWHERE = auto()
    ZOOKEEPER = auto()
    METADATA_LOG = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundSettings:
    """The settings found; `known`, `cluster` and `adoption` are the states to write to the disks.

    `is_import`: they differ from the disks' states because of an import. `place` says where the
    settings of topics without an entry are, and `reason` why these settings are unknown.
    """

    known: TopicFile
    cluster: ClusterState
    adoption: Adoption
    place: SettingsPlace
    reason: str
    security: SecurityState = field(default_factory=SecurityState)
    next_producer_id: int = 0
    is_import: bool = False
    is_log_read: bool = False
    """Whether a metadata log is here and is readable or already imported: then all settings are
    known, except for topics that the log does not contain.
    """
    unread: str | None = None
    """Why the metadata log cannot be read, if nothing was ever imported from it: then quotas,
    users, ACLs and settings of brokers and groups are unknown too.
    """
    lines: tuple[str, ...] = ()
    """Messages about the import."""

    def why_unknown(self, topic: str, topic_id: Uuid | None) -> str | None:
        """Returns why the settings of a topic on disk are unknown; `None` if they are known."""
        if topic in INTERNAL_TOPICS:
            return None
        if topic in self.adoption.unknown:
            return self.adoption.unknown[topic]
        entry = self.known.entries.get(topic)
        is_known = entry is not None and topic_id in (None, entry.topic_id)
        return None if is_known else self.reason
