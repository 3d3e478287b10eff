"""Who may commit offsets of a classic group in a transaction (KIP-447)."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.coordinator.classic.state import GroupState
from ottla.coordinator.offsets.commits import CommitRequest
from ottla.coordinator.offsets.committed_offsets import NewOffset
from ottla.coordinator.requests import MemberClaim
from tests.support.groups import GROUP, SESSION_MS, Runner, claim_of

SIMPLE = MemberClaim(group_id=GROUP)


@pytest.fixture
def runner() -> Runner:
    return Runner()


def ask(runner: Runner, claim: MemberClaim = SIMPLE) -> ErrorCode:
    """What the machine decides; nothing is replayed."""
    request = CommitRequest(claim=claim, offsets={("t", 0): NewOffset(offset=5)}, producer=(7, 0))
    answer = runner.machine.commit(request, runner.at).answer
    assert answer is not None
    return answer.partitions["t", 0]


def test_producers_of_old_do_not_say_for_which_member(runner: Runner) -> None:
    assert ask(runner) is ErrorCode.NONE
    runner.stable()
    assert ask(runner) is ErrorCode.NONE
    assert runner.commit() is ErrorCode.UNKNOWN_MEMBER_ID, "outside a transaction nobody may"


def test_a_member_commits_in_its_generation_alone(runner: Runner) -> None:
    claim = claim_of(runner.stable()[0])
    assert ask(runner, claim) is ErrorCode.NONE
    late = MemberClaim(group_id=GROUP, member_id=claim.member_id, generation=claim.generation - 1)
    assert ask(runner, late) is ErrorCode.ILLEGAL_GENERATION
    stranger = MemberClaim(group_id=GROUP, member_id="x", generation=claim.generation)
    assert ask(runner, stranger) is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_generation_of_a_group_that_is_unknown_is_refused(runner: Runner) -> None:
    claim = MemberClaim(group_id=GROUP, member_id="m", generation=1)
    assert ask(runner, claim) is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_commit_in_a_transaction_does_not_stand_for_a_heartbeat(runner: Runner) -> None:
    claim = claim_of(runner.stable()[0])
    runner.advance(SESSION_MS - 1)
    assert ask(runner, claim) is ErrorCode.NONE
    runner.advance(1)
    assert runner.state is GroupState.EMPTY
