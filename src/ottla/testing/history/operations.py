"""The operations of a history: the request of each process, and its answer.

`began` and `ended` are readings of one clock that all processes share and that never steps, such
as `time.monotonic_ns()` on one machine, or any ascending numbers; only their order counts. `ended`
is `None` where no answer came. A `partition` is a name of its own, such as `"orders-0"`. Values
are the identity of what is sent: each send needs one of its own, also when it repeats another.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from ottla.base.values import dataclass


class UnusableHistoryError(ValueError):
    """A history that says too little, or contradicts itself, as its text says how.

    >>> from ottla.testing.history import Send, check
    >>> twice = [Send(process="p", began=n, partition="orders-0", value="a") for n in (1, 2)]
    >>> check(twice)
    Traceback (most recent call last):
    ottla.testing.history.operations.UnusableHistoryError: ...
    """


class Outcome(Enum):
    """What a process knows of what it asked for.

    >>> from ottla.testing.history import Outcome
    >>> [one.value for one in Outcome]
    ['ok', 'fail', 'unknown']
    """

    OK = "ok"
    """It happened."""
    FAIL = "fail"
    """It did not happen, and will not. A timeout is not that."""
    UNKNOWN = "unknown"
    """It may have happened, or may happen yet: no answer, or one that leaves it open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """What all have.

    >>> from ottla.testing.history import Operation, Send
    >>> sent = Send(process="p", began=1, partition="orders-0", value="a")
    >>> isinstance(sent, Operation), sent.ended
    (True, None)
    """

    process: str
    began: int
    ended: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Send(Operation):
    """One record. `began` is when it was handed to the producer, `ended` when it was answered.

    `source` is the place, (partition, offset), of the record that it was made from, if any.

    >>> from ottla.testing.history import Outcome, Send
    >>> sent = Send(process="p", began=1, ended=2, partition="orders-0", value="a",
    ...             outcome=Outcome.OK, offset=0)
    >>> sent.offset
    0
    """

    partition: str
    value: str
    outcome: Outcome = Outcome.UNKNOWN
    offset: int | None = None
    transaction: str | None = None
    source: tuple[str, int] | None = None


@dataclass(frozen=True, slots=True)
class Read:
    """One record as a poll returned it.

    >>> from ottla.testing.history import Read
    >>> Read("orders-0", 7, "a")
    Read(partition='orders-0', offset=7, value='a')
    """

    partition: str
    offset: int
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll(Operation):
    """Records in the order in which a consumer got them; `is_committed` is read_committed.

    `positions` are where the consumer stands after it, by partition, as far as the client reports:
    after the records there may be markers, and records of aborted transactions.

    >>> from ottla.testing.history import Poll, Read
    >>> poll = Poll(process="c", began=3, ended=4, records=(Read("orders-0", 0, "a"),))
    >>> poll.is_committed
    False
    """

    records: tuple[Read, ...] = ()
    is_committed: bool = False
    positions: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assign(Operation):
    """Where a consumer continues reading: after a rebalance, a seek, or at its start.

    Partitions that are not named are no longer read. A position of `None` is one that the client
    does not say. With `group`, the positions are those that the group had committed.

    >>> from ottla.testing.history import Assign
    >>> Assign(process="c", began=1, ended=2, positions={"orders-0": 5}, group="billing").group
    'billing'
    """

    positions: Mapping[str, int | None]
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin(Operation):
    """A transaction begins; its name is the test's own, and no other attempt has it.

    >>> from ottla.testing.history import Begin
    >>> Begin(process="p", began=1, ended=2, transaction="p 1").transaction
    'p 1'
    """

    transaction: str


@dataclass(frozen=True, slots=True, kw_only=True)
class End(Operation):
    """An attempt to commit or to abort a transaction.

    >>> from ottla.testing.history import End
    >>> End(process="p", began=5, transaction="p 1", is_commit=True).outcome.value
    'unknown'
    """

    transaction: str
    is_commit: bool
    outcome: Outcome = Outcome.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitOffsets(Operation):
    """The next offsets to be read, by partition, committed for a group.

    In a transaction the outcome is that of sending them: whether they hold, its end decides.

    >>> from ottla.testing.history import CommitOffsets
    >>> CommitOffsets(process="c", began=5, group="billing", offsets={"orders-0": 1}).transaction
    """

    group: str
    offsets: Mapping[str, int]
    outcome: Outcome = Outcome.UNKNOWN
    transaction: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd(Operation):
    """What a broker said where a partition's log ends.

    >>> from ottla.testing.history import LogEnd
    >>> LogEnd(process="admin", began=9, ended=10, partition="orders-0", offset=3).offset
    3
    """

    partition: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash(Operation):
    """A process ended and has forgotten all; under the same name it starts from nothing.

    >>> from ottla.testing.history import Crash
    >>> Crash(process="p", began=7, ended=8).process
    'p'
    """
