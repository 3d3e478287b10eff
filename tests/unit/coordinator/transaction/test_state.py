"""The table of states."""

import pytest

from ottla.coordinator.transaction.state import PREVIOUS_STATES, TransactionState, may_follow

ARROWS = {
    "Empty": {"Empty", "CompleteCommit", "CompleteAbort"},
    "Ongoing": {"Empty", "CompleteCommit", "CompleteAbort", "Ongoing"},
    "PrepareCommit": {"Ongoing"},
    "PrepareAbort": {"Ongoing", "PrepareEpochFence", "Empty", "CompleteCommit", "CompleteAbort"},
    "CompleteCommit": {"PrepareCommit"},
    "CompleteAbort": {"PrepareAbort"},
    "Dead": {"Empty", "CompleteCommit", "CompleteAbort"},
    "PrepareEpochFence": {"Ongoing"},
}


@pytest.mark.parametrize("state", TransactionState)
@pytest.mark.parametrize("previous", TransactionState)
def test_each_state_follows_those_that_kafka_lets_it_follow(
    state: TransactionState, previous: TransactionState
) -> None:
    assert may_follow(state, previous) == (previous.title in ARROWS[state.title])


def test_the_table_knows_every_state() -> None:
    assert set(PREVIOUS_STATES) == set(TransactionState)
    assert {one.title for one in TransactionState} == set(ARROWS)
