"""The states of a transactional id and their transitions.

Kafka's counterpart: `TransactionState`.
"""

from enum import Enum
from typing import Final


class TransactionState(Enum):
    """The values are the statuses in records of `__transaction_state`."""

    EMPTY = 0
    """The id has a producer, and no transaction has begun."""

    ONGOING = 1
    """A transaction is open."""

    PREPARE_COMMIT = 2
    """The commit is decided; its markers are being written."""

    PREPARE_ABORT = 3
    """The abort is decided; its markers are being written."""

    COMPLETE_COMMIT = 4
    """All markers of the commit are written."""

    COMPLETE_ABORT = 5
    """All markers of the abort are written."""

    DEAD = 6
    """The transactional id is deleted."""

    PREPARE_EPOCH_FENCE = 7
    """The producer is fenced, and its transaction is about to be aborted.

    Never written. Kafka uses this state while the abort is being appended; here fencing and abort
    are a single step.
    """

    @property
    def title(self) -> str:
        """The name in responses to clients."""
        return TITLES[self]


TITLES: Final[dict[TransactionState, str]] = {
    TransactionState.EMPTY: "Empty",
    TransactionState.ONGOING: "Ongoing",
    TransactionState.PREPARE_COMMIT: "PrepareCommit",
    TransactionState.PREPARE_ABORT: "PrepareAbort",
    TransactionState.COMPLETE_COMMIT: "CompleteCommit",
    TransactionState.COMPLETE_ABORT: "CompleteAbort",
    TransactionState.DEAD: "Dead",
    TransactionState.PREPARE_EPOCH_FENCE: "PrepareEpochFence",
}

_COMPLETE: Final = frozenset({TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT})
_AT_REST: Final = _COMPLETE | {TransactionState.EMPTY}

PREVIOUS_STATES: Final[dict[TransactionState, frozenset[TransactionState]]] = {
    TransactionState.EMPTY: _AT_REST,
    TransactionState.ONGOING: _AT_REST | {TransactionState.ONGOING},
    TransactionState.PREPARE_COMMIT: frozenset({TransactionState.ONGOING}),
    # A version 2 producer may abort a transaction that it has not begun (KIP-890).
    TransactionState.PREPARE_ABORT: _AT_REST
    | {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: _AT_REST,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
}
"""The allowed predecessors of each state. A transaction is loaded in any state but the last two."""


def may_follow(state: TransactionState, previous: TransactionState) -> bool:
    return previous in PREVIOUS_STATES[state]
