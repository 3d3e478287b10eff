"""Two protocols over the same group ids and the same committed offsets."""

from dataclasses import replace
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.coordinator.classic.requests import Leaving
from ottla.coordinator.requests import MemberClaim
from tests.support.consumer_groups import ConsumerRunner
from tests.support.groups import GROUP, NO_DELAY

DAY_MS = 24 * 3_600_000


@pytest.fixture
def runner() -> ConsumerRunner:
    return ConsumerRunner()


def join(runner: ConsumerRunner, **options: Any) -> Any:
    return runner.join(object(), **options)


def types(runner: ConsumerRunner) -> list[tuple[str, str, str]]:
    listed = runner.machine.list_groups()
    return [(one.group_id, one.group_type, one.state) for one in listed]


def stable_classic(runner: ConsumerRunner) -> Any:
    joined = join(runner)
    runner.sync("sync", joined)
    return joined


def empty_classic(runner: ConsumerRunner) -> None:
    joined = stable_classic(runner)
    runner.commit(7, MemberClaim(group_id=GROUP, member_id=joined.member_id, generation=1))
    leave_classic(runner, joined.member_id)


def leave_classic(runner: ConsumerRunner, member_id: str) -> Any:
    leaving = (Leaving(member_id=member_id),)
    return runner.run(runner.machine.leave(GROUP, leaving, runner.at))


# From one protocol to the other


def test_an_empty_classic_group_goes_over_with_its_offsets(runner: ConsumerRunner) -> None:
    empty_classic(runner)
    assert types(runner) == [(GROUP, "classic", "Empty")]
    runner.catalog.put("t", 1)
    assert runner.enter("m", "t").epoch == 1
    assert types(runner) == [(GROUP, "consumer", "Stable")]
    assert runner.committed(("t", 0)) == 7
    runner.restart()
    assert types(runner) == [(GROUP, "consumer", "Stable")]


def test_an_empty_group_of_the_new_protocol_goes_over_with_its_offsets(
    runner: ConsumerRunner,
) -> None:
    runner.enter("m")
    runner.commit(7, runner.claim("m"), ("a", 0))
    runner.leave("m")
    stable_classic(runner)
    assert types(runner) == [(GROUP, "classic", "Stable")]
    assert runner.committed() == 7
    runner.restart()
    assert types(runner) == [(GROUP, "classic", "Stable")]


def test_a_classic_group_with_members_stays_what_it_is(runner: ConsumerRunner) -> None:
    stable_classic(runner)
    answer = runner.enter("m")
    assert answer.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "online upgrade is disabled" in (answer.message or "")
    answer = runner.beat("m", 3)
    assert answer.error is ErrorCode.GROUP_ID_NOT_FOUND
    assert "not a consumer group" in (answer.message or "")
    assert types(runner) == [(GROUP, "classic", "Stable")]


def test_a_senseless_request_to_a_classic_group_is_told_so(runner: ConsumerRunner) -> None:
    stable_classic(runner)
    assert runner.enter("m", topics=None).error is ErrorCode.INVALID_REQUEST


def test_a_group_of_the_new_protocol_with_members_stays_what_it_is(runner: ConsumerRunner) -> None:
    runner.enter("m")
    answer = join(runner)
    assert answer.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert types(runner) == [(GROUP, "consumer", "Stable")]


def test_a_member_of_the_new_protocol_is_unknown_to_the_classic_one(
    runner: ConsumerRunner,
) -> None:
    runner.enter("m")
    claim = MemberClaim(group_id=GROUP, member_id="m", generation=1)
    beat = runner.run(runner.machine.heartbeat(claim, runner.at))
    assert beat.error is ErrorCode.UNKNOWN_MEMBER_ID
    left = leave_classic(runner, "m")
    assert (left.error, left.errors) == (ErrorCode.NONE, (ErrorCode.UNKNOWN_MEMBER_ID,))
    assert "m" in runner.group.members


def test_a_group_that_somebody_is_about_to_join_classically_goes_over(
    runner: ConsumerRunner,
) -> None:
    told = join(runner, requires_member_id=True)
    assert told.error is ErrorCode.MEMBER_ID_REQUIRED
    assert runner.enter("m").epoch == 1
    again = join(runner, member_id=told.member_id)
    assert again.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    runner.advance(20_000)
    assert types(runner) == [(GROUP, "consumer", "Stable")]


def test_a_group_that_cannot_be_given_up_stays(runner: ConsumerRunner) -> None:
    runner.enter("m")
    runner.leave("m")
    runner.refuses = ErrorCode.NOT_COORDINATOR
    refused = join(runner)
    assert refused.error is ErrorCode.NOT_COORDINATOR
    assert types(runner) == [(GROUP, "consumer", "Empty")]


# Offsets


def test_a_member_commits_in_its_epoch_only(runner: ConsumerRunner) -> None:
    runner.enter("m")
    assert runner.commit(1, runner.claim("m"), ("a", 0)) is ErrorCode.NONE
    old = runner.claim("m")
    runner.enter("n")
    runner.settle("m", "n")
    assert runner.commit(2, old, ("a", 0)) is ErrorCode.STALE_MEMBER_EPOCH
    ahead = replace(old, generation=9)
    assert runner.commit(2, ahead, ("a", 0)) is ErrorCode.STALE_MEMBER_EPOCH
    assert runner.commit(3, runner.claim("m"), ("a", 0)) is ErrorCode.NONE
    assert runner.committed() == 3


