"""What all parts of the machine share: the node, its log, its state, and how that changes.

Kafka's counterpart: `QuorumState`.
"""

from collections.abc import Callable, Hashable
from typing import NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.timestamps import Timestamps
from ottla.quorum.effects import (
    Effect,
    HighWatermarkMoved,
    LeaderChanged,
    Reply,
    Send,
    WriteElectionState,
)
from ottla.quorum.election_state import ElectionState
from ottla.quorum.lineage import Lineage
from ottla.quorum.messages import FetchAnswer, Known, Request, Response, VoterAnswer
from ottla.quorum.options import QuorumOptions
from ottla.quorum.peers import Peers
from ottla.quorum.roles import (
    Ballot,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
    election_of,
)
from ottla.quorum.voters import Endpoint, ReplicaKey, VoterHistory, VoterSet


class Forgetful(NamedTuple):
    """A voter that had all below one offset durably, and asks from an earlier one."""

    voter_id: int
    had: int
    has: int


class Node:
    """`random_below(n)` is a number from 0 to n - 1."""

    def __init__(
        self,
        options: QuorumOptions,
        log: Lineage,
        history: VoterHistory,
        random_below: Callable[[int], int],
    ) -> None:
        self.options = options
        self.log = log
        self.history = history
        self.random_below = random_below
        self.at = Timestamps(now_ms=0, monotonic_ms=0)
        self.peers = Peers(options.request_timeout_ms, options.retry_backoff_ms)
        self.high_watermark = log.start_offset
        self.losses = 0
        """Elections lost in a row, after which it waits longer each time."""
        self.aside_until_ms = 0.0
        """Until then others have the first chance to lead: this node did, and could not decide."""
        self.doubled_epoch: int | None = None
        """One that this node leads by what others say, and has never begun."""
        self.forgetful: Forgetful | None = None
        """The last voter that has asked this leader for what it had."""
        self.unheard: set[int] = set()
        """Voters whose epochs must be known before this node, whose `quorum-state` is lost, takes
        part again.
        """
        self.ended_epoch = -1
        """The last epoch whose leader has said that it has resigned: nobody follows it again."""
        self.role: Role = Unattached(0, 0)
        self._written: ElectionState | None = None
        self._effects: list[Effect] = []

    # What it knows

    @property
    def now_ms(self) -> float:
        return self.at.monotonic_ms

    @property
    def voters(self) -> VoterSet:
        return self.history.voters

    @property
    def is_voter(self) -> bool:
        return self.voters.has(self.options.key)

    @property
    def epoch(self) -> int:
        return self.role.epoch

    @property
    def own_id(self) -> int:
        return self.options.key.id

    def known(self) -> Known:
        """What every response tells."""
        leader_id = self.role.leader_id
        if leader_id is None:
            return Known(self.epoch)
        return Known(self.epoch, leader_id, self.endpoint_of(leader_id))

    def endpoint_of(self, node_id: int) -> Endpoint | None:
        if node_id == self.own_id:
            endpoints = self.options.endpoints
        elif isinstance(self.role, Follower) and node_id == self.role.leader_id:
            return self.role.endpoint
        else:
            voter = self.voters.get(node_id)
            endpoints = () if voter is None else voter.endpoints
        return endpoints[0] if endpoints else None

    def election_timeout_ms(self) -> float:
        """Random, so that not all stand for election at once."""
        timeout_ms = self.options.election_timeout_ms
        first_ms = max(self.now_ms, self.aside_until_ms)
        return first_ms + timeout_ms + self.random_below(timeout_ms)

    # Effects

    def do(self, *effects: Effect) -> None:
        self._effects += effects

    def take_effects(self) -> list[Effect]:
        effects, self._effects = self._effects, []
        return effects

    def reply(self, pending_id: Hashable, response: Response) -> None:
        self._effects.append(Reply(pending_id, response))

    def send(self, node_id: int, endpoint: Endpoint | None, request: Request) -> None:
        number = self.peers.sent(node_id, request, self.now_ms)
        self._effects.append(Send(number, node_id, endpoint, request))

    def raise_high_watermark(self, offset: int) -> None:
        if offset > self.high_watermark:
            self.high_watermark = offset
            self._effects.append(HighWatermarkMoved(offset))

    # States

    def begin(self, election: ElectionState) -> None:
        """The state after a start; a former leader tells the others that it does not lead."""
        self._written = election
        epoch = max(election.epoch, self.log.last_epoch)
        deadline_ms = self.election_timeout_ms()
        if election.epoch < epoch:
            self.enter(Unattached(epoch, deadline_ms))
        elif election.leader_id == self.own_id:
            self._resign(epoch, (), self.options.endpoints if self.is_voter else ())
        elif election.leader_id is not None:
            leader = Known(epoch, election.leader_id, self.endpoint_of(election.leader_id))
            self.become_follower(leader)
        else:
            self.enter(Unattached(epoch, deadline_ms, voted=election.voted))

    def enter(self, role: Role) -> None:
        """Every change of state: what it promises is durable before anything else is done."""
        before, self.role = self.role, role
        if self.unheard:
            return
        election = election_of(role)
        if election != self._written:
            self._written = election
            version, voters = self.history.kraft_version, self.voters
            self.do(WriteElectionState(election, version, voters))
        self.peers.forget_all()
        if isinstance(before, Leader):
            self._give_up(before)
        leader_id = role.leader_id if isinstance(role, Leader | Follower) else None
        former = before.leader_id if isinstance(before, Leader | Follower) else None
        if (before.epoch, former) != (role.epoch, leader_id):
            start = role.start_offset if isinstance(role, Leader) else None
            self.do(LeaderChanged(role.epoch, leader_id, start))

    def _give_up(self, leader: Leader) -> None:
        """Who waits for something of the leader learns that it leads no longer."""
        for parked in leader.parked:
            answer = FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, self.known())
            self.reply(parked.pending_id, answer)
        change = leader.change
        if change is not None and not change.is_answered:
            message = "The leader has changed before the change of voters was committed."
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            self.reply(change.pending_id, VoterAnswer(error, self.known(), message))

    def become_unattached(self, epoch: int, leader_id: int | None = None) -> None:
        """Who waits for an election goes on waiting as long as before: a candidate that cannot win
        must not keep the others from standing by its ever higher epochs.
        """
        role, deadline_ms = self.role, self.election_timeout_ms()
        if not isinstance(role, Leader | Follower):
            deadline_ms = role.deadline_ms
        self.enter(Unattached(epoch, deadline_ms, leader_id))

    def become_follower(self, leader: Known) -> None:
        assert leader.leader_id is not None
        if leader.endpoint is None:
            self.become_unattached(leader.epoch, leader.leader_id)
            return
        deadline_ms = self.now_ms + self.options.fetch_timeout_ms
        self.enter(
            Follower(leader.epoch, deadline_ms, leader.leader_id, leader.endpoint, deadline_ms)
        )

    def become_prospective(self) -> None:
        leader = self.known()
        role = self.role
        ballot = Ballot(self.voters)
        ballot.record(self.own_id, is_granted=True)
        voted = role.voted if isinstance(role, Unattached | Candidate) else None
        deadline_ms = self.election_timeout_ms()
        # The leader of the epoch stays known in the file: no vote may be given in it.
        self.role = Prospective(self.epoch, deadline_ms, ballot, leader, voted)
        self.peers.forget_all()
        if isinstance(role, Follower):
            self.do(LeaderChanged(self.epoch, None))

    def become_candidate(self) -> None:
        ballot = Ballot(self.voters)
        ballot.record(self.own_id, is_granted=True)
        epoch = self.epoch + 1
        self.enter(Candidate(epoch, self.election_timeout_ms(), ballot, self.options.key))

    def resign(self) -> None:
        """The leader gives up; who has most of its log should be the next."""
        leader = self.role
        assert isinstance(leader, Leader)
        ends = {key: one.end_offset for key, one in leader.progress.items()}
        others = [one.key for one in self.voters.others(self.own_id)]
        preferred = tuple(sorted(others, key=lambda key: -_end_of(key, ends)))
        self._resign(self.epoch, preferred, self.options.endpoints if self.is_voter else ())

    def _resign(
        self, epoch: int, preferred: tuple[ReplicaKey, ...], endpoints: tuple[Endpoint, ...]
    ) -> None:
        to_tell = {one.key.id for one in self.voters.others(self.own_id)}
        deadline_ms = self.election_timeout_ms()
        self.enter(Resigned(epoch, deadline_ms, self.own_id, preferred, endpoints, to_tell))

    def learn(self, known: Known) -> bool:
        """Takes what a peer says of epoch and leader; returns whether the state has changed."""
        leader_id = None if known.leader_id == self.own_id else known.leader_id
        if known.epoch < self.epoch or self.unheard:
            return False
        if known.epoch > self.epoch:
            if known.leader_id == self.own_id:
                self.doubled_epoch = known.epoch
            if leader_id is None:
                self.become_unattached(known.epoch)
            else:
                self.become_follower(self._with_endpoint(known))
            return True
        if leader_id is None or isinstance(self.role, Follower | Leader | Resigned):
            return False
        if known.epoch == self.ended_epoch:
            return False
        found = self._with_endpoint(known)
        if isinstance(self.role, Prospective) and self.role.leader.leader_id is not None:
            return False
        if isinstance(self.role, Unattached):
            is_other = self.role.leader_id not in (None, leader_id)
            if is_other or (self.role.leader_id == leader_id and found.endpoint is None):
                return False
        self.become_follower(found)
        return True

    def _with_endpoint(self, known: Known) -> Known:
        if known.endpoint is not None or known.leader_id is None:
            return known
        return known._replace(endpoint=self.endpoint_of(known.leader_id))


def _end_of(key: ReplicaKey, ends: dict[ReplicaKey, int]) -> int:
    return max((end for one, end in ends.items() if one.id == key.id), default=-1)
