"""The only node of a KRaft cluster, broker and controller, in one process, unserved."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import Buffer
from ottla.base.principal import Principal
from ottla.base.turns import InParts, result_of
from ottla.broker.control.image_following import ImageFollower
from ottla.broker.controlling.active_controller import ActiveController
from ottla.broker.membership.quorum_start import QuorumStart
from ottla.broker.waiting.rooms import Waiting
from ottla.codec.schema import Message
from ottla.metadata.changes import ImageChanges
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from ottla.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    Feature,
    Listener,
)
from ottla.quorum.messages import Request, Response
from ottla.quorum.status import QuorumStatus
from ottla.server.dispatching.request_context import Client
from ottla.testing import FakeFileSystem
from tests.support.active_controllers import CLUSTER_ID, AloneInQuorum
from tests.support.asking import ADDRESS, Asker
from tests.support.brokers import at, id_of
from tests.support.scripted_images import ME, open_quorum_member

T = TypeVar("T")

FEATURES = {"metadata.version": (7, 25), "group.version": (0, 1), "share.version": (0, 2)}

SETTINGS = {
    "node_id": str(ME),
    "process_roles": "broker,controller",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller_listener_names": "CONTROLLER",
    "controller_quorum_voters": f"{ME}@localhost:9093",
}


class LonelyNode:
    """Node 1, whose broker is registered. It is the broker's `QuorumMembership`.

    What it decides is committed at once while it `leads`, and known to its broker at once, or by
    `publish`. Clients ask `client`, and nodes `node`. Requests that are to be forwarded stay in
    `forwarded` until they are answered.
    """

    def __init__(self, **settings: str) -> None:
        self.quorum = AloneInQuorum(kind=ActiveController)
        self.leads = True
        self.shows_at_once = True
        self.forwarded: list[tuple[Buffer, Principal, str, bool, Waiting[Buffer | ApiError]]] = []
        self.named: list[str] = []
        self.newest: dict[int, int] = {}
        """What the controller answers, as far as is known."""
        self._done: list[Waiting[Any]] = []
        start = QuorumStart(image=self.quorum.controller.image, leader_id=lambda: ME)
        self.broker = open_quorum_member(
            FakeFileSystem(), start=start, membership=self, **SETTINGS | settings
        )
        self.complaints: list[str] = []
        self._follower = ImageFollower(self.broker, lambda: at(0.0), self.complaints.append)
        self.client = Asker(self.broker, client=Client(ADDRESS, "10.0.0.9"))
        self.node = Asker(self.broker, client=Client(ADDRESS, "10.0.0.8", listener="CONTROLLER"))
        self.publish()
        self.epoch = self._register()

    def _register(self) -> int:
        registered = self.ask_node(registration(ME), 4)
        epoch: int = registered.broker_epoch
        self.ask_node(
            BrokerHeartbeatRequest(broker_id=ME, broker_epoch=epoch, current_metadata_offset=epoch),
            1,
        )
        self.publish()
        return epoch

    def publish(self) -> None:
        """Shows the broker what is committed."""
        self.quorum.commit()
        image = self.quorum.controller.image
        changes = ImageChanges.between(self.broker.image_store.image, image)
        self._follower.follow(image, changes)

    def ask_node(self, request: Message, version: int) -> Any:
        """The response on the controller's listener, also to what has to wait."""
        return self._asked(self.node, request, version)

    def _asked(self, asker: Asker, request: Message, version: int) -> Any:
        later, output = asker.send(request, version)
        while later is not None:
            assert later.pending_id in self.broker.answers.take_answered(0.0)
            later, output = asker.go_on(later)
        return asker.decode(request, version, output)

    # As the membership

    @property
    def is_controller(self) -> bool:
        return self.leads

    def receive(self, request: Request) -> Waiting[Response]:
        raise AssertionError("this node has no quorum's thread")

    def status(self) -> QuorumStatus:
        return QuorumStatus(state="leader" if self.leads else "follower", leader_id=ME, epoch=3)

    def decide(self, verb: Callable[[ActiveController], InParts[T]]) -> Waiting[T | ApiError]:
        waiting: Waiting[T | ApiError] = Waiting()
        try:
            if not self.leads:
                raise ApiError(ErrorCode.NOT_CONTROLLER)
            waiting.result = result_of(verb(self.quorum.controller))
            if self.shows_at_once:
                self.publish()
        except ApiError as error:
            waiting.result = error
        self._done.append(waiting)
        return waiting

    def controller_versions(self) -> dict[int, int]:
        return self.newest

    def forward(
        self, request: Buffer, principal: Principal, host: str, *, is_by_token: bool = False
    ) -> Waiting[Buffer | ApiError]:
        waiting: Waiting[Buffer | ApiError] = Waiting()
        self.forwarded.append((request, principal, host, is_by_token, waiting))
        return waiting

    def answer(self, answer: Buffer | ApiError) -> None:
        """Answers the oldest request that was to be forwarded."""
        *_, waiting = self.forwarded.pop(0)
        waiting.result = answer
        self._done.append(waiting)

    def create_topics(self, names: Sequence[str]) -> None:
        self.named += names

    def allocate_producer_ids(self) -> Waiting[Any]:
        raise AssertionError("no producer asks")

    def _unasked(self, request: Any) -> None:
        raise AssertionError("no other node is asked")

    send_markers = ask_about_metadata = ask_share_coordinator = _unasked
    ask_for_admission = send_dead_letters = ask_for_ends = _unasked

    @property
    def has_answers(self) -> bool:
        return bool(self._done)

    def take_answered(self) -> list[Waiting[Any]]:
        done, self._done = self._done, []
        return done


def registration(broker_id: int, incarnation: int = 1) -> BrokerRegistrationRequest:
    return BrokerRegistrationRequest(
        broker_id=broker_id,
        cluster_id=CLUSTER_ID,
        incarnation_id=id_of(1000 + incarnation),
        listeners=[Listener(name="PLAINTEXT", host="h", port=9092)],
        features=[
            Feature(name=name, min_supported_version=oldest, max_supported_version=newest)
            for name, (oldest, newest) in FEATURES.items()
        ],
        log_dirs=[id_of(2000 + 10 * broker_id + incarnation)],
    )
