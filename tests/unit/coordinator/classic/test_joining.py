"""Who may join, what they are told, and what a join sets off."""

import dataclasses
from dataclasses import replace

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.coordinator.classic.rebalance import NEW_MEMBER_JOIN_TIMEOUT_MS
from ottla.coordinator.classic.requests import JoinAnswer
from ottla.coordinator.classic.state import GroupState
from ottla.coordinator.requests import MemberClaim
from tests.support.groups import (
    GROUP,
    NO_DELAY,
    REBALANCE_MS,
    SESSION_MS,
    SUBSCRIPTION,
    Runner,
)


@pytest.fixture
def runner() -> Runner:
    return Runner()


def answered(answer: JoinAnswer | None) -> JoinAnswer:
    assert answer is not None, "the answer has to wait"
    return answer


def test_the_first_member_leads_and_sees_all_members(runner: Runner) -> None:
    answer = answered(runner.join("a", protocols={"range": b"meta"}))
    assert answer.error is ErrorCode.NONE
    assert answer.generation == 1
    assert answer.leader == answer.member_id
    assert answer.member_id.startswith("client-")
    assert (answer.protocol_type, answer.protocol) == ("consumer", "range")
    assert [(one.member_id, one.protocols["range"]) for one in answer.members] == [
        (answer.member_id, b"meta")
    ]


@pytest.mark.parametrize("named", ["client_id", "instance_id"])
@pytest.mark.parametrize("name", ["x" * 32767, "é" * 16383, "x" + "\U0001f4a3" * 8191])
def test_no_member_gets_an_id_that_is_longer_than_a_string_may_be(
    runner: Runner, named: str, name: str
) -> None:
    member_id = answered(runner.join("a", **{named: name})).member_id
    assert member_id.startswith(name[:8000])
    assert 32760 < len(member_id.encode()) <= 32767


def test_a_follower_sees_no_members(runner: Runner) -> None:
    leader, follower = runner.stable(2)
    assert len(leader.members) == 2
    assert follower.members == ()
    assert follower.leader == leader.member_id
    assert leader.generation == follower.generation == 2


def test_a_new_member_is_first_told_its_id(runner: Runner) -> None:
    refusal = answered(runner.join("a", requires_member_id=True))
    assert refusal.error is ErrorCode.MEMBER_ID_REQUIRED
    assert refusal.member_id
    answer = answered(runner.join("b", refusal.member_id, requires_member_id=True))
    assert (answer.error, answer.member_id) == (ErrorCode.NONE, refusal.member_id)


def test_who_does_not_come_back_with_its_id_leaves_no_trace(runner: Runner) -> None:
    runner.join("a", requires_member_id=True)
    assert GROUP in runner.machine.groups
    runner.advance(SESSION_MS)
    assert GROUP not in runner.machine.groups
    assert runner.log == []


def test_a_rebalance_waits_for_those_who_were_given_an_id(runner: Runner) -> None:
    joined = runner.stable()[0]
    refusal = answered(runner.join("b", requires_member_id=True))
    assert runner.state is GroupState.STABLE
    assert runner.join("again", joined.member_id) is None
    answered(runner.join("c", refusal.member_id, requires_member_id=True))
    assert runner.answers["again"].generation == 2


def test_a_rebalance_waits_no_longer_than_the_session_of_who_was_given_an_id(
    runner: Runner,
) -> None:
    joined = runner.stable()[0]
    runner.join("b", requires_member_id=True)
    assert runner.join("again", joined.member_id) is None
    runner.advance(SESSION_MS)
    assert runner.answers["again"].generation == 2


def test_a_group_id_must_not_be_empty(runner: Runner) -> None:
    assert answered(runner.join("a", group_id="")).error is ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize("session_timeout_ms", [5999, 1_800_001, 0, -1])
def test_a_session_must_be_of_allowed_length(runner: Runner, session_timeout_ms: int) -> None:
    answer = answered(runner.join("a", session_timeout_ms=session_timeout_ms))
    assert answer.error is ErrorCode.INVALID_SESSION_TIMEOUT
    assert not runner.machine.groups


