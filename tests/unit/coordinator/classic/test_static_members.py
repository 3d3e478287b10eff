"""Static members (KIP-345): they come back under a new id and find everything as it was."""

from dataclasses import replace
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.coordinator.classic.requests import JoinAnswer, Leaving
from ottla.coordinator.classic.state import GroupState
from tests.support.groups import GROUP, REBALANCE_MS, SESSION_MS, Runner, claim_of


@pytest.fixture
def runner() -> Runner:
    return Runner()


def join(runner: Runner, pending_id: str, instance_id: str, **options: Any) -> JoinAnswer | None:
    return runner.join(pending_id, instance_id=instance_id, requires_member_id=True, **options)


def pair(runner: Runner) -> tuple[JoinAnswer, JoinAnswer]:
    """A stable group of the static members "a", who leads, and "b"."""
    first = join(runner, "pair: a", "a")
    assert first is not None
    assert join(runner, "pair: b", "b") is None
    leader = join(runner, "pair: a again", "a", member_id=first.member_id)
    assert leader is not None
    follower = runner.answers["pair: b"]
    assert runner.sync("sync b", follower, instance_id="b") is None
    runner.sync(
        "sync a", leader, {leader.member_id: b"A", follower.member_id: b"B"}, instance_id="a"
    )
    assert runner.state is GroupState.STABLE
    return leader, follower


def restarted(runner: Runner, pending_id: str, instance_id: str, **options: Any) -> JoinAnswer:
    answer = join(runner, pending_id, instance_id, **options)
    assert answer is not None, "the answer has to wait"
    assert answer.error is ErrorCode.NONE
    return answer


def test_a_static_member_needs_no_id_first(runner: Runner) -> None:
    answer = restarted(runner, "a", "a")
    assert answer.member_id.startswith("a-")
    assert answer.members[0].instance_id == "a"


def test_a_follower_that_restarts_finds_its_assignment_without_a_rebalance(
    runner: Runner,
) -> None:
    leader, follower = pair(runner)
    answer = restarted(runner, "b is back", "b")
    assert answer.member_id != follower.member_id
    assert answer.generation == follower.generation
    assert (answer.leader, answer.members) == (leader.member_id, ())
    assert runner.heartbeat(leader, "a") is ErrorCode.NONE
    synced = runner.sync("sync", answer, instance_id="b")
    assert synced is not None
    assert synced.assignment == b"B"


def test_a_leader_that_restarts_is_told_not_to_assign(runner: Runner) -> None:
    pair(runner)
    answer = restarted(runner, "a is back", "a")
    assert answer.skip_assignment
    assert answer.leader == answer.member_id
    assert sorted(one.instance_id or "" for one in answer.members) == ["a", "b"]
    assert answer.member_id in {one.member_id for one in answer.members}
    assert runner.state is GroupState.STABLE


def test_an_old_leader_that_restarts_is_told_that_its_former_self_leads(runner: Runner) -> None:
    leader, _ = pair(runner)
    answer = restarted(runner, "a is back", "a", can_skip_assignment=False)
    assert not answer.skip_assignment
    assert (answer.leader, answer.members) == (leader.member_id, ())
    assert runner.group.leader == answer.member_id


def test_who_uses_the_id_of_before_the_restart_is_fenced(runner: Runner) -> None:
    _, follower = pair(runner)
    restarted(runner, "b is back", "b")
    assert runner.heartbeat(follower, "b") is ErrorCode.FENCED_INSTANCE_ID
    synced = runner.sync("old", follower, instance_id="b")
    assert synced is not None
    assert synced.error is ErrorCode.FENCED_INSTANCE_ID
    joined = join(runner, "old joins", "b", member_id=follower.member_id)
    assert joined is not None
    assert joined.error is ErrorCode.FENCED_INSTANCE_ID
    assert runner.commit(1, claim_of(follower, "b")) is ErrorCode.FENCED_INSTANCE_ID
    left = runner.run(
        runner.machine.leave(
            GROUP, (Leaving(member_id=follower.member_id, instance_id="b"),), runner.at
        )
    )
    assert left is not None
    assert left.errors == (ErrorCode.FENCED_INSTANCE_ID,)


def test_the_id_of_before_the_restart_is_unknown_without_the_name(runner: Runner) -> None:
    _, follower = pair(runner)
    restarted(runner, "b is back", "b")
    assert runner.heartbeat(follower) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_name_that_nobody_has_is_unknown(runner: Runner) -> None:
    leader, _ = pair(runner)
    assert runner.heartbeat(leader, "c") is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_restart_with_another_subscription_under_the_same_protocol_changes_nothing(
    runner: Runner,
) -> None:
    pair(runner)
    restarted(runner, "b is back", "b", protocols={"range": b"other"})
    assert runner.state is GroupState.STABLE


