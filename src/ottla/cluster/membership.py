"""A broker in its cluster, as its handlers see it (`broker/membership.py`).

Whatever is asked is answered in another thread, which puts who waited aside and wakes the server's
loop.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ottla.broker.waiting import Waiting
from ottla.cluster.controller_link import ControllerLink
from ottla.cluster.member import ClusterMember
from ottla.controller.events import Answer, Request
from ottla.controller.operations import Steps
from ottla.registries.controllers import ProducerIdBlock

T = TypeVar("T")


class ClusterMembership:
    def __init__(
        self,
        member: ClusterMember,
        link: ControllerLink,
        inter_broker_listener: str,
        wake: Callable[[], None],
    ) -> None:
        self.inter_broker_listener = inter_broker_listener
        self._member = member
        self._link = link
        self._wake = wake
        self._done: deque[Waiting[Any]] = deque()

    @property
    def is_controller(self) -> bool:
        return self._member.is_controller

    def ask(self, requests: Sequence[Request]) -> Waiting[list[Answer]]:
        waiting: Waiting[list[Answer]] = Waiting()
        answers: list[Answer] = []

        def answered(answer: Answer) -> None:
            answers.append(answer)  # in the order in which they were asked
            if len(answers) == len(requests):
                self._finish(waiting, answers)

        for request in requests:
            self._member.begin(request, answered)
        return waiting

    def run(self, make: Callable[[], Steps[T]]) -> Waiting[T]:
        waiting: Waiting[T] = Waiting()
        self._member.run(make, lambda result: self._finish(waiting, result))
        return waiting

    def create_topics(self, names: Sequence[str]) -> None:
        self._link.create_topics(names)

    def allocate_producer_ids(self) -> Waiting[ProducerIdBlock]:
        waiting: Waiting[ProducerIdBlock] = Waiting()
        self._link.allocate_producer_ids(lambda block: self._finish(waiting, block))
        return waiting

    def _finish(self, waiting: Waiting[T], result: T) -> None:
        waiting.result = result
        self._done.append(waiting)
        self._wake()

    @property
    def has_done(self) -> bool:
        return bool(self._done)

    def take_done(self) -> list[Waiting[Any]]:
        done = []
        while self._done:
            done.append(self._done.popleft())
        return done
