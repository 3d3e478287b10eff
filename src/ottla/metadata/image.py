"""The metadata of a cluster: its topics, settings, quotas, users, access rules, tokens and nodes.

Images are immutable and share what is the same in them. Kafka's counterpart: `MetadataImage`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, TypeVar

from ottla.base.ids import Uuid
from ottla.base.scram import Credentials
from ottla.base.turns import in_turns
from ottla.base.values import dataclass
from ottla.metadata.acls import Acl, Entry, ResourcePattern
from ottla.metadata.quotas import Quotas
from ottla.metadata.tokens import DelegationToken

if TYPE_CHECKING:  # Lazy: a start on an empty directory needs no records.
    from ottla.metadata.records import RegisterBrokerRecord, RegisterControllerRecord

K = TypeVar("K")
V = TypeVar("V")

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
CLIENT_METRICS_RESOURCE = 16
GROUP_RESOURCE = 32
"""The types of resources with settings (Kafka: `ConfigResource.Type`)."""

ALL_BROKERS = ""
"""The name of the resource with the settings of all brokers."""

Configs = Mapping[str, str]

Acls = Mapping[ResourcePattern, Mapping[Entry, tuple[Uuid, ...]]]
"""The rules of each pattern of resources, with the ids of their records in a metadata log: an equal
rule may have several, and none where ZooKeeper has the rules. No pattern is without rules.
"""


def merged(known: Mapping[K, V], changed: Mapping[K, V | None]) -> dict[K, V]:
    """Replaces some values, in turns; those that are `None` or empty are removed."""
    result = dict(known)
    for key, value in in_turns(changed.items()):
        if value:
            result[key] = value
        else:
            result.pop(key, None)
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """The controller's state of a partition."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    directories: tuple[Uuid, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicImage:
    name: str
    topic_id: Uuid
    partitions: Mapping[int, PartitionImage]
    configs: Configs = field(default_factory=dict)

    @property
    def partition_count(self) -> int:
        return max(self.partitions, default=-1) + 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataImage:
    """The metadata of a cluster.

    `end_offset` is the offset after the last record, `epoch` the leader epoch of the last batch.
    """

    end_offset: int = 0
    epoch: int = 0
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    configs: Mapping[int, Mapping[str, Configs]] = field(default_factory=dict)
    """The settings of brokers, groups and client metrics, by the type of resource and its name;
    topics have their own.
    """
    quotas: Quotas = field(default_factory=dict)
    credentials: Credentials = field(default_factory=dict)
    acls: Acls = field(default_factory=dict)
    tokens: Mapping[str, DelegationToken] = field(default_factory=dict)
    features: Mapping[str, int] = field(default_factory=dict)
    brokers: "Mapping[int, RegisterBrokerRecord]" = field(default_factory=dict)
    controllers: "Mapping[int, RegisterControllerRecord]" = field(default_factory=dict)
    next_producer_id: int = 0
    zk_migration_state: int = 0
    voters: frozenset[int] = frozenset()
    """The controllers that vote, by the last record that names them."""
    removed: frozenset[Uuid] = frozenset()
    """The ids of topics that were deleted since the last snapshot."""

    def configs_of(self, kind: int, name: str) -> Configs:
        """The settings of one resource."""
        return self.configs.get(kind, {}).get(name, {})

    def with_configs(self, kind: int, changed: Mapping[str, Configs]) -> "MetadataImage":
        """With other settings of some resources of a type."""
        of_kind = merged(self.configs.get(kind, {}), changed)
        return replace(self, configs=merged(self.configs, {kind: of_kind}))

    def all_acls(self) -> Iterator[Acl]:
        for pattern, entries in self.acls.items():
            for entry in entries:
                yield Acl(pattern, entry)

    @property
    def acl_count(self) -> int:
        return sum(map(len, self.acls.values()))
