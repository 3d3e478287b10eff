"""What is wrong with a KRaft cluster's quorum, by its status, and what to do about it."""

from collections.abc import Iterator
from typing import Final

from ottla.client.administration.quorum_status import QuorumReplica, QuorumStatus
from ottla.diagnosis.complaints import Complaint, Remedy

FRAGILE: Final = 2
"""Voters, of which none may fail: one voter alone needs no other."""

LAGGING: Final = 1000
"""Offsets of the metadata log: more than a node that fetches is ever behind for long."""


def complaints_of_quorum(status: QuorumStatus) -> Iterator[Complaint]:
    """No majority, voters that do not fetch, nodes whose metadata lag, and a fragile number of
    voters.
    """
    if not status.is_led:
        yield Complaint(
            kind="no_quorum",
            where="the quorum",
            what=f"no controller leads it{status.words and f' ({status.words})'}: brokers serve "
            "what they know, and nothing of the cluster changes; no leader is elected where a "
            "broker fails",
            remedy=Remedy.START_VOTERS,
        )
        return
    for one in status.replicas:
        yield from _check_replica(one, status)
    if len(status.voters) == FRAGILE:
        yield Complaint(
            kind="two_voters",
            where="the quorum",
            what="has two voters: the loss of either stops it",
            remedy=Remedy.ADD_VOTER,
            is_note=True,
        )


def _check_replica(one: QuorumReplica, status: QuorumStatus) -> Iterator[Complaint]:
    where = f"{'voter' if one.is_voter else 'observer'} {one.node}"
    if status.is_silent(one):
        quiet_ms = status.quiet_ms(one)
        since = f"for {quiet_ms / 1000:.0f} s" if quiet_ms else f"since epoch {status.epoch} began"
        left = len(status.voters) - len(status.silent)
        needed = len(status.voters) // 2 + 1
        more = f"; {left} of {len(status.voters)} voters fetch, {needed} are needed"
        yield Complaint(
            kind="silent_voter" if one.is_voter else "silent_observer",
            where=where,
            what=f"has not fetched the metadata log {since}{more if one.is_voter else ''}",
            remedy=Remedy.START_VOTER if one.is_voter else Remedy.START_OBSERVER,
            subject=str(one.node),
            is_note=not one.is_voter,
        )
    elif one.lag > LAGGING:
        yield Complaint(
            kind="metadata_lag",
            where=where,
            what=f"is {one.lag} offsets behind the end of the metadata log: it knows the cluster "
            "as it was",
            remedy=Remedy.LOOK_AT_NODE,
            subject=str(one.node),
        )
