"""The controller of a broker in a cluster over ZooKeeper: another broker may be it.

Settings, users, rules and tokens are nodes that every broker may change; topics, replicas and
leaders are decided by the controller's broker, to which requests are passed on.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.base.turns import freed_in_turns, in_turns, turn_dict
from ottla.base.values import dataclass
from ottla.broker.configs.config_changes import ResourceAlteration
from ottla.broker.configs.settings import BrokerSettings
from ottla.broker.control import zookeeper_access as access
from ottla.broker.control import zookeeper_configs as configs
from ottla.broker.control import zookeeper_topics
from ottla.broker.control.controller import Soon
from ottla.broker.controlling.outcomes import (
    NOT_YET,
    AlteredIsrs,
    ByPartition,
    CreatedTopic,
    Outcome,
    Reassignments,
    UpdatedFeatures,
)
from ottla.broker.membership.membership import ZooKeeperMembership
from ottla.broker.quotas.quota_changes import QuotaAlteration
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.security.security import Security
from ottla.broker.security.users import ScramUpsertion
from ottla.broker.topics.topics import Topic, Topics
from ottla.broker.waiting.rooms import Later
from ottla.controller import tokens
from ottla.controller.events import (
    AllocateProducerIds,
    AlterPartition,
    AlterReassignments,
    Answer,
    ElectLeaders,
    ListReassignments,
    UpdateFeature,
)
from ottla.controller.operations import Steps
from ottla.controller.tokens import FoundTokens
from ottla.metadata.acls import Acl, AclFilter
from ottla.metadata.altered_isr import AlteredIsr
from ottla.metadata.deciding.features import FeatureUpdate
from ottla.metadata.deciding.producer_ids import ProducerIds
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.metadata.tokens import DelegationToken

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperController:
    """Made of the parts of its broker."""

    has_client_metrics = False

    node_id: int
    membership: ZooKeeperMembership
    replicas: Replicas
    topics: Topics
    security: Security
    settings: BrokerSettings
    new_id: Callable[[], Uuid]

    # Topics

    @property
    def _member(self) -> zookeeper_topics.Member:
        return zookeeper_topics.Member(self.membership, self.replicas)

    def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool, deadline_ms: float
    ) -> Soon[Sequence[CreatedTopic | ApiError]]:
        return zookeeper_topics.create_topics(
            self._member,
            self.settings.config,
            wanted,
            self.new_id,
            validate_only=validate_only,
            deadline_ms=deadline_ms,
        )

    def create_named(self, names: Sequence[str]) -> Mapping[str, ApiError]:
        self.membership.create_topics(names)
        return dict.fromkeys(names, NOT_YET)

    def create_partitions(
        self, wanted: Sequence[TopicGrowth], *, validate_only: bool, deadline_ms: float
    ) -> Soon[Sequence[Outcome]]:
        return zookeeper_topics.create_partitions(
            self._member, wanted, validate_only=validate_only, deadline_ms=deadline_ms
        )

    def delete_topics(
        self, names: Sequence[str], at: Timestamps, *, deadline_ms: float
    ) -> Soon[Sequence[Outcome]]:
        return zookeeper_topics.delete_topics(self._member, names, deadline_ms)

    def find_topics(self, names: Sequence[str]) -> Soon[Mapping[str, Topic]]:
        return zookeeper_topics.find_topics(self._member, self.topics, self.settings.config, names)

    # Access

    def create_acls(self, acls: Sequence[Acl]) -> Later[Sequence[Outcome]]:
        return access.create_acls(self.membership, acls)

    def delete_acls(self, filters: Sequence[AclFilter]) -> Later[Sequence[list[Acl] | ApiError]]:
        return access.delete_acls(self.membership, filters, self.security.image.acls)

    def alter_users(self, wanted: Sequence[ScramUpsertion]) -> Later[Mapping[str, Outcome]]:
        return access.alter_users(self.membership, wanted)

    def create_token(self, token: DelegationToken) -> Later[Outcome]:
        return self._change_token(partial(tokens.create_token, token))

    def change_token(self, token: DelegationToken) -> Later[Outcome]:
        return self._change_token(partial(tokens.change_token, token))

    def drop_token(self, token: DelegationToken) -> Later[Outcome]:
        return self._change_token(partial(tokens.drop_token, token.token_id))

    def _change_token(self, make: Callable[[], Steps[FoundTokens | ApiError]]) -> Later[Outcome]:
        def outcome(result: FoundTokens | ApiError) -> Outcome:
            return result if isinstance(result, ApiError) else None

        return Later(self.membership.change_token(make), outcome)

    # Settings and quotas

    def _known(self) -> configs.Known:
        return configs.Known(self.node_id, self.settings, self.replicas.metadata)

    def alter_configs(
        self, wanted: Sequence[ResourceAlteration], *, validate_only: bool
    ) -> Later[Sequence[Outcome]]:
        return configs.alter_configs(
            self.membership, self._known(), wanted, validate_only=validate_only
        )

    def alter_quotas(
        self,
        entries: Sequence[T],
        alteration_of: Callable[[T], QuotaAlteration],
        *,
        validate_only: bool,
    ) -> Later[Sequence[Outcome]]:
        return access.alter_quotas(
            self.membership, entries, alteration_of, validate_only=validate_only
        )

    # Leaders and replicas

    def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, *, is_unclean: bool
    ) -> Later[ByPartition]:
        event = ElectLeaders(pending_id=None, partitions=partitions, is_unclean=is_unclean)
        return Later(self.membership.ask([event]), partial(_by_partition, partitions or ()))

    def alter_reassignments(
        self,
        wanted: Mapping[TopicPartition, tuple[int, ...] | None],
        *,
        may_change_count: bool,
    ) -> Later[ByPartition]:
        event = AlterReassignments(
            pending_id=None, wanted=wanted, may_change_count=may_change_count
        )
        return Later(self.membership.ask([event]), partial(_by_partition, wanted))

    def list_reassignments(
        self, partitions: Sequence[TopicPartition] | None
    ) -> Later[Reassignments]:
        def found(answers: list[Answer]) -> Reassignments:
            (answer,) = answers
            freed_in_turns(partitions or ())
            return Reassignments(_outcome(answer.error), answer.reassignments)

        event = ListReassignments(pending_id=None, partitions=partitions)
        return Later(self.membership.ask([event]), found)

    # What brokers ask

    def alter_partition(
        self, broker_id: int, broker_epoch: int, changes: Sequence[AlteredIsr], *, version: int
    ) -> Later[AlteredIsrs]:
        def answered(answers: list[Answer]) -> AlteredIsrs:
            (answer,) = answers
            freed_in_turns(changes)
            return AlteredIsrs(_outcome(answer.error), answer.altered)

        event = AlterPartition(
            pending_id=None,
            broker=broker_id,
            broker_epoch=broker_epoch,
            changes=changes,
            version=version,
        )
        return Later(self.membership.ask([event]), answered)

    def allocate_producer_ids(
        self, broker_id: int, broker_epoch: int
    ) -> Later[ProducerIds | ApiError]:
        def answered(answers: list[Answer]) -> ProducerIds | ApiError:
            (answer,) = answers
            block = answer.producer_ids
            if block is None:
                return ApiError(answer.error)
            return ProducerIds(block.start, block.end - block.start + 1)

        event = AllocateProducerIds(pending_id=None, broker=broker_id, broker_epoch=broker_epoch)
        return Later(self.membership.ask([event]), answered)

    def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool
    ) -> Soon[UpdatedFeatures]:
        if not self.membership.is_controller:
            return UpdatedFeatures(ApiError(ErrorCode.NOT_CONTROLLER), ())
        if validate_only:
            reason = "A cluster over ZooKeeper does not say whether an update would work."
            return UpdatedFeatures(ApiError(ErrorCode.INVALID_REQUEST, reason), ())

        def answered(answers: list[Answer]) -> UpdatedFeatures:
            return UpdatedFeatures(None, [_outcome(one.error) for one in answers])

        events = [
            UpdateFeature(pending_id=None, name=one.name, max_version_level=one.level)
            for one in updates
        ]
        return Later(self.membership.ask(events), answered)


def _by_partition(wanted: Collection[TopicPartition], answers: list[Answer]) -> ByPartition:
    """The answer to one request; its error is that of each partition that it does not name."""
    (answer,) = answers
    freed_in_turns(wanted)
    codes = answer.errors
    if answer.error:
        codes = turn_dict((one, codes.get(one, answer.error)) for one in wanted)
    outcomes = ((place, _outcome(code)) for place, code in in_turns(codes.items()))
    return ByPartition(_outcome(answer.error), turn_dict(outcomes))


def _outcome(code: ErrorCode) -> Outcome:
    return ApiError(code) if code else None
