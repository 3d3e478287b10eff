"""Decides on heartbeats of brokers: who is fenced, unfenced, and may stop.

Kafka's counterparts: `BrokerHeartbeatManager`, `BrokerHeartbeatTracker`,
`ReplicationControlManager.processBrokerHeartbeat`.
"""

from typing import NamedTuple

from ottla.base.ids import Uuid
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_changes import VersionedRecord


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


class BrokerSessions:
    """When each broker was last heard, and how much metadata it has; in memory of the active
    controller only. Times are monotonic.
    """

    def __init__(self, timeout_ms: float) -> None:
        self.timeout_ms = timeout_ms

    def begin(self, image: MetadataImage, end_offset: int, now_ms: float) -> None:
        """A controller becomes active: every broker that is not fenced is taken for live."""
        raise NotImplementedError

    def registered(self, broker_id: int, epoch: int, now_ms: float) -> None:
        """A broker's registration was decided."""
        raise NotImplementedError

    def is_live(self, image: MetadataImage, broker_id: int, now_ms: float) -> bool:
        """Whether the registered incarnation of a broker was heard within the timeout."""
        raise NotImplementedError

    def ended(self, image: MetadataImage, now_ms: float) -> list[int]:
        """The brokers that are not fenced and whose sessions have ended, the longest silent
        first; each is to be fenced (`fence`).
        """
        raise NotImplementedError

    def deadline_ms(self, image: MetadataImage) -> float:
        """When the next session ends; infinite without any."""
        raise NotImplementedError


def heartbeat(
    image: MetadataImage,
    sessions: BrokerSessions,
    request: HeartbeatRequest,
    *,
    end_offset: int,
    now_ms: float,
) -> tuple[list[VersionedRecord], HeartbeatAnswer]:
    """Returns what a heartbeat changes, and its answer; renews the broker's session.

    `end_offset` is the offset of the next record. Raises `ApiError`: BROKER_ID_NOT_REGISTERED,
    STALE_BROKER_EPOCH.
    """
    raise NotImplementedError


def fence(image: MetadataImage, broker_id: int) -> list[VersionedRecord]:
    """Returns the records that fence a broker, whose partitions get other leaders."""
    raise NotImplementedError
