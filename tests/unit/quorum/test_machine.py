"""One node of a quorum, and what it answers."""

from collections.abc import Sequence
from typing import Any, TypeVar

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.timestamps import Timestamps
from ottla.quorum.effects import (
    AppendRecords,
    Effect,
    HighWatermarkMoved,
    LeaderChanged,
    Reply,
    ReplyRecords,
    Send,
    SyncLog,
    TruncateLog,
    WriteElectionState,
)
from ottla.quorum.election_state import ElectionState
from ottla.quorum.lineage import Lineage
from ottla.quorum.machine import Quorum
from ottla.quorum.messages import (
    AddVoter,
    AskVersions,
    BeginQuorumEpoch,
    DescribeQuorum,
    EndQuorumEpoch,
    EpochEnd,
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    Known,
    RemoveVoter,
    Request,
    SnapshotId,
    VersionsAnswer,
    Vote,
    VoteAnswer,
    VoterAnswer,
)
from ottla.quorum.options import QuorumOptions
from ottla.quorum.roles import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from ottla.quorum.voters import Endpoint, ReplicaKey, Voter, VoterHistory, VoterSet
from ottla.record.builder import RecordBatchBuilder
from tests.support.quorum_logs import batch_of

CLUSTER = "a-cluster-for-tests-01"
KEYS = [ReplicaKey(one, Uuid(bytes([one]) * 16)) for one in range(5)]
ONE, TWO, THREE, FOUR = KEYS[1:]
NEW = ElectionState()
EMPTY = EpochEnd(0, 0)
Kind = TypeVar("Kind")


def endpoint(key: ReplicaKey) -> Endpoint:
    return Endpoint("CONTROLLER", f"n{key.id}", 9093)


def voter(key: ReplicaKey) -> Voter:
    return Voter(key, (endpoint(key),))


class Driver:
    """Node 1 of three voters; effects are carried out by being looked at."""

    def __init__(
        self,
        voters: Sequence[ReplicaKey] = (ONE, TWO, THREE),
        *,
        election: ElectionState | None = NEW,
        log: Lineage | None = None,
        kraft_version: int = 1,
        key: ReplicaKey = ONE,
    ) -> None:
        self.now_ms = 0.0
        options = QuorumOptions(key=key, cluster_id=CLUSTER, endpoints=(endpoint(key),))
        history = VoterHistory(kraft_version, VoterSet.of(map(voter, voters)))
        self.quorum = Quorum(options, log or Lineage(0, 0, [], []), history, lambda _: 0)
        self.effects = self.quorum.start(election, self.at)
        if log is not None:
            for one in self.all(SyncLog):
                self.effects += self.quorum.synced(one, self.at)

    @property
    def at(self) -> Timestamps:
        return Timestamps(now_ms=1000, monotonic_ms=self.now_ms)

    def all(self, kind: type[Kind]) -> list[Kind]:
        return [one for one in self.effects if isinstance(one, kind)]

    def only(self, kind: type[Kind]) -> Kind:
        (found,) = self.all(kind)
        return found

    def requests(self, kind: type[Kind]) -> dict[int, Kind]:
        sent = [one for one in self.all(Send) if isinstance(one.request, kind)]
        return {one.node_id: one.request for one in sent}  # type: ignore[misc]

    def ask(self, request: Request) -> Any:
        """The response, if it comes at once."""
        self.effects = self.quorum.receive(request, request, self.at)
        replies = [one for one in self.effects if isinstance(one, Reply | ReplyRecords)]
        return next((one.response for one in replies if one.pending_id is request), None)

    def wait(self, ms: float) -> None:
        self.now_ms += ms
        self.effects = self.quorum.advance(self.at)

    def answer(self, response: Any, node_id: int = 2) -> None:
        """To the request that is under way to a node."""
        number = self.quorum.node.peers._numbers[node_id]
        self.effects = self.quorum.answered(number, response, self.at)

    def sync(self) -> None:
        effects: list[Effect] = []
        for one in self.all(SyncLog):
            effects += self.quorum.synced(one, self.at)
        self.effects = effects

    def win(self) -> None:
        self.wait(1000)
        self.answer(VoteAnswer(ErrorCode.NONE, Known(self.quorum.epoch), True))
        self.answer(VoteAnswer(ErrorCode.NONE, Known(self.quorum.epoch), True))

    def lead(self) -> None:
        """With a record of the epoch that is committed."""
        self.win()
        self.sync()
        end = self.quorum.node.log.end
        self.ask(fetch(TWO, self.quorum.epoch, end.end_offset, end.epoch))


