"""What members of every cluster have (`broker/membership/membership.py: Membership`).

Other threads answer requests; they store the results and wake the server's loop.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from ottla.broker.membership.admission_requests import AdmissionRequest
from ottla.broker.membership.dead_letter_requests import DeadLetterRequest
from ottla.broker.membership.end_requests import EndOffsetsRequest
from ottla.broker.membership.marker_requests import MarkerRequest
from ottla.broker.membership.metadata_requests import MetadataRequest
from ottla.broker.membership.state_requests import ShareStateRequest
from ottla.broker.waiting.rooms import Waiting
from ottla.cluster.exchanges import Exchanges
from ottla.cluster.place import Place
from ottla.zookeeper.controllers import ProducerIdBlock

T = TypeVar("T")


class ToController(Protocol):
    """Sends this broker's own requests to the controller; from any thread."""

    def create_topics(self, names: Sequence[str]) -> None: ...

    def allocate_producer_ids(self, done: Callable[[ProducerIdBlock], None]) -> None: ...


class Connected(Protocol):
    """A member that listens."""

    @property
    def place(self) -> Place: ...

    @property
    def link(self) -> ToController: ...

    @property
    def exchanges(self) -> Exchanges: ...


class CommonMembership:
    """`connected` is available once the broker listens, which is before the first request."""

    def __init__(self, connected: Callable[[], Connected]) -> None:
        self._connected = connected
        self._done: deque[Waiting[Any]] = deque()

    def create_topics(self, names: Sequence[str]) -> None:
        self._connected().link.create_topics(names)

    def allocate_producer_ids(self) -> Waiting[ProducerIdBlock]:
        waiting: Waiting[ProducerIdBlock] = Waiting()
        self._connected().link.allocate_producer_ids(lambda block: self.finish(waiting, block))
        return waiting

    def send_markers(self, request: MarkerRequest) -> None:
        self._connected().exchanges.markers.send(request)

    def ask_for_admission(self, request: AdmissionRequest) -> None:
        self._connected().exchanges.admissions.send(request)

    def ask_about_metadata(self, request: MetadataRequest) -> None:
        channels = self._connected().exchanges.metadata
        assert channels is not None, "only a broker with a tier asks"
        channels.send(request)

    def ask_share_coordinator(self, request: ShareStateRequest) -> None:
        self._connected().exchanges.share_states.send(request)

    def send_dead_letters(self, request: DeadLetterRequest) -> None:
        self._connected().exchanges.dead_letters.send(request)

    def ask_for_ends(self, request: EndOffsetsRequest) -> None:
        self._connected().exchanges.ends.send(request)

    def finish(self, waiting: Waiting[T], result: T) -> None:
        """Has the server's loop go on with a request that waits; from any thread."""
        waiting.result = result
        self._done.append(waiting)
        self._connected().place.wake()

    @property
    def has_answers(self) -> bool:
        return bool(self._done)

    def take_answered(self) -> list[Waiting[Any]]:
        done = []
        while self._done:
            done.append(self._done.popleft())
        return done
