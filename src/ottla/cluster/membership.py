"""The membership of a cluster over ZooKeeper as a broker's handlers use it.

`broker/membership/membership.py: ZooKeeperMembership`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

from ottla.base.errors import ApiError
from ottla.broker.waiting.rooms import Waiting
from ottla.cluster.common_membership import CommonMembership
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

T = TypeVar("T")


class Follow(Protocol):
    """The part of the broker that applies changes in ZooKeeper. Called by the member's thread."""

    def configured(self, settings: Settings) -> None: ...

    def ruled(self, found: FoundAcls) -> None: ...

    def tokens_changed(self, found: FoundTokens) -> None: ...


class ClusterMembership(CommonMembership):
    """`running` is available once the broker listens, which is before the first request."""

    def __init__(
        self, member: ClusterMember, running: Callable[[], Running], follow: Follow
    ) -> None:
        super().__init__(running)
        self._follow = follow
        self._member = member

    @property
    def is_controller(self) -> bool:
        return self._member.is_controller

    def ask(self, requests: Sequence[Request]) -> Waiting[list[Answer]]:
        waiting: Waiting[list[Answer]] = Waiting()
        answers: list[Answer] = []

        def answered(answer: Answer) -> None:
            answers.append(answer)  # in the order of the requests
            if len(answers) == len(requests):
                self.finish(waiting, answers)

        for request in requests:
            self._member.begin(request, answered)
        return waiting

    def run(self, make: Callable[[], Steps[T]]) -> Waiting[T]:
        waiting: Waiting[T] = Waiting()
        self._member.run(make, lambda result: self.finish(waiting, result))
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
                self.finish(waiting, refusals)

        self._member.run(lambda: change_all(changes, validate_only=validate_only), done)
        return waiting

    def change_acls(self, changes: Mapping[ResourcePattern, ChangeAcls]) -> Waiting[AclChanges]:
        waiting: Waiting[AclChanges] = Waiting()

        def done(result: AclChanges) -> None:
            try:
                self._follow.ruled(now_found(result))
            finally:
                self.finish(waiting, result)

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
                self.finish(waiting, result)

        self._member.run(make, done)
        return waiting
