"""Sends the machine's requests to other nodes, each over a connection and in a thread of its own.

Kafka's counterparts: `KafkaNetworkChannel`, `RaftMessageQueue`.
"""

import logging
from collections.abc import Callable
from threading import Condition, Thread
from typing import Final

from ottla.base.addresses import address_text
from ottla.base.clock import Clock
from ottla.base.error_codes import ErrorCode
from ottla.base.values import dataclass
from ottla.cluster.peers import Connect, Peer, PeerError
from ottla.cluster.quorum.quorum_messages import (
    FIRST_PRE_VOTE,
    NOTHING_KNOWN,
    answer_of,
    api_key_of,
    message_of,
)
from ottla.metadata.brokers import Endpoint
from ottla.quorum.effects import Send
from ottla.quorum.messages import FetchAnswer, Request, Response, SnapshotAnswer, Vote, VoteAnswer
from ottla.quorum.voters import Endpoint as Place

logger = logging.getLogger(__name__)

JOIN_S: Final = 5.0
"""How long `stop` waits for a thread that waits for a node."""

OF_BROKERS: Final = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""What a node answers that has no metadata log for others."""

REFUSALS: Final = OF_BROKERS | {
    ErrorCode.INCONSISTENT_CLUSTER_ID,
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
}
"""Errors that only people can mend; the machine takes them for no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelParts:
    """`connect` has a time limit; a request that the machine gives up before is left when the next
    one comes. `protocol` is the security protocol of the controllers' listeners. `answered` gets
    the number of a request, and `None` without a response; `complain` gets a line for people.
    """

    connect: Connect
    protocol: str
    client_id: str
    clock: Clock
    answered: Callable[[int, Response | None], None]
    complain: Callable[[str], None]


class QuorumChannels:
    """`send` returns at once. All threads end with `stop`."""

    def __init__(self, parts: ChannelParts) -> None:
        self._parts = parts
        self._channels: dict[int, _Channel] = {}

    def send(self, effect: Send) -> None:
        """Of one thread, like `stop`."""
        channel = self._channels.get(effect.node_id)
        if channel is None:
            try:
                channel = _Channel(self._parts, effect.node_id)
            except RuntimeError as error:  # the system has no thread left
                logger.warning("node %d is not asked: %s", effect.node_id, error)
                self._parts.answered(effect.number, None)
                return
            self._channels[effect.node_id] = channel
        channel.put(effect)

    def silent(self) -> dict[int, str]:
        """The nodes whose last request failed, and how."""
        return {key: one.failure for key, one in self._channels.items() if one.failure}

    @property
    def refusal(self) -> str | None:
        """Why a node does not talk to this one, if one has said so in its last answer."""
        return next((one.refusal for one in [*self._channels.values()] if one.refusal), None)

    def drain(self, limit_s: float) -> None:
        """Waits until all that was sent is answered, or has failed, or the time is over."""
        clock = self._parts.clock
        end_ms = clock.monotonic_ms() + limit_s * 1000
        for one in self._channels.values():
            one.await_idle(max(end_ms - clock.monotonic_ms(), 0) / 1000)

    def stop(self) -> None:
        for one in self._channels.values():
            one.stop()
        for one in self._channels.values():
            one.thread.join(JOIN_S)


class _Channel:
    """The way to one node. A request takes the place of the one before it: the machine asks again
    only when it has given that up.
    """

    def __init__(self, parts: ChannelParts, node_id: int) -> None:
        self._parts = parts
        self._node_id = node_id
        self._peer = Peer(parts.connect, parts.client_id)
        self._changed = Condition()
        self._next: Send | None = None
        self._is_asking = False
        self._is_stopping = False
        self.failure = ""
        """Why the last request has no response."""
        self.refusal = ""
        """What people have been told of."""
        self.thread = Thread(target=self._run, name=f"ottla-quorum-to-{node_id}", daemon=True)
        self.thread.start()

    def put(self, effect: Send) -> None:
        with self._changed:
            self._next = effect
            if self._is_asking:
                # An answer may never come, or wait at the leader of an epoch that is over.
                self._peer.close()
            self._changed.notify_all()

    def await_idle(self, limit_s: float) -> None:
        with self._changed:
            self._changed.wait_for(lambda: not self._is_asking and self._next is None, limit_s)

    def stop(self) -> None:
        with self._changed:
            self._is_stopping = True
            self._changed.notify_all()
        self._peer.close()

    def _run(self) -> None:
        while (effect := self._taken()) is not None:
            answer = self._answer_to(effect)
            with self._changed:
                self._is_asking = False
                self._changed.notify_all()
            self._parts.answered(effect.number, answer)
        self._peer.close()

    def _taken(self) -> Send | None:
        with self._changed:
            while self._next is None and not self._is_stopping:
                self._changed.wait()
            effect, self._next = self._next, None
            self._is_asking = True
            return None if self._is_stopping else effect

    def _answer_to(self, effect: Send) -> Response | None:
        try:
            answer = self._ask(effect.endpoint, effect.request)
        except PeerError as error:
            self.failure = str(error).partition("; ")[0]  # without a hint for clients
            return None
        except Exception:
            # If this thread ended, the node would be asked for nothing any more.
            logger.exception("could not read what node %d answered", self._node_id)
            return None
        self.failure = ""
        return None if self._is_refused(effect, answer) else _detached(answer)

    def _ask(self, place: Place | None, request: Request) -> Response:
        """Raises `PeerError`, also if nobody has said where the node is."""
        endpoint = None if place is None else self._endpoint(place)
        version = self._peer.version_of(endpoint, api_key_of(request), None)
        if isinstance(request, Vote) and request.is_pre_vote and version < FIRST_PRE_VOTE:
            # Asked in this version it would give its vote, in an epoch that is not begun.
            return VoteAnswer(ErrorCode.UNSUPPORTED_VERSION, NOTHING_KNOWN)
        message = self._peer.ask(endpoint, message_of(request, version), version)
        return answer_of(request, message)

    def _endpoint(self, place: Place) -> Endpoint:
        return Endpoint(
            listener=place.name,
            host=place.host,
            port=place.port,
            security_protocol=self._parts.protocol,
        )

    def _is_refused(self, effect: Send, answer: Response) -> bool:
        """Tells people once why a node does not talk to this one."""
        place = effect.endpoint
        if answer.error not in REFUSALS or place is None:
            self.refusal = ""
            return answer.error in REFUSALS
        at = address_text(place.host, place.port)
        told, self.refusal = self.refusal, _refusal_line(effect.request, at, answer.error)
        if self.refusal != told:
            self._parts.complain(self.refusal)
        return True


def _refusal_line(request: Request, at: str, error: ErrorCode) -> str:
    if error in OF_BROKERS:
        return (
            f"{at} is no controller of a KRaft cluster; name the listeners of controllers in "
            "controller.quorum.bootstrap.servers or controller.quorum.voters"
        )
    line = f"the controller at {at} refuses this node"
    if error is ErrorCode.INCONSISTENT_CLUSTER_ID:
        return (
            f"{line}: it is of another cluster than {getattr(request, 'cluster_id', None)}; name "
            "the controllers of this cluster, or format the directories for theirs"
        )
    return f"{line}: {error.name}: {error.description}"


def _detached(answer: Response) -> Response:
    """Records of a response are valid until the next one comes."""
    match answer:
        case FetchAnswer():
            return answer._replace(records=bytes(answer.records))
        case SnapshotAnswer():
            return answer._replace(content=bytes(answer.content))
        case _:
            return answer
