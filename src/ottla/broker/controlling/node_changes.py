"""The active controller's decisions about nodes: brokers, their sessions, and other controllers.

Kafka's counterparts: `ClusterControlManager`, `BrokerHeartbeatManager`, `FeatureControlManager`,
`ProducerIdControlManager`.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.timestamps import Timestamps
from ottla.base.turns import InParts
from ottla.broker.controlling.outcomes import Outcome
from ottla.broker.controlling.pending_records import PendingRecords
from ottla.broker.controlling.plans import MOST_AT_ONCE, Plans
from ottla.broker.controlling.topic_decisions import topic_defaults
from ottla.broker.controlling.warnings import fenced_line, without_leader
from ottla.config.broker import BrokerConfig
from ottla.metadata.cluster_view import NO_LEADER
from ottla.metadata.deciding.controllers import (
    ControllerRegistrationRequest,
    register_controller,
    unregister_controller,
)
from ottla.metadata.deciding.features import FeatureUpdate, Quorum, update_features
from ottla.metadata.deciding.heartbeats import (
    BrokerSessions,
    HeartbeatAnswer,
    HeartbeatRequest,
    fence,
    heartbeat,
    remaining,
)
from ottla.metadata.deciding.partition_changes import Manner, arriving
from ottla.metadata.deciding.producer_ids import ProducerIds, allocate_producer_ids
from ottla.metadata.deciding.registration import (
    RegistrationRequest,
    register_broker,
    unregister_broker,
)
from ottla.metadata.image import MetadataImage
from ottla.metadata.levels import KRAFT_VERSION
from ottla.metadata.records import PartitionChangeRecord

MAX_FEATURES: Final = 256
"""Maximum in one request: there are a handful, and each is decided on separately."""


class NodeChanges:
    def __init__(
        self,
        pending: PendingRecords,
        config: Callable[[], BrokerConfig],
        cluster_id: str,
        quorum: Callable[[], Quorum],
        at: Timestamps,
    ) -> None:
        self._pending = pending
        self._config = config
        self._cluster_id = cluster_id
        self._quorum = quorum
        self._sessions = BrokerSessions(config().broker_session_timeout_ms)
        self._sessions.begin(pending.image, pending.end_offset, at.monotonic_ms)
        self._leaving: dict[int, list[PartitionChangeRecord]] = {}
        """What has no leader any more of brokers that are being fenced."""
        self._under_way: dict[int, HeartbeatRequest] = {}
        """The heartbeats of brokers whose partitions have not all changed yet."""
        self.plans = Plans()
        if any(_leaderless(pending.image)):
            # The leader before may have unfenced a broker and not have come to all partitions.
            self.plans.begin("leaderless", self._lead_what_can_be_led())

    # Brokers

    def register_broker(
        self, request: RegistrationRequest, at: Callable[[], Timestamps]
    ) -> InParts[int]:
        """Returns the broker's epoch; raises `ApiError`."""
        broker_id, epoch = request.broker_id, None
        while True:
            image, now_ms = self._pending.image, at().monotonic_ms
            records, epoch = register_broker(
                image,
                self._cluster_id,
                request,
                end_offset=self._pending.end_offset,
                is_live=self._sessions.is_live(image, broker_id, now_ms),
                manner=Manner(topic_defaults(self._config()), MOST_AT_ONCE),
            )
            self._pending.write(records)
            if epoch is not None:
                self._sessions.registered(broker_id, epoch, now_ms)
                return epoch
            yield

    def heartbeat(self, request: HeartbeatRequest, at: Timestamps) -> HeartbeatAnswer:
        """Raises `ApiError`."""
        records, answer = heartbeat(
            self._pending.image,
            self._sessions,
            request,
            end_offset=self._pending.end_offset,
            now_ms=at.monotonic_ms,
            manner=Manner(topic_defaults(self._config()), MOST_AT_ONCE),
        )
        self._pending.write(records)
        if len(records) >= MOST_AT_ONCE:
            self._under_way[request.broker_id] = request
            self.plans.begin(request.broker_id, self._go_on(request))
        return answer

    def _go_on(self, request: HeartbeatRequest) -> Iterator[None]:
        """What a heartbeat has begun."""
        while True:
            records = remaining(
                self._pending.image,
                request,
                topic_defaults(self._config()),
                leaving_too=self._being_fenced(),
                most=MOST_AT_ONCE,
            )
            self._pending.write(records)
            broker = self._pending.image.brokers.get(request.broker_id)
            if records and broker is not None and broker.is_shutting_down:
                self._sessions.moved(request.broker_id, self._pending.end_offset - 1)
            if len(records) < MOST_AT_ONCE:
                del self._under_way[request.broker_id]
                return
            yield

    def _being_fenced(self) -> set[int]:
        """Whom nothing is given back that was taken from them."""
        wants_it = (one.broker_id for one in self._under_way.values() if one.want_fence)
        return {*self._leaving, *wants_it}

    def _lead_what_can_be_led(self) -> Iterator[None]:
        while True:
            records = arriving(
                self._pending.image,
                defaults=topic_defaults(self._config()),
                leaving=self._being_fenced(),
                most=MOST_AT_ONCE,
            )
            self._pending.write(records)
            if len(records) < MOST_AT_ONCE:
                return
            yield

    def unregister_broker(self, broker_id: int) -> InParts[None]:
        """Raises `ApiError`."""
        while True:
            image, defaults = self._pending.image, topic_defaults(self._config())
            records = unregister_broker(image, broker_id, defaults, most=MOST_AT_ONCE)
            self._pending.write(records)
            if broker_id not in self._pending.image.brokers:
                return
            yield

    def fence_silent(self, at: Timestamps) -> list[str]:
        """Fences the brokers whose sessions have ended, once others lead what they led; returns a
        line about each. Of many partitions some follow in the next calls, which are due at once:
        other nodes are answered between them.
        """
        lines, left = [], MOST_AT_ONCE
        silent = self._sessions.ended(self._pending.image, at.monotonic_ms)
        self._leaving = {one: self._leaving.get(one, []) for one in silent}
        for broker_id in silent:
            image, defaults = self._pending.image, topic_defaults(self._config())
            records = fence(image, broker_id, defaults, most=left)
            self._pending.write(records)
            self._leaving[broker_id] += without_leader(records)
            image = self._pending.image
            if image.brokers[broker_id].is_fenced:
                gone = self._leaving.pop(broker_id)
                lines.append(fenced_line(image, broker_id, gone, self._sessions.timeout_ms))
            left -= len(records)
            if left <= 0:
                break
        return lines

    @property
    def deadline_ms(self) -> float:
        """When the next session ends, or at once if partitions are left to change."""
        return min(self.plans.deadline_ms, self._sessions.deadline_ms(self._pending.image))

    def allocate_producer_ids(self, broker_id: int, epoch: int) -> ProducerIds:
        """Raises `ApiError`."""
        records, block = allocate_producer_ids(self._pending.image, broker_id, epoch)
        self._pending.write(records)
        return block

    # Controllers and features

    def register_controller(self, request: ControllerRegistrationRequest) -> None:
        """Raises `ApiError`."""
        self._pending.write(register_controller(self._pending.image, request))

    def unregister_controller(self, controller_id: int) -> None:
        """Raises `ApiError`."""
        voters = self._quorum().voters
        self._pending.write(unregister_controller(self._pending.image, voters, controller_id))

    def update_features(
        self, updates: Sequence[FeatureUpdate], *, validate_only: bool
    ) -> Sequence[Outcome]:
        """All are made or none; returns the outcome of each. Raises `ApiError`."""
        if not 0 < len(updates) <= MAX_FEATURES:
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Name 1 to {MAX_FEATURES} features to update."
            )
        if len({one.name for one in updates}) < len(updates):
            raise ApiError(ErrorCode.INVALID_REQUEST, "Each feature must appear at most once.")
        decision = update_features(
            self._pending.image, self._quorum(), updates, validate_only=validate_only
        )
        if decision.kraft_version is not None:
            return [_kraft_version_refused(decision.kraft_version)] * len(updates)
        self._pending.write(decision.records)
        return decision.errors


def _leaderless(image: MetadataImage) -> Iterator[bool]:
    for topic in image.topics.values():
        for one in topic.partitions.values():
            yield one.leader == NO_LEADER


def _kraft_version_refused(level: int) -> ApiError:
    return ApiError(
        ErrorCode.INVALID_UPDATE_VERSION,
        f"Invalid update version {level} for feature {KRAFT_VERSION}. The quorum raises it by "
        "itself, in a request without other features.",
    )
