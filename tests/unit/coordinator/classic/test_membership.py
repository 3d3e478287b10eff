"""Heartbeats, sessions that end, and members that leave."""

from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.coordinator.classic.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS
from ottla.coordinator.classic.requests import JoinAnswer, Leaving
from ottla.coordinator.classic.state import GroupState
from ottla.coordinator.requests import MemberClaim
from tests.support.groups import GROUP, SESSION_MS, Runner


@pytest.fixture
def runner() -> Runner:
    return Runner()


def test_a_heartbeat_keeps_a_member_in_the_group(runner: Runner) -> None:
    joined = runner.stable()[0]
    for _ in range(5):
        runner.advance(SESSION_MS - 1)
        assert runner.heartbeat(joined) is ErrorCode.NONE
    assert runner.state is GroupState.STABLE


def test_a_member_that_is_silent_for_its_session_is_out(runner: Runner) -> None:
    joined = runner.stable()[0]
    runner.advance(SESSION_MS - 1)
    assert runner.state is GroupState.STABLE
    runner.advance(1)
    assert runner.state is GroupState.EMPTY
    assert runner.heartbeat(joined) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_others_rebalance_when_a_member_has_died(runner: Runner) -> None:
    leader, follower = runner.stable(2)
    runner.advance(SESSION_MS - 1)
    runner.heartbeat(leader)
    runner.advance(1)
    assert runner.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    answer = runner.join("alone", leader.member_id)
    assert answer is not None
    assert [one.member_id for one in answer.members] == [leader.member_id]
    assert runner.heartbeat(follower) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_heartbeat_of_another_generation_is_illegal(runner: Runner) -> None:
    old = runner.stable()[0]
    runner.join("again", old.member_id)
    assert runner.heartbeat(old) is ErrorCode.ILLEGAL_GENERATION


def test_a_member_may_send_heartbeats_before_it_has_its_assignment(runner: Runner) -> None:
    joined = runner.join("a")
    assert joined is not None
    runner.advance(SESSION_MS - 1)
    assert runner.heartbeat(joined) is ErrorCode.NONE
    runner.advance(SESSION_MS - 1)
    assert runner.heartbeat(joined) is ErrorCode.NONE


def test_heartbeats_of_nobody_are_unknown(runner: Runner) -> None:
    nobody = JoinAnswer(member_id="nobody", generation=0)
    assert runner.heartbeat(nobody) is ErrorCode.UNKNOWN_MEMBER_ID
    runner.stable()
    assert runner.heartbeat(nobody) is ErrorCode.UNKNOWN_MEMBER_ID
    decision = runner.machine.heartbeat(MemberClaim(group_id=""), runner.at)
    assert decision.answer is not None
    assert decision.answer.error is ErrorCode.INVALID_GROUP_ID


def test_somebody_who_was_only_given_an_id_has_no_heartbeat(runner: Runner) -> None:
    refusal = runner.join("a", requires_member_id=True)
    assert refusal is not None
    assert runner.heartbeat(refusal) is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_member_leaves_an_empty_group(runner: Runner) -> None:
    joined = runner.stable()[0]
    assert runner.leave(joined.member_id).errors == (ErrorCode.NONE,)
    assert runner.state is GroupState.EMPTY
    assert runner.group.generation == joined.generation + 1


def test_the_others_rebalance_when_a_member_leaves(runner: Runner) -> None:
    leader, follower = runner.stable(2)
    runner.leave(follower.member_id)
    assert runner.heartbeat(leader) is ErrorCode.REBALANCE_IN_PROGRESS
    answer = runner.join("alone", leader.member_id)
    assert answer is not None
    assert len(answer.members) == 1


def test_members_that_leave_together_cause_one_rebalance(runner: Runner) -> None:
    members = runner.stable(4)
    answer = runner.leave(*(one.member_id for one in members[1:]))
    assert answer.errors == (ErrorCode.NONE,) * 3
    last = runner.join("last", members[0].member_id)
    assert last is not None
    assert last.generation == members[0].generation + 1