def fetch(key: ReplicaKey, epoch: int, offset: int, last_epoch: int, **more: Any) -> Fetch:
    return Fetch(CLUSTER, key, epoch, offset, last_epoch, 500, 1 << 20, **more)


def vote(
    candidate: ReplicaKey = TWO,
    epoch: int = 1,
    last: EpochEnd = EMPTY,
    *,
    is_pre_vote: bool = False,
) -> Vote:
    return Vote(CLUSTER, ONE, candidate, epoch, last, is_pre_vote)


# Votes


def test_a_vote_is_written_before_it_is_given() -> None:
    node = Driver()
    assert node.ask(vote()).is_granted
    kinds = [type(one) for one in node.effects]
    assert kinds.index(WriteElectionState) < kinds.index(Reply)
    assert node.all(WriteElectionState)[-1].state == ElectionState(1, None, TWO)


def test_an_epoch_has_one_vote_and_whoever_got_it_may_ask_again() -> None:
    node = Driver()
    assert node.ask(vote(TWO)).is_granted
    assert not node.ask(vote(THREE)).is_granted
    assert node.ask(vote(TWO)).is_granted
    again = Driver(election=ElectionState(1, None, TWO))
    assert not again.ask(vote(THREE)).is_granted
    assert again.ask(vote(THREE, epoch=2)).is_granted


def test_a_shorter_log_gets_no_vote() -> None:
    for last, is_granted in (((1, 9), True), ((2, 3), True), ((1, 8), False), ((0, 20), False)):
        node = Driver(log=Lineage(0, 9, [(1, 0)], []))
        assert node.ask(vote(epoch=5, last=EpochEnd(*last))).is_granted is is_granted


def test_a_vote_that_contradicts_itself_is_refused() -> None:
    node = Driver()
    assert node.ask(vote(last=EpochEnd(1, 5))).error is ErrorCode.INVALID_REQUEST
    assert node.ask(vote(last=EpochEnd(-1, 0))).error is ErrorCode.INVALID_REQUEST
    assert node.ask(vote(last=EpochEnd(1, 5), is_pre_vote=True)).error is ErrorCode.NONE
    assert node.quorum.epoch == 1
    assert node.ask(vote(epoch=3)).error is ErrorCode.NONE
    assert node.ask(vote(epoch=2)).error is ErrorCode.FENCED_LEADER_EPOCH
    foreign = vote()._replace(cluster_id="another-cluster-of-22ch")
    assert node.ask(foreign).error is ErrorCode.INCONSISTENT_CLUSTER_ID
    answer = node.ask(vote(epoch=4)._replace(voter=ReplicaKey(1, TWO.directory_id)))
    assert (answer.error, answer.known.epoch) == (ErrorCode.INVALID_VOTER_KEY, 4)


def test_a_pre_vote_is_not_written_and_one_who_hears_a_leader_gives_none() -> None:
    node = Driver()
    assert node.ask(vote(TWO, is_pre_vote=True, epoch=0)).is_granted
    assert node.ask(vote(THREE, is_pre_vote=True, epoch=0)).is_granted
    assert node.all(WriteElectionState) == []
    node.ask(BeginQuorumEpoch(CLUSTER, ONE, 3, 1, (endpoint(THREE),)))
    assert node.ask(vote(TWO, is_pre_vote=True)).is_granted
    node.answer(FetchAnswer(ErrorCode.NONE, Known(1, 3, endpoint(THREE)), 0, 0), 3)
    assert not node.ask(vote(TWO, is_pre_vote=True)).is_granted


def test_an_observer_gives_its_pre_vote_once_it_hears_its_leader_no_longer() -> None:
    """It may be a voter by now and not know, where a leader added it and died."""
    node = Driver([TWO, THREE])
    node.ask(BeginQuorumEpoch(CLUSTER, ONE, 3, 1, (endpoint(THREE),)))
    node.wait(0)
    node.answer(FetchAnswer(ErrorCode.NONE, Known(1, 3, endpoint(THREE)), 0, 0), 3)
    assert not node.ask(vote(TWO, is_pre_vote=True)).is_granted
    node.wait(2000)
    assert node.ask(vote(TWO, is_pre_vote=True)).is_granted


