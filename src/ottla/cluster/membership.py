"""A broker's membership as its handlers use it (`broker/membership/membership.py`).

Another thread answers requests; it stores the results and wakes the server's loop.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from ottla.base.errors import ApiError
from ottla.broker.membership.dead_letter_requests import DeadLetterRequest
from ottla.broker.membership.end_requests import EndOffsetsRequest
from ottla.broker.membership.marker_requests import MarkerRequest
from ottla.broker.membership.metadata_requests import MetadataRequest
from ottla.broker.membership.state_requests import ShareStateRequest
from ottla.broker.waiting.rooms import Waiting
from ottla.cluster.member import ClusterMember
from ottla.cluster.running import Running
from ottla.controller.acls import (
    AclChanges,
    ChangeAcls,
    FoundAcls,
    change_all_acls,
    now_found,
)
from ottla.controller.events import Answer, Request
from ottla.controller.operations import Steps
from ottla.controller.settings import Change, Refusals, Settings, change_all
from ottla.controller.tokens import FoundTokens
from ottla.metadata.acls import ResourcePattern
from ottla.zookeeper.controllers import ProducerIdBlock

T = TypeVar("T")


class Follow(Protocol):
    """The part of the broker that applies changes in ZooKeeper. Called by the member's thread."""

    def configured(self, settings: Settings) -> None: ...

    def ruled(self, found: FoundAcls) -> None: ...

    def tokens_changed(self, found: FoundTokens) -> None: ...


class ClusterMembership:
    """`running` is available once the broker listens, which is before the first request."""

    def __init__(
        self, member: ClusterMember, running: Callable[[], Running], follow: Follow
    ) -> None:
        self._follow = follow
        self._member = member
        self._running = running
        self._done: deque[Waiting[Any]] = deque()

    @property
    def is_controller(self) -> bool:
        return self._member.is_controller

    def ask(self, requests: Sequence[Request]) -> Waiting[list[Answer]]:
        waiting: Waiting[list[Answer]] = Waiting()
        answers: list[Answer] = []

        def answered(answer: Answer) -> None:
            answers.append(answer)  # in the order of the requests
            if len(answers) == len(requests):
                self._finish(waiting, answers)

        for request in requests:
            self._member.begin(request, answered)
        return waiting

    def run(self, make: Callable[[], Steps[T]]) -> Waiting[T]:
        waiting: Waiting[T] = Waiting()
        self._member.run(make, lambda result: self._finish(waiting, result))
        return waiting

    def change_settings(
        self, changes: Mapping[str, Change], *, validate_only: bool = False
    ) -> Waiting[Refusals]:
        waiting: Waiting[Refusals] = Waiting()

        def done(result: tuple[Refusals, Settings]) -> None:
            refusals, changed = result
            try:
                self._follow.configured(changed)
            finally:
                self._finish(waiting, refusals)

        self._member.run(lambda: change_all(changes, validate_only=validate_only), done)
        return waiting

    def change_acls(self, changes: Mapping[ResourcePattern, ChangeAcls]) -> Waiting[AclChanges]:
        waiting: Waiting[AclChanges] = Waiting()

        def done(result: AclChanges) -> None:
            try:
                self._follow.ruled(now_found(result))
            finally:
                self._finish(waiting, result)

        self._member.run(lambda: change_all_acls(changes), done)
        return waiting

    def change_token(
        self, make: Callable[[], Steps[FoundTokens | ApiError]]
    ) -> Waiting[FoundTokens | ApiError]:
        waiting: Waiting[FoundTokens | ApiError] = Waiting()

        def done(result: FoundTokens | ApiError) -> None:
            try:
                if not isinstance(result, ApiError):
                    self._follow.tokens_changed(result)
            finally:
                self._finish(waiting, result)

        self._member.run(make, done)
        return waiting

    def create_topics(self, names: Sequence[str]) -> None:
        self._running().link.create_topics(names)

    def allocate_producer_ids(self) -> Waiting[ProducerIdBlock]:
        waiting: Waiting[ProducerIdBlock] = Waiting()
        self._running().link.allocate_producer_ids(lambda block: self._finish(waiting, block))
        return waiting

    def send_markers(self, request: MarkerRequest) -> None:
        self._running().markers.send(request)

    def ask_about_metadata(self, request: MetadataRequest) -> None:
        channels = self._running().metadata
        assert channels is not None, "only a broker with a tier asks"
        channels.send(request)

    def ask_share_coordinator(self, request: ShareStateRequest) -> None:
        self._running().share_states.send(request)

    def send_dead_letters(self, request: DeadLetterRequest) -> None:
        self._running().dead_letters.send(request)

    def ask_for_ends(self, request: EndOffsetsRequest) -> None:
        self._running().ends.send(request)

    def _finish(self, waiting: Waiting[T], result: T) -> None:
        waiting.result = result
        self._done.append(waiting)
        self._running().place.wake()

    @property
    def has_answers(self) -> bool:
        return bool(self._done)

    def take_answered(self) -> list[Waiting[Any]]:
        done = []
        while self._done:
            done.append(self._done.popleft())
        return done
