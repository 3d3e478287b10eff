"""Members of groups of the new protocol come, share, go and come back."""

from dataclasses import replace

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.coordinator.consumer.member import MemberState
from tests.support.consumer_groups import (
    REVOCATION_MS,
    SESSION_MS,
    ConsumerRunner,
    FakeCatalog,
    places,
)
from tests.support.groups import GROUP, NO_DELAY


@pytest.fixture
def runner() -> ConsumerRunner:
    return ConsumerRunner()


def shared(runner: ConsumerRunner, *member_ids: str, **options: object) -> None:
    """A stable group of so many members."""
    for member_id in member_ids:
        runner.enter(member_id, **options)
    runner.settle(*member_ids)


# Coming


def test_the_first_member_gets_everything_at_once(runner: ConsumerRunner) -> None:
    answer = runner.enter("m")
    assert (answer.error, answer.member_id, answer.epoch) == (ErrorCode.NONE, "m", 1)
    assert answer.assigned is not None
    assert places(answer.assigned) == {"a0", "a1", "a2", "a3"}
    assert answer.heartbeat_interval_ms == 5000
    assert runner.state == "Stable"
    assert (runner.group.epoch, runner.group.assignment_epoch) == (1, 1)


def test_who_has_nothing_new_to_say_is_told_nothing_new_and_nothing_is_written(
    runner: ConsumerRunner,
) -> None:
    runner.enter("m")
    written = len(runner.log)
    answer = runner.beat("m")
    assert (answer.error, answer.epoch, answer.assigned) == (ErrorCode.NONE, 1, None)
    assert len(runner.log) == written


def test_who_says_everything_is_told_everything(runner: ConsumerRunner) -> None:
    runner.enter("m")
    answer = runner.beat("m", topics="a", owned=["a0"], rebalance_timeout_ms=5)
    assert answer.assigned is not None
    assert len(answer.assigned) == 4


def test_a_second_member_waits_until_the_first_gave_up_its_part(runner: ConsumerRunner) -> None:
    runner.enter("m")
    newcomer = runner.enter("n")
    assert (newcomer.epoch, newcomer.assigned) == (2, frozenset())
    assert runner.member("n").state is MemberState.UNRELEASED_PARTITIONS
    assert runner.state == "Reconciling"

    asked = runner.beat("m", owned=["a0", "a1", "a2", "a3"])
    assert (asked.epoch, places(asked.assigned or frozenset())) == (1, {"a0", "a1"})
    assert runner.member("m").state is MemberState.UNREVOKED_PARTITIONS
    assert runner.beat("n").assigned is None

    gave = runner.beat("m", owned=["a0", "a1"])
    assert gave.epoch == 2
    assert runner.member("m").state is MemberState.STABLE
    got = runner.beat("n")
    assert got.assigned is not None
    assert places(got.assigned) == {"a2", "a3"}
    assert runner.state == "Stable"


def test_an_old_client_is_given_its_id(runner: ConsumerRunner) -> None:
    answer = runner.enter("", must_bring_id=False)
    assert answer.error is ErrorCode.NONE
    assert answer.member_id
    assert answer.member_id in runner.group.members


def test_a_full_group_takes_nobody_else() -> None:
    runner = ConsumerRunner(config=replace(NO_DELAY, group_consumer_max_size=1))
    runner.enter("m")
    assert runner.enter("n").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert runner.beat("m").error is ErrorCode.NONE


def test_who_comes_to_a_group_that_is_not_there_must_enter(runner: ConsumerRunner) -> None:
    assert runner.beat("m", 3).error is ErrorCode.GROUP_ID_NOT_FOUND
    assert runner.leave("m").error is ErrorCode.GROUP_ID_NOT_FOUND
    assert runner.log == []


