"""What handlers ask of a node of a KRaft cluster is answered by other threads."""

from collections import deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.principal import Principal
from ottla.broker.membership import membership
from ottla.broker.membership.by_itself import NoMembership
from ottla.broker.waiting.rooms import Waiting
from ottla.cluster.quorum.quorum_membership import QuorumMembership
from ottla.quorum.messages import DescribeQuorum, Known, QuorumAnswer
from ottla.quorum.status import QuorumStatus

NOT_CONTROLLER = ApiError(ErrorCode.NOT_CONTROLLER)


class Node:
    """A node whose threads answer when the test wants."""

    def __init__(self) -> None:
        self.woken = 0
        self.asked: deque[tuple[Any, Callable[[Any], None]]] = deque()
        self.forwarded: list[tuple[bytes, Principal, str, bool]] = []
        self.place: Any = SimpleNamespace(wake=self._wake)
        self.link: Any = None
        self.exchanges: Any = None
        self.quorum: Any = self
        self.forwarding: Any = self

    def _wake(self) -> None:
        self.woken += 1

    def receive(self, request: Any, answered: Callable[[Any], None]) -> None:
        self.asked.append((request, answered))

    ask = receive

    def status(self) -> QuorumStatus:
        return QuorumStatus(state="leader", leader_id=7)

    def forward(
        self, request: bytes, principal: Principal, host: str, *, is_by_token: bool = False
    ) -> Waiting[bytes | ApiError]:
        self.forwarded.append((request, principal, host, is_by_token))
        return Waiting()


def test_answers_of_the_quorums_thread_wake_the_server_in_their_order() -> None:
    node = Node()
    member: QuorumMembership[Any] = QuorumMembership(lambda: True, lambda: node)
    told = member.receive(DescribeQuorum())
    decided = member.decide(lambda controller: controller + 1)
    assert (told.result, decided.result, member.has_answers) == (None, None, False)
    (request, answer_request), (verb, answer_verb) = node.asked
    assert (request, verb(41)) == (DescribeQuorum(), 42)
    answer_verb(NOT_CONTROLLER)
    answer_request(QuorumAnswer(ErrorCode.NONE, Known(3)))
    assert node.woken == 2
    assert member.take_answered() == [decided, told]
    assert decided.result is NOT_CONTROLLER
    assert told.result == QuorumAnswer(ErrorCode.NONE, Known(3))
    assert not member.has_answers


def test_a_clients_request_is_passed_on_with_who_has_sent_it() -> None:
    node, is_leading = Node(), [False]
    member: QuorumMembership[Any] = QuorumMembership(lambda: is_leading[0], lambda: node)
    alice = Principal("User", "alice")
    waiting = member.forward(b"request", alice, "10.0.0.1", is_by_token=True)
    assert node.forwarded == [(b"request", alice, "10.0.0.1", True)]
    member.finish(waiting, b"response")
    assert member.take_answered() == [waiting]
    assert not member.is_controller
    is_leading[0] = True
    assert member.is_controller
    assert member.status().leader_id == 7


def test_a_member_of_a_quorum_is_told_from_others() -> None:
    member: QuorumMembership[Any] = QuorumMembership(lambda: True, Node)
    assert isinstance(member, membership.QuorumMembership)
    assert not isinstance(NoMembership(), membership.QuorumMembership)
