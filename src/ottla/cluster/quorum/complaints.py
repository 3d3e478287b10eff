"""What people are told of the quorum: each thing once, until it is over."""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from ottla.base.timestamps import Timestamps
from ottla.quorum.effects import LeaderChanged
from ottla.quorum.machine import Quorum
from ottla.quorum.messages import Known
from ottla.quorum.roles import Follower, Leader

logger = logging.getLogger(__name__)

LONG_MS: Final = 10_000
"""How long nobody must have led before people are told: elections take less."""

FORGETFUL: Final = (
    "voter {0} had the metadata log up to offset {1}, and asks from {2} again: its disk has lost "
    "what was synced, or its directory is an old copy; what only it and voters that are lost had "
    "may be lost; it fetches the rest again, but may have voted twice: remove it from the voters, "
    "format a new directory and let it join again"
)


class Complaints:
    def __init__(
        self, complain: Callable[[str], None], silent: Callable[[], Mapping[int, str]]
    ) -> None:
        """`silent` are the nodes whose last request failed, and how."""
        self._complain = complain
        self._silent = silent
        self._refused_answer = self._refused_office = self._no_snapshot = self._no_room = ""
        self._is_leading = False
        self._doubled_epoch: int | None = None
        self._leaderless_ms: float | None = None
        """Since when nobody has led."""
        self._is_told = False
        self.gives_up = False
        """Whether this node resigns by itself."""

    def look(self, quorum: Quorum, at: Timestamps) -> None:
        """Called in each round."""
        complaint = quorum.take_complaint()
        if complaint is not None and complaint != self._refused_answer:
            self._refused_answer = complaint
            self._complain(f"the leader's answer was not taken: {complaint}")
        doubled = quorum.node.doubled_epoch
        if doubled not in (None, self._doubled_epoch):
            self._complain(
                f"another process is node {quorum.node.own_id}, and leads epoch {doubled} of the "
                "quorum; give this one another node.id, or stop the other"
            )
        self._doubled_epoch = doubled
        forgetful, quorum.node.forgetful = quorum.node.forgetful, None
        if forgetful is not None:
            self._complain(FORGETFUL.format(*forgetful))
        role = quorum.role
        # Who stands for election in vain goes back to a leader that may be gone.
        if isinstance(role, Leader) or (isinstance(role, Follower) and role.has_fetched):
            self._leaderless_ms, self._is_told = None, False
        elif self._leaderless_ms is None:
            self._leaderless_ms = at.monotonic_ms
        elif doubled is not None:
            pass  # the other process may lead
        elif not self._is_told and at.monotonic_ms - self._leaderless_ms >= LONG_MS:
            self._is_told = True
            self._complain(self._nobody_leads(quorum))

    def _nobody_leads(self, quorum: Quorum) -> str:
        voters, silent = quorum.node.voters, self._silent()
        # Of addresses in the settings nobody knows yet which node is there; once the voters are
        # known, what became of those is old.
        asked = sorted(silent.keys() & {*quorum.asked_ids()})
        names = {one: f"node {one}" if one >= 0 else "a controller" for one in asked}
        reasons = [f"{name} does not answer ({silent[one]})" for one, name in names.items()]
        line = f"nobody has led the quorum for {LONG_MS // 1000} s"
        if reasons:
            line += f": {', '.join(reasons)}"
        if len(voters) > 1:
            line += (
                f"; {voters.majority} of its {len(voters)} voters must be up, and reach each other"
            )
        return line

    def cannot_decide(self, reason: str) -> None:
        if reason != self._refused_office:
            self._refused_office = reason
            self._complain(f"this node cannot be the controller: {reason}")

    def no_snapshot(self, reason: str) -> None:
        """A snapshot of the log was put off, or made: then there is no reason."""
        if reason and not self._no_snapshot:
            self._complain(
                "a snapshot of the metadata log is put off, which goes on and grows meanwhile: "
                f"{reason}"
            )
        self._no_snapshot = reason

    def no_room(self, reason: str) -> None:
        """A part of the leader's snapshot could not be written, or was: then without a reason."""
        if reason and not self._no_room:
            self._complain(
                "the leader's snapshot of the metadata cannot be written here, and this node votes "
                f"but learns nothing of the cluster until it can: {reason}"
            )
        elif self._no_room and not reason:
            logger.info("the leader's snapshot of the metadata is written again: there is room")
        self._no_room = reason

    def leader_changed(
        self, quorum: Quorum, effect: LeaderChanged, former: Known, reason: str
    ) -> None:
        """`former` is what was known before, and `reason` why this node has stood for election."""
        node, was_leading = quorum.node, self._is_leading
        self._is_leading = effect.leader_id == node.own_id
        if effect.leader_id is not None:
            line = f"node {effect.leader_id} leads epoch {effect.epoch} of the quorum"
            logger.info("%s", f"{line}: {reason}" if self._is_leading else line)
        elif was_leading:
            reason = "too few of the others have fetched from it in time"
            if effect.epoch > former.epoch:
                reason = f"epoch {effect.epoch} has begun"
            elif not node.is_voter:
                reason = "it is no voter any more"
            elif self.gives_up:
                reason = "it gives way to another voter"
            logger.warning("this node leads the quorum no longer: %s", reason)
