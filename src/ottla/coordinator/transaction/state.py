"""The states of a transactional id, and which may follow which.

Kafka's counterpart: `TransactionState`.
"""

from enum import Enum
from typing import Final


class TransactionState(Enum):
    """The values are the statuses in records of `__transaction_state`."""

    EMPTY = 0
    """A producer has the id, and has written nothing in a transaction."""

    ONGOING = 1
    """Partitions belong to the transaction."""

    PREPARE_COMMIT = 2
    """Committed: whatever happens now, each partition will get its marker."""

    PREPARE_ABORT = 3
    """Aborted, likewise."""

    COMPLETE_COMMIT = 4
    """All markers of the commit are written."""

    COMPLETE_ABORT = 5
    """All markers of the abort are written."""

    DEAD = 6
    """The id is forgotten."""

    PREPARE_EPOCH_FENCE = 7
    """The producer is fenced, and its transaction about to be aborted.

    Never written. In Kafka a transaction is so while the abort is on its way into the log; here
    that is one step, and no transaction is ever seen so.
    """

    @property
    def title(self) -> str:
        """The name that clients see."""
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
    # A producer of transactions version 2 may abort what it has not begun (KIP-890).
    TransactionState.PREPARE_ABORT: _AT_REST
    | {TransactionState.ONGOING, TransactionState.PREPARE_EPOCH_FENCE},
    TransactionState.COMPLETE_COMMIT: frozenset({TransactionState.PREPARE_COMMIT}),
    TransactionState.COMPLETE_ABORT: frozenset({TransactionState.PREPARE_ABORT}),
    TransactionState.DEAD: _AT_REST,
    TransactionState.PREPARE_EPOCH_FENCE: frozenset({TransactionState.ONGOING}),
}
"""From which states each can be reached. A transaction that is loaded begins in any but the last
two."""


def may_follow(state: TransactionState, previous: TransactionState) -> bool:
    return previous in PREVIOUS_STATES[state]
