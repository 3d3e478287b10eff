"""Who may commit what, when offsets are forgotten, and what a deletion leaves."""

import dataclasses

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.coordinator.classic.consumer_protocol import (
    ConsumerProtocolSubscription,
    encode_subscription,
)
from ottla.coordinator.classic.state import GroupState
from ottla.coordinator.offsets.commits import CommitRequest
from ottla.coordinator.offsets.committed_offsets import NewOffset
from ottla.coordinator.requests import MemberClaim
from tests.support.groups import GROUP, NO_DELAY, SESSION_MS, START_MS, Runner, claim_of

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

FORGETFUL = dataclasses.replace(
    NO_DELAY, offsets_retention_minutes=60, offsets_retention_check_interval_ms=MINUTE_MS
)


@pytest.fixture
def runner() -> Runner:
    return Runner()


@pytest.fixture
def forgetful() -> Runner:
    """Offsets are kept for an hour, and looked through every minute."""
    return Runner(FORGETFUL)


# Who may commit


def test_a_simple_consumer_commits_without_a_group(runner: Runner) -> None:
    assert runner.commit(5, metadata="m", leader_epoch=3) is ErrorCode.NONE
    found = runner.machine.fetch_offsets(MemberClaim(group_id=GROUP), None)[("t", 0)].committed
    assert found is not None
    assert (found.offset, found.metadata, found.leader_epoch) == (5, "m", 3)
    assert found.commit_ms == START_MS
    assert GROUP not in runner.machine.groups


def test_a_member_commits_in_its_generation(runner: Runner) -> None:
    joined = runner.stable()[0]
    assert runner.commit(5, claim_of(joined)) is ErrorCode.NONE
    assert runner.committed() == 5


def test_a_later_commit_replaces_an_earlier_even_with_less(runner: Runner) -> None:
    runner.commit(5)
    runner.commit(3)
    assert runner.committed() == 3


def test_a_simple_consumer_may_not_commit_into_a_living_group(runner: Runner) -> None:
    runner.stable()
    assert runner.commit(5) is ErrorCode.UNKNOWN_MEMBER_ID
    assert runner.committed() is None


def test_a_simple_consumer_may_commit_once_the_group_is_empty(runner: Runner) -> None:
    joined = runner.stable()[0]
    runner.leave(joined.member_id)
    assert runner.commit(5) is ErrorCode.NONE


def test_no_commit_is_taken_from_an_old_generation(runner: Runner) -> None:
    old = runner.stable()[0]
    again = runner.join("again", old.member_id)
    assert again is not None
    runner.sync("again sync", again)
    assert runner.commit(5, claim_of(old)) is ErrorCode.ILLEGAL_GENERATION
    assert runner.commit(6, claim_of(again)) is ErrorCode.NONE
    assert runner.committed() == 6


def test_no_commit_is_taken_from_a_member_that_is_out(runner: Runner) -> None:
    joined = runner.stable()[0]
    runner.advance(SESSION_MS)
    assert runner.commit(5, claim_of(joined)) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_of_a_group_that_does_not_exist_is_told_so(runner: Runner) -> None:
    claim = MemberClaim(group_id=GROUP, member_id="m", generation=1)
    assert runner.commit(5, claim) is ErrorCode.GROUP_ID_NOT_FOUND


def test_members_commit_what_they_have_read_before_they_join_again(runner: Runner) -> None:
    joined = runner.stable()[0]
    runner.join("newcomer")
    assert runner.state is GroupState.PREPARING_REBALANCE
    assert runner.commit(5, claim_of(joined)) is ErrorCode.NONE


def test_members_without_an_assignment_have_nothing_to_commit(runner: Runner) -> None:
    joined = runner.join("a")
    assert joined is not None
    assert runner.commit(5, claim_of(joined)) is ErrorCode.REBALANCE_IN_PROGRESS