def test_who_is_no_member_commits_only_while_nobody_is(runner: ConsumerRunner) -> None:
    runner.enter("m")
    stranger = MemberClaim(group_id=GROUP, member_id="n", generation=1)
    assert runner.commit(1, stranger, ("a", 0)) is ErrorCode.UNKNOWN_MEMBER_ID
    assert runner.commit(1, MemberClaim(group_id=GROUP)) is ErrorCode.UNKNOWN_MEMBER_ID
    runner.leave("m")
    assert runner.commit(1, MemberClaim(group_id=GROUP)) is ErrorCode.NONE


def test_a_commit_with_too_much_metadata_is_refused(runner: ConsumerRunner) -> None:
    runner.enter("m")
    code = runner.commit(1, runner.claim("m"), ("a", 0), metadata="x" * 5000)
    assert code is ErrorCode.OFFSET_METADATA_TOO_LARGE


def test_a_member_sees_offsets_in_its_epoch_only(runner: ConsumerRunner) -> None:
    runner.enter("m")
    runner.commit(1, runner.claim("m"), ("a", 0))
    found = runner.machine.fetch_offsets(runner.claim("m"), None)
    assert found["a", 0].committed.offset == 1
    for claim, code in (
        (replace(runner.claim("m"), generation=0), ErrorCode.STALE_MEMBER_EPOCH),
        (replace(runner.claim("m"), member_id="n"), ErrorCode.UNKNOWN_MEMBER_ID),
    ):
        with pytest.raises(ApiError) as caught:
            runner.machine.fetch_offsets(claim, None)
        assert caught.value.code is code
    assert runner.committed() == 1


def test_offsets_of_topics_that_are_read_are_not_deleted(runner: ConsumerRunner) -> None:
    runner.enter("m")
    for where in (("a", 0), ("b", 0)):
        runner.commit(1, runner.claim("m"), where)
    wanted = [("a", 0), ("b", 0), ("c", 0)]
    answer = runner.run(runner.machine.delete_offsets(GROUP, wanted, runner.at))
    assert answer.partitions == {
        ("a", 0): ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC,
        ("b", 0): ErrorCode.NONE,
        ("c", 0): ErrorCode.NONE,
    }
    assert (runner.committed(), runner.committed(("b", 0))) == (1, None)


def test_offsets_of_deleted_topics_are_forgotten(runner: ConsumerRunner) -> None:
    runner.enter("m")
    runner.commit(1, runner.claim("m"), ("a", 0))
    for decision in runner.machine.forget_topics(["a"], lambda: runner.at):
        runner.run(decision)
    assert runner.committed() is None
    assert runner.state == "Stable"


def beat_for(runner: ConsumerRunner, days: int) -> None:
    for _ in range(days):
        runner.told["m"] = runner.enter("m")
        runner.advance(DAY_MS)


def test_offsets_of_topics_that_are_read_do_not_expire() -> None:
    config = replace(NO_DELAY, group_consumer_session_timeout_ms=2 * DAY_MS)
    runner = ConsumerRunner(config=config)
    runner.enter("m")
    for where in (("a", 0), ("b", 0)):
        runner.commit(1, runner.claim("m"), where)
    beat_for(runner, 8)
    assert (runner.committed(), runner.committed(("b", 0))) == (1, None)


def test_an_empty_group_goes_with_its_last_offset(runner: ConsumerRunner) -> None:
    runner.enter("m")
    runner.commit(1, runner.claim("m"), ("a", 0))
    runner.leave("m")
    runner.advance(6 * DAY_MS)
    assert types(runner) == [(GROUP, "consumer", "Empty")]
    runner.advance(2 * DAY_MS)
    assert types(runner) == []
    runner.restart()
    assert types(runner) == []


# Administrators


def test_a_group_is_deleted_with_its_offsets_once_it_is_empty(runner: ConsumerRunner) -> None:
    runner.enter("m", None, topic_regex="a")
    runner.commit(1, runner.claim("m"), ("a", 0))
    refused = runner.run(runner.machine.delete_group(GROUP, runner.at))
    assert refused.error is ErrorCode.NON_EMPTY_GROUP
    runner.leave("m")
    deleted = runner.run(runner.machine.delete_group(GROUP, runner.at))
    assert deleted.error is ErrorCode.NONE
    assert (types(runner), runner.committed()) == ([], None)
    runner.restart()
    assert (types(runner), runner.committed()) == ([], None)


def test_each_kind_of_group_is_described_as_what_it_is(runner: ConsumerRunner) -> None:
    runner.enter("m")
    assert runner.machine.describe(GROUP) is None
    described = runner.machine.describe_consumer(GROUP)
    assert (described.state, described.epoch, described.assignor) == ("Stable", 1, "uniform")
    (member,) = described.members
    assert (member.member_id, member.epoch, len(member.assigned)) == ("m", 1, 4)
    assert member.target == member.assigned
    runner.commit(1, MemberClaim(group_id="simple"))
    assert runner.machine.describe_consumer("simple") is None
    assert runner.machine.describe("simple") is not None


def test_deadlines_of_both_protocols_come_in_their_order(runner: ConsumerRunner) -> None:
    runner.enter("m", group_id="new")
    stable_classic(runner)
    assert runner.timers.next_deadline_ms == 10_000
    runner.advance(10_000)
    assert ("new", "consumer", "Stable") in types(runner)
    runner.advance(35_000)
    assert ("new", "consumer", "Empty") in types(runner)
