"""The result of an audit: differences, and how much was compared."""

from dataclasses import field

from ottla.base.partitions import OffsetRange
from ottla.base.values import dataclass
from ottla.tables import DataFile


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """A difference between table, ledger and log; `text` describes it to people."""

    kind: str
    text: str
    partition: int | None = None
    offset: int | None = None
    path: str | None = None

    @classmethod
    def in_file(
        cls, kind: str, file: DataFile, text: str, offset: int | None = None
    ) -> "Difference":
        text = f"{file.path}: {text}"
        return cls(kind=kind, text=text, partition=file.partition, offset=offset, path=file.path)

    @classmethod
    def in_row(
        cls, partition: int, offset: int, text: str, path: str | None = None
    ) -> "Difference":
        where = "" if path is None else f" ({path})"
        text = f"partition {partition}, offset {offset}: {text}{where}"
        return cls(kind="row", text=text, partition=partition, offset=offset, path=path)


@dataclass(slots=True, kw_only=True)
class AuditReport:
    """The result of an audit. `unseen` ranges are no longer in the log."""

    topic: str
    table: str
    differences: list[Difference] = field(default_factory=list)
    loads: int = 0
    reruns: int = 0
    optimizations: int = 0
    files: int = 0
    rows: int = 0
    deletions: int = 0
    """Commits that deleted rows on purpose."""
    quarantined: int = 0
    forgotten: int = 0
    """Records whose rows were deleted on purpose."""
    rows_counted: int = 0
    """Rows, quarantined and forgotten records whose count matches the log."""
    rows_only_here: int = 0
    """Rows whose records compaction has removed from the log, if it may have."""
    batches_matched: int = 0
    """Batches of the log that match the roll-up noted at the load."""
    rows_compared: int = 0
    unseen: list[tuple[int, OffsetRange]] = field(default_factory=list)

    @property
    def is_equal(self) -> bool:
        return not self.differences
