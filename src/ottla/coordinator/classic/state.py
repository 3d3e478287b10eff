"""The states of a classic group and their transitions.

Kafka's counterpart: `ClassicGroupState`.
"""

from enum import Enum
from typing import Final


class GroupState(Enum):
    """The values are the names in responses to clients."""

    EMPTY = "Empty"
    """No members; may have committed offsets."""

    PREPARING_REBALANCE = "PreparingRebalance"
    """Members must join; late ones are removed."""

    COMPLETING_REBALANCE = "CompletingRebalance"
    """All members have joined and wait for the leader's assignment."""

    STABLE = "Stable"
    """The members have, or can fetch, their assignment."""

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
"""The allowed predecessors of each state. A group is loaded as Empty or Stable."""


def may_follow(state: GroupState, previous: GroupState) -> bool:
    return previous in PREVIOUS_STATES[state]
