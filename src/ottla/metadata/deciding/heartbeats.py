"""Decides on heartbeats of brokers: who is fenced, unfenced, and may stop.

Kafka's counterparts: `BrokerHeartbeatManager`, `BrokerHeartbeatTracker`,
`ReplicationControlManager.processBrokerHeartbeat`.
"""

from collections.abc import Collection
from enum import Enum, auto
from math import inf
from typing import Any, Final, NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.metadata.brokers import BrokerRegistration
from ottla.metadata.deciding.node_rules import check_epoch
from ottla.metadata.deciding.partition_changes import (
    ALL_AT_ONCE,
    NO_DEFAULTS,
    Manner,
    TopicDefaults,
    arriving,
    directories_failed,
    leaving,
)
from ottla.metadata.image import FIRST_WITH_CORDONED, FIRST_WITH_DIRECTORIES, MetadataImage
from ottla.metadata.record_versions import VersionedRecord
from ottla.metadata.records import BrokerRegistrationChangeRecord

NOTHING_READ: Final = -1
FENCE: Final = 1
UNFENCE: Final = -1
FIRST_VERSIONS: Final = {
    "fenced": 0,
    "in_controlled_shutdown": 1,
    "log_dirs": 2,
    "cordoned_log_dirs": 3,
}
"""Of `BrokerRegistrationChangeRecord`, for each field."""


class HeartbeatRequest(NamedTuple):
    """`metadata_offset` is that of the last record that the broker has replayed.

    `cordoned` is `None` from a broker that does not name cordoned directories.
    """

    broker_id: int
    epoch: int
    metadata_offset: int
    want_fence: bool = False
    want_shut_down: bool = False
    offline: tuple[Uuid, ...] = ()
    cordoned: tuple[Uuid, ...] | None = None


class HeartbeatAnswer(NamedTuple):
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


class _Next(Enum):
    """What becomes of a broker (`BrokerControlState`)."""

    AS_IT_IS = auto()
    UNFENCED = auto()
    FENCED = auto()
    SHUTTING_DOWN = auto()
    """Its leaderships move."""
    STOPPED = auto()
    """It is fenced, and may stop."""


@dataclass(slots=True)
class _Session:
    """Of one incarnation, by its epoch."""

    epoch: int
    heard_ms: float
    metadata_offset: int = NOTHING_READ
    moved_offset: int = NOTHING_READ
    """The offset of the last record by which it has lost leaderships in its controlled shutdown."""


class BrokerSessions:
    """When each broker was last heard, and how much metadata it has; in memory of the active
    controller only. Times are monotonic.
    """

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms
        self._sessions: dict[int, _Session] = {}

    def begin(self, image: MetadataImage, end_offset: int, now_ms: float) -> None:
        """A controller becomes active: every broker that is not fenced is taken for live."""
        self._sessions = {
            broker_id: _Session(broker.epoch, now_ms, moved_offset=end_offset - 1)
            for broker_id, broker in image.brokers.items()
        }

    def registered(self, broker_id: int, epoch: int, now_ms: float) -> None:
        """A broker's registration was decided."""
        known = self._sessions.get(broker_id)
        if known is None or known.epoch != epoch:
            self._sessions[broker_id] = _Session(epoch, now_ms)

    def is_live(self, image: MetadataImage, broker_id: int, now_ms: float) -> bool:
        """Whether the registered incarnation of a broker is not fenced, and was heard within the
        timeout.
        """
        broker = image.brokers.get(broker_id)
        if broker is None or broker.is_fenced:
            return False
        return now_ms < self._end_ms(broker_id, broker)

    def _end_ms(self, broker_id: int, broker: BrokerRegistration) -> float:
        session = self._sessions.get(broker_id)
        if session is None or session.epoch != broker.epoch:
            return -inf
        return session.heard_ms + self.timeout_ms

    def ended(self, image: MetadataImage, now_ms: float) -> list[int]:
        """The brokers that are not fenced and whose sessions have ended, the longest silent
        first; each is to be fenced (`fence`).
        """
        ends = self._ends(image)
        return [broker_id for end_ms, broker_id in sorted(ends) if end_ms <= now_ms]

    def deadline_ms(self, image: MetadataImage) -> float:
        """When the next session ends; infinite without any."""
        return min((end_ms for end_ms, _ in self._ends(image)), default=inf)

    def _ends(self, image: MetadataImage) -> list[tuple[float, int]]:
        return [
            (self._end_ms(broker_id, broker), broker_id)
            for broker_id, broker in image.brokers.items()
            if not broker.is_fenced
        ]

    # For `heartbeat`

    def heard(self, request: HeartbeatRequest, now_ms: float) -> None:
        session = self._sessions.setdefault(request.broker_id, _Session(request.epoch, now_ms))
        session.heard_ms, session.metadata_offset = now_ms, request.metadata_offset

    def moved(self, broker_id: int, offset: int) -> None:
        self._sessions[broker_id].moved_offset = offset

    def have_seen_moves(self, image: MetadataImage, broker_id: int) -> bool:
        """Whether every active broker knows that a broker that shuts down leads nothing."""
        moved = self._sessions[broker_id].moved_offset
        return all(
            session.metadata_offset >= moved
            for other_id, session in self._sessions.items()
            if (other := image.brokers.get(other_id)) is not None
            and not other.is_fenced
            and not other.is_shutting_down
        )