@pytest.mark.parametrize("session_timeout_ms", [6000, 1_800_000])
def test_the_limits_of_a_session_are_allowed(runner: Runner, session_timeout_ms: int) -> None:
    answer = answered(runner.join("a", session_timeout_ms=session_timeout_ms))
    assert answer.error is ErrorCode.NONE


def test_a_member_id_that_nobody_gave_is_unknown(runner: Runner) -> None:
    assert answered(runner.join("a", "invented")).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert not runner.machine.groups
    runner.stable()
    answer = answered(runner.join("b", "invented"))
    assert (answer.error, answer.member_id) == (ErrorCode.UNKNOWN_MEMBER_ID, "invented")


@pytest.mark.parametrize(
    "options", [{"protocols": {}}, {"protocol_type": ""}, {"protocols": {}, "protocol_type": ""}]
)
def test_a_group_begins_with_some_protocol(runner: Runner, options: dict[str, object]) -> None:
    answer = answered(runner.join("a", **options))
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert not runner.machine.groups


@pytest.mark.parametrize(
    "options", [{"protocols": {"sticky": b""}}, {"protocol_type": "connect"}, {"protocols": {}}]
)
def test_who_shares_no_protocol_with_the_group_stays_out(
    runner: Runner, options: dict[str, object]
) -> None:
    runner.stable()
    answer = answered(runner.join("b", **options))
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert runner.state is GroupState.STABLE


def test_the_protocol_is_what_most_prefer_of_what_all_can_use(runner: Runner) -> None:
    offers = [
        {"own": b"", "sticky": b"", "range": b""},
        {"range": b"", "sticky": b""},
        {"sticky": b"", "range": b""},
    ]
    first = answered(runner.join(0, protocols=offers[0]))
    assert first.protocol == "own"
    for number in (1, 2):
        assert runner.join(number, protocols=offers[number]) is None
    leader = answered(runner.join("again", first.member_id, protocols=offers[0]))
    assert leader.protocol == "sticky"


def test_members_that_do_not_join_again_are_out(runner: Runner) -> None:
    runner.stable(2)
    stays, goes = runner.group.members
    runner.group.put(replace(runner.group.members[goes], session_timeout_ms=REBALANCE_MS * 2))
    assert runner.join("stays", stays) is None
    runner.advance(REBALANCE_MS)
    assert [one.member_id for one in runner.answers["stays"].members] == [stays]


def test_a_leader_that_does_not_join_again_is_followed_by_one_who_has(runner: Runner) -> None:
    leader, follower = runner.stable(2)
    assert runner.join("follower", follower.member_id, protocols={"range": b"new"}) is None
    runner.advance(REBALANCE_MS)
    assert runner.answers["follower"].leader == follower.member_id
    assert leader.member_id not in runner.group.members


def test_a_leader_that_joins_a_stable_group_again_sets_off_a_rebalance(runner: Runner) -> None:
    leader, follower = runner.stable(2)
    assert runner.join("leader", leader.member_id) is None
    assert runner.heartbeat(follower) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_follower_that_joins_again_unchanged_disturbs_nobody(runner: Runner) -> None:
    _, follower = runner.stable(2)
    answer = answered(runner.join("follower", follower.member_id))
    assert (answer.error, answer.generation) == (ErrorCode.NONE, follower.generation)
    assert runner.state is GroupState.STABLE


def test_a_follower_with_another_subscription_sets_off_a_rebalance(runner: Runner) -> None:
    _, follower = runner.stable(2)
    assert runner.join("follower", follower.member_id, protocols={"range": b"new"}) is None
    assert runner.state is GroupState.PREPARING_REBALANCE


def test_a_member_that_missed_the_answer_to_its_join_gets_it_again(runner: Runner) -> None:
    first = answered(runner.join("first"))
    assert runner.state is GroupState.COMPLETING_REBALANCE
    assert answered(runner.join("second", first.member_id)) == first


def test_a_join_that_was_given_up_on_is_answered_when_its_member_joins_again(
    runner: Runner,
) -> None:
    leader, follower = runner.stable(2)
    assert runner.join("lost", leader.member_id) is None
    assert runner.join("again", leader.member_id) is None
    assert runner.answers["lost"].error is ErrorCode.REBALANCE_IN_PROGRESS
    answered(runner.join("follower", follower.member_id))
    assert runner.answers["again"].error is ErrorCode.NONE


