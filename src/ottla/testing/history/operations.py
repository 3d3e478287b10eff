"""The operations of a history: the requests of processes and their results.

`began` and `ended` are times of one clock that all processes share and that never steps, such as
`time.monotonic_ns()` on one machine, or any ascending numbers; only their order matters. `ended` is
`None` if there was no response. `partition` is a unique name, such as `"orders-0"`. Values identify
records: each send needs a unique one, even if it repeats another.
"""

from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from ottla.base.values import dataclass


class UnusableHistoryError(ValueError):
    """A history that is incomplete or contradictory; the text says how.

    >>> from ottla.testing.history import Send, check
    >>> twice = [Send(process="p", began=n, partition="orders-0", value="a") for n in (1, 2)]
    >>> check(twice)
    Traceback (most recent call last):
    ottla.testing.history.operations.UnusableHistoryError: ...
    """


class Outcome(Enum):
    """The result of an operation as known to its process.

    >>> from ottla.testing.history import Outcome
    >>> [one.value for one in Outcome]
    ['ok', 'fail', 'unknown']
    """

    OK = "ok"
    """It was done."""
    FAIL = "fail"
    """It was not done and will not be. A timeout is `UNKNOWN`."""
    UNKNOWN = "unknown"
    """It may have been done, or may be done later: no response, or an ambiguous one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """The fields of all operations.

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
    """A sent record. `began` is when the producer got it, `ended` when it was acknowledged.

    `source` is the (partition, offset) of the record from which it was produced, if any.

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
    """A record that a poll returned.

    >>> from ottla.testing.history import Read
    >>> Read("orders-0", 7, "a")
    Read(partition='orders-0', offset=7, value='a')
    """

    partition: str
    offset: int
    value: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Poll(Operation):
    """Records in the order of the poll; `is_committed`: the consumer is read_committed.

    `positions` are the consumer's positions afterwards, by partition, if the client reports them:
    markers and records of aborted transactions may follow the returned records.

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
    """The positions of a consumer after a rebalance, a seek, or its start.

    Partitions that are not named are no longer read. A position is `None` if the client does not
    report it. With `group`, the positions are the committed offsets of that group.

    >>> from ottla.testing.history import Assign
    >>> Assign(process="c", began=1, ended=2, positions={"orders-0": 5}, group="billing").group
    'billing'
    """

    positions: Mapping[str, int | None]
    group: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin(Operation):
    """A transaction begins; the test chooses a unique name for each attempt.

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
    """The next offsets to read, by partition, committed for a group.

    In a transaction the outcome is that of sending them; its end decides whether they apply.

    >>> from ottla.testing.history import CommitOffsets
    >>> CommitOffsets(process="c", began=5, group="billing", offsets={"orders-0": 1}).transaction
    """

    group: str
    offsets: Mapping[str, int]
    outcome: Outcome = Outcome.UNKNOWN
    transaction: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEnd(Operation):
    """The log end offset that a broker reported for a partition.

    >>> from ottla.testing.history import LogEnd
    >>> LogEnd(process="admin", began=9, ended=10, partition="orders-0", offset=3).offset
    3
    """

    partition: str
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash(Operation):
    """A process ended and lost its state; a process of the same name starts from nothing.

    >>> from ottla.testing.history import Crash
    >>> Crash(process="p", began=7, ended=8).process
    'p'
    """
