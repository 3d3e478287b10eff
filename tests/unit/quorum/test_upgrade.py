"""The log of a quorum begins to name its voters, which the settings named before (KIP-853)."""

from ottla.base.error_codes import ErrorCode
from ottla.quorum.appending import control_records
from ottla.quorum.effects import AppendRecords, Reply, SyncLog
from ottla.quorum.lineage import Lineage
from ottla.quorum.machine import Quorum
from ottla.quorum.messages import (
    AddVoter,
    AskVersions,
    DescribeQuorum,
    EpochAnswer,
    Known,
    RemoveVoter,
    UpgradeVersion,
    VersionsAnswer,
    VoterAnswer,
)
from ottla.quorum.options import QuorumOptions
from ottla.quorum.roles import Leader
from ottla.quorum.voters import ReplicaKey, Voter, VoterHistory, VoterSet
from ottla.record.batch import batch_at
from tests.unit.quorum.test_machine import (
    CLUSTER,
    FOUR,
    NEW,
    ONE,
    THREE,
    TWO,
    Driver,
    endpoint,
    fetch,
    voter,
)

STATIC = [ReplicaKey(one) for one in (1, 2, 3)]
NEWER = VersionsAnswer(ErrorCode.NONE, Known(0), 0, 1)
OLDER = VersionsAnswer(ErrorCode.NONE, Known(0), 0, 0)
TIME_LIMIT_MS = 5000


def static() -> Driver:
    """A leader of voters of the settings, of which the second has fetched."""
    node = Driver(STATIC, kraft_version=0)
    node.lead()
    for one in (2, 3):  # BeginQuorumEpoch
        node.answer(EpochAnswer(ErrorCode.NONE, Known(1, 1)), one)
    return node


def asked(node: Driver) -> Driver:
    assert node.ask(UpgradeVersion(1, TIME_LIMIT_MS)) is None
    assert set(node.requests(AskVersions)) == {2, 3}
    return node


def test_an_upgrade_writes_the_voters_with_the_directories_that_they_fetch_with() -> None:
    node = asked(static())
    node.answer(NEWER, 2)
    node.answer(NEWER, 3)
    assert node.quorum.node.history.kraft_version == 0, "the third has not fetched"
    end = node.quorum.node.log.end_offset
    node.ask(fetch(THREE, 1, 0, 0))
    history = node.quorum.node.history
    assert history.kraft_version == 1
    assert history.voters == VoterSet.of(map(voter, (ONE, TWO, THREE)))
    (batch,) = node.all(AppendRecords)
    kinds = [type(record).__name__ for _, record in control_records(batch_at(batch.records, 0))]
    assert kinds == ["KRaftVersionRecord", "VotersRecord"]
    node.sync()
    node.ask(fetch(TWO, 1, end + 2, 1))
    answers = [one.response for one in node.all(Reply)]
    assert VoterAnswer(ErrorCode.NONE, Known(1, 1, endpoint(ONE))) in answers
    assert node.ask(UpgradeVersion(1, TIME_LIMIT_MS)).error is ErrorCode.NONE
    assert node.ask(UpgradeVersion(0, TIME_LIMIT_MS)).error is ErrorCode.INVALID_UPDATE_VERSION


def test_a_voter_of_the_settings_that_is_removed_after_the_upgrade_is_one_observer() -> None:
    node = asked(static())
    node.answer(NEWER, 2)
    node.answer(NEWER, 3)
    node.ask(fetch(TWO, 1, 0, 0))
    node.ask(fetch(THREE, 1, 0, 0))
    node.sync()
    end = node.quorum.node.log.end
    for one in (TWO, THREE):
        node.ask(fetch(one, 1, end.end_offset, end.epoch))
    assert node.ask(RemoveVoter(None, TWO)) is None
    node.sync()
    end = node.quorum.node.log.end
    for one in (TWO, THREE):
        node.ask(fetch(one, 1, end.end_offset, end.epoch))
    described = node.ask(DescribeQuorum())
    assert [one.key for one in described.voters] == [ONE, THREE]
    assert [one.key for one in described.observers] == [TWO]


