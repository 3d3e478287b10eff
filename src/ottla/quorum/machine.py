"""A voter or observer of the metadata quorum: requests, responses and time in, effects out.

    quorum = Quorum(options, log, history, random_below)
    effects = quorum.start(election, at)
    effects = quorum.receive(pending_id, request, at)

The caller carries out the effects of a call in their order before the next call. It calls `advance`
at `deadline_ms` at the latest. Kafka's counterpart: `KafkaRaftClient`.
"""

from collections.abc import Callable, Hashable, Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.timestamps import Timestamps
from ottla.metadata.quorum_state import LAST_EPOCH
from ottla.quorum.appending import Appending
from ottla.quorum.effects import DeleteBefore, Effect, LoadSnapshot, StartLogAt, SyncLog
from ottla.quorum.election_state import ElectionState
from ottla.quorum.elections import Elections
from ottla.quorum.following import Following
from ottla.quorum.leading import Leading
from ottla.quorum.lineage import Lineage
from ottla.quorum.membership import Membership
from ottla.quorum.messages import (
    AddVoter,
    AskVersions,
    BeginQuorumEpoch,
    DescribeQuorum,
    EndQuorumEpoch,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    RemoveVoter,
    Request,
    Response,
    SnapshotAnswer,
    SnapshotId,
    UpdateVoter,
    UpgradeVersion,
    VersionsAnswer,
    Vote,
    VoteAnswer,
    refusal_of,
)
from ottla.quorum.node import Node
from ottla.quorum.options import QuorumOptions
from ottla.quorum.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Unattached
from ottla.quorum.voters import VoterHistory, VoterSet
from ottla.record.builder import PackedRecords


