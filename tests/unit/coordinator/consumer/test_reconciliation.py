"""A member's next step, from values alone."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.coordinator.consumer.member import Member, MemberState
from ottla.coordinator.consumer.partitions import Assignment
from ottla.coordinator.consumer.reconciliation import reconcile
from tests.support.consumer_groups import partitions, places

NOBODYS = partitions()


def member(state: MemberState = MemberState.STABLE, **parts: str) -> Member:
    return Member(
        member_id="m",
        epoch=5,
        previous_epoch=4,
        state=state,
        assigned=partitions(*parts.get("has", "").split()),
        pending_revocation=partitions(*parts.get("gives", "").split()),
    )


def step(
    one: Member, target: str, epoch: int = 6, owned: str | None = None, taken: str = ""
) -> Member:
    held: Assignment = partitions(*taken.split())
    return reconcile(
        one,
        partitions(*target.split()),
        epoch,
        owned=None if owned is None else partitions(*owned.split()),
        is_free=lambda place: place not in held,
    )


def test_who_has_all_of_its_epoch_has_nothing_to_do() -> None:
    one = member(has="a0 a1")
    assert step(one, "a2", epoch=5) is one


def test_what_is_free_comes_with_the_targets_epoch() -> None:
    after = step(member(has="a0"), "a0 a1")
    assert places(after.assigned) == {"a0", "a1"}
    assert (after.state, after.epoch, after.previous_epoch) == (MemberState.STABLE, 6, 5)


def test_who_has_to_give_something_up_stays_in_its_epoch() -> None:
    after = step(member(has="a0 a1"), "a0 a2")
    assert after.state is MemberState.UNREVOKED_PARTITIONS
    assert (after.epoch, after.previous_epoch) == (5, 5)
    assert places(after.assigned) == {"a0"}
    assert places(after.pending_revocation) == {"a1"}


def test_what_it_says_that_it_does_not_own_need_not_be_given_up() -> None:
    after = step(member(has="a0 a1"), "a0 a2", owned="a0")
    assert after.state is MemberState.STABLE
    assert places(after.assigned) == {"a0", "a2"}
    assert after.pending_revocation == NOBODYS


@pytest.mark.parametrize("owned", [None, "a0 a1", "a1"])
def test_it_waits_until_it_says_that_it_gave_up(owned: str | None) -> None:
    one = member(MemberState.UNREVOKED_PARTITIONS, has="a0", gives="a1")
    assert step(one, "a0 a2", owned=owned) is one


@pytest.mark.parametrize("owned", ["a0", ""])
def test_it_continues_once_it_gave_up(owned: str) -> None:
    one = member(MemberState.UNREVOKED_PARTITIONS, has="a0", gives="a1")
    after = step(one, "a0 a2", owned=owned)
    assert (after.state, after.epoch) == (MemberState.STABLE, 6)
    assert places(after.assigned) == {"a0", "a2"}


def test_a_newer_target_can_ask_for_more_to_be_given_up() -> None:
    one = member(MemberState.UNREVOKED_PARTITIONS, has="a0 a3", gives="a1")
    after = step(one, "a3", owned="a0 a3")
    assert after.state is MemberState.UNREVOKED_PARTITIONS
    assert (places(after.assigned), places(after.pending_revocation)) == ({"a3"}, {"a0"})


def test_what_others_hold_is_waited_for_in_the_new_epoch() -> None:
    after = step(member(has="a0"), "a0 a1 a2", taken="a2")
    assert (after.state, after.epoch) == (MemberState.UNRELEASED_PARTITIONS, 6)
    assert places(after.assigned) == {"a0", "a1"}


def test_nothing_free_is_no_reason_to_stay_behind() -> None:
    after = step(member(), "a1", taken="a1")
    assert (after.state, after.epoch) == (MemberState.UNRELEASED_PARTITIONS, 6)
    assert after.assigned == NOBODYS


def test_what_was_waited_for_comes_in_the_same_epoch() -> None:
    waiting = step(member(), "a1", taken="a1")
    after = step(waiting, "a1")
    assert (after.state, after.epoch) == (MemberState.STABLE, 6)
    assert places(after.assigned) == {"a1"}


def test_who_waits_may_have_to_give_something_up() -> None:
    one = member(MemberState.UNRELEASED_PARTITIONS, has="a0 a1")
    after = step(one, "a0", epoch=7)
    assert after.state is MemberState.UNREVOKED_PARTITIONS
    assert after.epoch == 5


@pytest.mark.parametrize("owned", [None, "a0"])
def test_a_state_that_nobody_knows_is_left_by_giving_up_everything(owned: str | None) -> None:
    one = member(MemberState.UNKNOWN, has="a0")
    with pytest.raises(ApiError) as caught:
        step(one, "a0", owned=owned)
    assert caught.value.code is ErrorCode.FENCED_MEMBER_EPOCH
    after = step(one, "a0", owned="")
    assert (after.state, after.epoch) == (MemberState.STABLE, 6)
