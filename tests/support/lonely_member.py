"""A broker of a cluster with the controller and a model of ZooKeeper, in one process, unserved."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from ottla.base.errors import ApiError
from ottla.base.files import FileSystem, OsFileSystem
from ottla.broker.control.registered_access import (
    RegisteredAccess,
    found_clients,
    found_rules,
)
from ottla.broker.membership.marker_requests import MarkerRequest
from ottla.broker.membership.state_requests import ShareStateRequest
from ottla.broker.waiting.rooms import Waiting
from ottla.cluster.orders import OrderWriter
from ottla.codec.schema import Message
from ottla.config.inter_broker_version import LATEST
from ottla.controller.acls import AclChanges, ChangeAcls, change_all_acls, now_found
from ottla.controller.context import LiveBroker
from ottla.controller.events import Answer, Request
from ottla.controller.operations import Result, Steps
from ottla.controller.settings import Change, Refusals, change_all
from ottla.controller.tokens import FoundTokens
from ottla.metadata.acls import ResourcePattern
from ottla.testing import FakeFileSystem
from ottla.zookeeper.controllers import ProducerIdBlock
from ottla.zookeeper.paths import PERSISTENT_WITH_ACLS, PERSISTENT_WITH_TOKENS
from tests.support.asking import Asker
from tests.support.controllers import LonelyController, cluster_of
from tests.support.replicated_brokers import open_member, replicas_of

T = TypeVar("T")
ME = 1


class LonelyMember:
    """Broker 1, which is the controller too; the others are registered, and never answer.

    It is the broker's `Membership`. What the controller sends to this broker is delivered at once,
    in the versions of the newest inter-broker version.
    """

    def __init__(
        self, *others: int, directory: Path | FileSystem | None = None, **settings: str
    ) -> None:
        """Its disk is a fake one unless a `directory`, or another disk, is given."""
        is_real = isinstance(directory, Path)
        where = (OsFileSystem(), str(directory)) if is_real else (directory or FakeFileSystem(),)
        self.broker = open_member(ME, *where, membership=self, **settings)
        self.zookeeper = cluster_of(ME, *others)
        self.controller = LonelyController(self.zookeeper, ME)
        self.is_controller = True
        self.named: list[str] = []
        self._done: list[Waiting[Any]] = []
        self.access = RegisteredAccess(self.broker.security, self.broker.admin)
        for path in (*PERSISTENT_WITH_ACLS, *PERSISTENT_WITH_TOKENS):
            self.zookeeper.make(path)
        replicas_of(self.broker).registered(self.broker_of(ME).epoch)
        self.asker = Asker(self.broker)
        self.deliver()

    def broker_of(self, broker: int) -> LiveBroker:
        return self.controller.machine.context.brokers[broker]

    def deliver(self) -> None:
        """What the controller has for this broker, as requests."""
        writer = OrderWriter(controller_id=ME, version=LATEST, listener="PLAINTEXT")
        waiting, self.controller.outgoing = self.controller.outgoing, []
        for outgoing in waiting:
            if outgoing.broker == ME:
                for wire in writer.requests(outgoing):
                    assert self.request(wire.message, wire.version).error_code == 0

    def request(self, request: Message, version: int) -> Any:
        """The response, also to what has to wait for registries."""
        later, output = self.asker.send(request, version)
        had_to_wait = later is not None
        while later is not None:
            assert later.pending_id in self.broker.answers.take_answered(0.0)
            later, output = self.asker.go_on(later)
            self.broker.appends.write_out()
            if later is not None:
                self.deliver()
        if had_to_wait:
            self.deliver()
        return self.asker.decode(request, version, output)

    # The broker's membership

    def ask(self, requests: Sequence[Request]) -> Waiting[list[Answer]]:
        waiting: Waiting[list[Answer]] = Waiting()
        waiting.result = [self.controller.ask(one) for one in requests]
        self._done.append(waiting)
        return waiting

    def run(self, make: Callable[[], Steps[T]]) -> Waiting[T]:
        steps, waiting = make(), Waiting[T]()
        results: tuple[Result, ...] | None = None
        try:
            while True:
                batch = next(steps) if results is None else steps.send(results)
                results = self.zookeeper.execute(self.controller.session, batch)
        except StopIteration as stop:
            waiting.result = stop.value
        self._done.append(waiting)
        return waiting

    def change_settings(
        self, changes: Mapping[str, Change], *, validate_only: bool = False
    ) -> Waiting[Refusals]:
        waiting: Waiting[Refusals] = Waiting()
        result = self.run(lambda: change_all(changes, validate_only=validate_only)).result
        self._done.pop()
        assert result is not None
        waiting.result, changed = result
        self.access.follow_clients(found_clients(changed))
        self._done.append(waiting)
        return waiting

    def change_acls(self, changes: Mapping[ResourcePattern, ChangeAcls]) -> Waiting[AclChanges]:
        waiting = self.run(lambda: change_all_acls(changes))
        assert waiting.result is not None
        self.access.follow_rules(found_rules(now_found(waiting.result)))
        return waiting

    def change_token(
        self, make: Callable[[], Steps[FoundTokens | ApiError]]
    ) -> Waiting[FoundTokens | ApiError]:
        waiting = self.run(make)
        assert waiting.result is not None
        if not isinstance(waiting.result, ApiError):
            self.access.follow_tokens(waiting.result)
        return waiting

    def create_topics(self, names: Sequence[str]) -> None:
        self.named += names

    def allocate_producer_ids(self) -> Waiting[ProducerIdBlock]:
        raise AssertionError("no producer asks here")

    def send_markers(self, request: MarkerRequest) -> None:
        raise AssertionError("no transaction ends here")

    def ask_share_coordinator(self, request: ShareStateRequest) -> None:
        raise AssertionError("no partition of a share group is led here")

    @property
    def has_answers(self) -> bool:
        return bool(self._done)

    def take_answered(self) -> list[Waiting[Any]]:
        done, self._done = self._done, []
        return done