def test_a_node_asks_for_pre_votes_then_for_votes_and_leads() -> None:
    node = Driver()
    node.wait(1000)
    assert isinstance(node.quorum.role, Prospective)
    assert {one.is_pre_vote for one in node.requests(Vote).values()} == {True}
    node.answer(VoteAnswer(ErrorCode.NONE, Known(0), True))
    assert isinstance(node.quorum.role, Candidate)
    assert node.only(WriteElectionState).state == ElectionState(1, None, ONE)
    assert node.requests(Vote)[3] == Vote(CLUSTER, THREE, ONE, 1, EpochEnd(0, 0), False)
    node.answer(VoteAnswer(ErrorCode.NONE, Known(1), True))
    assert isinstance(node.quorum.role, Leader)
    assert node.only(LeaderChanged) == LeaderChanged(1, 1, 0)
    assert set(node.requests(BeginQuorumEpoch)) == {2, 3}


def test_a_node_that_would_lose_begins_no_epoch() -> None:
    node = Driver()
    node.wait(1000)
    for one in (2, 3):
        node.answer(VoteAnswer(ErrorCode.NONE, Known(0), False), one)
    assert isinstance(node.quorum.role, Unattached)
    assert node.quorum.epoch == 0


def test_a_voter_of_kafka_3_9_knows_no_pre_vote_so_it_stands_at_once() -> None:
    node = Driver()
    node.wait(1000)
    node.answer(VoteAnswer(ErrorCode.UNSUPPORTED_VERSION, Known(0)))
    assert isinstance(node.quorum.role, Candidate)


def test_a_single_voter_leads_at_once() -> None:
    node = Driver([ONE])
    assert isinstance(node.quorum.role, Leader)
    node.sync()
    assert node.only(HighWatermarkMoved).offset == 3
    assert node.quorum.is_leader


def test_a_voter_without_its_quorum_state_waits_for_all_others() -> None:
    node = Driver(election=None, log=Lineage(0, 9, [(3, 0)], []))
    assert {one.epoch for one in node.requests(Fetch).values()} == {0}
    assert not node.ask(vote(epoch=9, last=EpochEnd(8, 90))).is_granted
    node.wait(10_000)
    assert isinstance(node.quorum.role, Unattached)
    node.answer(FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, Known(6)), 2)
    assert not node.ask(vote(epoch=9, last=EpochEnd(8, 90))).is_granted
    node.answer(FetchAnswer(ErrorCode.NOT_LEADER_OR_FOLLOWER, Known(7)), 3)
    assert node.only(WriteElectionState).state == ElectionState(7, None, ONE)
    assert not node.ask(vote(epoch=7, last=EpochEnd(6, 90))).is_granted
    assert node.ask(vote(epoch=8, last=EpochEnd(6, 90))).is_granted


# Leading


def test_a_leader_commits_with_a_majority_and_a_record_of_its_epoch() -> None:
    node = Driver(log=Lineage(0, 5, [(1, 0)], []), election=ElectionState(1))
    node.win()
    assert node.ask(fetch(TWO, 2, 5, 1)) is not None
    assert node.quorum.high_watermark == 0
    end = node.quorum.node.log.end_offset
    node.ask(fetch(TWO, 2, end, 2))
    assert node.quorum.high_watermark == 0, "its own disk is not counted before it is synced"
    for effect in [SyncLog(end, 0)]:
        node.effects = node.quorum.synced(effect, node.at)
    assert node.only(HighWatermarkMoved).offset == end


def test_a_leader_tells_no_high_watermark_before_its_epoch_has_one() -> None:
    node = Driver(log=Lineage(5, 9, [(1, 5)], [SnapshotId(5, 1)]), election=ElectionState(1))
    node.win()
    assert node.quorum.high_watermark == 5
    node.sync()
    assert node.ask(fetch(TWO, 2, 9, 1)).high_watermark == -1
    end = node.quorum.node.log.end_offset
    node.ask(fetch(TWO, 2, end, 2, high_watermark=-1))
    (answered,) = node.all(Reply)
    assert answered.response.high_watermark == end