def test_a_commit_is_a_sign_of_life(runner: Runner) -> None:
    joined = runner.stable()[0]
    for _ in range(5):
        runner.advance(SESSION_MS - 1)
        assert runner.commit(5, claim_of(joined)) is ErrorCode.NONE
    assert runner.state is GroupState.STABLE


def test_a_metadata_that_is_too_long_is_refused_for_its_partition_alone(runner: Runner) -> None:
    offsets = {
        ("t", 0): NewOffset(offset=1, metadata="x" * 4096),
        ("t", 1): NewOffset(offset=2, metadata="x" * 4097),
    }
    request = CommitRequest(claim=MemberClaim(group_id=GROUP), offsets=offsets)
    answer = runner.run(runner.machine.commit(request, runner.at))
    assert answer is not None
    assert answer.partitions == {
        ("t", 0): ErrorCode.NONE,
        ("t", 1): ErrorCode.OFFSET_METADATA_TOO_LARGE,
    }
    assert runner.committed(("t", 0)) == 1
    assert runner.committed(("t", 1)) is None


def test_a_commit_that_cannot_be_written_down_did_not_happen(runner: Runner) -> None:
    runner.commit(1)
    runner.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert runner.commit(2) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert runner.committed() == 1


# How long offsets are kept


def test_offsets_of_a_simple_consumer_expire_after_their_commit(forgetful: Runner) -> None:
    forgetful.commit(5)
    forgetful.advance(HOUR_MS - 1)
    assert forgetful.committed() == 5
    forgetful.advance(MINUTE_MS)
    assert forgetful.committed() is None
    assert forgetful.machine.describe(GROUP) is None