def heartbeat(
    image: MetadataImage,
    sessions: BrokerSessions,
    request: HeartbeatRequest,
    *,
    end_offset: int,
    now_ms: float,
    manner: Manner = ALL_AT_ONCE,
) -> tuple[list[VersionedRecord], HeartbeatAnswer]:
    """Returns what a heartbeat changes, and its answer; renews the broker's session.

    If as many partitions as `manner` allows change, others remain (`remaining`), and the answer
    says of the broker what it is until these have changed too. `end_offset` is the offset of the
    next record. Raises `ApiError`: BROKER_ID_NOT_REGISTERED, STALE_BROKER_EPOCH.
    """
    broker_id, (defaults, most) = request.broker_id, manner
    if broker_id not in image.brokers:
        raise ApiError(
            ErrorCode.BROKER_ID_NOT_REGISTERED, f"Broker ID {broker_id} is not registered"
        )
    broker = check_epoch(image, broker_id, request.epoch)
    sessions.heard(request, now_ms)
    is_caught_up = request.metadata_offset >= broker.epoch
    records = _directory_changes(image, broker, request, defaults, most)
    if records:
        # These change partitions, which the next heartbeat finds in the image.
        return records, HeartbeatAnswer(is_caught_up, broker.is_fenced, should_shut_down=False)
    following = _following(image, sessions, request, is_caught_up=is_caught_up)
    records = _state_changes(image, broker_id, following, defaults, most)
    is_stopping = following in (_Next.FENCED, _Next.STOPPED)
    is_fenced = broker.is_fenced if not records else is_stopping and _is_fence(records[-1])
    if following is _Next.STOPPED and not is_fenced:
        # It leads nothing, and is in more ISRs than one call changes.
        following = _Next.SHUTTING_DOWN
        records = _state_changes(image, broker_id, following, defaults, most)
    if following is _Next.SHUTTING_DOWN:
        sessions.moved(broker_id, end_offset + len(records) - 1)
    return records, HeartbeatAnswer(is_caught_up, is_fenced, following is _Next.STOPPED)


def remaining(
    image: MetadataImage,
    request: HeartbeatRequest,
    defaults: TopicDefaults = NO_DEFAULTS,
    *,
    leaving_too: Collection[int] = (),
    most: int | None = None,
) -> list[VersionedRecord]:
    """Returns the next of the records that a heartbeat has led to, as long as the broker is the one
    that has sent it. `leaving_too` are other brokers that are being fenced.
    """
    broker_id, broker = request.broker_id, image.brokers.get(request.broker_id)
    if broker is None or broker.epoch != request.epoch:
        return []
    if records := _directory_changes(image, broker, request, defaults, most):
        return records
    if broker.is_fenced:
        return []
    if broker.is_shutting_down:
        return leaving(image, broker_id, defaults, most=most)
    if request.want_fence:
        return fence(image, broker_id, defaults, most=most)
    return arriving(image, broker_id, defaults, leaving=leaving_too, most=most)


# What becomes of the broker


