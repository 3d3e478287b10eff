"""What a leader does: it appends, counts who has how much, and gives up if too few fetch.

Kafka's counterpart: `LeaderState`.
"""

from collections.abc import Hashable, Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID
from ottla.codec.schema import Message
from ottla.metadata.control import (
    LeaderChangeMessage,
    LeaderChangeVoter,
    control_key,
    encode_control_record,
)
from ottla.quorum.accumulator import Accumulator
from ottla.quorum.appending import Appending
from ottla.quorum.effects import ReplyRecords, ReplySnapshot
from ottla.quorum.messages import (
    BeginQuorumEpoch,
    DescribeQuorum,
    EpochEnd,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    QuorumAnswer,
    ReplicaState,
    SnapshotAnswer,
    SnapshotId,
)
from ottla.quorum.node import Forgetful, Node
from ottla.quorum.roles import Candidate, Leader, ParkedFetch, Progress
from ottla.quorum.voters import BEFORE_LOG, ReplicaKey, VoterSet, voter_records
from ottla.record.builder import PackedRecords, RecordBatchBuilder

OBSERVER_SESSION_MS = 300_000
"""An observer that has not fetched for so long is forgotten."""


class Leading:
    def __init__(self, node: Node, appending: Appending) -> None:
        self._node = node
        self._appending = appending
        self._accumulator = Accumulator(node.options.max_batch_size)

    # The epoch

    def begin(self, candidate: Candidate) -> None:
        """The first record of the epoch says who leads. What is before it is committed with it,
        and with no less (Raft, figure 8).
        """
        node, log = self._node, self._node.log
        granting = frozenset(candidate.ballot.granted)
        check_ms = node.now_ms + self._check_timeout_ms
        leader = Leader(candidate.epoch, node.own_id, log.end_offset, check_ms, node.now_ms)
        self._accumulator.clear()
        node.losses = 0
        node.enter(leader)
        voters = [LeaderChangeVoter(voter_id=one) for one in sorted(node.voters.ids)]
        granted = [LeaderChangeVoter(voter_id=one) for one in sorted(granting)]
        records: list[Message] = [
            LeaderChangeMessage(leader_id=node.own_id, voters=voters, granting_voters=granted)
        ]
        if node.history.offset == BEFORE_LOG:
            records += voter_records(node.history.kraft_version, node.voters)
        self.append_control(records)

    def append_control(self, records: Sequence[Message]) -> int:
        """Appends control records in a batch of their own; returns the last one's offset."""
        self._drain()
        node = self._node
        builder = RecordBatchBuilder(node.log.end_offset, is_control=True, leader_epoch=node.epoch)
        for record in records:
            builder.append(control_key(record), encode_control_record(record), node.at.now_ms)
        self._appending.append(builder.build())
        self._wake()
        return node.log.end_offset - 1

    def append(self, values: Sequence[bytes] | PackedRecords, epoch: int) -> int:
        """Takes records of the leader's epoch; returns the offset that the last one will have.

        Raises `ApiError`: NOT_CONTROLLER if this node does not lead that epoch,
        MESSAGE_TOO_LARGE.
        """
        node = self._node
        if not isinstance(node.role, Leader) or node.epoch != epoch:
            raise ApiError(ErrorCode.NOT_CONTROLLER, f"this node does not lead epoch {epoch}")
        self._accumulator.add(values, node.now_ms)
        return self.next_offset - 1

    @property
    def next_offset(self) -> int:
        return self._node.log.end_offset + self._accumulator.count

    def _drain(self) -> None:
        node = self._node
        for batch in self._accumulator.drain(node.log.end_offset, node.epoch, node.at.now_ms):
            self._appending.append(batch)

    # Requests

    def fetch(self, pending_id: Hashable, request: Fetch) -> None:
        error = self._check_fetch(request)
        if error is ErrorCode.NONE:
            error = self.check_leader(request.epoch)
        if error is not ErrorCode.NONE:
            self._node.reply(pending_id, FetchAnswer(error, self._node.known()))
            return
        leader = self._leader()
        self._contacted(leader, request.replica)
        found = self._node.log.check_fetch(request.offset, request.last_fetched_epoch)
        if found is None and request.replica.id >= 0:  # otherwise it is no replica's
            self._fetched(leader, request)
        parked = ParkedFetch(pending_id, request, self._node.now_ms + request.max_wait_ms)
        if not self._answer(parked):
            leader.parked.append(parked)

    def _check_fetch(self, request: Fetch) -> ErrorCode:
        if self._is_foreign(request.cluster_id):
            return ErrorCode.INCONSISTENT_CLUSTER_ID
        numbers = (request.epoch, request.offset, request.last_fetched_epoch, request.max_wait_ms)
        is_invalid = min(numbers) < 0 or request.last_fetched_epoch > request.epoch
        return ErrorCode.INVALID_REQUEST if is_invalid else ErrorCode.NONE

    def check_leader(self, epoch: int) -> ErrorCode:
        """Whether this node leads the epoch that a request names."""
        node = self._node
        if epoch < node.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > node.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        is_leader = isinstance(node.role, Leader)
        return ErrorCode.NONE if is_leader else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _answer(self, parked: ParkedFetch) -> bool:
        """Answers a fetch unless it should wait for records."""
        node, request = self._node, parked.request
        found = node.log.check_fetch(request.offset, request.last_fetched_epoch)
        answer = FetchAnswer(
            ErrorCode.NONE, node.known(), self._told_high_watermark, node.log.start_offset
        )
        if isinstance(found, EpochEnd):
            node.reply(parked.pending_id, answer._replace(diverging=found))
        elif isinstance(found, SnapshotId):
            node.reply(parked.pending_id, answer._replace(snapshot=found))
        elif request.offset < node.log.end_offset:
            node.do(ReplyRecords(parked.pending_id, answer, request.offset, request.max_bytes))
        elif request.high_watermark < answer.high_watermark or node.now_ms >= parked.until_ms:
            node.reply(parked.pending_id, answer)
        else:
            return False
        return True

    def fetch_snapshot(self, pending_id: Hashable, request: FetchSnapshot) -> None:
        node = self._node
        error = self.check_leader(request.epoch)
        if self._is_foreign(request.cluster_id):
            error = ErrorCode.INCONSISTENT_CLUSTER_ID
        elif error is ErrorCode.NONE and request.snapshot not in node.log.snapshots:
            error = ErrorCode.SNAPSHOT_NOT_FOUND
        elif error is ErrorCode.NONE and request.position < 0:
            error = ErrorCode.POSITION_OUT_OF_RANGE
        answer = SnapshotAnswer(error, node.known(), request.snapshot, position=request.position)
        if error is not ErrorCode.NONE:
            node.reply(pending_id, answer)
            return
        self._contacted(self._leader(), request.replica)
        node.do(ReplySnapshot(pending_id, answer, request.max_bytes))

    def describe(self, pending_id: Hashable, _: DescribeQuorum) -> None:
        node, leader = self._node, self._node.role
        if not isinstance(leader, Leader):
            error, nodes = ErrorCode.NOT_LEADER_OR_FOLLOWER, tuple(node.voters)
            node.reply(pending_id, QuorumAnswer(error, node.known(), nodes=nodes))
            return
        self._forget_observers(leader)
        states = [self._state_of(leader, one.key) for one in node.voters]
        observers = [
            ReplicaState(key, one.end_offset, one.fetched_time_ms, one.caught_up_time_ms)
            for key, one in sorted(leader.progress.items())
            if not node.voters.has(key)
        ]
        answer = QuorumAnswer(
            ErrorCode.NONE,
            node.known(),
            self._told_high_watermark,
            tuple(states),
            tuple(observers),
            tuple(node.voters),
        )
        node.reply(pending_id, answer)

    def _state_of(self, leader: Leader, key: ReplicaKey) -> ReplicaState:
        node = self._node
        if key.id == node.own_id:
            return ReplicaState(key, node.log.end_offset, -1, node.at.now_ms)
        one = leader.progress.get(key) or Progress()
        return ReplicaState(key, one.end_offset, one.fetched_time_ms, one.caught_up_time_ms)

    def _forget_observers(self, leader: Leader) -> None:
        oldest_ms = self._node.now_ms - OBSERVER_SESSION_MS
        for key, one in list(leader.progress.items()):
            if not self._node.voters.has(key) and one.fetched_ms < oldest_ms:
                del leader.progress[key]

    # Progress

    def _fetched(self, leader: Leader, request: Fetch) -> None:
        """The follower has everything below the offset, durably."""
        node = self._node
        key = self._key_of(request.replica)
        if key.directory_id != ZERO_UUID:
            # Before `kraft.version` 1 it was known without its directory: it is the same one.
            leader.progress.pop(ReplicaKey(key.id), None)
        one = leader.progress.setdefault(key, Progress())
        if request.offset >= node.log.end_offset:
            one.caught_up_ms, one.caught_up_time_ms = node.now_ms, node.at.now_ms
        elif one.fetched_ms >= 0 and request.offset >= one.leaders_end:
            one.caught_up_ms, one.caught_up_time_ms = one.fetched_ms, one.fetched_time_ms
        if request.offset < one.end_offset and node.voters.has(key):
            node.forgetful = Forgetful(key.id, one.end_offset, request.offset)
        one.end_offset = request.offset
        one.fetched_ms, one.fetched_time_ms = node.now_ms, node.at.now_ms
        one.leaders_end = node.log.end_offset
        one.directory_id = request.replica.directory_id
        self.move_high_watermark()

    def _key_of(self, replica: ReplicaKey) -> ReplicaKey:
        """The key under which a replica is known: that of the settings has no directory."""
        voter = self._node.voters.get(replica.id)
        return voter.key if voter is not None and self._node.voters.has(replica) else replica

    def _contacted(self, leader: Leader, key: ReplicaKey) -> None:
        """Checks the quorum: the time begins anew when a majority has fetched."""
        node = self._node
        if not node.voters.has(key) or key.id == node.own_id:
            return
        leader.contacted.add(key.id)
        if len(leader.contacted) >= node.voters.majority - int(node.is_voter):
            leader.contacted.clear()
            leader.check_ms = node.now_ms + self._check_timeout_ms

    @property
    def _check_timeout_ms(self) -> float:
        return self._node.options.fetch_timeout_ms * 1.5

    @property
    def is_established(self) -> bool:
        """Whether a majority has the first record of the epoch: what is committed is known."""
        leader = self._node.role
        return isinstance(leader, Leader) and self._node.high_watermark > leader.start_offset

    @property
    def _told_high_watermark(self) -> int:
        """Of the epoch before, others know as much as this leader; until it is established it says
        -1, as in Kafka (`LeaderState.highWatermark`).
        """
        return self._node.high_watermark if self.is_established else -1

    def move_high_watermark(self) -> None:
        """To what a majority of voters has durably, once that includes a record of this epoch."""
        node, leader = self._node, self._node.role
        if not isinstance(leader, Leader):
            return
        ends = sorted((self._end_of(leader, one.key) for one in node.voters), reverse=True)
        committed = ends[node.voters.majority - 1]
        if committed > max(leader.start_offset, node.high_watermark):
            node.raise_high_watermark(committed)
            self._wake()

    def _end_of(self, leader: Leader, key: ReplicaKey) -> int:
        if key.id == self._node.own_id:
            return self._node.log.synced_offset
        one = leader.progress.get(key)
        return -1 if one is None else one.end_offset

    def _wake(self) -> None:
        """Fetches that wait get what has come: records, or a high watermark that they lack."""
        leader = self._leader()
        waiting, leader.parked = leader.parked, []
        leader.parked += [one for one in waiting if not self._answer(one)]

    # Time

    def advance(self) -> None:
        node, leader = self._node, self._node.role
        if not isinstance(leader, Leader):
            return
        since_ms, linger_ms = self._accumulator.since_ms, node.options.append_linger_ms
        has_waited = since_ms is not None and node.now_ms >= since_ms + linger_ms
        if self._accumulator.is_full or has_waited:
            self._drain()
            self._wake()
        if any(node.now_ms >= one.until_ms for one in leader.parked):
            self._wake()
        if not node.voters.others(node.own_id):
            leader.check_ms = node.now_ms + self._check_timeout_ms
        elif node.now_ms >= leader.check_ms:
            node.resign()
            return
        if node.now_ms >= leader.announce_ms:
            leader.announce_ms = node.now_ms + node.options.fetch_timeout_ms / 2
            self._announce(node.voters)

    def _announce(self, voters: VoterSet) -> None:
        """To all voters, whether they fetch or not, as Kafka does."""
        node, options = self._node, self._node.options
        endpoints = options.endpoints if node.is_voter else ()
        for voter in voters.others(node.own_id):
            if node.peers.is_ready(voter.key.id, node.now_ms):
                request = BeginQuorumEpoch(
                    options.cluster_id, voter.key, node.own_id, node.epoch, endpoints
                )
                endpoint = voter.endpoints[0] if voter.endpoints else None
                node.send(voter.key.id, endpoint, request)

    def deadlines_ms(self, leader: Leader) -> list[float]:
        found = [leader.check_ms, leader.announce_ms]
        found += [one.until_ms for one in leader.parked]
        if self._accumulator.since_ms is not None:
            found.append(self._accumulator.since_ms + self._node.options.append_linger_ms)
        return found

    def _leader(self) -> Leader:
        assert isinstance(self._node.role, Leader)
        return self._node.role

    def _is_foreign(self, cluster_id: str | None) -> bool:
        return cluster_id is not None and cluster_id != self._node.options.cluster_id
