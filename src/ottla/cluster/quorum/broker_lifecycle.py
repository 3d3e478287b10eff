"""A broker's registration with the controllers of a KRaft cluster, as a machine without I/O.

    lifecycle = BrokerLifecycle(options, now_ms)
    request = lifecycle.next_request(end_offset, now_ms)
    lifecycle.answered(response, now_ms)

The caller sends a request, hands its answer in, and asks again at `due_ms`. Times are of the
monotonic clock. Kafka's counterpart: `BrokerLifecycleManager`.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.metadata.brokers import Endpoint, listeners_of, supported_of
from ottla.metadata.levels import offered
from ottla.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)
from ottla.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Feature,
    Listener,
)

NO_EPOCH: Final = -1

EARLY_MS: Final = 10.0
"""Until the broker has caught up: then a start that has nothing else to do takes little time."""

SHUTDOWN_MS: Final = 50.0
"""The pause after the first answer to a broker that wants to stop: often all is done by then."""

LONGEST_SHUTDOWN_MS: Final = 400.0
"""That after later ones, to which it doubles; Kafka's brokers wait for a whole interval."""

FIRST_BACKOFF_MS: Final = 100.0

FIRST_WITH_DIRECTORIES: Final = 2
FIRST_WITH_LEVEL_0: Final = 4
"""Versions of BrokerRegistration."""

GONE: Final = (ErrorCode.BROKER_ID_NOT_REGISTERED, ErrorCode.STALE_BROKER_EPOCH)
"""The controller does not know this registration, so the broker registers again."""

Request = BrokerRegistrationRequest | BrokerHeartbeatRequest
Response = BrokerRegistrationResponse | BrokerHeartbeatResponse


class BrokerState(IntEnum):
    """Kafka's `BrokerState`, with its numbers."""

    STARTING = 1
    """The metadata does not reach the broker's own registration yet."""
    RECOVERY = 2
    """It is caught up, and fenced."""
    RUNNING = 3
    PENDING_CONTROLLED_SHUTDOWN = 6
    SHUTTING_DOWN = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class LifecycleOptions:
    """What a broker says of itself. `features` are the levels that it supports, and
    `previous_epoch` is the one with which it stopped cleanly, or -1.
    """

    broker_id: int
    cluster_id: str
    incarnation_id: Uuid
    endpoints: tuple[Endpoint, ...]
    features: Mapping[str, tuple[int, int]]
    controllers: str = "controller.quorum.bootstrap.servers"
    """The setting that names them."""
    rack: str | None = None
    directories: tuple[Uuid, ...] = ()
    previous_epoch: int = NO_EPOCH
    heartbeat_interval_ms: int = 2000
    session_timeout_ms: int = 9000
    registration_timeout_ms: int = 60_000


