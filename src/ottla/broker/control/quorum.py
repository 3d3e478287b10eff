"""The controller of a node of a KRaft cluster: the quorum's thread decides, if it leads there.

A result comes when the records of what was decided are committed. This node's own image has them a
little later, and handlers that ask it wait for that (`await_own`). On other nodes every verb is
refused with NOT_CONTROLLER: clients' requests do not get this far there, since they are forwarded
(`server/dispatching/forwarding.py`). Kafka's counterpart: `ControllerApis`.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.base.turns import InParts, in_one_part, turn_dict
from ottla.broker.configs.config_changes import ResourceAlteration
from ottla.broker.configs.settings import BrokerSettings
from ottla.broker.controlling.active_controller import ActiveController
from ottla.broker.controlling.outcomes import (
    NOT_YET,
    AlteredIsrs,
    ByPartition,
    CreatedTopic,
    Outcome,
    Reassignments,
    UpdatedFeatures,
)
from ottla.broker.membership.membership import QuorumMembership
from ottla.broker.metadata.image_store import ImageStore
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.topics.topics import Topic, Topics, known_topic
from ottla.broker.waiting.rooms import Later, Waiting
from ottla.metadata.altered_isr import AlteredIsr
from ottla.metadata.deciding.controllers import ControllerRegistrationRequest
from ottla.metadata.deciding.features import FeatureUpdate, UpgradeType
from ottla.metadata.deciding.heartbeats import HeartbeatAnswer, HeartbeatRequest
from ottla.metadata.deciding.producer_ids import ProducerIds
from ottla.metadata.deciding.registration import RegistrationRequest
from ottla.metadata.deciding.replica_directories import PlacedReplica
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.metadata.levels import KRAFT_VERSION
from ottla.quorum.messages import Response, UpgradeVersion, VoterAnswer

if TYPE_CHECKING:
    from ottla.broker.quotas.quota_changes import QuotaAlteration
    from ottla.broker.security.users import ScramUpsertion
    from ottla.metadata.acls import Acl, AclFilter
    from ottla.metadata.tokens import DelegationToken

T = TypeVar("T")

UPGRADE_MS: Final = 10_000
"""How long voters may take to say whether they support a level of kraft.version."""

Verb = Callable[[ActiveController], InParts[T]]


class QuorumController:
    """Made of the parts of its broker."""

    has_client_metrics: Final = True

    def __init__(
        self,
        membership: QuorumMembership[ActiveController],
        replicas: Replicas,
        topics: Topics,
        image_store: ImageStore,
        settings: BrokerSettings,
    ) -> None:
        self._membership = membership
        self._replicas = replicas
        self._topics = topics
        self._image_store = image_store
        self._settings = settings
        self._decided_offset = 0
        """The end of the log after what was decided last."""

    def await_own(self, deadline_ms: float) -> Waiting[bool] | None:
        """Waits until this node's image has what was decided through this controller; `None` if it
        has it.
        """
        if self._is_known_here():
            return None
        return self._replicas.await_metadata(self._is_known_here, deadline_ms)

    def _is_known_here(self) -> bool:
        return self._image_store.image.end_offset >= self._decided_offset

    def _decide(self, verb: Verb[T], refused: Callable[[ApiError], T]) -> Later[T]:
        """The result of a verb, or what stands for it if the verb is refused."""

        def decided(answer: tuple[T, int] | ApiError) -> T:
            if isinstance(answer, ApiError):
                return refused(answer)
            result, offset = answer
            self._decided_offset = max(self._decided_offset, offset)
            return result

        return Later(self._membership.decide(partial(_with_end, verb)), decided)

    def _decide_all(
        self, verb: Verb[Sequence[T | ApiError]], count: int
    ) -> Later[Sequence[T | ApiError]]:
        """Decides on `count` elements, which are all refused if the verb is."""
        return self._decide(verb, lambda refusal: [refusal] * count)

    def _decide_each(self, verb: Verb[Sequence[Outcome]], count: int) -> Later[Sequence[Outcome]]:
        return self._decide(verb, lambda refusal: [refusal] * count)

    # Topics

    def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool, deadline_ms: float
    ) -> Later[Sequence[CreatedTopic | ApiError]]:
        return self._decide_all(
            lambda controller: controller.create_topics(wanted, validate_only=validate_only),
            len(wanted),
        )

    def create_named(self, names: Sequence[str]) -> Mapping[str, ApiError]:
        self._membership.create_topics(names)
        return dict.fromkeys(names, NOT_YET)

    def create_partitions(
        self, wanted: Sequence[TopicGrowth], *, validate_only: bool, deadline_ms: float
    ) -> Later[Sequence[Outcome]]:
        return self._decide_each(
            lambda controller: controller.create_partitions(wanted, validate_only=validate_only),
            len(wanted),
        )

    def delete_topics(
        self, names: Sequence[str], at: Timestamps, *, deadline_ms: float
    ) -> Later[Sequence[Outcome]]:
        return self._decide_each(lambda controller: controller.delete_topics(names), len(names))

    def find_topics(self, names: Sequence[str]) -> Mapping[str, Topic]:
        image, defaults = self._image_store.image, self._settings.config.topic_defaults
        found = ((name, known_topic(self._topics, image, name, defaults)) for name in names)
        return turn_dict((name, topic) for name, topic in found if topic is not None)

    # Access

    def create_acls(self, acls: "Sequence[Acl]") -> Later[Sequence[Outcome]]:
        return self._decide_each(lambda controller: controller.create_acls(acls), len(acls))

    def delete_acls(
        self, filters: "Sequence[AclFilter]"
    ) -> "Later[Sequence[list[Acl] | ApiError]]":
        return self._decide_all(lambda controller: controller.delete_acls(filters), len(filters))

    def alter_users(self, wanted: "Sequence[ScramUpsertion]") -> Later[Mapping[str, Outcome]]:
        return self._decide(
            lambda controller: controller.alter_users(wanted),
            lambda refusal: turn_dict((one.user, refusal) for one in wanted),
        )

    def create_token(self, token: "DelegationToken") -> Later[Outcome]:
        return self._decide_one(_in_one(lambda controller: controller.create_token(token)))

    def change_token(self, token: "DelegationToken") -> Later[Outcome]:
        return self._decide_one(_in_one(lambda controller: controller.change_token(token)))

    def drop_token(self, token: "DelegationToken") -> Later[Outcome]:
        return self._decide_one(_in_one(lambda controller: controller.drop_token(token)))

    def _decide_one(self, verb: Verb[Outcome]) -> Later[Outcome]:
        return self._decide(verb, lambda refusal: refusal)

    # Settings and quotas

    def alter_configs(
        self, wanted: Sequence[ResourceAlteration], *, validate_only: bool
    ) -> Later[Sequence[Outcome]]:
        return self._decide_each(
            lambda controller: controller.alter_configs(wanted, validate_only=validate_only),
            len(wanted),
        )

    def alter_quotas(
        self,
        entries: Sequence[T],
        alteration_of: "Callable[[T], QuotaAlteration]",
        *,
        validate_only: bool,
    ) -> Later[Sequence[Outcome]]:
        return self._decide_each(
            lambda controller: controller.alter_quotas(
                entries, alteration_of, validate_only=validate_only
            ),
            len(entries),
        )

    # Leaders and replicas

    def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, *, is_unclean: bool
    ) -> Later[ByPartition]:
        return self._decide(
            lambda controller: controller.elect_leaders(partitions, is_unclean=is_unclean),
            lambda refusal: _all_refused(partitions or (), refusal),
        )

    def alter_reassignments(
        self,
        wanted: Mapping[TopicPartition, tuple[int, ...] | None],
        *,
        may_change_count: bool,
    ) -> Later[ByPartition]:
        return self._decide(
            lambda controller: controller.alter_reassignments(
                wanted, may_change_count=may_change_count
            ),
            lambda refusal: _all_refused([*wanted], refusal),
        )

    def list_reassignments(
        self, partitions: Sequence[TopicPartition] | None
    ) -> Later[Reassignments]:
        return self._decide(
            lambda controller: controller.list_reassignments(partitions),
            lambda refusal: Reassignments(refusal, {}),
        )

    # What nodes of the cluster ask

    def alter_partition(
        self, broker_id: int, broker_epoch: int, changes: Sequence[AlteredIsr], *, version: int
    ) -> Later[AlteredIsrs]:
        return self._decide(
            partial(_altered, broker_id, broker_epoch, changes),
            lambda refusal: AlteredIsrs(refusal, ()),
        )

    def allocate_producer_ids(
        self, broker_id: int, broker_epoch: int
    ) -> "Later[ProducerIds | ApiError]":
        return self._decide(
            _in_one(lambda controller: controller.allocate_producer_ids(broker_id, broker_epoch)),
            _refused,
        )

    def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool
    ) -> Later[UpdatedFeatures]:
        """The quorum itself raises `kraft.version`, which it writes without a metadata record."""
        if len(updates) == 1 and not validate_only:
            name, level, kind = updates[0]
            if name == KRAFT_VERSION and kind == UpgradeType.UPGRADE:
                request = UpgradeVersion(level, UPGRADE_MS)
                return Later(self._membership.receive(request), _upgraded)
        return self._decide(
            _in_one(
                lambda controller: UpdatedFeatures(
                    None, controller.update_features(updates, validate_only=validate_only)
                )
            ),
            lambda refusal: UpdatedFeatures(refusal, ()),
        )

    def register_broker(self, request: RegistrationRequest) -> Later[int | ApiError]:
        """The broker's epoch."""
        return self._decide(lambda controller: controller.register_broker(request), _refused)

    def heartbeat(self, request: HeartbeatRequest) -> Later[HeartbeatAnswer | ApiError]:
        return self._decide(_in_one(lambda controller: controller.heartbeat(request)), _refused)

    def unregister_broker(self, broker_id: int) -> Later[Outcome]:
        return self._decide(lambda controller: controller.unregister_broker(broker_id), _refused)

    def register_controller(self, request: ControllerRegistrationRequest) -> Later[Outcome]:
        return self._decide(
            _in_one(lambda controller: controller.register_controller(request)), _refused
        )

    def unregister_controller(self, controller_id: int) -> Later[Outcome]:
        return self._decide(
            _in_one(lambda controller: controller.unregister_controller(controller_id)), _refused
        )

    def assign_replicas_to_dirs(
        self, broker_id: int, broker_epoch: int, placed: Sequence[PlacedReplica]
    ) -> Later[Sequence[ErrorCode] | ApiError]:
        return self._decide(
            lambda controller: controller.assign_replicas_to_dirs(broker_id, broker_epoch, placed),
            _refused,
        )