def test_a_full_group_takes_nobody_more() -> None:
    runner = Runner(dataclasses.replace(NO_DELAY, group_max_size=2))
    leader, _ = runner.stable(2)
    answer = answered(runner.join("third"))
    assert (answer.error, answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")
    assert runner.heartbeat(leader) is ErrorCode.NONE


def test_members_over_a_lowered_limit_are_turned_away_in_the_next_rebalance() -> None:
    runner = Runner()
    members = runner.stable(3)
    runner.config = dataclasses.replace(NO_DELAY, group_max_size=2)
    runner.restart()
    assert runner.state is GroupState.PREPARING_REBALANCE
    assert runner.join(0, members[0].member_id) is None
    assert runner.join(1, members[1].member_id) is None
    third = answered(runner.join(2, members[2].member_id))
    assert third.error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert len(runner.group.members) == 2
    assert runner.state is GroupState.COMPLETING_REBALANCE


def test_a_new_member_that_waits_too_long_is_sent_back(runner: Runner) -> None:
    patience_ms = 2 * NEW_MEMBER_JOIN_TIMEOUT_MS
    joined = runner.stable(rebalance_timeout_ms=patience_ms)[0]
    assert runner.join("new", rebalance_timeout_ms=patience_ms) is None
    for _ in range(0, NEW_MEMBER_JOIN_TIMEOUT_MS, SESSION_MS // 2):
        assert runner.heartbeat(joined) is ErrorCode.REBALANCE_IN_PROGRESS
        runner.advance(SESSION_MS // 2)
    assert runner.answers["new"].error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_waits_in_a_rebalance_needs_no_heartbeat(runner: Runner) -> None:
    leader, follower = runner.stable(2)
    assert runner.join("leader", leader.member_id) is None
    for _ in range(4):
        runner.heartbeat(follower)
        runner.advance(SESSION_MS - 1)
    answered(runner.join("follower", follower.member_id))
    assert runner.answers["leader"].error is ErrorCode.NONE


# The first rebalance of a group


@pytest.fixture
def patient() -> Runner:
    """A group that waits for three seconds for its first members."""
    return Runner(dataclasses.replace(NO_DELAY, group_initial_rebalance_delay_ms=3000))


def test_an_empty_group_waits_for_more_members(patient: Runner) -> None:
    assert patient.join("a") is None
    patient.advance(2999)
    assert patient.answers == {}
    patient.advance(1)
    assert patient.answers["a"].generation == 1


def test_each_newcomer_lets_the_first_rebalance_wait_once_more(patient: Runner) -> None:
    assert patient.join("a") is None
    patient.advance(2000)
    assert patient.join("b") is None
    patient.advance(3999)
    assert patient.answers == {}
    patient.advance(1)
    assert patient.answers["a"].generation == patient.answers["b"].generation == 1
    assert len(patient.answers["a"].members) == 2


def test_the_first_rebalance_waits_no_longer_than_its_members_want_to(patient: Runner) -> None:
    assert patient.join("a", rebalance_timeout_ms=7000) is None
    for number in range(7):
        assert patient.answers == {}
        patient.join(number, rebalance_timeout_ms=7000)
        patient.advance(1000)
    assert patient.answers["a"].generation == 1


def test_a_group_that_was_emptied_waits_for_its_first_members_again(patient: Runner) -> None:
    patient.join("a")
    patient.advance(3000)
    patient.leave(patient.answers["a"].member_id)
    assert patient.state is GroupState.EMPTY
    assert patient.join("b") is None
    patient.advance(3000)
    assert patient.answers["b"].generation == 3


def test_a_group_whose_first_members_all_leave_is_empty(patient: Runner) -> None:
    patient.join("a")
    patient.leave(*patient.group.members)
    assert patient.answers["a"].error is ErrorCode.UNKNOWN_MEMBER_ID
    patient.advance(3000)
    assert patient.state is GroupState.EMPTY


# A group of simple consumers


def test_members_can_join_a_group_that_only_has_offsets(runner: Runner) -> None:
    assert runner.commit(7, MemberClaim(group_id=GROUP)) is ErrorCode.NONE
    assert answered(runner.join("a")).members[0].protocols["range"] == SUBSCRIPTION
