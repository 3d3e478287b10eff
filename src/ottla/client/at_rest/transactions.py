"""Transactional ids from the records of `__transaction_state`."""

from collections.abc import Sequence
from typing import Protocol

from ottla.base.errors import UnknownNameError, UserError
from ottla.client.administration.descriptions import ListedTransaction
from ottla.diagnosis.directories import read_directories
from ottla.diagnosis.internal_records import OnLost, refuse_loss
from ottla.diagnosis.stuck import STATES, coordinators_on_disk
from ottla.storage.diagnosis.open_transactions import CoordinatedTransaction


class TransactionList(Protocol):
    """Lists and describes transactional ids: an `Admin`, or the files of a directory."""

    def list_transactions(
        self, *, states: Sequence[str] = (), producer_ids: Sequence[int] = ()
    ) -> list[ListedTransaction]: ...

    def describe_transactions(
        self, transactional_ids: Sequence[str]
    ) -> list[CoordinatedTransaction]: ...


class TransactionsAtRest:
    """The transactional ids of log directories; the methods are those of `TransactionAdmin`."""

    def __init__(self, paths: Sequence[str], on_lost: OnLost = refuse_loss) -> None:
        """Raises `UserError` if a path is not a log directory.

        `on_lost` takes a line for each partition of which a part cannot be read.
        """
        found = coordinators_on_disk(read_directories(paths), on_lost).transactions
        self._known = {
            one.transactional_id: one for one in sorted(found, key=lambda one: one.transactional_id)
        }

    def list_transactions(
        self, *, states: Sequence[str] = (), producer_ids: Sequence[int] = ()
    ) -> list[ListedTransaction]:
        unknown = [one for one in states if one not in STATES]
        if unknown:
            raise UserError(f"there is no state {', '.join(unknown)}; one is Ongoing")
        return [
            ListedTransaction(
                transactional_id=one.transactional_id,
                producer_id=one.producer_id,
                state=one.state,
            )
            for one in self._known.values()
            if (not states or one.state in states)
            and (not producer_ids or one.producer_id in producer_ids)
        ]

    def describe_transactions(
        self, transactional_ids: Sequence[str]
    ) -> list[CoordinatedTransaction]:
        for one in transactional_ids:
            if one not in self._known:
                raise UnknownNameError("transactional id", one, self._known)
        return [self._known[one] for one in transactional_ids]