class Quorum:
    """One node. `log` and `history` are what its log says (`reading.py`)."""

    def __init__(
        self,
        options: QuorumOptions,
        log: Lineage,
        history: VoterHistory,
        random_below: Callable[[int], int],
    ) -> None:
        self.node = Node(options, log, history, random_below)
        self._appending = Appending(self.node)
        self._elections = Elections(self.node)
        self._leading = Leading(self.node, self._appending)
        self._following = Following(self.node, self._appending)
        self._membership = Membership(self.node, self._leading)

    # What it is

    @property
    def role(self) -> Role:
        return self.node.role

    @property
    def epoch(self) -> int:
        return self.node.epoch

    @property
    def high_watermark(self) -> int:
        """Records below it are committed; after a start it is the log's start until told more."""
        return self.node.high_watermark

    @property
    def is_leader(self) -> bool:
        """Whether it leads, and knows all that earlier leaders have committed."""
        return self._leading.is_established

    @property
    def next_offset(self) -> int:
        """The offset that the next record of `append` gets."""
        return self._leading.next_offset

    def take_complaint(self) -> str | None:
        """Why an answer of the leader could not be taken, once."""
        complaint, self._following.complaint = self._following.complaint, None
        return complaint

    # Inputs

    def start(self, election: ElectionState | None, at: Timestamps) -> list[Effect]:
        """Begins with what `quorum-state` says: `ElectionState()` in a directory that was never
        used, `None` where the file is lost.

        Who has lost it takes part again when it has heard all other voters: it might vote twice in
        an epoch, or follow a leader that it has voted out.
        """
        node, latest = self.node, self.node.log.latest_snapshot
        node.at = at
        if latest is not None and not node.log.reaches(latest):
            # A crash came before the last step of a fetched snapshot, or has undone it: the records
            # are those of a leader that was voted out.
            node.log.started_at(latest)
            node.history.truncate_to(latest.end_offset)
            node.do(StartLogAt(latest))
        if latest is not None and latest.end_offset > 0:
            node.high_watermark = max(node.high_watermark, latest.end_offset)
            node.do(LoadSnapshot(latest))
        if node.log.end_offset > node.log.start_offset:
            node.do(SyncLog(node.log.end_offset, node.log.history))
        if election is not None:
            node.begin(election)
        else:
            node.role = Unattached(node.log.last_epoch, node.election_timeout_ms())
            others = node.voters.others(node.own_id) if node.is_voter else []
            node.unheard = {one.key.id for one in others}
            if not node.unheard:
                self._elections.take_part_again()
        return self.advance(at)

    def receive(self, pending_id: Hashable, request: Request, at: Timestamps) -> list[Effect]:
        """A request of another node or of a tool; its response is an effect, now or later."""
        self.node.at = at
        if getattr(request, "epoch", 0) > LAST_EPOCH:
            refusal = refusal_of(request, ErrorCode.INVALID_REQUEST, self.node.known())
            self.node.reply(pending_id, refusal)
            return self.advance(at)
        match request:
            case Vote():
                self.node.peers.heard(request.candidate.id)
                self._elections.vote(pending_id, request)
            case BeginQuorumEpoch():
                self.node.peers.heard(request.leader_id)
                self._elections.begin_epoch(pending_id, request)
            case EndQuorumEpoch():
                self._elections.end_epoch(pending_id, request)
            case Fetch():
                self.node.peers.heard(request.replica.id)
                self._leading.fetch(pending_id, request)
            case FetchSnapshot():
                self._leading.fetch_snapshot(pending_id, request)
            case AddVoter():
                self._membership.add(pending_id, request)
            case RemoveVoter():
                self._membership.remove(pending_id, request)
            case UpdateVoter():
                self._membership.update(pending_id, request)
            case UpgradeVersion():
                self._membership.upgrade(pending_id, request)
            case DescribeQuorum():
                self._leading.describe(pending_id, request)
            case AskVersions():
                options = self.node.options
                low, high = options.min_kraft_version, options.max_kraft_version
                answer = VersionsAnswer(ErrorCode.NONE, self.node.known(), low, high)
                self.node.reply(pending_id, answer)
        return self.advance(at)

    def answered(self, number: int, response: Response | None, at: Timestamps) -> list[Effect]:
        """The response to a `Send`; `None` if the connection failed."""
        self.node.at = at
        under_way = self.node.peers.answered(number)
        if under_way is None:
            return self.advance(at)
        if response is None or response.known.epoch > LAST_EPOCH:
            self.node.peers.is_silent(under_way.node_id, self.node.now_ms)
            return self.advance(at)
        self.node.peers.heard(under_way.node_id)
        self._take(under_way.node_id, under_way.request, response)
        return self.advance(at)

    def would_complete(self, number: int, answer: SnapshotAnswer) -> bool:
        """Whether `answered` would take this as the last part of the leader's snapshot."""
        is_awaited = not self.node.unheard and self.node.peers.awaits(number)
        return is_awaited and self._following.would_complete(answer)

    def _take(self, node_id: int, request: Request, response: Response) -> None:
        if self.node.unheard:
            self._elections.heard(node_id, response.known)
            return
        match request, response:
            case Vote(), VoteAnswer():
                self._elections.voted(node_id, request, response)
            case Fetch(), FetchAnswer():
                self._following.fetched(node_id, request, response)
            case FetchSnapshot(), SnapshotAnswer():
                self._following.fetched_snapshot(node_id, request, response)
            case AskVersions(), VersionsAnswer():
                self._membership.versions(node_id, response)
            case EndQuorumEpoch(), _:
                self._elections.told(node_id, response)
            case _:
                self.node.learn(response.known)

    def synced(self, effect: SyncLog, at: Timestamps) -> list[Effect]:
        """The log is durable as far as this effect says."""
        self.node.at = at
        self._appending.synced(effect)
        self._leading.move_high_watermark()
        return self.advance(at)

    def append(
        self, values: Sequence[bytes] | PackedRecords, epoch: int, at: Timestamps
    ) -> tuple[int, list[Effect]]:
        """Records of the leader of an epoch, which readers apply as a whole; returns the offset
        of the last one.

        They are committed when the high watermark is behind it, and perhaps never. Raises
        `ApiError`: NOT_CONTROLLER unless this node leads the epoch, MESSAGE_TOO_LARGE.
        """
        self.node.at = at
        offset = self._leading.append(values, epoch)
        return offset, self.advance(at)

    def resign(self, at: Timestamps, aside_ms: float = 0.0) -> list[Effect]:
        """Gives up leading, as before the process ends; one that could not decide as a controller
        lets others stand first for `aside_ms`.
        """
        self.node.at = at
        self.node.aside_until_ms = at.monotonic_ms + aside_ms
        if isinstance(self.node.role, Leader):
            self.node.resign()
        return self.advance(at)

    def snapshot_made(self, snapshot: SnapshotId) -> None:
        """The state below an offset that is committed was written as a snapshot."""
        assert snapshot.end_offset <= self.node.high_watermark
        self.node.log.snapshots = sorted({*self.node.log.snapshots, snapshot})

    def snapshot_voters(self, end_offset: int) -> tuple[int, VoterSet]:
        """`kraft.version` and voters at an offset, with which a snapshot begins."""
        return self.node.history.at(end_offset)

    def delete_before(self, snapshot: SnapshotId) -> list[Effect]:
        """Forgets what is in a snapshot, and the snapshots before it."""
        assert snapshot in self.node.log.snapshots
        self.node.log.deleted_before(snapshot)
        self.node.do(DeleteBefore(snapshot))
        return self.node.take_effects()

    # Time

    def advance(self, at: Timestamps) -> list[Effect]:
        """Does what is due."""
        self.node.at = at
        self._elections.advance()
        role = self.node.role
        if isinstance(role, Candidate) and role.ballot.is_won:
            self._leading.begin(role)
        self._leading.advance()
        self._membership.advance()
        if isinstance(self.node.role, Resigned) and self.node.role is not role:
            self._elections.advance()
        self._following.advance()
        return self.node.take_effects()

    @property
    def deadline_ms(self) -> float:
        """The monotonic time at which something is due, if nothing comes before."""
        role, node = self.node.role, self.node
        waits = [node.peers.ready_ms(one) for one in self._partners()]
        found = [one for one in waits if one is not None and one > node.now_ms]
        if isinstance(role, Leader):
            found += self._leading.deadlines_ms(role)
            found += [role.change.until_ms] if role.change is not None else []
        elif isinstance(role, Prospective | Candidate | Resigned) or (
            node.is_voter and not node.unheard
        ):
            found.append(role.deadline_ms)
        if isinstance(role, Follower):
            found += [one for one in (role.deadline_ms, role.next_change_ms) if one > node.now_ms]
        return min(found, default=node.now_ms + node.options.fetch_timeout_ms)

    def _partners(self) -> list[int]:
        """Who is asked for something in this state."""
        role = self.node.role
        if isinstance(role, Follower):
            return [role.leader_id]
        return self.asked_ids()

    def asked_ids(self) -> list[int]:
        """Of whom it would ask who leads: the other voters, or addresses of which no node is known,
        by numbers below -1.
        """
        return self._following.asked_ids()