def _with_end(verb: Verb[T], controller: ActiveController) -> InParts[tuple[T, int]]:
    """The result, and where the log ends with what was decided."""
    result = yield from verb(controller)
    return result, controller.end_offset


def _in_one(verb: Callable[[ActiveController], T]) -> Verb[T]:
    """A verb that decides on few things."""
    return lambda controller: in_one_part(lambda: verb(controller))


def _altered(
    broker_id: int, epoch: int, changes: Sequence[AlteredIsr], controller: ActiveController
) -> InParts[AlteredIsrs]:
    answers = yield from controller.alter_partition(broker_id, epoch, changes)
    return AlteredIsrs(None, answers)


def _refused(error: ApiError) -> ApiError:
    return error


def _upgraded(answer: Response) -> UpdatedFeatures:
    assert isinstance(answer, VoterAnswer)
    if answer.error is ErrorCode.NOT_LEADER_OR_FOLLOWER:
        return UpdatedFeatures(ApiError(ErrorCode.NOT_CONTROLLER), ())
    if answer.error is ErrorCode.NONE:
        return UpdatedFeatures(None, (None,))
    return UpdatedFeatures(None, (ApiError(answer.error, answer.message or ""),))


def _all_refused(partitions: Sequence[TopicPartition], refusal: ApiError) -> ByPartition:
    return ByPartition(refusal, turn_dict((one, refusal) for one in partitions))
