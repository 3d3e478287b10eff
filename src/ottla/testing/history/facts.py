"""Facts derived from a history: sends, outcomes of transactions, the records at each offset, and
the ranges that each consumer read.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from enum import Enum
from typing import TypeVar

from ottla.base.values import dataclass
from ottla.testing.history.operations import (
    Assign,
    Begin,
    CommitOffsets,
    Crash,
    End,
    Operation,
    Outcome,
    Poll,
    Read,
    Send,
    UnusableHistoryError,
)

Place = tuple[str, int]
"""Partition and offset."""

Kind = TypeVar("Kind", bound=Operation)


class TransactionOutcome(Enum):
    """The outcome of a transaction."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNDECIDED = "undecided"
    """A commit was attempted with unknown result."""
    NEVER_COMMITTED = "never committed"
    """No commit was attempted: it is open, or was aborted by its timeout."""


@dataclass(slots=True)
class Transaction:
    """The operations of one transaction."""

    name: str
    ends: list[End] = field(default_factory=list)
    sends: list[Send] = field(default_factory=list)
    commits: list[CommitOffsets] = field(default_factory=list)

    @property
    def outcome(self) -> TransactionOutcome:
        for end in reversed(self.ends):
            if end.outcome is Outcome.OK:
                return TransactionOutcome.COMMITTED if end.is_commit else TransactionOutcome.ABORTED
        if any(end.is_commit and end.outcome is Outcome.UNKNOWN for end in self.ends):
            return TransactionOutcome.UNDECIDED
        return TransactionOutcome.ABORTED if self.ends else TransactionOutcome.NEVER_COMMITTED

    @property
    def first_commit_began(self) -> int | None:
        return min((end.began for end in self.ends if end.is_commit), default=None)

    @property
    def deciding_ends(self) -> list[End]:
        """The ends that decide the outcome: the last with a known result, or else all."""
        sure = [end for end in self.ends if end.outcome is Outcome.OK]
        return sure[-1:] or self.ends


@dataclass(frozen=True, slots=True)
class SeenRead:
    """One record of one poll."""

    read: Read
    poll: Poll

    @property
    def place(self) -> Place:
        return self.read.partition, self.read.offset


@dataclass(slots=True)
class OffsetSpan:
    """What one consumer read of a partition without a seek or a rebalance.

    It must have read all records from `first` on; `end` is its current position. Both are `None` if
    unknown.
    """

    process: str
    partition: str
    first: int | None
    end: int | None
    is_committed: bool = False
    reads: dict[int, Poll] = field(default_factory=dict)
    polls: list[Poll] = field(default_factory=list)
    backward: list[tuple[SeenRead, int]] = field(default_factory=list)
    """Reads below the consumer's position, with that position."""

    def passed(self, offset: int) -> Poll:
        """The poll that skipped an offset."""
        later = [self.reads[one] for one in self.reads if one > offset]
        return min(later, key=lambda poll: poll.began) if later else self.polls[-1]


