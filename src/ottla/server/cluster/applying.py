"""Orders of the controller, carried out in parts between which clients are served."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.turns import in_turns, parts_in_turns
from ottla.broker.membership import Membership
from ottla.broker.replicas import Replicas
from ottla.broker.replication.replica_manager import Applied, Sender
from ottla.codec.schema import Message
from ottla.controller.events import Answer, CreatePartitions, CreateTopic
from ottla.controller.requests import LeaderAndIsr, StopReplica
from ottla.registries.topics import NO_LEADER
from ottla.server.request_context import PendingAnswer, PendingResponse, RequestContext

T = TypeVar("T")

MAX_PARTITIONS = 16
"""Partitions that become leader or follower, or are created, in one step."""


def replicas_of(context: RequestContext) -> Replicas:
    replicas = context.broker.replicas
    assert replicas is not None, "these handlers are those of a member of a cluster"
    return replicas


def membership_of(context: RequestContext) -> Membership:
    membership = context.broker.membership
    assert membership is not None, "these handlers are those of a member of a cluster"
    return membership


class Refusable(Protocol):
    """One of a response's results."""

    error_code: int
    error_message: str | None


def ask_controller(
    asked: Sequence[tuple[CreateTopic | CreatePartitions, Refusable]],
    response: Message,
    context: RequestContext,
    timeout_ms: int,
) -> PendingAnswer:
    """Returns the response once each event is decided, and this broker knows the resulting leaders.

    A refusal is in the event's result.
    """

    def answered(answers: list[Answer]) -> Message | PendingResponse:
        left = []
        for (event, result), answer in in_turns(zip(asked, answers, strict=True)):
            if answer.error is ErrorCode.NONE:
                left.append((event, result))
            else:
                refuse(result, answer.error)

        def is_led(one: tuple[CreateTopic | CreatePartitions, Refusable]) -> bool:
            known = replicas_of(context).metadata.topics.get(one[0].topic, {})
            return all(
                index in known and known[index].state.leader != NO_LEADER
                for index in one[0].assignment
            )

        def is_late(one: tuple[CreateTopic | CreatePartitions, Refusable]) -> None:
            refuse(one[1], ErrorCode.REQUEST_TIMED_OUT)

        return Hearing(left, is_led, is_late).respond(response, context, timeout_ms)

    events = [event for event, _ in in_turns(asked)]
    return PendingAnswer(membership_of(context).ask(events), answered, takes_long=True)


def refuse(result: Refusable, error: ErrorCode) -> None:
    result.error_code, result.error_message = error, error.description


class Hearing(Generic[T]):
    """Waits until this broker knows what the controller has done, before the client is answered.

    Known items are removed from `left`; `is_late` amends the response if the client's timeout is
    over.
    """

    def __init__(
        self, left: list[T], is_heard: Callable[[T], bool], is_late: Callable[[T], None]
    ) -> None:
        self._left = left
        self._is_heard = is_heard
        self._is_late = is_late

    def is_over(self) -> bool:
        while self._left and self._is_heard(self._left[-1]):
            self._left.pop()
        return not self._left

    def respond(
        self, response: Message, context: RequestContext, timeout_ms: int
    ) -> Message | PendingResponse:
        if self.is_over():
            return response

        def heard(has_come: bool) -> Message:
            for one in in_turns(self._left):
                if not has_come and not self._is_heard(one):
                    self._is_late(one)
            return response

        deadline_ms = context.at.monotonic_ms + timeout_ms
        waiting = replicas_of(context).await_metadata(self.is_over, deadline_ms)
        return PendingAnswer(waiting, heard, takes_long=True)


def apply_in_parts(
    order: LeaderAndIsr | StopReplica, sender: Sender, context: RequestContext
) -> Applied:
    """Returns the errors of all partitions; skips what a later controller has forbidden since."""
    if len(order.orders) > MAX_PARTITIONS:
        context.may_take_long()
    replicas = replicas_of(context)
    errors: dict[TopicPartition, ErrorCode] = {}
    applied = Applied()
    for part in parts_in_turns(order.orders, MAX_PARTITIONS) if order.orders else [[]]:
        applied = replicas.apply(_part_of(order, part), sender, context.at)
        errors |= applied.errors
        if applied.error is not ErrorCode.NONE:
            break
    return Applied(error=applied.error, errors=errors)


def _part_of(
    order: LeaderAndIsr | StopReplica, part: list[TopicPartition]
) -> LeaderAndIsr | StopReplica:
    if isinstance(order, StopReplica):
        return StopReplica(orders={one: order.orders[one] for one in part})
    return replace(order, orders={one: order.orders[one] for one in part})