def test_a_restart_that_changes_the_protocol_sets_off_a_rebalance(runner: Runner) -> None:
    both = {"range": b"", "sticky": b""}
    first = join(runner, "a", "a", protocols=both)
    assert first is not None
    runner.sync("sync", first, {}, instance_id="a")
    assert runner.group.protocol == "range"
    answer = restarted(runner, "a is back", "a", protocols={"sticky": b"", "range": b""})
    assert answer.generation == first.generation + 1
    assert answer.protocol == "sticky"


def test_a_restart_during_the_joining_fences_who_waits(runner: Runner) -> None:
    pair(runner)
    assert join(runner, "c", "c") is None
    assert join(runner, "c is back", "c") is None
    assert runner.answers["c"].error is ErrorCode.FENCED_INSTANCE_ID
    assert len(runner.group.members) == 3


def test_a_restart_before_the_assignment_sets_off_a_rebalance(runner: Runner) -> None:
    leader, follower = pair(runner)
    assert join(runner, "1", "a", member_id=leader.member_id) is None
    joined = join(runner, "2", "b", member_id=follower.member_id)
    assert joined is not None
    assert runner.sync("waits", joined, instance_id="b") is None
    assert join(runner, "b is back", "b") is None
    assert runner.answers["waits"].error is ErrorCode.FENCED_INSTANCE_ID
    assert runner.state is GroupState.PREPARING_REBALANCE


def test_a_static_member_that_is_away_keeps_its_place_through_a_rebalance(
    runner: Runner,
) -> None:
    leader, follower = pair(runner)
    runner.group.put(
        replace(runner.group.members[follower.member_id], session_timeout_ms=3 * REBALANCE_MS)
    )
    runner.heartbeat(follower, "b")
    assert join(runner, "a again", "a", member_id=leader.member_id) is None
    runner.advance(REBALANCE_MS)
    assert {one.instance_id for one in runner.answers["a again"].members} == {"a", "b"}


def test_a_static_member_is_out_when_its_session_is_over(runner: Runner) -> None:
    leader, follower = pair(runner)
    runner.advance(SESSION_MS - 1)
    runner.heartbeat(leader, "a")
    runner.advance(1)
    assert runner.heartbeat(leader, "a") is ErrorCode.REBALANCE_IN_PROGRESS
    assert follower.member_id not in runner.group.members
    assert "b" not in runner.group.static_ids


def test_a_group_of_which_all_static_members_are_away_waits_for_them(runner: Runner) -> None:
    members = pair(runner)
    for one in members:
        runner.group.put(
            replace(runner.group.members[one.member_id], session_timeout_ms=10 * REBALANCE_MS)
        )
        runner.heartbeat(one, "ab"[members.index(one)])
    assert runner.join("dynamic") is None
    runner.leave(list(runner.group.members)[2])
    runner.advance(3 * REBALANCE_MS)
    assert runner.state is GroupState.PREPARING_REBALANCE
    assert len(runner.group.members) == 2
    assert join(runner, "a", "a2") is None
    runner.advance(REBALANCE_MS)
    assert runner.state is GroupState.COMPLETING_REBALANCE


def test_an_administrator_removes_a_static_member_by_its_name(runner: Runner) -> None:
    _, follower = pair(runner)
    leaving = (Leaving(instance_id="b"), Leaving(instance_id="nobody"))
    answer = runner.run(runner.machine.leave(GROUP, leaving, runner.at))
    assert answer is not None
    assert answer.errors == (ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID)
    assert follower.member_id not in runner.group.members


def test_a_restart_is_remembered_by_the_log(runner: Runner) -> None:
    pair(runner)
    answer = restarted(runner, "b is back", "b")
    runner.restart()
    assert runner.heartbeat(answer, "b") is ErrorCode.NONE
    assert runner.group.assignments[answer.member_id] == b"B"


def test_a_restart_that_cannot_be_written_down_did_not_happen(runner: Runner) -> None:
    _, follower = pair(runner)
    runner.refuses = ErrorCode.NOT_COORDINATOR
    answer = join(runner, "b is back", "b")
    assert answer is not None
    assert answer.error is ErrorCode.NOT_COORDINATOR
    assert runner.heartbeat(follower, "b") is ErrorCode.NONE
