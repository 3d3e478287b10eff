"""The leader of the quorum decides about the cluster's metadata.

It is a machine without I/O or clock, in the quorum's thread: verbs take typed values, decide on the
image, and leave records to be appended. They return a result, or raise `ApiError` and have changed
nothing. Those that may decide on thousands of things do so in parts, between which others are
answered, each by the image that there is then. Kafka's counterpart: `QuorumController`.
"""

from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.timestamps import Timestamps
from ottla.base.turns import InParts
from ottla.base.values import dataclass
from ottla.broker.configs.config_changes import ResourceAlteration
from ottla.broker.controlling.access_in_parts import AccessInParts
from ottla.broker.controlling.activation import activation_records
from ottla.broker.controlling.duties import Duties, Duty
from ottla.broker.controlling.node_changes import NodeChanges
from ottla.broker.controlling.outcomes import ByPartition, CreatedTopic, Outcome, Reassignments
from ottla.broker.controlling.pending_records import PendingRecords
from ottla.broker.controlling.plans import FEW_AT_ONCE, decide_in_parts
from ottla.broker.controlling.setting_changes import SettingChanges
from ottla.broker.controlling.topic_decisions import TopicDecisions
from ottla.broker.quotas.quota_changes import QuotaAlteration, altered_quotas, with_quotas
from ottla.broker.security.access_changes import AccessChanges
from ottla.config.broker import BrokerConfig
from ottla.metadata.altered_isr import AlteredIsr
from ottla.metadata.deciding.controllers import ControllerRegistrationRequest
from ottla.metadata.deciding.features import FeatureUpdate, Quorum
from ottla.metadata.deciding.heartbeats import HeartbeatAnswer, HeartbeatRequest
from ottla.metadata.deciding.idling import idle_records
from ottla.metadata.deciding.isr import IsrAnswer
from ottla.metadata.deciding.producer_ids import ProducerIds
from ottla.metadata.deciding.registration import RegistrationRequest
from ottla.metadata.deciding.replica_directories import PlacedReplica
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_changes import VersionedRecord
from ottla.metadata.log_writing import Batch

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerParts:
    """What an active controller is given by its node.

    `bootstrap` is what a new log begins with, `chance` returns a large random number, `complain`
    takes a line for people, and `quorum` says who votes, and what this controller supports.
    """

    node_id: int
    cluster_id: str
    config: Callable[[], BrokerConfig]
    new_id: Callable[[], Uuid]
    chance: Callable[[], int]
    bootstrap: Sequence[VersionedRecord]
    complain: Callable[[str], None]
    quorum: Callable[[], Quorum]


