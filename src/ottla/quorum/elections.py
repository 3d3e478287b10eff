"""Elections: votes that are asked for and given, epochs that begin and end.

Kafka's counterparts: the methods of `KafkaRaftClient` and `EpochState` about Vote,
BeginQuorumEpoch and EndQuorumEpoch.
"""

from collections.abc import Hashable

from ottla.base.error_codes import ErrorCode
from ottla.quorum.messages import (
    BeginQuorumEpoch,
    EndQuorumEpoch,
    EpochAnswer,
    EpochEnd,
    Fetch,
    Known,
    Response,
    Vote,
    VoteAnswer,
)
from ottla.quorum.node import Node
from ottla.quorum.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from ottla.quorum.voters import Endpoint, ReplicaKey, Voter, is_same_directory

MAX_EXPONENT = 10


class Elections:
    def __init__(self, node: Node) -> None:
        self._node = node

    # Requests

    def vote(self, pending_id: Hashable, request: Vote) -> None:
        """Gives the vote to at most one candidate of an epoch; what is given is durable first."""
        node = self._node
        error = self._check_vote(request)
        if error is ErrorCode.NONE and request.epoch > node.epoch and not node.unheard:
            node.become_unattached(request.epoch)
        if error is ErrorCode.NONE and not self._is_me(request.voter):
            error = ErrorCode.INVALID_VOTER_KEY
        is_granted = error is ErrorCode.NONE and self._can_grant(request)
        if is_granted and not request.is_pre_vote:
            deadline_ms = node.election_timeout_ms()
            node.enter(Unattached(node.epoch, deadline_ms, voted=request.candidate))
        node.reply(pending_id, VoteAnswer(error, node.known(), is_granted))

    def _check_vote(self, request: Vote) -> ErrorCode:
        last_epoch, end_offset = request.last
        is_beyond = last_epoch > request.epoch
        is_beyond |= last_epoch == request.epoch and not request.is_pre_vote
        if self._is_foreign(request.cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if is_beyond or min(request.epoch, last_epoch, end_offset, request.candidate.id) < 0:
            return ErrorCode.INVALID_REQUEST
        if request.epoch < self._node.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.NONE

    def _can_grant(self, request: Vote) -> bool:
        """Kafka's `canGrantVote` of each state. A candidate that asks again is compared again: it
        may have lost what it had not synced.
        """
        node, role = self._node, self._node.role
        if node.unheard or request.last < node.log.end:
            return False
        if request.is_pre_vote:
            # A follower that hears from its leader sees no need for an election. An observer that
            # does not stays one: of two voters that are left it may be one by now, and not know.
            if isinstance(role, Follower):
                return not role.has_fetched or node.now_ms >= role.deadline_ms
            return not isinstance(role, Leader)
        if not isinstance(role, Unattached | Prospective):
            return False
        leader_id = role.leader_id if isinstance(role, Unattached) else role.leader.leader_id
        if role.voted is not None:
            is_same_id = role.voted.id == request.candidate.id
            return is_same_id and is_same_directory(role.voted, request.candidate)
        return leader_id is None

    def begin_epoch(self, pending_id: Hashable, request: BeginQuorumEpoch) -> None:
        node = self._node
        error = self._check_epoch(request)
        if error is ErrorCode.NONE and not self._is_me(request.voter):
            error = ErrorCode.INVALID_VOTER_KEY
        if error is ErrorCode.NONE:
            self._learn(request)
        node.reply(pending_id, EpochAnswer(error, node.known()))

    def end_epoch(self, pending_id: Hashable, request: EndQuorumEpoch) -> None:
        """The first of the preferred candidates stands for election at once, the others later, by
        their place; who is not among them waits longest.
        """
        node = self._node
        error = self._check_epoch(request)
        if error is ErrorCode.NONE:
            self._learn(request)
            role = node.role
            if isinstance(role, Follower) and role.leader_id == request.leader_id:
                ids = [one.id for one in request.preferred]
                place = ids.index(node.own_id) if node.own_id in ids else len(ids)
                role.deadline_ms = max(node.now_ms, node.aside_until_ms) + self._backoff_ms(place)
                role.has_fetched = False
                node.ended_epoch = role.epoch
        node.reply(pending_id, EpochAnswer(error, node.known()))

    def _check_epoch(self, request: BeginQuorumEpoch | EndQuorumEpoch) -> ErrorCode:
        if self._is_foreign(request.cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        if min(request.epoch, request.leader_id) < 0 or request.leader_id == self._node.own_id:
            return ErrorCode.INVALID_REQUEST
        if request.epoch < self._node.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        return ErrorCode.NONE

    def _learn(self, request: BeginQuorumEpoch | EndQuorumEpoch) -> None:
        endpoint = request.endpoints[0] if request.endpoints else None
        self._node.learn(Known(request.epoch, request.leader_id, endpoint))

    def _is_foreign(self, cluster_id: str | None) -> bool:
        return cluster_id is not None and cluster_id != self._node.options.cluster_id

    def _is_me(self, voter: ReplicaKey) -> bool:
        """Whether a request for this voter meant this directory; -1 is who does not say."""
        own = self._node.options.key
        return voter.id in (-1, own.id) and is_same_directory(voter, own)

    # Responses

    def voted(self, voter_id: int, request: Vote, answer: VoteAnswer) -> None:
        """An error is a vote against; a voter that knows no pre-vote is no reason to wait."""
        node, role = self._node, self._node.role
        if answer.error is ErrorCode.UNSUPPORTED_VERSION and isinstance(role, Prospective):
            node.become_candidate()
            return
        if self._node.learn(answer.known) or not isinstance(role, Prospective | Candidate):
            return
        if role.epoch == request.epoch and isinstance(role, Prospective) == request.is_pre_vote:
            role.ballot.record(voter_id, is_granted=answer.is_granted)

    def told(self, voter_id: int, answer: Response) -> None:
        """A voter has been told that this node has resigned."""
        role = self._node.role
        if not self._node.learn(answer.known) and isinstance(role, Resigned):
            role.to_tell.discard(voter_id)

    def heard(self, voter_id: int, known: Known) -> None:
        """The epoch of one more voter, for a node that has lost its `quorum-state`.

        What it may have voted in, the candidate has reached: behind the epochs of all the others
        there is no such vote. In the last of them it gives none, unless its leader is known.
        """
        node, epoch = self._node, self._node.epoch
        node.unheard.discard(voter_id)
        leader_id = None if known.leader_id == node.own_id else known.leader_id
        if known.epoch > epoch or (known.epoch == epoch and leader_id is not None):
            node.role = Unattached(known.epoch, node.election_timeout_ms(), leader_id)
        if not node.unheard:
            self.take_part_again()

    def take_part_again(self) -> None:
        node, role = self._node, self._node.role
        deadline_ms = node.election_timeout_ms()
        voted = node.options.key if role.leader_id is None else None
        node.enter(Unattached(role.epoch, deadline_ms, role.leader_id, voted))

    # Time

    def advance(self) -> None:
        match self._node.role:
            case Unattached() as role:
                self._advance_unattached(role)
            case Prospective() as role:
                self._advance_prospective(role)
            case Candidate() as role:
                self._advance_candidate(role)
            case Resigned() as role:
                self._advance_resigned(role)
            case Follower() as role:
                if self._node.is_voter and self._node.now_ms >= role.deadline_ms:
                    self._node.become_prospective()
                    self.advance()
            case _:
                pass

    def _advance_unattached(self, role: Unattached) -> None:
        node = self._node
        if node.unheard:
            for voter in node.voters.others(node.own_id):
                if voter.key.id in node.unheard and node.peers.is_ready(voter.key.id, node.now_ms):
                    node.send(voter.key.id, _endpoint(voter), self._probe())
        elif node.is_voter and len(node.voters) == 1:
            node.become_candidate()
            self.advance()
        elif node.is_voter and node.now_ms >= role.deadline_ms:
            node.become_prospective()
            self.advance()

    def _probe(self) -> Fetch:
        """Of an epoch that is over everywhere, so that it counts for nothing."""
        options = self._node.options
        return Fetch(options.cluster_id, options.key, 0, 0, 0, 0, 0)

    def _advance_prospective(self, role: Prospective) -> None:
        node = self._node
        if role.ballot.is_won:
            node.become_candidate()
            self.advance()
        elif role.ballot.is_lost or node.now_ms >= role.deadline_ms:
            self._fall_back(role)
        else:
            self._ask(role, is_pre_vote=True)

    def _fall_back(self, role: Prospective) -> None:
        """It would not be elected: back to its leader, or to wait for one."""
        node, leader_id = self._node, role.leader.leader_id
        has_leader = leader_id is not None and role.epoch != node.ended_epoch
        if has_leader and role.leader.endpoint is not None and role.voted is None:
            node.become_follower(role.leader)
        else:
            deadline_ms = node.election_timeout_ms()
            node.enter(Unattached(role.epoch, deadline_ms, leader_id, role.voted))

    def _advance_candidate(self, role: Candidate) -> None:
        node = self._node
        if role.ballot.is_won:
            return
        if role.ballot.is_lost and not role.is_backing_off:
            role.is_backing_off = True
            node.losses += 1
            role.deadline_ms = min(role.deadline_ms, node.now_ms + self._backoff_ms(node.losses))
        if node.now_ms >= role.deadline_ms:
            node.become_prospective()
            self.advance()
        elif not role.is_backing_off:
            self._ask(role, is_pre_vote=False)

    def _ask(self, role: Prospective | Candidate, *, is_pre_vote: bool) -> None:
        """It claims only what a power failure would leave it."""
        node, options = self._node, self._node.options
        last: EpochEnd = node.log.synced_end
        for voter in role.ballot.voters.others(node.own_id):
            voter_id = voter.key.id
            if role.ballot.is_open(voter_id) and node.peers.is_ready(voter_id, node.now_ms):
                request = Vote(
                    options.cluster_id, voter.key, options.key, role.epoch, last, is_pre_vote
                )
                node.send(voter_id, _endpoint(voter), request)

    def _advance_resigned(self, role: Resigned) -> None:
        node, options = self._node, self._node.options
        if node.is_voter and len(node.voters) == 1:
            node.become_candidate()
            self.advance()
        elif node.now_ms >= role.deadline_ms:
            # It led this epoch, and can follow nobody in it.
            node.enter(Unattached(role.epoch + 1, node.election_timeout_ms()))
        else:
            for voter in node.voters.others(node.own_id):
                voter_id = voter.key.id
                if voter_id in role.to_tell and node.peers.is_ready(voter_id, node.now_ms):
                    request = EndQuorumEpoch(
                        options.cluster_id,
                        role.leader_id,
                        role.epoch,
                        role.preferred,
                        role.endpoints,
                    )
                    node.send(voter_id, _endpoint(voter), request)

    def _backoff_ms(self, count: int) -> float:
        """Random, twice as long at most each time."""
        options = self._node.options
        if count == 0:
            return 0
        steps = 2 << min(count - 1, MAX_EXPONENT)
        backoff_ms = options.retry_backoff_ms * (1 + self._node.random_below(steps))
        return min(backoff_ms, options.election_backoff_max_ms)


def _endpoint(voter: Voter) -> Endpoint | None:
    return voter.endpoints[0] if voter.endpoints else None