def test_records_wait_a_moment_for_others_and_share_a_batch() -> None:
    node = Driver()
    node.lead()
    first, _ = node.quorum.append([b"a", b"b"], 1, node.at)
    last, _ = node.quorum.append([b"c"], 1, node.at)
    assert last == first + 1
    node.wait(24)
    assert node.all(AppendRecords) == []
    node.wait(1)
    assert node.quorum.node.log.end_offset == last + 1
    assert len(node.all(AppendRecords)) == 1


def test_records_of_another_epoch_or_too_many_are_refused() -> None:
    node = Driver()
    with pytest.raises(ApiError) as caught:
        node.quorum.append([b"a"], 0, node.at)
    assert caught.value.code is ErrorCode.NOT_CONTROLLER
    node.lead()
    with pytest.raises(ApiError) as caught:
        node.quorum.append([bytes(9 << 20)], 1, node.at)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_a_fetch_waits_for_records_and_of_version_18_for_the_high_watermark() -> None:
    node = Driver()
    node.lead()
    end = node.quorum.node.log.end_offset
    assert node.ask(fetch(THREE, 1, end, 1)) is None
    node.wait(499)
    assert node.all(Reply) == []
    node.wait(1)
    assert [one.response.error for one in node.all(Reply)] == [ErrorCode.NONE] * 2
    assert node.ask(fetch(THREE, 1, end, 1, high_watermark=0)).high_watermark == end


