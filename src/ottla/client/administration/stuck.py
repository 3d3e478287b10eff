"""Finds transactions that no coordinator will end, and aborts them."""

from collections.abc import Callable, Sequence

from ottla.base.errors import UnreachableError, UserError
from ottla.base.values import dataclass
from ottla.client.administration.admin import Admin
from ottla.storage.diagnosis.open_transactions import CoordinatorView, Judged, hanging


def find_hanging(
    admin: Admin,
    topics: Sequence[str] | None,
    now_ms: int,
    *,
    coordinator_is_silent: Callable[[UnreachableError], object],
    leader_is_silent: Callable[[UnreachableError], object],
) -> list[Judged]:
    """What hangs in partitions whose leaders answer: nothing while a coordinator does not, since it
    may know the transaction. Raises `UserError` if the brokers do not support listing transactions.
    """
    places, silent = admin.places(topics), list[UnreachableError]()

    def coordinators() -> CoordinatorView:
        view = admin.coordinator_view(on_unreachable=silent.append)
        for error in silent:
            coordinator_is_silent(error)
        if not view.is_complete and not silent:
            raise UserError(
                f"{admin.address} does not answer LIST_TRANSACTIONS, which this command needs"
            )
        return view

    return hanging(
        lambda: admin.open_transactions(places, on_unreachable=leader_is_silent),
        coordinators,
        now_ms,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """A producer that was fenced, by its new id and epoch."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    open_state: str | None
    """The state of the transaction that was aborted; `None` if none was open."""

    @property
    def text(self) -> str:
        was = "nothing was open" if self.open_state is None else f"{self.open_state} until now"
        return (
            f"{self.transactional_id}: {was}; its producer is fenced by epoch "
            f"{self.producer_epoch} of producer id {self.producer_id}"
        )


def abort_by_id(admin: Admin, transactional_id: str) -> Fenced:
    """Aborts an open transaction, and fences the producer.

    An unknown id is refused, since fencing would create it. Only the coordinator is asked.
    """
    (known,) = admin.describe_transactions([transactional_id])
    producer_id, epoch = admin.fence(transactional_id, known.timeout_ms)
    return Fenced(
        transactional_id=transactional_id,
        producer_id=producer_id,
        producer_epoch=epoch,
        open_state=known.state if known.due_ms is not None else None,
    )