def test_each_who_leaves_has_an_error_of_its_own(runner: Runner) -> None:
    joined = runner.stable()[0]
    answer = runner.leave("nobody", joined.member_id, "")
    assert answer.errors == (
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_MEMBER_ID,
    )


def test_leaving_a_group_that_does_not_exist_is_unknown(runner: Runner) -> None:
    answer = runner.leave("somebody")
    assert (answer.error, answer.errors) == (ErrorCode.UNKNOWN_MEMBER_ID, ())
    decision = runner.machine.leave("", (Leaving(member_id="a"),), runner.at)
    assert decision.answer is not None
    assert decision.answer.error is ErrorCode.INVALID_GROUP_ID


def test_a_member_that_is_made_to_leave_while_it_waits_is_told(runner: Runner) -> None:
    runner.stable()
    assert runner.join("waits") is None
    newcomer = list(runner.group.members)[1]
    assert runner.leave(newcomer).errors == (ErrorCode.NONE,)
    assert runner.answers["waits"].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_is_made_to_leave_while_it_syncs_is_told(runner: Runner) -> None:
    leader, follower = runner.stable(2)
    runner.join("follower again", follower.member_id, protocols={"range": b"new"})
    again = runner.join("leader again", leader.member_id)
    assert again is not None
    assert runner.sync("waits", runner.answers["follower again"]) is None
    runner.leave(follower.member_id)
    assert runner.answers["waits"].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_the_last_to_be_waited_for_may_leave_instead_of_joining(runner: Runner) -> None:
    leader, follower = runner.stable(2)
    assert runner.join("leader", leader.member_id) is None
    runner.leave(follower.member_id)
    assert runner.answers["leader"].error is ErrorCode.NONE


def test_who_was_only_given_an_id_leaves_without_a_rebalance(runner: Runner) -> None:
    joined = runner.stable()[0]
    refusal = runner.join("b", requires_member_id=True)
    assert refusal is not None
    assert runner.leave(refusal.member_id).errors == (ErrorCode.NONE,)
    assert runner.heartbeat(joined) is ErrorCode.NONE
    answer = runner.join("again", refusal.member_id)
    assert answer is not None
    assert answer.error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_of_which_only_ids_were_given_vanishes_when_they_leave(runner: Runner) -> None:
    refusal = runner.join("a", requires_member_id=True)
    assert refusal is not None
    runner.leave(refusal.member_id)
    assert GROUP not in runner.machine.groups


def test_a_leader_that_leaves_is_followed_by_another(runner: Runner) -> None:
    leader, follower = runner.stable(2)
    runner.leave(leader.member_id)
    answer = runner.join("next", follower.member_id)
    assert answer is not None
    assert answer.leader == follower.member_id


# A join that waits longer than the session

LONG_MS = 2 * NEW_MEMBER_JOIN_TIMEOUT_MS


def with_a_newcomer_that_waits(runner: Runner, **options: Any) -> JoinAnswer:
    """A stable group of one, and the join of another that waits for it."""
    joined = runner.stable(session_timeout_ms=LONG_MS, rebalance_timeout_ms=LONG_MS)[0]
    assert runner.join("waits", rebalance_timeout_ms=LONG_MS, **options) is None
    return joined


def test_a_newcomer_whose_join_waits_for_too_long_is_told_that_it_is_unknown(
    runner: Runner,
) -> None:
    joined = with_a_newcomer_that_waits(runner)
    runner.advance(NEW_MEMBER_JOIN_TIMEOUT_MS)
    answer = runner.answers["waits"]
    assert (answer.error, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "")
    again = runner.join("again", joined.member_id)
    assert again is not None
    assert [one.member_id for one in again.members] == [joined.member_id]