def test_offsets_of_a_group_expire_after_it_has_become_empty(forgetful: Runner) -> None:
    joined = forgetful.stable()[0]
    forgetful.commit(5, claim_of(joined))
    for _ in range(0, 2 * HOUR_MS, SESSION_MS // 2):
        forgetful.heartbeat(joined)
        forgetful.advance(SESSION_MS // 2)
    assert forgetful.committed() == 5
    forgetful.leave(joined.member_id)
    forgetful.advance(HOUR_MS - MINUTE_MS)
    assert forgetful.committed() == 5
    forgetful.advance(2 * MINUTE_MS)
    assert forgetful.committed() is None
    assert GROUP not in forgetful.machine.groups
    forgetful.restart()
    assert forgetful.machine.list_groups() == []


def test_a_living_group_forgets_topics_it_no_longer_reads(forgetful: Runner) -> None:
    forgetful.commit(5, where=("t", 0))
    forgetful.commit(5, where=("other", 0))
    joined = forgetful.stable()[0]
    for _ in range(0, HOUR_MS + MINUTE_MS, SESSION_MS // 2):
        forgetful.heartbeat(joined)
        forgetful.advance(SESSION_MS // 2)
    assert forgetful.committed(("t", 0)) == 5
    assert forgetful.committed(("other", 0)) is None


@pytest.mark.parametrize("protocol_type", ["connect", "consumer"])
def test_a_living_group_whose_topics_nobody_can_tell_keeps_everything(
    forgetful: Runner, protocol_type: str
) -> None:
    forgetful.commit(5)
    joined = forgetful.stable(protocol_type=protocol_type, protocols={"own": b"\xff"})[0]
    for _ in range(0, 2 * HOUR_MS, SESSION_MS // 2):
        forgetful.heartbeat(joined)
        forgetful.advance(SESSION_MS // 2)
    assert forgetful.committed() == 5


def test_a_client_of_old_chooses_itself_how_long_its_offset_is_kept(forgetful: Runner) -> None:
    forgetful.commit(5, retention_ms=5 * MINUTE_MS, commit_ms=START_MS - MINUTE_MS)
    forgetful.restart()
    forgetful.advance(4 * MINUTE_MS - 1)
    assert forgetful.committed() == 5
    forgetful.advance(MINUTE_MS)
    assert forgetful.committed() is None


def test_an_empty_group_without_offsets_is_forgotten(forgetful: Runner) -> None:
    joined = forgetful.stable()[0]
    forgetful.leave(joined.member_id)
    forgetful.advance(MINUTE_MS)
    assert GROUP not in forgetful.machine.groups


def test_offsets_of_deleted_topics_are_forgotten_in_all_groups(runner: Runner) -> None:
    for group_id in ("a", "b"):
        claim = MemberClaim(group_id=group_id)
        runner.commit(1, claim, where=("gone", 0))
        runner.commit(2, claim, where=("t", 0))
    for decision in runner.machine.forget_topics(["gone"], lambda: runner.at):
        runner.run(decision)
    runner.restart()
    for group_id in ("a", "b"):
        assert runner.committed(("gone", 0), group_id) is None
        assert runner.committed(("t", 0), group_id) == 2


# Deleting


def delete_offsets(runner: Runner, *topics: str) -> tuple[ErrorCode, list[ErrorCode]]:
    wanted = [(topic, 0) for topic in topics]
    answer = runner.run(runner.machine.delete_offsets(GROUP, wanted, runner.at))
    assert answer is not None
    return answer.error, list(answer.partitions.values())


def test_offsets_of_an_empty_group_can_be_deleted(runner: Runner) -> None:
    runner.commit(1)
    assert delete_offsets(runner, "t", "never") == (ErrorCode.NONE, [ErrorCode.NONE] * 2)
    assert runner.committed() is None


def test_offsets_that_a_living_group_reads_cannot_be_deleted(runner: Runner) -> None:
    runner.commit(1, where=("t", 0))
    runner.commit(1, where=("other", 0))
    runner.stable()
    expected = [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE]
    assert delete_offsets(runner, "t", "other") == (ErrorCode.NONE, expected)
    assert runner.committed(("t", 0)) == 1
    assert runner.committed(("other", 0)) is None


def test_offsets_of_a_living_group_of_another_kind_cannot_be_deleted(runner: Runner) -> None:
    runner.stable(protocol_type="connect")
    assert delete_offsets(runner, "t") == (ErrorCode.NON_EMPTY_GROUP, [])


def test_offsets_of_no_group_cannot_be_deleted(runner: Runner) -> None:
    assert delete_offsets(runner, "t") == (ErrorCode.GROUP_ID_NOT_FOUND, [])


def delete_group(runner: Runner) -> ErrorCode:
    answer = runner.run(runner.machine.delete_group(GROUP, runner.at))
    assert answer is not None
    return answer.error


def test_an_empty_group_is_deleted_with_its_offsets(runner: Runner) -> None:
    joined = runner.stable()[0]
    runner.commit(1, claim_of(joined))
    runner.leave(joined.member_id)
    assert delete_group(runner) is ErrorCode.NONE
    runner.restart()
    assert runner.committed() is None
    assert runner.machine.describe(GROUP) is None


def test_a_group_that_has_only_offsets_is_deleted(runner: Runner) -> None:
    runner.commit(1)
    assert delete_group(runner) is ErrorCode.NONE
    assert runner.machine.list_groups() == []


def test_a_group_of_which_only_ids_were_given_is_deleted(runner: Runner) -> None:
    runner.join("a", requires_member_id=True)
    assert delete_group(runner) is ErrorCode.NONE
    assert GROUP not in runner.machine.groups
    runner.advance(SESSION_MS)


def test_a_living_group_is_not_deleted(runner: Runner) -> None:
    runner.stable()
    assert delete_group(runner) is ErrorCode.NON_EMPTY_GROUP


def test_no_group_is_not_deleted(runner: Runner) -> None:
    assert delete_group(runner) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_topic_is_read_by_who_subscribes_to_it(runner: Runner) -> None:
    both = encode_subscription(ConsumerProtocolSubscription(topics=["a", "b"]))
    runner.stable(protocols={"range": both})
    assert runner.group.subscribed_topics() == {"a", "b"}