def test_a_fetch_of_another_epoch_is_told_the_leader() -> None:
    node = Driver()
    node.lead()
    for epoch, error in (
        (0, ErrorCode.FENCED_LEADER_EPOCH),
        (2, ErrorCode.UNKNOWN_LEADER_EPOCH),
    ):
        answer = node.ask(fetch(TWO, epoch, 0, 0))
        assert (answer.error, answer.known) == (error, Known(1, 1, endpoint(ONE)))
    assert node.ask(fetch(TWO, 1, -1, 0)).error is ErrorCode.INVALID_REQUEST
    assert Driver().ask(fetch(TWO, 0, 0, 0)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_leader_that_nobody_fetches_from_resigns_and_names_who_has_most() -> None:
    node = Driver()
    node.lead()
    node.wait(1000)
    node.ask(fetch(THREE, 1, 0, 0))
    node.wait(2999)
    assert isinstance(node.quorum.role, Leader)
    node.wait(2)
    assert isinstance(node.quorum.role, Resigned)
    node.wait(2000)
    epoch = node.quorum.epoch
    assert (type(node.quorum.role), epoch) == (Unattached, 2)


def test_a_leader_that_resigns_tells_the_others() -> None:
    node = Driver()
    node.lead()
    node.wait(1999)
    node.effects = node.quorum.resign(node.at)
    request = node.requests(EndQuorumEpoch)[2]
    assert (request.epoch, request.preferred) == (1, (TWO, THREE))
    with pytest.raises(ApiError):
        node.quorum.append([b"a"], 1, node.at)


def test_one_that_could_not_decide_lets_others_stand_first() -> None:
    node = Driver()
    node.lead()
    node.wait(1000)
    node.quorum.resign(node.at, aside_ms=5000)
    node.ask(BeginQuorumEpoch(CLUSTER, ONE, 2, 2, (endpoint(TWO),)))
    # The other cannot decide either, and names this one first.
    node.ask(EndQuorumEpoch(CLUSTER, 2, 2, (ONE, THREE), (endpoint(TWO),)))
    node.wait(4999)
    assert isinstance(node.quorum.role, Follower)
    node.wait(2)
    assert isinstance(node.quorum.role, Prospective)


def test_a_former_leader_begins_as_resigned() -> None:
    node = Driver(election=ElectionState(4, 1))
    assert isinstance(node.quorum.role, Resigned)
    assert node.requests(EndQuorumEpoch)[2].preferred == ()


# Following


def follower() -> Driver:
    node = Driver(log=Lineage(0, 9, [(1, 0), (2, 6)], []), election=ElectionState(2))
    node.ask(BeginQuorumEpoch(CLUSTER, ONE, 2, 3, (endpoint(TWO),)))
    return node


def test_a_follower_fetches_from_its_end_and_cuts_what_the_leader_lacks() -> None:
    node = follower()
    assert isinstance(node.quorum.role, Follower)
    request = node.requests(Fetch)[2]
    assert (request.epoch, request.offset, request.last_fetched_epoch) == (3, 9, 2)
    known = Known(3, 2, endpoint(TWO))
    node.answer(FetchAnswer(ErrorCode.NONE, known, 5, 0, diverging=EpochEnd(2, 7)))
    assert node.only(TruncateLog).offset == 7
    assert node.requests(Fetch)[2].offset == 7


def test_what_is_committed_is_never_cut() -> None:
    node = follower()
    known = Known(3, 2, endpoint(TWO))
    node.answer(FetchAnswer(ErrorCode.NONE, known, 9, 0))
    assert node.quorum.high_watermark == 9
    node.answer(FetchAnswer(ErrorCode.NONE, known, 5, 0, diverging=EpochEnd(2, 7)))
    assert node.all(TruncateLog) == []
    complaint = node.quorum.take_complaint()
    assert complaint is not None
    assert "which is committed here" in complaint
    assert node.quorum.take_complaint() is None


def test_records_that_do_not_continue_the_log_are_named() -> None:
    node = follower()
    node.answer(FetchAnswer(ErrorCode.NONE, Known(3, 2, endpoint(TWO)), 5, 0, records=bytes(70)))
    assert node.all(AppendRecords) == []
    assert node.quorum.take_complaint() is not None


def test_of_what_a_leader_cuts_in_a_batch_the_whole_batches_are_taken() -> None:
    node = follower()
    whole = batch_of(9, 3, b"a")
    torn = whole + batch_of(10, 3, b"b")[:-1]
    node.answer(FetchAnswer(ErrorCode.NONE, Known(3, 2, endpoint(TWO)), 5, 0, records=torn))
    assert bytes(node.only(AppendRecords).records) == whole
    assert node.quorum.take_complaint() is None


def test_of_control_records_that_cannot_be_read_nothing_is_taken() -> None:
    node = follower()
    builder = RecordBatchBuilder(10, leader_epoch=3, is_control=True)
    builder.append(b"\0", b"", 0)
    records = batch_of(9, 3, b"a") + bytes(builder.build())
    node.answer(FetchAnswer(ErrorCode.NONE, Known(3, 2, endpoint(TWO)), 5, 0, records=records))
    assert node.all(AppendRecords) == []
    assert node.quorum.node.log.end_offset == 9
    assert "cut short" in (node.quorum.take_complaint() or "")


@pytest.mark.parametrize("snapshot", [SnapshotId(8, 2), SnapshotId(20, 4), SnapshotId(20, -1)])
def test_a_snapshot_that_no_leader_can_have_is_not_taken(snapshot: SnapshotId) -> None:
    node = follower()
    known = Known(3, 2, endpoint(TWO))
    node.answer(FetchAnswer(ErrorCode.NONE, known, 9, 0))
    node.wait(1000)
    node.answer(FetchAnswer(ErrorCode.NONE, known, 30, 0, snapshot=snapshot))
    assert "is committed here" in (node.quorum.take_complaint() or "")
    node.wait(1000)
    assert node.requests(FetchSnapshot) == {}


def test_an_epoch_that_no_election_could_follow_is_refused() -> None:
    node = follower()
    last = 2**31 - 1
    assert node.ask(vote(epoch=last)).error is ErrorCode.INVALID_REQUEST
    assert node.ask(BeginQuorumEpoch(CLUSTER, ONE, 3, last, ())).error is ErrorCode.INVALID_REQUEST
    node.answer(FetchAnswer(ErrorCode.FENCED_LEADER_EPOCH, Known(last, 3, endpoint(THREE)), 5, 0))
    assert node.quorum.epoch == 3


def test_the_next_fetch_waits_until_the_last_one_is_synced() -> None:
    leader = Driver([TWO], key=TWO)
    records = leader.only(AppendRecords).records
    node = Driver()
    node.ask(BeginQuorumEpoch(CLUSTER, ONE, 2, 1, (endpoint(TWO),)))
    known = Known(1, 2, endpoint(TWO))
    node.answer(FetchAnswer(ErrorCode.NONE, known, 3, 0, records=records))
    assert node.requests(Fetch) == {}
    assert node.quorum.high_watermark == 3
    assert node.quorum.node.voters.ids == {2}, "a record about voters is in force at once"
    node.sync()
    assert node.requests(Fetch)[2].offset == 3


def test_the_first_preferred_candidate_stands_at_once() -> None:
    for preferred, role in (((ONE, THREE), Prospective), ((THREE, ONE), Follower)):
        node = follower()
        request = EndQuorumEpoch(CLUSTER, 2, 3, preferred, (endpoint(TWO),))
        assert node.ask(request).error is ErrorCode.NONE
        assert isinstance(node.quorum.role, role)


def test_what_a_leader_sent_before_it_resigned_holds_up_no_election() -> None:
    """Its answer to a fetch is under way on a connection of its own, and comes after the end."""
    node = follower()
    known = Known(3, 2, endpoint(TWO))
    node.ask(EndQuorumEpoch(CLUSTER, 2, 3, (THREE, ONE), (endpoint(TWO),)))
    node.answer(FetchAnswer(ErrorCode.NONE, known, 9, 0, records=batch_of(9, 3)))
    node.sync()
    equal = EpochEnd(3, 10)
    assert node.ask(vote(THREE, epoch=3, last=equal, is_pre_vote=True)).is_granted
    node.wait(100)
    assert isinstance(node.quorum.role, Prospective)
    for one in (2, 3):
        node.answer(VoteAnswer(ErrorCode.NONE, known, False), one)
    assert isinstance(node.quorum.role, Unattached), "nobody follows who has resigned"
    assert not node.ask(vote(THREE, epoch=3, last=EpochEnd(2, 10))).is_granted
    node.wait(node.quorum.node.options.election_timeout_ms)
    assert isinstance(node.quorum.role, Prospective)


def test_what_a_killed_process_left_is_synced_before_it_is_claimed() -> None:
    options = QuorumOptions(key=ONE, cluster_id=CLUSTER, endpoints=(endpoint(ONE),))
    history = VoterHistory(1, VoterSet.of(map(voter, (ONE, TWO))))
    quorum = Quorum(options, Lineage(0, 9, [(1, 0)], []), history, lambda _: 0)
    at = Timestamps(now_ms=0, monotonic_ms=0)
    effects = quorum.start(ElectionState(1, 2), at)
    (sync,) = [one for one in effects if isinstance(one, SyncLog)]
    assert not any(isinstance(one, Send) for one in effects), "a fetch would acknowledge it"
    (sent,) = [one for one in quorum.synced(sync, at) if isinstance(one, Send)]
    assert isinstance(sent.request, Fetch)
    assert sent.request.offset == 9


# Voters


def test_a_voter_is_added_when_it_has_caught_up_and_a_majority_of_the_new_set_has_the_record() -> (
    None
):
    node = Driver()
    node.lead()
    request = AddVoter(CLUSTER, voter(FOUR), 5000)
    assert node.ask(request) is None
    assert set(node.requests(AskVersions)) == {4}
    versions = VersionsAnswer(ErrorCode.NONE, Known(0), 0, 1)
    node.answer(versions, 4)
    assert node.only(Reply).response.error is ErrorCode.REQUEST_TIMED_OUT
    end = node.quorum.node.log.end_offset
    node.ask(fetch(FOUR, 1, end, 1))
    assert node.ask(request) is None
    node.answer(versions, 4)
    assert node.quorum.node.voters.ids == {1, 2, 3, 4}
    node.sync()
    node.ask(fetch(TWO, 1, end + 1, 1))
    assert [one for one in node.all(Reply) if isinstance(one.response, VoterAnswer)] == []
    node.ask(fetch(FOUR, 1, end + 1, 1))
    answers = [one.response for one in node.all(Reply)]
    assert VoterAnswer(ErrorCode.NONE, Known(1, 1, endpoint(ONE))) in answers


def test_the_only_voter_has_time_for_the_second_to_fetch_however_long_it_was_alone() -> None:
    node = Driver([ONE])
    node.sync()
    for _ in range(20):
        node.wait(1000)
        assert node.quorum.deadline_ms > node.now_ms, "nothing is due all the time"
    node.ask(fetch(TWO, 1, node.quorum.node.log.end_offset, 1))
    node.ask(AddVoter(CLUSTER, voter(TWO), 5000))
    node.answer(VersionsAnswer(ErrorCode.NONE, Known(0), 0, 1), 2)
    node.sync()
    node.wait(1000)
    assert node.quorum.node.voters.ids == {1, 2}
    assert node.quorum.is_leader
    node.wait(3000)
    assert not node.quorum.is_leader, "it has not fetched"


def test_changes_of_voters_that_cannot_be_are_refused() -> None:
    node = Driver()
    assert node.ask(RemoveVoter(None, TWO)).error is ErrorCode.NOT_LEADER_OR_FOLLOWER
    node.win()
    assert node.ask(RemoveVoter(None, TWO)).error is ErrorCode.REQUEST_TIMED_OUT
    node = Driver()
    node.lead()
    refused = (
        (AddVoter(None, voter(TWO), 5000), ErrorCode.DUPLICATE_VOTER),
        (AddVoter(None, Voter(FOUR), 5000), ErrorCode.INVALID_REQUEST),
        (
            AddVoter(None, Voter(FOUR, (endpoint(FOUR)._replace(name="NOPE"),)), 5000),
            ErrorCode.INVALID_REQUEST,
        ),
        (RemoveVoter(None, FOUR), ErrorCode.VOTER_NOT_FOUND),
        (RemoveVoter(None, ReplicaKey(2, ONE.directory_id)), ErrorCode.VOTER_NOT_FOUND),
        (RemoveVoter("x", TWO), ErrorCode.INCONSISTENT_CLUSTER_ID),
    )
    for request, error in refused:
        assert node.ask(request).error is error
    assert node.ask(RemoveVoter(None, TWO)) is None
    assert node.ask(RemoveVoter(None, THREE)).error is ErrorCode.REQUEST_TIMED_OUT
    static = Driver(kraft_version=0)
    static.lead()
    assert static.ask(RemoveVoter(None, TWO)).error is ErrorCode.UNSUPPORTED_VERSION
    alone = Driver([ONE])
    alone.sync()
    assert alone.ask(RemoveVoter(None, ONE)).error is ErrorCode.INVALID_REQUEST


def test_a_leader_that_is_removed_resigns_when_that_is_committed() -> None:
    node = Driver()
    node.lead()
    assert node.ask(RemoveVoter(None, ONE)) is None
    end = node.quorum.node.log.end_offset
    node.ask(fetch(TWO, 1, end, 1))
    assert isinstance(node.quorum.role, Leader)
    node.ask(fetch(THREE, 1, end, 1))
    assert isinstance(node.quorum.role, Resigned)
    assert node.requests(EndQuorumEpoch)[2].endpoints == ()


def test_a_description_tells_who_is_how_far() -> None:
    node = Driver()
    node.lead()
    end = node.quorum.node.log.end_offset
    node.ask(fetch(FOUR, 1, end, 1))
    answer = node.ask(DescribeQuorum())
    assert answer.high_watermark == end
    assert [(one.key, one.end_offset) for one in answer.voters] == [
        (ONE, end),
        (TWO, end),
        (THREE, -1),
    ]
    assert [(one.key, one.last_caught_up_ms) for one in answer.observers] == [(FOUR, 1000)]
    assert Driver().ask(DescribeQuorum()).error is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_node_starts_behind_a_snapshot_that_its_log_does_not_reach() -> None:
    log = Lineage(0, 4, [(1, 0)], [SnapshotId(9, 3)])
    node = Driver(log=log, election=ElectionState(3, 2))
    assert node.quorum.node.log.end == EpochEnd(3, 9)
    assert node.quorum.high_watermark == 9


def test_a_leader_notes_a_voter_that_asks_again_for_what_it_had() -> None:
    node = Driver()
    node.lead()
    epoch, end = node.quorum.epoch, node.quorum.node.log.end.end_offset
    assert node.quorum.node.forgetful is None
    node.ask(fetch(FOUR, epoch, end, epoch))
    node.ask(fetch(FOUR, epoch, 0, 0))
    assert node.quorum.node.forgetful is None, "an observer promises nothing"
    node.ask(fetch(TWO, epoch, 0, 0))
    assert node.quorum.node.forgetful == (TWO.id, end, 0)
    assert node.quorum.high_watermark == end
