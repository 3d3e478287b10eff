"""What a check says: the kind of wrong, the operations concerned, and a sentence for a person."""

from enum import Enum

from ottla.base.values import dataclass
from ottla.testing.history.operations import Operation


class FindingKind(Enum):
    """In the order in which they are reported.

    >>> from ottla.testing.history import FindingKind
    >>> FindingKind.LOST_WRITE.value
    'lost write'
    """

    LOST_WRITE = "lost write"
    """What was acknowledged is not in the log."""
    DUPLICATE = "duplicate"
    """What was sent once is in the log twice, or one input took effect twice."""
    INCONSISTENT_OFFSETS = "inconsistent offsets"
    """Two records were seen at one offset."""
    UNSENT_READ = "unsent read"
    """A read of what nobody had sent, or of what was sent elsewhere."""
    ABORTED_READ = "aborted read"
    """A read of what failed, or a read_committed one of what was aborted."""
    DIRTY_READ = "dirty read"
    """A read_committed one of what nobody had begun to commit."""
    TORN_TRANSACTION = "torn transaction"
    """A read_committed consumer saw one record of a transaction and passed another over."""
    NON_MONOTONIC_POLL = "non-monotonic poll"
    """A consumer went back without a seek or a rebalance."""
    POLL_SKIP = "poll skip"
    """A consumer skipped a record that is in the log, and that others saw."""
    NON_MONOTONIC_SEND = "non-monotonic send"
    """A later send has a smaller offset."""
    COMMIT_MISMATCH = "commit mismatch"
    """Committed offsets disagree with what was processed, or with where a group continued."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing that is wrong; `str` is its sentence.

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