def test_a_request_that_comes_before_the_end_of_a_session_is_handled_does_not_make_it_a_member(
    runner: Runner,
) -> None:
    joined = with_a_newcomer_that_waits(runner)
    runner.elapsed_ms += NEW_MEMBER_JOIN_TIMEOUT_MS  # no deadline is handled, as on a busy broker
    again = runner.join("again", joined.member_id)
    assert again is not None
    assert [one.member_id for one in again.members] == [joined.member_id]
    assert runner.answers["waits"].error is ErrorCode.UNKNOWN_MEMBER_ID
    runner.advance(0)
    assert list(runner.group.members) == [joined.member_id]


def test_a_newcomer_is_no_member_when_its_session_and_the_joining_end_unnoticed(
    runner: Runner,
) -> None:
    with_a_newcomer_that_waits(runner)
    runner.elapsed_ms += 2 * LONG_MS
    runner.advance(0)
    assert runner.answers["waits"].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert runner.state is GroupState.EMPTY


def test_a_leave_that_completes_a_rebalance_admits_nobody_whose_session_is_over(
    runner: Runner,
) -> None:
    joined = with_a_newcomer_that_waits(runner)
    runner.elapsed_ms += NEW_MEMBER_JOIN_TIMEOUT_MS
    runner.leave(joined.member_id)
    assert runner.answers["waits"].error is ErrorCode.UNKNOWN_MEMBER_ID
    assert runner.state is GroupState.EMPTY


def test_a_heartbeat_of_a_newcomer_that_waits_begins_its_session(runner: Runner) -> None:
    joined = with_a_newcomer_that_waits(runner)
    newcomer = list(runner.group.members)[1]
    claim = JoinAnswer(member_id=newcomer, generation=joined.generation)
    assert runner.heartbeat(claim) is ErrorCode.REBALANCE_IN_PROGRESS
    runner.elapsed_ms += SESSION_MS
    again = runner.join("again", joined.member_id)
    assert again is not None
    assert len(again.members) == 1
    assert runner.answers["waits"].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_known_member_that_waits_needs_no_session(runner: Runner) -> None:
    leader, follower = runner.stable(2, rebalance_timeout_ms=LONG_MS)
    changed = {"range": b"new"}
    options: dict[str, Any] = {"protocols": changed, "rebalance_timeout_ms": LONG_MS}
    assert runner.join("waits", follower.member_id, **options) is None
    runner.elapsed_ms += SESSION_MS - 1
    runner.heartbeat(leader)
    runner.elapsed_ms += SESSION_MS - 1
    assert runner.join("last", leader.member_id, **options) is not None
    assert runner.answers["waits"].error is ErrorCode.NONE


def test_a_static_member_that_is_replaced_while_its_join_waits_is_fenced(runner: Runner) -> None:
    joined = with_a_newcomer_that_waits(runner, instance_id="i")
    waiting = list(runner.group.members)[1]
    runner.elapsed_ms += NEW_MEMBER_JOIN_TIMEOUT_MS
    assert runner.join("returned", instance_id="i", rebalance_timeout_ms=LONG_MS) is None
    answer = runner.answers["waits"]
    assert (answer.error, answer.member_id) == (ErrorCode.FENCED_INSTANCE_ID, waiting)
    again = runner.join("again", joined.member_id)
    assert again is not None
    assert len(again.members) == 2
    assert runner.answers["returned"].error is ErrorCode.NONE


def test_a_member_that_waits_for_its_assignment_is_told_when_another_has_gone(
    runner: Runner,
) -> None:
    leader, follower = runner.stable(2)
    runner.join("follower again", follower.member_id, protocols={"range": b"new"})
    again = runner.join("leader again", leader.member_id)
    assert again is not None
    assert runner.sync("waits", runner.answers["follower again"]) is None
    runner.advance(SESSION_MS)
    assert runner.answers["waits"].error is ErrorCode.REBALANCE_IN_PROGRESS
    assert runner.heartbeat(again) is ErrorCode.UNKNOWN_MEMBER_ID