class BrokerLifecycle:
    def __init__(self, options: LifecycleOptions, now_ms: float) -> None:
        self.state = BrokerState.STARTING
        self.epoch = NO_EPOCH
        """That of the last registration; -1 before the first one."""
        self.is_registered = False
        self.is_fenced = True
        """By the last answer."""
        self.failure: str | None = None
        """Why the broker was not registered in time; then it asks nothing any more."""
        self.due_ms = now_ms
        """When `next_request` has something."""
        self._options = options
        self._give_up_ms = now_ms + options.registration_timeout_ms
        self._last_refusal: ErrorCode | None = None
        self._is_ready = False
        self._offline: dict[Uuid, None] = {}
        self._cordoned: tuple[Uuid, ...] | None = None
        self._features = options.features
        self._names_directories = False
        self._named_in = NO_EPOCH
        """The epoch in which it has done so."""
        self._failures = 0
        self._sent: Request | None = None
        self._is_hurried = False
        self._shutdown_pause_ms = SHUTDOWN_MS

    # What the broker wants

    def ready(self, now_ms: float) -> None:
        """Its logs have what the metadata says, so that it may be unfenced."""
        if not self._is_ready:
            self._is_ready = True
            self.hurry(now_ms)

    def directories_failed(self, directories: tuple[Uuid, ...], now_ms: float) -> None:
        """Log directories are offline, and stay so."""
        if not self._offline.keys() >= set(directories):
            self._offline.update(dict.fromkeys(directories))
            self.hurry(now_ms)

    def cordoned(self, directories: tuple[Uuid, ...], now_ms: float) -> None:
        """The directories that take no new partitions (KIP-1066)."""
        if directories != (self._cordoned or ()):
            self._cordoned = directories
            self.hurry(now_ms)

    def directories_unnamed(self, now_ms: float) -> None:
        """The cluster has log directories since this broker was registered without any; it names
        them in another registration, so that one that fails can be told (`MetadataVersion` 3.7-IV2;
        Kafka: `BrokerRegistrationTracker`).
        """
        if self.is_registered and self._named_in != self.epoch:
            self._named_in = self.epoch
            self._names_directories = True
            self.hurry(now_ms)

    def cluster_has(self, levels: Mapping[str, int]) -> None:
        """The levels of the cluster's features, as far as they are known."""
        self._features = offered(self._options.features, levels)

    def leave(self, now_ms: float) -> None:
        """Begins a controlled shutdown, if there is anything to hand over."""
        if self.state is BrokerState.RUNNING and self.is_registered:
            self.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            self.hurry(now_ms)
        elif self.state is not BrokerState.PENDING_CONTROLLED_SHUTDOWN:
            self.state = BrokerState.SHUTTING_DOWN

    def hurry(self, now_ms: float) -> None:
        """Has the next request follow at once, as when there is another controller."""
        self.due_ms = now_ms
        self._is_hurried = self._sent is not None

    # Requests and answers

    def next_request(self, end_offset: int, now_ms: float) -> Request | None:
        """The request that is due; `end_offset` is the offset after the last record of the metadata
        that the broker has applied.
        """
        self.give_up_if_late(now_ms)
        is_over = self.failure is not None or self.state is BrokerState.SHUTTING_DOWN
        if is_over or self._sent is not None or now_ms < self.due_ms:
            return None
        may_beat = self.is_registered and not self._names_directories
        self._sent = self._heartbeat(end_offset) if may_beat else self._registration()
        return self._sent

    @property
    def refusal(self) -> str | None:
        """Why the controller has not registered the broker yet, if it has said so."""
        if self._last_refusal is None or self.epoch != NO_EPOCH:
            return None
        return _reason(self._last_refusal, self._options)

    def give_up_if_late(self, now_ms: float) -> None:
        """Sets `failure` if the broker was not registered in time."""
        options = self._options
        if self.epoch != NO_EPOCH or now_ms < self._give_up_ms:
            return
        silent = f"no controller has answered; start one, or correct {options.controllers}"
        self.failure = (
            f"node {options.broker_id} could not register as a broker within "
            f"initial.broker.registration.timeout.ms={options.registration_timeout_ms}: "
            f"{self.refusal or silent}"
        )

    def _registration(self) -> BrokerRegistrationRequest:
        options = self._options
        return BrokerRegistrationRequest(
            broker_id=options.broker_id,
            cluster_id=options.cluster_id,
            incarnation_id=options.incarnation_id,
            listeners=listeners_of(Listener, options.endpoints),
            features=supported_of(Feature, self._features),
            rack=options.rack,
            log_dirs=sorted(set(options.directories) - self._offline.keys()),
            # Nothing was lost since the last registration of this very process.
            previous_broker_epoch=max(self.epoch, options.previous_epoch),
        )

    def _heartbeat(self, end_offset: int) -> BrokerHeartbeatRequest:
        is_leaving = self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN
        return BrokerHeartbeatRequest(
            broker_id=self._options.broker_id,
            broker_epoch=self.epoch,
            current_metadata_offset=end_offset - 1,
            want_fence=self.state is BrokerState.STARTING or not self._is_ready,
            want_shut_down=is_leaving,
            offline_log_dirs=list(self._offline),
            cordoned_log_dirs=None if self._cordoned is None else list(self._cordoned),
        )

    def answered(self, response: Response | None, now_ms: float) -> None:
        """The answer to the last request; `None` if none came, or not from the controller."""
        self._sent = None
        pause_ms = self._take(response)
        if self._is_hurried:
            self._is_hurried = False
            return
        self.due_ms = now_ms + pause_ms

    def _take(self, response: Response | None) -> float:
        """Returns how long to wait before the next request."""
        if response is None:
            return self._backed_off()
        if isinstance(response, BrokerRegistrationResponse):
            self._names_directories = False
        error = ErrorCode(response.error_code)
        if error is not ErrorCode.NONE:
            return self._refused(error, response)
        self._failures = 0
        if isinstance(response, BrokerRegistrationResponse):
            self.epoch, self.is_registered, self.is_fenced = response.broker_epoch, True, True
            return 0.0
        self.is_fenced = response.is_fenced
        return self._heard(response)

    def _refused(self, error: ErrorCode, response: Response) -> float:
        if isinstance(response, BrokerRegistrationResponse):
            self._last_refusal = error
        elif error in GONE:
            self.is_registered, self.is_fenced = False, True
            if self.state is BrokerState.PENDING_CONTROLLED_SHUTDOWN:
                self.state = BrokerState.SHUTTING_DOWN  # it leads nothing any more
            return 0.0
        return self._backed_off()

    def _backed_off(self) -> float:
        longest_ms = self._options.session_timeout_ms / 2
        pause_ms = min(FIRST_BACKOFF_MS * 2.0 ** min(self._failures, 20), longest_ms)
        self._failures += 1
        return pause_ms

    def _heard(self, response: BrokerHeartbeatResponse) -> float:
        interval_ms = float(self._options.heartbeat_interval_ms)
        match self.state:
            case BrokerState.STARTING:
                if response.is_caught_up:
                    self.state = BrokerState.RECOVERY
                return min(EARLY_MS, interval_ms)
            case BrokerState.RECOVERY if not response.is_fenced:
                self.state = BrokerState.RUNNING
            case BrokerState.PENDING_CONTROLLED_SHUTDOWN if response.should_shut_down:
                self.state = BrokerState.SHUTTING_DOWN
            case BrokerState.PENDING_CONTROLLED_SHUTDOWN:
                pause_ms = self._shutdown_pause_ms
                self._shutdown_pause_ms = min(2 * pause_ms, LONGEST_SHUTDOWN_MS)
                return min(pause_ms, interval_ms)
        if self._is_ready and not response.is_caught_up:
            return min(EARLY_MS, interval_ms)  # it has registered again
        return interval_ms


def _reason(refusal: ErrorCode, options: LifecycleOptions) -> str:
    match refusal:
        case ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            return (
                f"broker {options.broker_id} counts as alive: after a kill that ends with its "
                "session (broker.session.timeout.ms); if it lasts, another process has this node.id"
            )
        case ErrorCode.INCONSISTENT_CLUSTER_ID:
            return (
                f"the controllers are of another cluster than {options.cluster_id}; name those of "
                "this cluster, or format the directories for theirs"
            )
        case ErrorCode.UNSUPPORTED_VERSION:
            return "the cluster has features at levels that are not known here; use a later version"
    return f"the controller refuses it ({refusal.name}: {refusal.description})"


def in_version(request: BrokerRegistrationRequest, version: int) -> BrokerRegistrationRequest:
    """What older controllers understand: no directories, and no level 0 (KAFKA-17492)."""
    if version < FIRST_WITH_DIRECTORIES:
        request.log_dirs = []
    if version < FIRST_WITH_LEVEL_0:
        for one in request.features:
            one.min_supported_version = max(one.min_supported_version, 1)
        request.features = [one for one in request.features if one.max_supported_version > 0]
    return request
