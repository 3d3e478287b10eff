"""Transactions that no coordinator will end, looked for in a cluster, and the end of one."""

from collections.abc import Sequence

from ottla.base.errors import UnknownNameError, UserError
from ottla.client.admin import Admin
from ottla.storage.diagnosis.open_transactions import CoordinatorView, Judged, hanging


def find_hanging(admin: Admin, topics: Sequence[str] | None, now_ms: int) -> list[Judged]:
    """Raises `UserError` when the broker does not answer for coordinators."""
    places = admin.places(topics)

    def coordinators() -> CoordinatorView:
        view = admin.coordinator_view()
        if not view.is_complete:
            raise UserError(
                f"{admin.address} does not answer LIST_TRANSACTIONS, which this command needs"
            )
        return view

    return hanging(lambda: admin.open_transactions(places), coordinators, now_ms)


def abort_by_id(admin: Admin, transactional_id: str) -> str:
    """Aborts what is open, fences the producer, and says so.

    An id that is not known is refused: a fence would make it.
    """
    view = admin.coordinator_view()
    known = next(
        (one for one in view.transactions if one.transactional_id == transactional_id), None
    )
    if known is None:
        names = [one.transactional_id for one in view.transactions]
        raise UnknownNameError("transactional id", transactional_id, names)
    producer_id, epoch = admin.fence(transactional_id, known.timeout_ms)
    was = f"{known.state} until now; " if known.due_ms is not None else "nothing was open; "
    return (
        f"{transactional_id}: {was}its producer is fenced by epoch {epoch} of producer id "
        f"{producer_id}"
    )
