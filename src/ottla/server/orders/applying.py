"""Orders of the controller, carried out in parts between which clients are served."""

from dataclasses import replace

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.base.turns import parts_in_turns
from ottla.broker.membership.by_itself import NoMembership
from ottla.broker.membership.membership import QuorumMembership, ZooKeeperMembership
from ottla.broker.replicas.replicas import Replicas
from ottla.broker.replication.replica_manager import Applied, Sender
from ottla.controller.requests import LeaderAndIsr, StopReplica
from ottla.server.dispatching.request_context import RequestContext

MAX_PARTITIONS = 8
"""Partitions that become leader or follower, or are created, in one step."""


def replicas_of(context: RequestContext) -> Replicas:
    replicas = context.broker.replicas
    assert isinstance(replicas, Replicas), "these handlers are those of a member of a cluster"
    return replicas


def membership_of(context: RequestContext) -> ZooKeeperMembership:
    membership = context.broker.membership
    assert not isinstance(membership, NoMembership | QuorumMembership), (
        "these handlers are those of a member of a cluster over ZooKeeper"
    )
    return membership


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
    replicas.save_stopped()
    return Applied(error=applied.error, errors=errors)


def _part_of(
    order: LeaderAndIsr | StopReplica, part: list[TopicPartition]
) -> LeaderAndIsr | StopReplica:
    if isinstance(order, StopReplica):
        return StopReplica(orders={one: order.orders[one] for one in part})
    return replace(order, orders={one: order.orders[one] for one in part})
