"""The cluster of which a broker is a member, for the handlers of its requests.

A broker without a cluster has none. Requests to the controller's thread, to ZooKeeper or to the
controller's broker are answered later: `take_done` returns the waiting ones.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from ottla.base.errors import ApiError
from ottla.broker.marker_requests import MarkerRequest
from ottla.broker.waiting import Waiting
from ottla.controller.acls import AclChanges, ChangeAcls
from ottla.controller.events import Answer, Request
from ottla.controller.operations import Steps
from ottla.controller.settings import Change, Refusals
from ottla.controller.tokens import FoundTokens
from ottla.registries.access import ResourceName
from ottla.registries.controllers import ProducerIdBlock

T = TypeVar("T")


class Membership(Protocol):
    """`inter_broker_listener` is the one over which brokers reach each other."""

    @property
    def inter_broker_listener(self) -> str: ...

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the controller, as far as it knows."""

    def ask(self, requests: Sequence[Request]) -> Waiting[list[Answer]]:
        """Has this broker's controller answer each; NOT_CONTROLLER where it is none."""

    def run(self, make: Callable[[], Steps[T]]) -> Waiting[T]:
        """Reads and writes registries; what the steps return, which must not be `None`.

        It waits as long as there is no connection to ZooKeeper, and then begins again.
        """

    def change_settings(
        self, changes: Mapping[str, Change], *, validate_only: bool = False
    ) -> Waiting[Refusals]:
        """Of entities such as `users/alice`; they hold on this broker when it is answered."""

    def change_acls(self, changes: Mapping[ResourceName, ChangeAcls]) -> Waiting[AclChanges]:
        """Of resources; they hold on this broker when it is answered."""

    def change_token(
        self, make: Callable[[], Steps[FoundTokens | ApiError]]
    ) -> Waiting[FoundTokens | ApiError]:
        """A delegation token, which is as changed on this broker when it is answered."""

    def create_topics(self, names: Sequence[str]) -> None:
        """Asks the controller for topics that a client has named; the client asks again."""

    def allocate_producer_ids(self) -> Waiting[ProducerIdBlock]:
        """The next block of the cluster's producer ids."""

    def send_markers(self, request: MarkerRequest) -> None:
        """To the broker that it names; its answer goes to the coordinator of transactions."""

    @property
    def has_done(self) -> bool: ...

    def take_done(self) -> list[Waiting[object]]:
        """Those whose `result` has come."""
