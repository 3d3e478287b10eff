"""Histories written down one operation after the other, each at a time of its own."""

from typing import Any

from ottla.testing.history import (
    Assign,
    Begin,
    CommitOffsets,
    Crash,
    End,
    FindingKind,
    LogEnd,
    Operation,
    Outcome,
    Poll,
    Read,
    Send,
    check,
)

ORDERS = "orders-0"


class Story:
    """Operations that follow each other; none overlaps the next."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self._now = 0

    def send(self, process: str, value: str, offset: int | None = None, **more: Any) -> Send:
        outcome = more.pop("outcome", Outcome.UNKNOWN if offset is None else Outcome.OK)
        partition = more.pop("partition", ORDERS)
        return self._add(
            Send(
                **self._times(process),
                partition=partition,
                value=value,
                offset=offset,
                outcome=outcome,
                **more,
            )
        )

    def poll(self, process: str, *records: tuple[Any, ...], **more: Any) -> Poll:
        """Records are (offset, value), or (partition, offset, value)."""
        reads = tuple(Read(*one) if len(one) == 3 else Read(ORDERS, *one) for one in records)
        return self._add(Poll(**self._times(process), records=reads, **more))

    def read_committed(self, process: str, *records: tuple[Any, ...], **more: Any) -> Poll:
        return self.poll(process, *records, is_committed=True, **more)

    def assign(self, process: str, group: str | None = None, **positions: int | None) -> Assign:
        return self._add(Assign(**self._times(process), positions=_named(positions), group=group))

    def begin(self, process: str, transaction: str) -> Begin:
        return self._add(Begin(**self._times(process), transaction=transaction))

    def end(
        self, process: str, transaction: str, is_commit: bool, outcome: Outcome = Outcome.OK
    ) -> End:
        return self._add(
            End(
                **self._times(process),
                transaction=transaction,
                is_commit=is_commit,
                outcome=outcome,
            )
        )

    def commit(self, process: str, transaction: str, outcome: Outcome = Outcome.OK) -> End:
        return self.end(process, transaction, True, outcome)

    def abort(self, process: str, transaction: str, outcome: Outcome = Outcome.OK) -> End:
        return self.end(process, transaction, False, outcome)

    def commit_offsets(self, process: str, group: str, **more: Any) -> CommitOffsets:
        offsets = {name: more.pop(name) for name in list(more) if name.startswith("orders")}
        outcome = more.pop("outcome", Outcome.OK)
        return self._add(
            CommitOffsets(
                **self._times(process),
                group=group,
                offsets=_named(offsets),
                outcome=outcome,
                **more,
            )
        )

    def log_end(self, process: str, offset: int, partition: str = ORDERS) -> LogEnd:
        return self._add(LogEnd(**self._times(process), partition=partition, offset=offset))

    def crash(self, process: str) -> Crash:
        return self._add(Crash(**self._times(process)))

    def kinds(self) -> list[FindingKind]:
        return [one.kind for one in check(self.operations)]

    def _times(self, process: str) -> dict[str, Any]:
        self._now += 2
        return {"process": process, "began": self._now, "ended": self._now + 1}

    def _add(self, operation: Any) -> Any:
        self.operations.append(operation)
        return operation


def _named(positions: dict[str, Any]) -> dict[str, Any]:
    """`orders_1` stands for the partition orders-1."""
    return {name.replace("_", "-"): value for name, value in positions.items()}
