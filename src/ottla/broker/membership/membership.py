"""The cluster of which a broker is a member, for the handlers of its requests.

A single broker has none. What another thread or broker is asked is answered later, through
`take_answered`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar, runtime_checkable

from ottla.base.errors import ApiError
from ottla.base.files import Buffer
from ottla.base.principal import Principal
from ottla.base.turns import InParts
from ottla.broker.membership.admission_requests import AdmissionRequest
from ottla.broker.membership.dead_letter_requests import DeadLetterRequest
from ottla.broker.membership.end_requests import EndOffsetsRequest
from ottla.broker.membership.marker_requests import MarkerRequest
from ottla.broker.membership.metadata_requests import MetadataRequest
from ottla.broker.membership.state_requests import ShareStateRequest
from ottla.broker.waiting.rooms import Waiting
from ottla.controller.acls import AclChanges, ChangeAcls
from ottla.controller.events import Answer
from ottla.controller.events import Request as ControllerRequest
from ottla.controller.operations import Steps
from ottla.controller.settings import Change, Refusals
from ottla.controller.tokens import FoundTokens
from ottla.metadata.acls import ResourcePattern
from ottla.quorum.messages import Request, Response
from ottla.quorum.status import QuorumStatus
from ottla.zookeeper.controllers import ProducerIdBlock

T = TypeVar("T")
ControllerT = TypeVar("ControllerT", covariant=True)


class Membership(Protocol):
    """What members of every cluster have."""

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller, to its knowledge."""

    def create_topics(self, names: Sequence[str]) -> None:
        """Asks the controller to create topics that a client has named; the client must retry."""

    def allocate_producer_ids(self) -> Waiting[ProducerIdBlock]:
        """The next block of the cluster's producer ids."""

    def send_markers(self, request: MarkerRequest) -> None:
        """Sends markers to the broker in the request; the transaction coordinator gets the
        response.
        """

    def ask_for_admission(self, request: AdmissionRequest) -> None:
        """Sends questions to the broker in the request; `Admissions.answered` gets the answer."""

    def ask_about_metadata(self, request: MetadataRequest) -> None:
        """Sends a request to the broker in it; `RemoteLogMetadata.answered` gets the answer."""

    def ask_share_coordinator(self, request: ShareStateRequest) -> None:
        """Sends a request to the broker in it; `Persister.answered` gets the answers."""

    def send_dead_letters(self, request: DeadLetterRequest) -> None:
        """Sends a request to the broker in it; `DeadLetters.answered` gets the answer."""

    def ask_for_ends(self, request: EndOffsetsRequest) -> None:
        """Sends a request to the broker in it; `EndOffsets.answered` gets the answer."""

    @property
    def has_answers(self) -> bool: ...

    def take_answered(self) -> list[Waiting[Any]]:
        """Returns the requests whose `result` has arrived."""


class ZooKeeperMembership(Membership, Protocol):
    """Requests to the controller's thread and to ZooKeeper."""

    def ask(self, requests: Sequence[ControllerRequest]) -> Waiting[list[Answer]]:
        """Sends requests to this broker's controller; NOT_CONTROLLER if it is not active."""

    def run(self, make: Callable[[], Steps[T]]) -> Waiting[T]:
        """Runs steps that read and write registries; returns their result, never `None`.

        Without a connection to ZooKeeper the steps wait, and then start from the beginning.
        """

    def change_settings(
        self, changes: Mapping[str, Change], *, validate_only: bool = False
    ) -> Waiting[Refusals]:
        """Changes settings of entities such as `users/alice`; in effect here when answered."""

    def change_acls(self, changes: Mapping[ResourcePattern, ChangeAcls]) -> Waiting[AclChanges]:
        """Changes access rules of resources; in effect here when answered."""

    def change_token(
        self, make: Callable[[], Steps[FoundTokens | ApiError]]
    ) -> Waiting[FoundTokens | ApiError]:
        """Changes a delegation token; in effect here when answered."""


@runtime_checkable
class QuorumMembership(Membership, Protocol[ControllerT]):
    """Requests to the quorum's thread, and those of clients to the active controller.

    `ControllerT` is what decides there while this node leads the quorum.
    """

    def receive(self, request: Request) -> Waiting[Response]:
        """Has the quorum's machine answer another node."""

    def status(self) -> QuorumStatus:
        """How the node stands in the quorum; any thread may ask."""

    def controller_versions(self) -> Mapping[int, int]:
        """The newest version in which the active controller answers what is passed on to it, by
        API; empty while that is not known.
        """

    def decide(self, verb: Callable[[ControllerT], InParts[T]]) -> Waiting[T | ApiError]:
        """Has the active controller decide if it is this node; answered when that is committed.
        Others are answered between the parts of what it decides.

        NOT_CONTROLLER if it is another, or was replaced before. Results are never `None`.
        """

    def forward(
        self, request: Buffer, principal: Principal, host: str, *, is_by_token: bool = False
    ) -> Waiting[Buffer | ApiError]:
        """Sends a client's request, header and all, to the active controller in an Envelope.

        The answer is a response with its header. NOT_CONTROLLER and lost connections are retried
        until a deadline.
        """


AnyMembership = ZooKeeperMembership | QuorumMembership[Any]
"""Of a broker that is in a cluster; `QuorumMembership` can be told by `isinstance`."""