class ActiveController(AccessInParts):
    """It begins with the `image` of the whole log, whose next record gets `end_offset`.

    What is to be appended must be taken after each verb and before anything else is appended; if
    others append, such as a change of voters, `end_offset` is set to where the log then ends.
    """

    def __init__(
        self,
        parts: ControllerParts,
        image: MetadataImage,
        end_offset: int,
        epoch: int,
        at: Timestamps,
    ) -> None:
        self._parts = parts
        self._at = at
        self._pending = PendingRecords(image, end_offset, epoch, parts.complain)
        super().__init__(AccessChanges(self._pending, parts.new_id))
        self._settings = SettingChanges(self._pending, parts.config)
        min_isr = parts.config().topic_defaults.min_insync_replicas
        for records in activation_records(image, parts.bootstrap, min_isr):
            self._pending.write_parts(records)
        self._nodes = NodeChanges(self._pending, parts.config, parts.cluster_id, parts.quorum, at)
        self._topics = TopicDecisions(self._pending, parts.config, parts.new_id, parts.chance)
        self._duties = Duties(self._all_duties(), at.monotonic_ms)
        self._idle_since = self.end_offset

    # What was decided

    @property
    def image(self) -> MetadataImage:
        """With all that was decided, committed or not."""
        return self._pending.image

    @property
    def end_offset(self) -> int:
        """The offset that the next record gets."""
        return self._pending.end_offset

    @end_offset.setter
    def end_offset(self, offset: int) -> None:
        self._pending.end_offset = offset

    def take_batches(self) -> list[Batch]:
        """What is to be appended since the last call, in order, each of them atomically."""
        return self._pending.take_batches()

    # Time

    @property
    def deadline_ms(self) -> float:
        """The monotonic time at which `advance` has something to do."""
        return min(self._nodes.deadline_ms, self._duties.deadline_ms)

    def note_time(self, at: Timestamps) -> None:
        """The time that the next verbs have."""
        self._at = at

    def advance(self, at: Timestamps) -> None:
        """Does what is due, once all has been told that had come until then."""
        self._at = at
        for line in self._nodes.fence_silent(at):
            self._parts.complain(line)
        self._nodes.plans.advance()
        self._duties.advance(at.monotonic_ms)

    def _all_duties(self) -> list[Duty]:
        config = self._parts.config
        return [
            Duty(lambda: config().metadata_max_idle_interval_ms or inf, self._show_life),
            Duty(lambda: config().delegation_token_expiry_check_interval_ms, self._end_tokens),
            Duty(lambda: _balancing_interval_ms(config()), self._topics.balance),
            Duty(
                lambda: config().unclean_leader_election_interval_ms, self._topics.elect_uncleanly
            ),
        ]

    def _show_life(self) -> bool:
        """Writes a record if nothing was written in an interval, by which brokers see that they
        are not behind.
        """
        if self._idle_since == self.end_offset:
            self._pending.write(idle_records(self.image))
        self._idle_since = self.end_offset
        return False

    def _end_tokens(self) -> bool:
        self._security.end_expired_tokens(self._at.now_ms)
        return False

    # Topics

    def create_topics(
        self, wanted: Sequence[NewTopic], *, validate_only: bool
    ) -> InParts[Sequence[CreatedTopic | ApiError]]:
        """Creates topics, each named once."""
        return self._topics.create(wanted, validate_only=validate_only)

    def create_partitions(
        self, wanted: Sequence[TopicGrowth], *, validate_only: bool
    ) -> InParts[Sequence[Outcome]]:
        """Adds partitions to topics, each named once."""
        return self._topics.grow(wanted, validate_only=validate_only)

    def delete_topics(self, names: Sequence[str]) -> InParts[Sequence[Outcome]]:
        """Deletes topics, each named once."""
        return self._topics.delete(names)

    # Leaders and replicas

    def elect_leaders(
        self, partitions: Sequence[TopicPartition] | None, *, is_unclean: bool
    ) -> InParts[ByPartition]:
        """Has partitions, or all, led by their preferred replicas; see `Controller`."""
        return self._topics.elect(partitions, is_unclean=is_unclean)

    def alter_reassignments(
        self,
        wanted: Mapping[TopicPartition, tuple[int, ...] | None],
        *,
        may_change_count: bool,
    ) -> InParts[ByPartition]:
        """Moves partitions to other replicas; see `Controller`."""
        return self._topics.reassign(wanted, may_change_count=may_change_count)

    def list_reassignments(
        self, partitions: Sequence[TopicPartition] | None
    ) -> InParts[Reassignments]:
        """The moves that are under way, of some partitions or of all."""
        return self._topics.reassignments(partitions)

    def alter_partition(
        self, broker_id: int, broker_epoch: int, changes: Sequence[AlteredIsr]
    ) -> InParts[Sequence[IsrAnswer]]:
        """Changes the ISRs of partitions that a broker leads."""
        return self._topics.alter_partition(broker_id, broker_epoch, changes)

    def assign_replicas_to_dirs(
        self, broker_id: int, broker_epoch: int, placed: Sequence[PlacedReplica]
    ) -> InParts[Sequence[ErrorCode]]:
        """Notes in which directories a broker has its replicas."""
        return self._topics.assign_directories(broker_id, broker_epoch, placed)

    # Nodes

    def register_broker(self, request: RegistrationRequest) -> InParts[int]:
        """Returns the broker's epoch."""
        return self._nodes.register_broker(request, lambda: self._at)

    def heartbeat(self, request: HeartbeatRequest) -> HeartbeatAnswer:
        """Says whether a broker may serve, or stop; its session begins again."""
        return self._nodes.heartbeat(request, self._at)

    def unregister_broker(self, broker_id: int) -> InParts[None]:
        """Forgets a broker, which will not come back."""
        return self._nodes.unregister_broker(broker_id)

    def register_controller(self, request: ControllerRegistrationRequest) -> None:
        self._nodes.register_controller(request)

    def unregister_controller(self, controller_id: int) -> None:
        """Forgets a controller, which votes no more and will not come back."""
        self._nodes.unregister_controller(controller_id)

    def allocate_producer_ids(self, broker_id: int, epoch: int) -> ProducerIds:
        return self._nodes.allocate_producer_ids(broker_id, epoch)

    def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool
    ) -> Sequence[Outcome]:
        """All are made or none; returns the outcome of each."""
        return self._nodes.update_features(updates, validate_only=validate_only)

    # Settings and quotas

    def alter_configs(
        self, wanted: Sequence[ResourceAlteration], *, validate_only: bool
    ) -> InParts[Sequence[Outcome]]:
        """Changes the settings of resources, each named once; returns the outcome of each."""
        return self._settings.alter(wanted, validate_only=validate_only)

    def alter_quotas(
        self,
        entries: Sequence[T],
        alteration_of: Callable[[T], QuotaAlteration],
        *,
        validate_only: bool,
    ) -> InParts[Sequence[Outcome]]:
        """Changes the quotas of entities, each named in one entry; returns the outcome of each."""
        outcomes: list[Outcome] = []

        def decide(part: list[T]) -> None:
            image = self._pending.image
            of_entities, decided = altered_quotas(image.quotas, part, alteration_of)
            outcomes.extend(decided)
            if not validate_only:
                self._pending.write(with_quotas(image, of_entities)[1])

        yield from decide_in_parts(entries, decide, FEW_AT_ONCE)
        return outcomes


def _balancing_interval_ms(config: BrokerConfig) -> float:
    if not config.auto_leader_rebalance_enable:
        return inf
    return config.leader_imbalance_check_interval_seconds * 1000.0
