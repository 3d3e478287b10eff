"""The leader assigns, everybody gets their part, and latecomers are out."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.coordinator.classic.requests import JoinAnswer, SyncRequest
from ottla.coordinator.classic.state import GroupState
from ottla.coordinator.requests import MemberClaim
from tests.support.groups import GROUP, REBALANCE_MS, SESSION_MS, Runner


@pytest.fixture
def runner() -> Runner:
    return Runner()


def completing(runner: Runner, size: int = 2) -> list[JoinAnswer]:
    """A group that waits for its leader's assignment."""
    members = runner.stable(size)
    for one in members:
        runner.join(("again", one.member_id), one.member_id, protocols={"range": b"new"})
    assert runner.state is GroupState.COMPLETING_REBALANCE
    return [runner.answers["again", one.member_id] for one in members]


def test_everybody_gets_what_the_leader_assigned(runner: Runner) -> None:
    leader, follower = completing(runner)
    assert runner.sync("follower", follower) is None
    answer = runner.sync(
        "leader", leader, {leader.member_id: b"mine", follower.member_id: b"yours"}
    )
    assert answer is not None
    assert (answer.error, answer.assignment) == (ErrorCode.NONE, b"mine")
    assert (answer.protocol_type, answer.protocol) == ("consumer", "range")
    assert runner.answers["follower"].assignment == b"yours"
    assert runner.state is GroupState.STABLE


def test_the_assignment_is_written_down_before_anyone_has_it(runner: Runner) -> None:
    leader, follower = completing(runner)
    runner.sync("follower", follower)
    claim = MemberClaim(group_id=GROUP, member_id=leader.member_id, generation=leader.generation)
    decision = runner.machine.sync(SyncRequest(claim=claim), "leader", runner.at)
    assert len(decision.records) == 1
    assert runner.state is GroupState.COMPLETING_REBALANCE
    runner.run(decision)
    assert runner.state is GroupState.STABLE


def test_a_member_that_the_leader_forgot_has_nothing(runner: Runner) -> None:
    leader, follower = completing(runner)
    runner.sync("leader", leader, {leader.member_id: b"all"})
    answer = runner.sync("follower", follower)
    assert answer is not None
    assert (answer.error, answer.assignment) == (ErrorCode.NONE, b"")


def test_an_assignment_to_a_stranger_is_skipped(runner: Runner) -> None:
    leader = runner.stable()[0]
    joined = runner.join("again", leader.member_id)
    assert joined is not None
    answer = runner.sync("leader", joined, {"stranger": b"x"})
    assert answer is not None
    assert list(runner.group.members) == [leader.member_id]


def test_a_member_of_a_stable_group_can_fetch_its_assignment_again(runner: Runner) -> None:
    leader = runner.stable()[0]
    answer = runner.sync("again", leader)
    assert answer is not None
    assert answer.assignment == leader.member_id.encode()


def test_a_sync_of_an_earlier_generation_is_illegal(runner: Runner) -> None:
    old = runner.stable()[0]
    joined = runner.join("again", old.member_id)
    assert joined is not None
    answer = runner.sync("old", old)
    assert answer is not None
    assert answer.error is ErrorCode.ILLEGAL_GENERATION


def test_a_sync_during_the_joining_is_sent_back(runner: Runner) -> None:
    joined = runner.stable()[0]
    runner.join("newcomer")
    answer = runner.sync("early", joined)
    assert answer is not None
    assert answer.error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_newcomer_sends_those_back_who_wait_for_their_assignment(runner: Runner) -> None:
    _, follower = completing(runner)
    assert runner.sync("follower", follower) is None
    assert runner.join("newcomer") is None
    assert runner.answers["follower"].error is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_sync_of_nobody_is_unknown(runner: Runner) -> None:
    nobody = JoinAnswer(member_id="nobody", generation=1)
    answer = runner.sync("no group", nobody)
    assert answer is not None
    assert answer.error is ErrorCode.UNKNOWN_MEMBER_ID
    runner.stable()
    answer = runner.sync("no member", nobody)
    assert answer is not None
    assert answer.error is ErrorCode.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize("claimed", [{"protocol_type": "connect"}, {"protocol": "sticky"}])
def test_a_member_that_is_wrong_about_the_protocol_is_told_so(
    runner: Runner, claimed: dict[str, str]
) -> None:
    joined = runner.stable()[0]
    answer = runner.sync("wrong", joined, **claimed)
    assert answer is not None
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    answer = runner.sync("right", joined, protocol_type="consumer", protocol="range")
    assert answer is not None
    assert answer.error is ErrorCode.NONE


def test_members_that_do_not_sync_in_time_are_out(runner: Runner) -> None:
    leader, follower = completing(runner)
    runner.sync("leader", leader)
    for _ in range(0, REBALANCE_MS, SESSION_MS // 2):
        runner.heartbeat(leader)
        runner.heartbeat(follower)
        runner.advance(SESSION_MS // 2)
    assert runner.state is GroupState.PREPARING_REBALANCE
    assert list(runner.group.members) == [leader.member_id]


def test_a_group_in_which_all_have_synced_stays_as_it_is(runner: Runner) -> None:
    leader, follower = completing(runner)
    runner.sync("leader", leader)
    runner.sync("follower", follower)
    for _ in range(0, 2 * REBALANCE_MS, SESSION_MS // 2):
        assert runner.heartbeat(leader) is ErrorCode.NONE
        assert runner.heartbeat(follower) is ErrorCode.NONE
        runner.advance(SESSION_MS // 2)
    assert runner.state is GroupState.STABLE


def test_a_sync_that_was_given_up_on_is_answered_when_it_comes_again(runner: Runner) -> None:
    leader, follower = completing(runner)
    assert runner.sync("lost", follower) is None
    assert runner.sync("again", follower) is None
    assert runner.answers["lost"].error is ErrorCode.REBALANCE_IN_PROGRESS
    runner.sync("leader", leader, {follower.member_id: b"yours"})
    assert runner.answers["again"].assignment == b"yours"