def test_who_is_no_member_must_enter(runner: ConsumerRunner) -> None:
    runner.enter("m")
    assert runner.beat("n", 1).error is ErrorCode.UNKNOWN_MEMBER_ID
    assert runner.leave("n").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_who_has_lost_the_answer_enters_again_to_what_it_has(runner: ConsumerRunner) -> None:
    runner.enter("m")
    again = runner.enter("m")
    assert (again.error, again.epoch) == (ErrorCode.NONE, 1)
    assert len(again.assigned or ()) == 4


# Epochs


def test_an_epoch_that_was_not_reached_yet_is_fenced(runner: ConsumerRunner) -> None:
    runner.enter("m")
    assert runner.beat("m", 2).error is ErrorCode.FENCED_MEMBER_EPOCH


def test_the_epoch_before_is_accepted_from_who_owns_nothing_else(runner: ConsumerRunner) -> None:
    shared(runner, "m", "n")
    assert (runner.member("m").epoch, runner.member("m").previous_epoch) == (2, 1)
    assert runner.beat("m", 1, owned=["a0"]).epoch == 2
    assert runner.beat("m", 1, owned=["a3"]).error is ErrorCode.FENCED_MEMBER_EPOCH
    assert runner.beat("m", 1).error is ErrorCode.FENCED_MEMBER_EPOCH


def test_an_epoch_from_long_ago_is_fenced(runner: ConsumerRunner) -> None:
    shared(runner, "m", "n")
    shared(runner, "m", "n", "o")
    assert runner.member("m").previous_epoch > 1
    assert runner.beat("m", 1, owned=[]).error is ErrorCode.FENCED_MEMBER_EPOCH


# Requests that make no sense


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"group_id": " "}, ErrorCode.INVALID_REQUEST),
        ({"instance_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rack_id": ""}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"owned": None}, ErrorCode.INVALID_REQUEST),
        ({"owned": ["a0"]}, ErrorCode.INVALID_REQUEST),
        ({"topics": None}, ErrorCode.INVALID_REQUEST),
        ({"server_assignor": "sticky"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"topic_regex": "a("}, ErrorCode.INVALID_REGULAR_EXPRESSION),
    ],
)
def test_a_request_to_enter_that_makes_no_sense_is_refused(
    runner: ConsumerRunner, options: dict[str, object], code: ErrorCode
) -> None:
    answer = runner.enter("m", **options)
    assert answer.error is code
    assert answer.message
    assert runner.log == []


@pytest.mark.parametrize(
    ("member_id", "epoch", "options"),
    [
        ("", 0, {}),
        ("", 1, {"must_bring_id": False}),
        ("", -1, {"must_bring_id": False}),
        ("m", -3, {}),
        ("m", -2, {}),
    ],
)
def test_other_requests_that_make_no_sense_are_refused(
    runner: ConsumerRunner, member_id: str, epoch: int, options: dict[str, object]
) -> None:
    assert runner.beat(member_id, epoch, **options).error is ErrorCode.INVALID_REQUEST


# Going


def test_who_leaves_is_told_so_and_its_part_is_given_to_the_others(runner: ConsumerRunner) -> None:
    shared(runner, "m", "n")
    answer = runner.leave("n")
    assert (answer.error, answer.member_id, answer.epoch) == (ErrorCode.NONE, "n", -1)
    assert runner.state == "Assigning"
    assert runner.group.epoch == 3
    runner.beat("m")
    assert (runner.state, len(runner.has("m"))) == ("Stable", 4)


def test_a_group_whose_last_member_leaves_is_empty(runner: ConsumerRunner) -> None:
    runner.enter("m")
    runner.leave("m")
    assert runner.state == "Empty"
    assert runner.group.epoch == 2
    assert runner.group.topics == {}
    assert not runner.group.targets
    assert not runner.group.owners


