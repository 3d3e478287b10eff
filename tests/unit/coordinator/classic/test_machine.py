"""Replay, refusals, descriptions: what holds for the machine as a whole."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.coordinator.classic.state import GroupState
from ottla.coordinator.offsets.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
)
from ottla.coordinator.requests import MemberClaim
from ottla.coordinator.shard import RETRY_MS
from tests.support.groups import GROUP, SESSION_MS, START_MS, SUBSCRIPTION, Runner, claim_of


@pytest.fixture
def runner() -> Runner:
    return Runner()


# After a crash


def test_a_stable_group_continues_after_a_crash(runner: Runner) -> None:
    leader, follower = runner.stable(2)
    runner.commit(5, claim_of(leader))
    runner.restart()
    assert runner.heartbeat(leader) is ErrorCode.NONE
    assert runner.heartbeat(follower) is ErrorCode.NONE
    assert runner.committed() == 5
    answer = runner.sync("again", follower)
    assert answer is not None
    assert answer.assignment == follower.member_id.encode()


def test_members_have_a_session_to_show_up_after_a_crash(runner: Runner) -> None:
    runner.stable(2)
    runner.restart()
    runner.advance(SESSION_MS - 1)
    assert runner.state is GroupState.STABLE
    runner.advance(1)
    assert runner.state is GroupState.EMPTY


def test_a_rebalance_that_a_crash_cut_off_begins_again(runner: Runner) -> None:
    leader = runner.stable()[0]
    again = runner.join("again", leader.member_id)
    assert again is not None
    runner.restart()
    assert runner.heartbeat(again) is ErrorCode.ILLEGAL_GENERATION
    assert runner.heartbeat(leader) is ErrorCode.NONE


def test_an_empty_group_keeps_its_generation_over_a_crash(runner: Runner) -> None:
    joined = runner.stable()[0]
    runner.leave(joined.member_id)
    runner.restart()
    assert runner.state is GroupState.EMPTY
    again = runner.join("again")
    assert again is not None
    assert again.generation == joined.generation + 2


def test_a_member_of_an_old_record_has_its_session_as_rebalance_timeout(runner: Runner) -> None:
    member = MemberMetadata(member_id="m", session_timeout_ms=7000, subscription=SUBSCRIPTION)
    value = GroupMetadataValue(
        protocol_type="consumer", generation=4, protocol="range", leader="m", members=[member]
    )
    runner.machine.replay(GroupMetadataKey(group=GROUP), value, 0)
    assert runner.group.members["m"].rebalance_timeout_ms == 7000
    assert runner.state is GroupState.STABLE
    assert runner.group.generation == 4


def test_a_tombstone_of_a_group_that_nobody_knows_changes_nothing(runner: Runner) -> None:
    runner.machine.replay(GroupMetadataKey(group=GROUP), None, 0)
    assert not runner.machine.groups


def test_the_record_of_a_group_says_when_it_was_written(runner: Runner) -> None:
    runner.advance(5)
    runner.stable()
    stored = runner.group.stored
    assert stored is not None
    assert stored.current_state_timestamp_ms == START_MS + 5


# When the log takes no records


def test_a_generation_that_cannot_be_written_down_is_given_up(runner: Runner) -> None:
    leader, follower = runner.stable(2)
    assert runner.join("1", leader.member_id) is None
    again = runner.join("2", follower.member_id)
    assert again is not None
    assert runner.sync("waits", again) is None
    runner.refuses = ErrorCode.NOT_COORDINATOR
    answer = runner.sync("leader", runner.answers["1"])
    assert answer is not None
    assert answer.error is ErrorCode.NOT_COORDINATOR
    assert runner.answers["waits"].error is ErrorCode.NOT_COORDINATOR
    assert runner.state is GroupState.PREPARING_REBALANCE
    runner.refuses = None
    assert runner.join("3", leader.member_id) is None
    assert runner.join("4", follower.member_id) is not None
    assert runner.answers["3"].generation == again.generation + 1


def test_a_leave_that_cannot_be_written_down_did_not_happen(runner: Runner) -> None:
    joined = runner.stable()[0]
    runner.refuses = ErrorCode.NOT_COORDINATOR
    answer = runner.leave(joined.member_id)
    assert answer.error is ErrorCode.NOT_COORDINATOR
    assert runner.heartbeat(joined) is ErrorCode.NONE
    runner.refuses = None
    assert runner.leave(joined.member_id).errors == (ErrorCode.NONE,)
    assert runner.state is GroupState.EMPTY


def test_a_session_that_ends_while_nothing_can_be_written_ends_soon_after(runner: Runner) -> None:
    runner.stable()
    runner.refuses = ErrorCode.NOT_COORDINATOR
    runner.advance(2 * SESSION_MS)
    assert runner.state is GroupState.STABLE
    runner.refuses = None
    runner.advance(RETRY_MS)
    assert runner.state is GroupState.EMPTY


def test_a_deletion_that_cannot_be_written_down_did_not_happen(runner: Runner) -> None:
    runner.commit(1)
    runner.refuses = ErrorCode.NOT_COORDINATOR
    answer = runner.run(runner.machine.delete_group(GROUP, runner.at))
    assert answer is not None
    assert answer.error is ErrorCode.NOT_COORDINATOR
    deleted = runner.run(runner.machine.delete_offsets(GROUP, [("t", 0)], runner.at))
    assert deleted is not None
    assert deleted.partitions == {("t", 0): ErrorCode.NOT_COORDINATOR}
    assert runner.committed() == 1


# What administrators see


def test_a_stable_group_is_described_with_what_its_members_read(runner: Runner) -> None:
    leader = runner.stable()[0]
    found = runner.machine.describe(GROUP)
    assert found is not None
    assert (found.state, found.protocol_type, found.protocol) == ("Stable", "consumer", "range")
    member = found.members[0]
    assert (member.member_id, member.client_id) == (leader.member_id, "client")
    assert (member.client_host, member.metadata) == ("/127.0.0.1", SUBSCRIPTION)
    assert member.assignment == leader.member_id.encode()


def test_a_group_in_a_rebalance_is_described_without_what_its_members_read(
    runner: Runner,
) -> None:
    runner.stable()
    runner.join("newcomer")
    found = runner.machine.describe(GROUP)
    assert found is not None
    assert (found.state, found.protocol) == ("PreparingRebalance", "")
    assert [(one.metadata, one.assignment) for one in found.members] == [(b"", b"")] * 2


def test_a_group_of_offsets_alone_is_empty(runner: Runner) -> None:
    runner.commit(1)
    found = runner.machine.describe(GROUP)
    assert found is not None
    assert (found.state, found.protocol_type, found.members) == ("Empty", "", [])


def test_all_groups_are_listed_once(runner: Runner) -> None:
    joined = runner.stable()[0]
    runner.commit(1, claim_of(joined))
    runner.commit(1, MemberClaim(group_id="simple"))
    listed = [(one.group_id, one.state, one.protocol_type) for one in runner.machine.list_groups()]
    assert listed == [(GROUP, "Stable", "consumer"), ("simple", "Empty", "")]


# Time


def test_a_machine_that_nothing_happens_in_looks_for_expired_offsets_only(runner: Runner) -> None:
    assert runner.timers.next_deadline_ms == 600_000
    assert runner.machine.advance(runner.at) is None


def test_setting_the_wall_clock_ends_no_session(runner: Runner) -> None:
    joined = runner.stable()[0]
    late = runner.at.__class__(now_ms=START_MS * 2, monotonic_ms=runner.at.monotonic_ms)
    assert runner.machine.advance(late) is None
    assert runner.heartbeat(joined) is ErrorCode.NONE