def test_a_voter_that_does_not_support_it_refuses_the_upgrade() -> None:
    node = asked(static())
    node.ask(fetch(THREE, 1, 0, 0))
    node.answer(NEWER, 2)
    node.answer(OLDER, 3)
    (reply,) = node.all(Reply)
    assert reply.response.error is ErrorCode.INVALID_UPDATE_VERSION
    assert reply.response.message == "Node 3 does not support kraft.version 1."
    assert node.quorum.node.history.kraft_version == 0


def test_a_voter_that_does_not_say_what_is_needed_is_named() -> None:
    node = asked(static())
    node.answer(NEWER, 2)
    node.answer(VersionsAnswer(ErrorCode.UNSUPPORTED_VERSION, Known(0)), 3)
    node.now_ms += 700
    end = node.quorum.node.log.end
    node.ask(fetch(TWO, 1, end.end_offset, end.epoch))
    node.now_ms += TIME_LIMIT_MS - 700
    node.ask(fetch(TWO, 1, end.end_offset, end.epoch))
    (answer,) = [one.response for one in node.all(Reply) if isinstance(one.response, VoterAnswer)]
    assert answer.error is ErrorCode.REQUEST_TIMED_OUT
    assert answer.message == "Node 3 did not say what is needed; try again."


def test_an_upgrade_that_cannot_be_is_refused() -> None:
    node = static()
    error = ErrorCode.INVALID_UPDATE_VERSION
    assert node.ask(UpgradeVersion(2, TIME_LIMIT_MS)).error is error
    asked(node)
    assert node.ask(UpgradeVersion(1, TIME_LIMIT_MS)).error is ErrorCode.REQUEST_TIMED_OUT
    follower = Driver(STATIC, kraft_version=0)
    error = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert follower.ask(UpgradeVersion(1, TIME_LIMIT_MS)).error is error


class FirstVoter(Driver):
    """A node that was the only one, and had a log of settings' voters."""

    def __init__(self) -> None:
        super().__init__([ReplicaKey(1)], kraft_version=0)
        options = QuorumOptions(
            key=ONE, cluster_id=CLUSTER, endpoints=(endpoint(ONE),), first_voter=True
        )
        history = VoterHistory(0, VoterSet.of([Voter(ReplicaKey(1), (endpoint(ONE),))]))
        log = Lineage(0, 40, [(1, 0), (2, 30)], [])
        self.quorum = Quorum(options, log, history, lambda _: 0)
        self.effects = self.quorum.start(NEW, self.at)


def test_a_broker_by_itself_writes_itself_into_its_log_and_others_can_join() -> None:
    node = FirstVoter()
    assert isinstance(node.quorum.role, Leader)
    assert node.quorum.node.history.kraft_version == 0, "nothing is committed yet"
    node.sync()
    history = node.quorum.node.history
    assert (history.kraft_version, history.voters) == (1, VoterSet.of([voter(ONE)]))
    node.sync()
    assert not node.all(AppendRecords), "once is enough"
    end = node.quorum.node.log.end
    assert end.end_offset == node.quorum.high_watermark == 43
    node.ask(fetch(FOUR, end.epoch, end.end_offset, end.epoch))
    assert node.ask(AddVoter(CLUSTER, voter(FOUR), 5000)) is None
    node.answer(NEWER, 4)
    assert node.quorum.node.voters.ids == {1, 4}


def test_whoever_is_not_told_to_leaves_the_voters_to_the_settings() -> None:
    node = Driver([ReplicaKey(1)], kraft_version=0)
    while node.all(SyncLog):
        node.sync()
    assert node.quorum.is_leader
    assert node.quorum.node.history.kraft_version == 0
