"""The states of a classic group, and which may follow which.

Kafka's counterpart: `ClassicGroupState`.
"""

from enum import Enum
from typing import Final


class GroupState(Enum):
    """The values are the names that clients see."""

    EMPTY = "Empty"
    """No members; perhaps committed offsets."""

    PREPARING_REBALANCE = "PreparingRebalance"
    """Members must join; late ones are removed."""

    COMPLETING_REBALANCE = "CompletingRebalance"
    """All have joined, and wait for the assignment that the leader makes."""

    STABLE = "Stable"
    """All members have, or can fetch, an assignment."""

    DEAD = "Dead"
    """Removed; never visible again."""


PREVIOUS_STATES: Final[dict[GroupState, frozenset[GroupState]]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.STABLE, GroupState.COMPLETING_REBALANCE, GroupState.EMPTY}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(
        {
            GroupState.EMPTY,
            GroupState.PREPARING_REBALANCE,
            GroupState.COMPLETING_REBALANCE,
            GroupState.STABLE,
        }
    ),
}
"""From which states each can be reached. A group that is loaded begins as Empty or Stable."""


def may_follow(state: GroupState, previous: GroupState) -> bool:
    return previous in PREVIOUS_STATES[state]