def test_who_sends_no_heartbeat_for_a_session_is_out(runner: ConsumerRunner) -> None:
    shared(runner, "m", "n")
    runner.advance(SESSION_MS - 1)
    runner.beat("m")
    runner.advance(1)
    assert set(runner.group.members) == {"m"}
    assert runner.beat("n").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_every_heartbeat_begins_a_session(runner: ConsumerRunner) -> None:
    runner.enter("m")
    for _ in range(5):
        runner.advance(SESSION_MS - 1)
        assert runner.beat("m").error is ErrorCode.NONE


def test_who_does_not_give_up_its_part_within_the_rebalance_timeout_is_out(
    runner: ConsumerRunner,
) -> None:
    runner.enter("m", rebalance_timeout_ms=20_000)
    runner.enter("n")
    runner.beat("m")
    for _ in range(4):
        runner.advance(4999)
        runner.beat("m")
        runner.beat("n")
    assert runner.member("m").state is MemberState.UNREVOKED_PARTITIONS
    runner.advance(4)
    assert set(runner.group.members) == {"n"}
    assert len(runner.beat("n").assigned or ()) == 4


def test_who_gave_up_its_part_in_time_stays(runner: ConsumerRunner) -> None:
    shared(runner, "m", "n")
    for _ in range(2 * REVOCATION_MS // SESSION_MS + 1):
        runner.advance(SESSION_MS - 1)
        runner.beat("m")
        runner.beat("n")
    assert set(runner.group.members) == {"m", "n"}


# Static members


def test_a_static_member_that_goes_and_comes_back_finds_its_part(runner: ConsumerRunner) -> None:
    runner.enter("m", instance_id="one")
    runner.enter("n")
    runner.settle("m", "n")
    had, epoch = runner.has("m"), runner.group.epoch
    gone = runner.leave("m", -2, instance_id="one")
    assert (gone.error, gone.epoch) == (ErrorCode.NONE, -2)
    assert runner.has("m") == had
    runner.beat("n")
    assert not runner.has("n") & had
    back = runner.enter("again", instance_id="one")
    assert back.error is ErrorCode.NONE
    assert (places(back.assigned or frozenset()), back.epoch) == (had, epoch)
    assert runner.group.epoch == epoch
    assert set(runner.group.members) == {"n", "again"}
    assert runner.state == "Stable"


def test_a_name_that_is_in_use_is_not_released(runner: ConsumerRunner) -> None:
    runner.enter("m", instance_id="one")
    assert runner.enter("n", instance_id="one").error is ErrorCode.UNRELEASED_INSTANCE_ID
    assert runner.beat("m", instance_id="one").error is ErrorCode.NONE


def test_a_static_member_that_has_lost_the_answer_enters_again_to_what_it_has(
    runner: ConsumerRunner,
) -> None:
    runner.enter("m", instance_id="one")
    again = runner.enter("m", instance_id="one")
    assert (again.error, again.epoch, len(again.assigned or ())) == (ErrorCode.NONE, 1, 4)


def test_a_static_member_may_come_back_with_the_id_it_had(runner: ConsumerRunner) -> None:
    runner.enter("m", instance_id="one")
    runner.leave("m", -2, instance_id="one")
    runner.advance(SESSION_MS - 1)
    back = runner.enter("m", instance_id="one")
    assert (back.error, back.epoch, len(back.assigned or ())) == (ErrorCode.NONE, 1, 4)
    runner.advance(SESSION_MS - 1)
    assert runner.beat("m", instance_id="one").error is ErrorCode.NONE


def test_another_with_the_same_name_is_fenced(runner: ConsumerRunner) -> None:
    runner.enter("m", instance_id="one")
    assert runner.beat("n", 1, instance_id="one").error is ErrorCode.FENCED_INSTANCE_ID
    assert runner.leave("n", instance_id="one").error is ErrorCode.FENCED_INSTANCE_ID
    assert runner.leave("n", -2, instance_id="one").error is ErrorCode.FENCED_INSTANCE_ID


def test_a_name_that_nobody_has_is_unknown(runner: ConsumerRunner) -> None:
    runner.enter("m")
    assert runner.beat("m", 1, instance_id="one").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_that_does_not_come_back_is_out(runner: ConsumerRunner) -> None:
    runner.enter("m", instance_id="one")
    runner.leave("m", -2, instance_id="one")
    runner.advance(SESSION_MS)
    assert runner.state == "Empty"
    assert runner.group.static_ids == {}


def test_a_static_member_that_leaves_for_good_is_gone(runner: ConsumerRunner) -> None:
    runner.enter("m", instance_id="one")
    runner.leave("m", instance_id="one")
    assert runner.state == "Empty"


def test_a_static_member_that_gave_up_nothing_when_it_went_is_no_longer_asked_to(
    runner: ConsumerRunner,
) -> None:
    runner.enter("m", instance_id="one")
    runner.enter("n")
    runner.beat("m", owned=["a0", "a1", "a2", "a3"])
    runner.leave("m", -2, instance_id="one")
    assert len(runner.beat("n").assigned or ()) == 2
    back = runner.enter("again", instance_id="one")
    assert len(back.assigned or ()) == 2
    assert runner.state == "Stable"


# Assignors


def test_the_first_assignor_that_is_set_counts_if_nobody_asks_for_one() -> None:
    config = replace(NO_DELAY, group_consumer_assignors=("range", "uniform"))
    runner = ConsumerRunner(FakeCatalog(a=3, b=3), config)
    shared(runner, "m", "n", topics="ab")
    assert runner.has("m") == {"a0", "a1", "b0", "b1"}


def test_the_assignor_that_most_members_ask_for_counts() -> None:
    runner = ConsumerRunner(FakeCatalog(a=3, b=3))
    runner.enter("m", "ab", server_assignor="range")
    runner.enter("n", "ab", server_assignor="uniform")
    runner.enter("o", "ab", server_assignor="range")
    runner.settle("m", "n", "o")
    assert runner.has("n") == {"a1", "b1"}
    described = runner.machine.describe_consumer(GROUP)
    assert described.assignor == "range"


# What the log refuses


def test_who_could_not_be_written_down_has_not_come(runner: ConsumerRunner) -> None:
    runner.refuses = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert runner.enter("m").error is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert runner.machine.list_groups() == []
    runner.refuses = None
    assert runner.enter("m").epoch == 1


def test_whose_session_ends_while_nothing_can_be_written_is_out_later(
    runner: ConsumerRunner,
) -> None:
    runner.enter("m")
    runner.refuses = ErrorCode.NOT_COORDINATOR
    runner.advance(SESSION_MS)
    assert runner.state == "Stable"
    runner.refuses = None
    runner.advance(SESSION_MS)
    assert runner.state == "Empty"


def test_a_topic_that_grew_while_nothing_could_be_written_is_noticed_later(
    runner: ConsumerRunner,
) -> None:
    runner.enter("m")
    runner.catalog.put("a", 6)
    runner.refuses = ErrorCode.NOT_COORDINATOR
    assert runner.beat("m").error is ErrorCode.NOT_COORDINATOR
    runner.refuses = None
    assert len(runner.beat("m").assigned or ()) == 6


# After a restart


def test_a_group_continues_after_a_restart_with_sessions_from_then_on(
    runner: ConsumerRunner,
) -> None:
    shared(runner, "m", "n")
    runner.advance(SESSION_MS - 1)
    runner.restart()
    runner.advance(SESSION_MS - 1)
    assert runner.beat("m").error is ErrorCode.NONE
    runner.advance(1)
    assert set(runner.group.members) == {"m"}


def test_who_was_to_give_something_up_has_its_time_again_after_a_restart(
    runner: ConsumerRunner,
) -> None:
    runner.enter("m", rebalance_timeout_ms=20_000)
    runner.enter("n")
    runner.beat("m")
    runner.restart()
    runner.advance(19_999)
    assert "m" in runner.group.members
    runner.advance(1)
    assert "m" not in runner.group.members
