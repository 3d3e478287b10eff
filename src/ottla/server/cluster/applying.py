"""Orders of the controller, carried out in parts between which clients are served."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.turns import in_turns, parts_in_turns
from ottla.broker.membership import Membership
from ottla.broker.replicas import Replicas
from ottla.broker.replication.replica_manager import Applied, Sender
from ottla.codec.schema import Message
from ottla.controller.events import Answer, Request
from ottla.controller.requests import LeaderAndIsr, Order, StopReplica, UpdateMetadata
from ottla.server.request_context import PendingAnswer, RequestContext

MAX_PARTITIONS = 16
"""What becomes leader or follower, or is made, in one go."""

MAX_UPDATED = 500
"""What Metadata is answered from takes in in one go, within 2 ms also among 20,000 topics."""


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
    asked: Sequence[tuple[Request, Refusable]], response: Message, context: RequestContext
) -> PendingAnswer:
    """The response once each event is decided on; a refusal stands in the event's result."""

    def answered(answers: list[Answer]) -> Message:
        for (_, result), answer in in_turns(zip(asked, answers, strict=True)):
            if answer.error is not ErrorCode.NONE:
                result.error_code = answer.error
                result.error_message = answer.error.description
        return response

    events = [event for event, _ in in_turns(asked)]
    return PendingAnswer(membership_of(context).ask(events), answered, takes_long=True)


def apply_in_parts(
    order: LeaderAndIsr | StopReplica, sender: Sender, context: RequestContext
) -> Applied:
    """The errors of all partitions; what a later controller has forbidden since is not done."""
    if len(order.orders) > MAX_PARTITIONS:
        context.may_take_long()
    return _apply(order, order.orders, MAX_PARTITIONS, sender, context)


def update_in_parts(order: UpdateMetadata, sender: Sender, context: RequestContext) -> Applied:
    """As `apply_in_parts`; clients see meanwhile what has been taken of the update."""
    if len(order.partitions) > MAX_UPDATED:
        context.may_take_long()
    return _apply(order, order.partitions, MAX_UPDATED, sender, context)


def _apply(
    order: Order,
    places: Iterable[TopicPartition],
    max_count: int,
    sender: Sender,
    context: RequestContext,
) -> Applied:
    replicas = replicas_of(context)
    errors: dict[TopicPartition, ErrorCode] = {}
    applied = Applied()
    for part in parts_in_turns(places, max_count) if places else [[]]:
        applied = replicas.apply(_part_of(order, part), sender, context.at)
        errors |= applied.errors
        if applied.error is not ErrorCode.NONE:
            break
    return Applied(error=applied.error, errors=errors)


def _part_of(order: Order, part: list[TopicPartition]) -> Order:
    if isinstance(order, UpdateMetadata):
        ids = order.topic_ids
        return replace(
            order,
            partitions={one: order.partitions[one] for one in part},
            topic_ids={name: ids[name] for name in {one.topic for one in part} if name in ids},
        )
    if isinstance(order, StopReplica):
        return StopReplica(orders={one: order.orders[one] for one in part})
    return replace(order, orders={one: order.orders[one] for one in part})
