"""Joins and syncs as the server makes them of its requests."""

from ottla.base.timestamps import Timestamps
from ottla.broker.groups.coordinator import GroupCoordinator
from ottla.broker.waiting.rooms import Waiting
from ottla.coordinator.classic.requests import JoinAnswer, JoinRequest, SyncAnswer, SyncRequest


def join_group(
    groups: GroupCoordinator, request: JoinRequest, at: Timestamps
) -> JoinAnswer | Waiting[JoinAnswer]:
    waiting: Waiting[JoinAnswer] = Waiting()
    decision = groups.machines(at)[0].join(request, waiting, at)
    return groups.carry_out_or_wait(decision, waiting, at)


def sync_group(
    groups: GroupCoordinator, request: SyncRequest, at: Timestamps
) -> SyncAnswer | Waiting[SyncAnswer]:
    waiting: Waiting[SyncAnswer] = Waiting()
    decision = groups.machines(at)[0].sync(request, waiting, at)
    return groups.carry_out_or_wait(decision, waiting, at)
