"""Changes of the voters, one at a time, by records that are in force when they are appended
(KIP-853).

A change needs a leader with a committed record of its epoch, and no change before it that is not
committed: so any majority of the old set and any of the new one have a voter in common.
Kafka's counterparts: `AddVoterHandler`, `RemoveVoterHandler`, `UpdateVoterHandler`.
"""

from collections.abc import Hashable

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import ZERO_UUID
from ottla.quorum.leading import Leading
from ottla.quorum.messages import (
    AddVoter,
    AskVersions,
    RemoveVoter,
    UpdateVoter,
    UpgradeVersion,
    VersionsAnswer,
    VoterAnswer,
)
from ottla.quorum.node import Node
from ottla.quorum.roles import Leader, Progress, VoterChange
from ottla.quorum.voters import (
    ReplicaKey,
    Voter,
    VoterSet,
    is_same_directory,
    voter_records,
    voters_record,
)

FIRST_DYNAMIC = 1
CAUGHT_UP_MS = 3_600_000
"""A new voter must have fetched, and had everything once, within this time (Kafka: an hour)."""

Change = AddVoter | RemoveVoter | UpdateVoter | UpgradeVersion


class Membership:
    def __init__(self, node: Node, leading: Leading) -> None:
        self._node = node
        self._leading = leading

    # Requests

    def add(self, pending_id: Hashable, request: AddVoter) -> None:
        """The new voter is asked first which versions it supports."""
        voter = request.voter
        if self._refuse(pending_id, request):
            return
        if voter.key.id in self._node.voters.ids:
            reason = f"Node {voter.key.id} is a voter already."
            self._answer(pending_id, ErrorCode.DUPLICATE_VOTER, reason)
        elif not voter.endpoints or voter.key.id < 0:
            reason = "A voter needs an id and a listener."
            self._answer(pending_id, ErrorCode.INVALID_REQUEST, reason)
        elif self._lacks_listener(voter):
            names = ", ".join(one.name for one in voter.endpoints)
            reason = (
                f"Controllers reach each other by the listener {self._listener} "
                f"(controller.listener.names), not {names}."
            )
            self._answer(pending_id, ErrorCode.INVALID_REQUEST, reason)
        else:
            until_ms = self._node.now_ms + request.timeout_ms
            self._leader.change = VoterChange(pending_id, request, until_ms)
            self._ask_versions(voter)

    @property
    def _listener(self) -> str | None:
        own = self._node.options.endpoints
        return own[0].name if own else None

    def _lacks_listener(self, voter: Voter) -> bool:
        return self._listener not in (None, *(one.name for one in voter.endpoints))

    def remove(self, pending_id: Hashable, request: RemoveVoter) -> None:
        node, key = self._node, request.key
        if self._refuse(pending_id, request):
            return
        if not self._is_exactly(key):
            reason = f"Node {key.id} with this directory is no voter."
            self._answer(pending_id, ErrorCode.VOTER_NOT_FOUND, reason)
        elif len(node.voters) == 1:
            reason = f"Node {key.id} is the only voter, and cannot be removed."
            self._answer(pending_id, ErrorCode.INVALID_REQUEST, reason)
        else:
            self._begin(pending_id, request, node.voters.without(key.id))

    def update(self, pending_id: Hashable, request: UpdateVoter) -> None:
        node, voter = self._node, request.voter
        error = self._leading.check_leader(request.epoch)
        if error is not ErrorCode.NONE:
            self._answer(pending_id, error, None)
        elif self._refuse(pending_id, request):
            return
        elif not self._is_exactly(voter.key):
            reason = f"Node {voter.key.id} with this directory is no voter."
            self._answer(pending_id, ErrorCode.VOTER_NOT_FOUND, reason)
        elif not _supports(voter.min_version, voter.max_version, node.history.kraft_version):
            reason = f"The cluster has kraft.version {node.history.kraft_version}."
            self._answer(pending_id, ErrorCode.INVALID_REQUEST, reason)
        elif node.voters.get(voter.key.id) == voter:
            self._answer(pending_id, ErrorCode.NONE, None)
        else:
            self._begin(pending_id, request, node.voters.with_voter(voter))

    def upgrade(self, pending_id: Hashable, request: UpgradeVersion) -> None:
        """All voters are asked first whether they support it, and have to fetch with the ids of
        their directories.
        """
        node, version = self._node, request.version
        if self._refuse(pending_id, request):
            return
        if version == node.history.kraft_version:
            self._answer(pending_id, ErrorCode.NONE, None)
        elif version < node.history.kraft_version:
            reason = f"kraft.version {node.history.kraft_version} cannot be lowered."
            self._answer(pending_id, ErrorCode.INVALID_UPDATE_VERSION, reason)
        elif version > node.options.max_kraft_version:
            reason = f"The controller does not support kraft.version {version}."
            self._answer(pending_id, ErrorCode.INVALID_UPDATE_VERSION, reason)
        else:
            until_ms = node.now_ms + request.timeout_ms
            self._leader.change = VoterChange(pending_id, request, until_ms)
            self._go_on_with_upgrade(self._leader.change, version)

    def _is_exactly(self, key: ReplicaKey) -> bool:
        voter = self._node.voters.get(key.id)
        return voter is not None and voter.key == key

    def _refuse(self, pending_id: Hashable, request: Change) -> bool:
        """Answers what no change may be made for; returns whether it has."""
        node, error, reason = self._node, ErrorCode.NONE, ""
        if request.cluster_id is not None and request.cluster_id != node.options.cluster_id:
            error, reason = ErrorCode.INCONSISTENT_CLUSTER_ID, "This is another cluster."
        elif not isinstance(node.role, Leader):
            error, reason = ErrorCode.NOT_LEADER_OR_FOLLOWER, "This node does not lead the quorum."
        elif node.history.kraft_version < FIRST_DYNAMIC and not isinstance(request, UpgradeVersion):
            error = ErrorCode.UNSUPPORTED_VERSION
            reason = "With kraft.version 0 the voters are those of controller.quorum.voters."
        elif not self._leading.is_established:
            error = ErrorCode.REQUEST_TIMED_OUT
            reason = "The leader does not know yet what is committed; try again."
        elif node.role.change is not None or node.history.offset >= node.high_watermark:
            error = ErrorCode.REQUEST_TIMED_OUT
            reason = "Another change of voters is under way; try again."
        if error is not ErrorCode.NONE:
            self._answer(pending_id, error, reason)
        return error is not ErrorCode.NONE

    # Steps

    def _ask_versions(self, voter: Voter) -> None:
        node = self._node
        if node.peers.is_ready(voter.key.id, node.now_ms):
            node.send(voter.key.id, voter.endpoints[0], AskVersions())

    def _go_on_with_upgrade(self, change: VoterChange, version: int) -> None:
        """Asks who has not answered; appends version and voters once all have."""
        others = self._node.voters.others(self._node.own_id)
        unasked = [one for one in others if one.key.id not in change.versions]
        for one in unasked:
            if one.endpoints:
                self._ask_versions(one)
        if unasked:
            return
        voters = [self._node.options.as_voter]
        for one in others:
            answer = change.versions[one.key.id]
            directory_id = self._leader.progress.get(one.key, Progress()).directory_id
            if not _supports(answer.min_version, answer.max_version, version):
                reason = f"Node {one.key.id} does not support kraft.version {version}."
                self._end(change, ErrorCode.INVALID_UPDATE_VERSION, reason)
                return
            if directory_id == ZERO_UUID:
                return  # it has not fetched yet, or is too old to say
            key = ReplicaKey(one.key.id, directory_id)
            voters.append(Voter(key, one.endpoints, answer.min_version, answer.max_version))
        self._upgrade_to(version, VoterSet.of(sorted(voters)), change)

    def _upgrade_to(self, version: int, voters: VoterSet, change: VoterChange | None) -> None:
        offset = self._leading.append_control(voter_records(version, voters))
        if change is not None:
            change.offset = offset
        self._leading.move_high_watermark()

    def versions(self, node_id: int, answer: VersionsAnswer) -> None:
        """Appends the new set if the voter supports it, and has what the leader has."""
        leader = self._node.role
        change = leader.change if isinstance(leader, Leader) else None
        if change is None or change.offset is not None:
            return
        if isinstance(change.request, UpgradeVersion) and answer.error is ErrorCode.NONE:
            change.versions[node_id] = answer
        if not isinstance(change.request, AddVoter):
            return
        voter, version = change.request.voter, self._node.history.kraft_version
        if voter.key.id != node_id:
            return
        if answer.error is not ErrorCode.NONE:
            self._end(change, answer.error, f"Node {node_id} does not say what it supports.")
        elif not _supports(answer.min_version, answer.max_version, version):
            reason = f"Node {node_id} does not support kraft.version {version}."
            self._end(change, ErrorCode.INVALID_REQUEST, reason)
        elif not self._has_caught_up(voter.key):
            reason = f"Node {node_id} has not caught up with the leader."
            self._end(change, ErrorCode.REQUEST_TIMED_OUT, reason)
        else:
            added = voter._replace(min_version=answer.min_version, max_version=answer.max_version)
            self._append(change, self._node.voters.with_voter(added))
            if not change.request.ack_when_committed:
                change.is_answered = True
                self._answer(change.pending_id, ErrorCode.NONE, None)

    def _has_caught_up(self, key: ReplicaKey) -> bool:
        oldest_ms = self._node.now_ms - CAUGHT_UP_MS
        one = self._leader.progress.get(key, Progress())
        return one.caught_up_ms >= 0 and min(one.caught_up_ms, one.fetched_ms) >= oldest_ms

    def _begin(self, pending_id: Hashable, request: Change, voters: VoterSet) -> None:
        until_ms = self._node.now_ms + self._node.options.request_timeout_ms
        change = VoterChange(pending_id, request, until_ms)
        self._leader.change = change
        self._append(change, voters)

    def _append(self, change: VoterChange, voters: VoterSet) -> None:
        change.offset = self._leading.append_control([voters_record(voters)])
        self._leading.move_high_watermark()

    def advance(self) -> None:
        """Answers what is committed, and what has taken too long. A leader that is no voter any
        more resigns when that is committed.
        """
        node, leader = self._node, self._node.role
        if not isinstance(leader, Leader):
            return
        self._become_first_voter()
        change = leader.change
        if change is not None and change.offset is None:
            if isinstance(change.request, UpgradeVersion):
                self._go_on_with_upgrade(change, change.request.version)
            elif isinstance(change.request, AddVoter):
                self._ask_versions(change.request.voter)
        if change is not None and leader.change is change:
            if change.offset is not None and change.offset < node.high_watermark:
                self._end(change, ErrorCode.NONE, None)
            elif node.now_ms >= change.until_ms:
                reason = "The change of voters was not committed in time; it may still be."
                if change.offset is None:
                    reason = "The new voter did not answer at its listener."
                if change.offset is None and isinstance(change.request, UpgradeVersion):
                    reason = f"{self._silent(change)} did not say what is needed; try again."
                self._end(change, ErrorCode.REQUEST_TIMED_OUT, reason)
        if not node.is_voter and node.history.offset < node.high_watermark:
            node.resign()

    def _become_first_voter(self) -> None:
        """What a broker by itself was for its settings, it is for its log."""
        node = self._node
        is_alone = node.voters.ids == {node.own_id} and self._leading.is_established
        if node.options.first_voter and node.history.kraft_version < FIRST_DYNAMIC and is_alone:
            self._upgrade_to(FIRST_DYNAMIC, VoterSet.of([node.options.as_voter]), None)

    def _silent(self, change: VoterChange) -> str:
        """Who has not said what an upgrade needs."""
        silent = [
            one.key.id
            for one in self._node.voters.others(self._node.own_id)
            if one.key.id not in change.versions
            or self._leader.progress.get(one.key, Progress()).directory_id == ZERO_UUID
        ]
        return f"Node {', '.join(map(str, silent))}"

    def _end(self, change: VoterChange, error: ErrorCode, reason: str | None) -> None:
        self._leader.change = None
        if not change.is_answered:
            self._answer(change.pending_id, error, reason)

    def _answer(self, pending_id: Hashable, error: ErrorCode, reason: str | None) -> None:
        self._node.reply(pending_id, VoterAnswer(error, self._node.known(), reason))

    @property
    def _leader(self) -> Leader:
        assert isinstance(self._node.role, Leader)
        return self._node.role


def _supports(min_version: int, max_version: int, kraft_version: int) -> bool:
    return min_version <= kraft_version <= max_version


def own_change(node: Node) -> Change | None:
    """What a node asks of its leader so that the voters have it as it is, if anything."""
    options, own = node.options, node.options.as_voter
    if node.history.kraft_version < FIRST_DYNAMIC:
        return None
    voter = node.voters.get(own.key.id)
    if voter is not None and is_same_directory(voter.key, own.key):
        if voter == own or not own.endpoints:
            return None
        return UpdateVoter(options.cluster_id, node.epoch, own)
    if not options.auto_join or not own.endpoints:
        return None
    if voter is not None:
        # Its directory was lost: nobody will ever vote with the old key again.
        return RemoveVoter(options.cluster_id, voter.key)
    return AddVoter(options.cluster_id, own, options.request_timeout_ms, False)
