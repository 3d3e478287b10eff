"""How a node stands in the quorum, for metrics. Kafka's counterpart: `KafkaRaftMetrics`."""

from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.timestamps import Timestamps
from ottla.base.values import dataclass
from ottla.quorum.machine import Quorum
from ottla.quorum.messages import EndQuorumEpoch, QuorumAnswer
from ottla.quorum.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached

NOBODY: Final = -1
STARTED: Final = "this node has started"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumStatus:
    """`state` is Kafka's word: leader, follower, observer, candidate, prospective, resigned,
    unattached. `leader_id` and `voted_id` are -1 for nobody.

    `committed_offset` is how far the image is. `observer_count` is known to a leader only.
    `election_latency_ms` is what the last election took until a leader was known here, `None` if
    there was none, and `election_reason` why this node has stood for it. `new_leader_count` is how
    often another leader was known here. `leaderless_since_ms` is the monotonic time since which no
    leader is heard here, `None` if one is. `refusal` is why a node does not talk to this one, if
    one has said so.
    """

    state: str
    leader_id: int = NOBODY
    epoch: int = 0
    voted_id: int = NOBODY
    high_watermark: int = 0
    end_offset: int = 0
    end_epoch: int = 0
    committed_offset: int = 0
    voter_count: int = 0
    observer_count: int = 0
    is_active_controller: bool = False
    new_leader_count: int = 0
    election_latency_ms: float | None = None
    election_reason: str = ""
    leaderless_since_ms: float | None = None
    refusal: str | None = None


class ElectionNotes:
    """Why and how long there was no leader, by what the states of a node were."""

    def __init__(self) -> None:
        self.reason = ""
        self.latency_ms: float | None = None
        self.leader_count = 0
        self.leaderless_since_ms: float | None = None
        self._led_epoch = -1
        """The last epoch whose leader was known."""
        self._began_ms: float | None = None
        self._role: Role | None = None
        self._first: Role | None = None
        self._ended: tuple[int, int] | None = None
        """Epoch and leader of the last EndQuorumEpoch."""

    def ended(self, request: EndQuorumEpoch) -> None:
        self._ended = request.epoch, request.leader_id

    def look(self, role: Role, at: Timestamps) -> None:
        """After each input of the machine."""
        if isinstance(role, Leader) or (isinstance(role, Follower) and role.has_fetched):
            self.leaderless_since_ms = None
        elif self.leaderless_since_ms is None:
            self.leaderless_since_ms = at.monotonic_ms
        before, self._role = self._role, role
        self._first = self._first or role
        if before is role:
            return
        if isinstance(role, Leader | Follower):
            self._count(role.epoch)
            if isinstance(role, Leader) and not isinstance(before, Prospective | Candidate):
                self.reason, self._began_ms = self._why(before), at.monotonic_ms
            if self._began_ms is not None:
                self.latency_ms = at.monotonic_ms - self._began_ms
                self._began_ms = None
        elif isinstance(role, Prospective | Candidate) and self._began_ms is None:
            self.reason, self._began_ms = self._why(before), at.monotonic_ms

    def added_to(self, answer: QuorumAnswer, quorum: Quorum, at: Timestamps) -> QuorumAnswer:
        """What is left to the caller of the machine."""
        if answer.error is ErrorCode.NONE:
            return answer._replace(election_reason=self.reason)
        return answer._replace(message=self._words(quorum, at), node_id=quorum.node.own_id)

    def _words(self, quorum: Quorum, at: Timestamps) -> str:
        """What a node that does not lead says of who does, for people. A follower that was not
        elected takes up its last leader again, whom it may not hear.
        """
        own_id, role, since_ms = quorum.node.own_id, quorum.role, self.leaderless_since_ms
        leader = f"node {role.leader_id}, the leader" if role.leader_id is not None else "a leader"
        if since_ms is None:
            return f"node {own_id} follows {leader} of epoch {role.epoch}"
        silent_s = (at.monotonic_ms - since_ms) / 1000
        return f"node {own_id} has not heard {leader} of epoch {role.epoch} for {silent_s:.0f} s"

    def _count(self, epoch: int) -> None:
        """An epoch has one leader, which a node may lose and find again."""
        self.leader_count += epoch != self._led_epoch
        self._led_epoch = epoch

    def _why(self, before: Role | None) -> str:
        match before:
            case Follower() if self._ended == (before.epoch, before.leader_id):
                return f"leader {before.leader_id} of epoch {before.epoch} has resigned"
            case Follower():
                return (
                    f"nothing was heard of leader {before.leader_id} of epoch {before.epoch} in "
                    "time (controller.quorum.fetch.timeout.ms)"
                )
            case Resigned() | Unattached() if before is self._first:
                return STARTED
            case Leader() | Resigned():
                return f"this node led epoch {before.epoch} and has resigned"
            case None:
                return STARTED
            case _:
                return f"no leader of epoch {before.epoch} was known in time"


def status_of(quorum: Quorum, notes: ElectionNotes, committed_offset: int) -> QuorumStatus:
    """`is_active_controller` is left to the caller."""
    node, role = quorum.node, quorum.role
    observer_count = 0
    if isinstance(role, Leader):
        observer_count = sum(not node.voters.has(one) for one in role.progress)
    leader_id = node.known().leader_id
    return QuorumStatus(
        state=_state_of(quorum, role),
        leader_id=NOBODY if leader_id is None else leader_id,
        epoch=node.epoch,
        voted_id=NOBODY if role.voted is None else role.voted.id,
        high_watermark=quorum.high_watermark,
        end_offset=node.log.end_offset,
        end_epoch=node.log.last_epoch,
        committed_offset=committed_offset,
        voter_count=len(node.voters),
        observer_count=observer_count,
        new_leader_count=notes.leader_count,
        election_latency_ms=notes.latency_ms,
        election_reason=notes.reason,
        leaderless_since_ms=notes.leaderless_since_ms,
    )


def _state_of(quorum: Quorum, role: Role) -> str:
    if isinstance(role, Follower) and not quorum.node.is_voter:
        return "observer"
    return type(role).__name__.lower()
