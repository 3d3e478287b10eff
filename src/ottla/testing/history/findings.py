"""A finding: its kind, the operations concerned, and a sentence."""

from enum import Enum

from ottla.base.values import dataclass
from ottla.testing.history.operations import Operation


class FindingKind(Enum):
    """Kinds of findings, in the order in which they are reported.

    >>> from ottla.testing.history import FindingKind
    >>> FindingKind.LOST_WRITE.value
    'lost write'
    """

    LOST_WRITE = "lost write"
    """An acknowledged record is not in the log."""
    DUPLICATE = "duplicate"
    """A record that was sent once is in the log twice, or one input took effect twice."""
    INCONSISTENT_OFFSETS = "inconsistent offsets"
    """Two different records were read at the same offset."""
    UNSENT_READ = "unsent read"
    """A record was read that was not sent, or was sent to another partition."""
    ABORTED_READ = "aborted read"
    """A failed record was read, or a read_committed consumer read an aborted record."""
    DIRTY_READ = "dirty read"
    """A read_committed consumer read a record whose transaction no one had begun to commit."""
    TORN_TRANSACTION = "torn transaction"
    """A read_committed consumer read one record of a transaction and skipped another."""
    NON_MONOTONIC_POLL = "non-monotonic poll"
    """A consumer's offsets decreased without a seek or a rebalance."""
    POLL_SKIP = "poll skip"
    """A consumer skipped a record that is in the log and that others read."""
    NON_MONOTONIC_SEND = "non-monotonic send"
    """A later send has a smaller offset."""
    COMMIT_MISMATCH = "commit mismatch"
    """Committed offsets disagree with processed records, or with where a group continued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A violation; `str` returns its sentence.

    >>> from ottla.testing.history import Poll, Read, check
    >>> read = Poll(process="c", began=3, ended=4, records=(Read("orders-0", 0, "a"),))
    >>> [finding] = check([read])
    >>> print(finding.kind.value)
    unsent read
    """

    kind: FindingKind
    text: str
    operations: tuple[Operation, ...]

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.text}"
