"""The verbs that change a cluster's metadata, whichever way they are carried out.

Handlers ask a `Controller` and nothing else, and never what kind of broker they run in. A broker
alone decides and writes at once; a member of a cluster over ZooKeeper has another thread ask the
controller or change nodes, and the result comes later; a node of a KRaft cluster has the quorum's
thread decide. A change is durable when its result is there, and in effect on this broker, or in a
KRaft cluster soon. Kafka's counterpart: `Controller`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.broker.controlling.outcomes import (
    AlteredIsrs,
    ByPartition,
    CreatedTopic,
    Outcome,
    Reassignments,
    UpdatedFeatures,
)
from ottla.broker.topics.topics import Topic
from ottla.broker.waiting.rooms import Later
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth

if TYPE_CHECKING:
    from ottla.broker.configs.config_changes import ResourceAlteration
    from ottla.broker.quotas.quota_changes import QuotaAlteration
    from ottla.broker.security.users import ScramUpsertion
    from ottla.metadata.acls import Acl, AclFilter
    from ottla.metadata.altered_isr import AlteredIsr
    from ottla.metadata.deciding.features import FeatureUpdate
    from ottla.metadata.deciding.producer_ids import ProducerIds
    from ottla.metadata.tokens import DelegationToken

T = TypeVar("T")

Soon: TypeAlias = T | Later[T]


class Controller(Protocol):
    @property
    def has_client_metrics(self) -> bool:
        """Whether clients' metrics are resources with settings: not in ZooKeeper."""

    # Topics

    def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool, deadline_ms: float
    ) -> Soon[Sequence[CreatedTopic | ApiError]]:
        """Creates topics, each named once. Their partitions have leaders when the result is there,
        or it says that the deadline is over.
        """

    def create_named(self, names: Sequence[str]) -> Mapping[str, ApiError]:
        """Begins to create topics that a client has named, with the defaults of a topic; returns
        why those do not exist yet that do not.
        """

    def create_partitions(
        self, wanted: Sequence[TopicGrowth], *, validate_only: bool, deadline_ms: float
    ) -> Soon[Sequence[Outcome]]:
        """Adds partitions to topics, each named once."""

    def delete_topics(
        self, names: Sequence[str], at: Timestamps, *, deadline_ms: float
    ) -> Soon[Sequence[Outcome]]:
        """Deletes existing topics, each named once."""

    def find_topics(self, names: Sequence[str]) -> Soon[Mapping[str, Topic]]:
        """Those of the topics that exist, with their settings."""

    # Access

    def create_acls(self, acls: "Sequence[Acl]") -> Soon[Sequence[Outcome]]:
        """Adds rules; returns the outcome of each. Existing ones are not doubled."""

    def delete_acls(self, filters: "Sequence[AclFilter]") -> "Soon[Sequence[list[Acl] | ApiError]]":
        """Removes the rules that match the filters; returns those of each filter, or its error."""

    def alter_users(self, wanted: "Sequence[ScramUpsertion]") -> Soon[Mapping[str, Outcome]]:
        """Sets and removes passwords; returns the outcome of each user."""

    def create_token(self, token: "DelegationToken") -> Soon[Outcome]: ...

    def change_token(self, token: "DelegationToken") -> Soon[Outcome]: ...

    def drop_token(self, token: "DelegationToken") -> Soon[Outcome]: ...

    # Settings and quotas

    def alter_configs(
        self, wanted: "Sequence[ResourceAlteration]", *, validate_only: bool
    ) -> Soon[Sequence[Outcome]]:
        """Changes the settings of resources, each named once; returns the outcome of each."""

    def alter_quotas(
        self,
        entries: Sequence[T],
        alteration_of: "Callable[[T], QuotaAlteration]",
        *,
        validate_only: bool,
    ) -> Soon[Sequence[Outcome]]:
        """Changes the quotas of entities, each named in one entry; returns the outcome of each.

        `alteration_of` raises `ApiError` for an invalid entry.
        """

    # Leaders and replicas

    def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, *, is_unclean: bool
    ) -> Soon[ByPartition]:
        """Has partitions, or all, led by their preferred replicas; with `is_unclean` has those
        without a leader led by any. Of all, those are named whose leader changed, or is missing.
        """

    def alter_reassignments(
        self,
        wanted: Mapping[TopicPartition, tuple[int, ...] | None],
        *,
        may_change_count: bool,
    ) -> Soon[ByPartition]:
        """Moves partitions to other replicas; `None` cancels a move. Without `may_change_count` a
        partition keeps its number of replicas (KIP-860).
        """

    def list_reassignments(
        self, partitions: Sequence[TopicPartition] | None
    ) -> Soon[Reassignments]:
        """The moves that are under way, of some partitions or of all."""


class ClusterController(Controller, Protocol):
    """What brokers of a cluster ask its controller too."""

    def alter_partition(
        self, broker_id: int, broker_epoch: int, changes: "Sequence[AlteredIsr]", *, version: int
    ) -> Soon[AlteredIsrs]:
        """Changes the ISRs of partitions that a broker leads; `version` is that of the request."""

    def allocate_producer_ids(
        self, broker_id: int, broker_epoch: int
    ) -> "Later[ProducerIds | ApiError]":
        """The next block of producer ids."""

    def update_features(
        self, updates: "Sequence[FeatureUpdate]", *, validate_only: bool
    ) -> Soon[UpdatedFeatures]:
        """Raises or lowers levels of features."""
