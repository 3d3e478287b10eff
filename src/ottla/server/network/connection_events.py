"""Opened and closed connections: the reasons, the counts, and the events.

Kafka's counterparts: `ConnectionQuotas`'s sensors, and `connection-count`, `connection-creation`
and `connection-close` of a `Selector`'s metrics.
"""

from collections import Counter
from enum import Enum, auto

from ottla.base.values import dataclass


class CloseReason(Enum):
    HUNG_UP = "it hung up"
    SLOW = "it moved fewer bytes than ottla.min.transfer.rate"
    IDLE = "it was idle for longer than connections.max.idle.ms"
    BAD_REQUEST = "its request broke the protocol"
    REFUSED = "its authentication failed"
    FAILED = "its request could not be handled"
    LOGIN = "it did not log in within ottla.authentication.timeout.ms"
    NETWORK = "the network failed"
    MEMORY = "there is no memory for its request"
    DISK = "a log directory failed in the middle of its request"
    LISTENER = "its listener was closed"
    STOPPING = "the broker stops"


class Refusal(Enum):
    HOST_LIMIT = "its host has max.connections.per.ip"
    HOST_RATE = "its host has a quota of connection_creation_rate, and came too fast"
    RESET = "it was reset before it was served"
    HANDSHAKE = "its TLS handshake failed"


class LoginOutcome(Enum):
    """The result of a SASL login; `AGAIN`: on a connection that had logged in before."""

    SUCCEEDED = auto()
    AGAIN = auto()
    FAILED = auto()
    EXPIRED = auto()


class ConnectionCounts:
    """Counts since the start; `open` is the current number."""

    def __init__(self) -> None:
        self.open = 0
        self.accepted = 0
        self.refused: Counter[Refusal] = Counter()
        self.closed: Counter[CloseReason] = Counter()
        self.logins: Counter[LoginOutcome] = Counter()

    def came(self) -> None:
        self.open += 1
        self.accepted += 1

    def went(self, reason: CloseReason) -> None:
        self.open -= 1
        self.closed[reason] += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientCame:
    """A connection has sent its first request."""

    client: str
    client_id: str

    @property
    def message(self) -> str:
        return f"client {self.client} has come{_named(self.client_id)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientWent:
    client: str
    client_id: str
    reason: str
    connected_ms: int

    @property
    def message(self) -> str:
        return (
            f"client {self.client}{_named(self.client_id)} has gone after "
            f"{self.connected_ms / 1000:.1f} s: {self.reason}"
        )


def _named(client_id: str) -> str:
    return f" ({client_id})" if client_id else ""