class Facts:
    """The index of a history, in order of `began`; raises `UnusableHistoryError`."""

    def __init__(self, history: Iterable[Operation]) -> None:
        self.history = sorted(history, key=lambda one: one.began)
        for one in self.history:
            if one.ended is not None and one.ended < one.began:
                raise UnusableHistoryError(f"{one} ended before it began")
        self.sends = {send.value: send for send in self._sends()}
        self.transactions = self._transactions()
        self.reads = [SeenRead(read, poll) for poll in self.of(Poll) for read in poll.records]
        self.reads_by_place: dict[Place, list[SeenRead]] = defaultdict(list)
        for seen in self.reads:
            self.reads_by_place[seen.place].append(seen)
        self._reads_by_value: dict[str, list[SeenRead]] = defaultdict(list)
        for seen in self.reads:
            self._reads_by_value[seen.read.value].append(seen)
        self.spans = list(read_spans(self.history))
        self.known = self._known_records()
        self._known_offsets = {partition: list(found) for partition, found in self.known.items()}
        self._seen_committed = {
            send.transaction
            for seen in self.reads
            if seen.poll.is_committed and (send := self.sends.get(seen.read.value)) is not None
        }

    def is_seen_committed(self, name: str) -> bool:
        """Whether a read_committed consumer read a record of the transaction."""
        return name in self._seen_committed

    def of(self, kind: type[Kind]) -> list[Kind]:
        """The operations of one type."""
        return [one for one in self.history if isinstance(one, kind)]

    def _sends(self) -> Iterator[Send]:
        by_value: dict[str, Send] = {}
        for send in self.of(Send):
            other = by_value.setdefault(send.value, send)
            if other is not send:
                raise UnusableHistoryError(
                    f"{other.process} and {send.process} both send the value {send.value!r}: give "
                    "each send a unique value, even if it repeats another"
                )
            yield send

    def _transactions(self) -> dict[str, Transaction]:
        found: dict[str, Transaction] = {}
        for begin in self.of(Begin):
            if begin.transaction in found:
                raise UnusableHistoryError(
                    f"transaction {begin.transaction!r} begins twice: give each attempt a "
                    "unique name"
                )
            found[begin.transaction] = Transaction(begin.transaction)
        for one in self.history:
            name = getattr(one, "transaction", None)
            if name is None:
                continue
            if name not in found:
                raise UnusableHistoryError(
                    f"transaction {name!r} never begins: add its Begin to the history"
                )
            _take(found[name], one)
        return found

    def reads_of(self, value: str) -> list[SeenRead]:
        """All reads of a value."""
        return self._reads_by_value.get(value, [])

    # Records that must be in the log

    def outcome(self, name: str) -> TransactionOutcome:
        """The outcome of a transaction, also derived from reads of read_committed consumers."""
        outcome = self.transactions[name].outcome
        if outcome is TransactionOutcome.UNDECIDED and name in self._seen_committed:
            return TransactionOutcome.COMMITTED
        return outcome

    def is_visible(self, send: Send, *, to_committed: bool) -> bool:
        """Whether a consumer that reads past the record must see it."""
        if send.transaction is None or not to_committed:
            return True
        return self.outcome(send.transaction) is TransactionOutcome.COMMITTED

    def _known_records(self) -> dict[str, dict[int, Send]]:
        """Records known to be in the log, by partition and offset, in order."""
        known: dict[str, dict[int, Send]] = defaultdict(dict)
        for seen in self.reads:
            send = self.sends.get(seen.read.value)
            if send is not None and send.outcome is not Outcome.FAIL:
                known[seen.read.partition][seen.read.offset] = send
        for send in self.acknowledged():
            known[send.partition][send.offset or 0] = send
        return {partition: dict(sorted(found.items())) for partition, found in known.items()}

    def known_between(
        self, partition: str, first: int | None, end: int | None
    ) -> Iterator[tuple[int, Send]]:
        """Known offsets and their sends in a range, in order; none if a bound is unknown."""
        if first is None or end is None or partition not in self.known:
            return
        offsets, sends = self._known_offsets[partition], self.known[partition]
        for index in range(bisect_left(offsets, first), bisect_left(offsets, end)):
            yield offsets[index], sends[offsets[index]]

    def acknowledged(self) -> list[Send]:
        """The sends that a broker acknowledged with an offset."""
        return [
            send
            for send in self.sends.values()
            if send.outcome is Outcome.OK and send.offset is not None
        ]


def _take(transaction: Transaction, one: Operation) -> None:
    if isinstance(one, End):
        transaction.ends.append(one)
    elif isinstance(one, Send):
        transaction.sends.append(one)
    elif isinstance(one, CommitOffsets):
        transaction.commits.append(one)


def read_spans(history: Sequence[Operation]) -> Iterator[OffsetSpan]:
    """The ranges that consumers read, in order of their beginnings."""
    current: dict[str, dict[str, OffsetSpan]] = defaultdict(dict)
    for one in history:
        if isinstance(one, Assign):
            current[one.process] = {
                partition: OffsetSpan(one.process, partition, position, position)
                for partition, position in one.positions.items()
            }
            yield from current[one.process].values()
        elif isinstance(one, Crash):
            current[one.process] = {}
        elif isinstance(one, Poll):
            yield from _poll(current[one.process], one)


def _poll(current: dict[str, OffsetSpan], poll: Poll) -> Iterator[OffsetSpan]:
    for partition in sorted({read.partition for read in poll.records} | poll.positions.keys()):
        if partition not in current:
            current[partition] = OffsetSpan(poll.process, partition, None, None)
            yield current[partition]
        span = current[partition]
        span.is_committed = poll.is_committed
        span.polls.append(poll)
        for read in poll.records:
            if read.partition == partition:
                span.first = read.offset if span.first is None else span.first
                if span.end is not None and read.offset < span.end:
                    span.backward.append((SeenRead(read, poll), span.end))
                span.reads.setdefault(read.offset, poll)
                span.end = max(span.end or 0, read.offset + 1)
        if partition in poll.positions:
            position = poll.positions[partition]
            span.first = position if span.first is None else span.first
            span.end = max(span.end or 0, position)
