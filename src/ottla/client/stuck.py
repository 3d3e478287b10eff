"""Finds transactions that no coordinator will end, and aborts them."""

from collections.abc import Sequence

from ottla.base.errors import UnknownNameError, UserError
from ottla.client.admin import Admin
from ottla.storage.diagnosis.open_transactions import CoordinatorView, Judged, hanging


def find_hanging(admin: Admin, topics: Sequence[str] | None, now_ms: int) -> list[Judged]:
    """Raises `UserError` if the broker does not support listing transactions."""
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
    """Aborts an open transaction, fences the producer, and returns a sentence.

    An unknown id is refused, since fencing would create it.
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