def _following(
    image: MetadataImage,
    sessions: BrokerSessions,
    request: HeartbeatRequest,
    *,
    is_caught_up: bool,
) -> _Next:
    """As `BrokerHeartbeatManager.calculateNextBrokerState`."""
    broker = image.brokers[request.broker_id]
    if broker.is_fenced:
        if request.want_shut_down:
            return _Next.STOPPED
        return _Next.UNFENCED if is_caught_up and not request.want_fence else _Next.AS_IT_IS
    if broker.is_shutting_down:
        if _leads_any(image, request.broker_id):
            return _Next.SHUTTING_DOWN
        has_moved = sessions.have_seen_moves(image, request.broker_id)
        return _Next.STOPPED if has_moved else _Next.AS_IT_IS
    if request.want_fence:
        return _Next.STOPPED if request.want_shut_down else _Next.FENCED
    if not request.want_shut_down:
        return _Next.AS_IT_IS
    return _Next.SHUTTING_DOWN if _leads_any(image, request.broker_id) else _Next.STOPPED


def _leads_any(image: MetadataImage, broker_id: int) -> bool:
    return any(
        partition.leader == broker_id
        for topic in image.topics.values()
        for partition in topic.partitions.values()
    )


def _state_changes(
    image: MetadataImage,
    broker_id: int,
    following: _Next,
    defaults: TopicDefaults,
    most: int | None,
) -> list[VersionedRecord]:
    """If partitions change, at `most` so many of them."""
    broker = image.brokers[broker_id]
    match following:
        case _Next.UNFENCED:
            change = _change(image, broker_id, fenced=UNFENCE)
            return [change, *arriving(image, broker_id, defaults, most=most)]
        case _Next.FENCED:
            return fence(image, broker_id, defaults, most=most)
        case _Next.STOPPED if not broker.is_fenced:
            return fence(image, broker_id, defaults, most=most)
        case _Next.SHUTTING_DOWN:
            first = (
                []
                if broker.is_shutting_down
                else [_change(image, broker_id, in_controlled_shutdown=1)]
            )
            return [*first, *leaving(image, broker_id, defaults, most=most)]
    return []


def fence(
    image: MetadataImage,
    broker_id: int,
    defaults: TopicDefaults = NO_DEFAULTS,
    *,
    most: int | None = None,
) -> list[VersionedRecord]:
    """Returns the records that fence a broker, whose partitions get other leaders; or, if there are
    as many as `most`, the first of them: then the broker is fenced by a later call.
    """
    moved = leaving(image, broker_id, defaults, most=most)
    return moved if len(moved) == most else [*moved, _change(image, broker_id, fenced=FENCE)]


def _is_fence(record: VersionedRecord) -> bool:
    return isinstance(record[0], BrokerRegistrationChangeRecord)


def _change(image: MetadataImage, broker_id: int, **fields: Any) -> VersionedRecord:
    """In the first version that has the fields, as Kafka writes it."""
    epoch = image.brokers[broker_id].epoch
    record = BrokerRegistrationChangeRecord(broker_id=broker_id, broker_epoch=epoch, **fields)
    return record, max(FIRST_VERSIONS[name] for name in fields)


# Directories


def _directory_changes(
    image: MetadataImage,
    broker: BrokerRegistration,
    request: HeartbeatRequest,
    defaults: TopicDefaults,
    most: int | None,
) -> list[VersionedRecord]:
    """Those that have failed, and those that get no new replicas any more. If as many as `most`
    partitions change, these first: what has failed is known by the directories still in the image.
    """
    broker_id, records = request.broker_id, list[VersionedRecord]()
    failed = [one for one in broker.directories if one in request.offline]
    online = [one for one in broker.directories if one not in request.offline]
    # A broker without any directory stops by itself; the record has no form for none.
    if failed and online and image.level >= FIRST_WITH_DIRECTORIES:
        records = directories_failed(image, broker_id, failed, defaults, most=most)
        if len(records) == most:
            return records
        records.append(_change(image, broker_id, log_dirs=online))
    cordoned = request.cordoned
    if cordoned is None or image.level < FIRST_WITH_CORDONED:
        return records
    if {*cordoned} != {*broker.cordoned}:
        records.append(_change(image, broker_id, cordoned_log_dirs=list(cordoned)))
    return records
