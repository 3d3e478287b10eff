"""Every arrow of the state table is walked, and nothing else is an arrow."""

from collections.abc import Callable

import pytest

from ottla.coordinator.classic.group import ClassicGroup
from ottla.coordinator.classic.state import PREVIOUS_STATES, GroupState
from ottla.coordinator.offsets.records import GroupMetadataKey
from tests.support.groups import GROUP, REBALANCE_MS, SESSION_MS, Runner

EMPTY = GroupState.EMPTY
PREPARING = GroupState.PREPARING_REBALANCE
COMPLETING = GroupState.COMPLETING_REBALANCE
STABLE = GroupState.STABLE
DEAD = GroupState.DEAD


def watch(group: ClassicGroup, seen: list[tuple[GroupState, GroupState]]) -> None:
    """Has every change of a group's state written down."""
    kind = type(group)

    class Watching(kind):  # type: ignore[misc, valid-type]
        def __setattr__(self, name: str, value: object) -> None:
            if name == "state" and hasattr(self, "state") and value is not self.state:
                assert isinstance(value, GroupState)
                seen.append((self.state, value))
            super().__setattr__(name, value)

    group.__class__ = Watching


def empty_group(runner: Runner) -> None:
    """One that is written down: its last member has left."""
    runner.stable()
    runner.leave(next(iter(runner.group.members)))
    assert runner.state is EMPTY


def preparing_group(runner: Runner) -> None:
    runner.stable()
    runner.join("newcomer")
    assert runner.state is PREPARING


def completing_group(runner: Runner) -> None:
    runner.join("first")
    assert runner.state is COMPLETING


def stable_group(runner: Runner) -> None:
    runner.stable()


def join_again(runner: Runner) -> None:
    assert runner.join("join again") is not None


def join_beside_others(runner: Runner) -> None:
    runner.join("join beside others")


def all_join_again(runner: Runner) -> None:
    for member_id in list(runner.group.members):
        if member_id not in runner.group.joining:
            runner.join(("again", member_id), member_id)


def everybody_leaves(runner: Runner) -> None:
    runner.leave(*runner.group.members)


def time_passes(runner: Runner) -> None:
    runner.advance(10 * (REBALANCE_MS + SESSION_MS))


def leader_syncs(runner: Runner) -> None:
    joined = runner.answers.get("first") or runner.join("once more", runner.group.leader or "")
    assert joined is not None
    runner.sync("leader's sync", joined)


def is_deleted(runner: Runner) -> None:
    runner.run(runner.machine.delete_group(GROUP, runner.at))


def has_its_records_deleted(runner: Runner) -> None:
    """Nothing stops another broker's tombstone: replay removes a group in any state."""
    runner.machine.replay(GroupMetadataKey(group=GROUP), None, len(runner.log))


Step = Callable[[Runner], None]

ARROWS: list[tuple[GroupState, GroupState, Step, Step]] = [
    (EMPTY, PREPARING, empty_group, join_again),
    (PREPARING, EMPTY, preparing_group, everybody_leaves),
    (PREPARING, COMPLETING, preparing_group, all_join_again),
    (STABLE, PREPARING, stable_group, join_beside_others),
    (STABLE, PREPARING, stable_group, time_passes),
    (COMPLETING, PREPARING, completing_group, join_beside_others),
    (COMPLETING, PREPARING, completing_group, time_passes),
    (COMPLETING, STABLE, completing_group, leader_syncs),
    (EMPTY, DEAD, empty_group, is_deleted),
    (EMPTY, DEAD, empty_group, has_its_records_deleted),
    (PREPARING, DEAD, preparing_group, has_its_records_deleted),
    (COMPLETING, DEAD, completing_group, has_its_records_deleted),
    (STABLE, DEAD, stable_group, has_its_records_deleted),
]


@pytest.mark.parametrize(
    ("before", "after", "begin", "step"),
    ARROWS,
    ids=[f"{one[0].value}-{one[1].value}-{one[3].__name__}" for one in ARROWS],
)
def test_a_transition_of_the_table_happens(
    before: GroupState, after: GroupState, begin: Step, step: Step
) -> None:
    runner = Runner()
    begin(runner)
    seen: list[tuple[GroupState, GroupState]] = []
    watch(runner.group, seen)
    step(runner)
    assert (before, after) in seen
    for previous, state in seen:
        assert previous in PREVIOUS_STATES[state]


def test_every_transition_of_the_table_is_walked() -> None:
    walked = {(before, after) for before, after, _, _ in ARROWS}
    table = {(before, after) for after, previous in PREVIOUS_STATES.items() for before in previous}
    assert walked == table


@pytest.mark.parametrize("state", list(GroupState))
def test_a_transition_that_is_not_in_the_table_is_our_own_mistake(state: GroupState) -> None:
    group = ClassicGroup(GROUP)
    for target in GroupState:
        group.state = state
        if state in PREVIOUS_STATES[target]:
            group.transition_to(target)
            assert group.state is target
        else:
            with pytest.raises(AssertionError):
                group.transition_to(target)
