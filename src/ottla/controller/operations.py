"""The controller's operations on ZooKeeper.

An operation of the controller is a generator: it yields a batch and gets one result for each
operation in the batch. No other operation runs meanwhile, as in Kafka's controller thread.
"""

from collections.abc import Generator
from enum import Enum, auto
from typing import TypeAlias, TypeVar

from ottla.base.values import dataclass

ANY_VERSION = -1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Get:
    """Reads a node; with `watch` an event reports its change, deletion or creation."""

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Children:
    """Lists children; with `watch` an event reports that a child was created or deleted."""

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Create:
    """Creates a node; with `is_sequential` ZooKeeper appends a number of ten digits."""

    path: str
    content: bytes | None
    is_ephemeral: bool = False
    is_sequential: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    """Writes a node that has the given version."""

    path: str
    content: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes a node and all nodes below it, if it has the given version."""

    path: str
    version: int = ANY_VERSION


Operation: TypeAlias = Get | Children | Create | Set | Delete


class Outcome(Enum):
    DONE = auto()
    NO_NODE = auto()
    NODE_EXISTS = auto()
    BAD_VERSION = auto()
    FENCED = auto()
    """Another controller was elected; the operation was not carried out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of an operation. `version` is the node's, after a write the new one; `czxid` is
    the zxid that created it, at `created_ms`.
    """

    outcome: Outcome = Outcome.DONE
    content: bytes | None = None
    children: tuple[str, ...] = ()
    version: int = 0
    czxid: int = 0
    created_ms: int = 0

    @property
    def is_done(self) -> bool:
        return self.outcome is Outcome.DONE


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Operations to carry out in order.

    With `epoch_version` each write is done only if `/controller_epoch` has that version, which is
    checked in the same multi-operation. With `is_atomic` all operations are done or none.
    """

    operations: tuple[Operation, ...]
    epoch_version: int | None = None
    is_atomic: bool = False


Steps: TypeAlias = Generator[Batch, tuple[Result, ...], T]


def folders_of(path: str) -> tuple[Create, ...]:
    """Operations that create the missing parents of a node."""
    names = path.split("/")[1:-1]
    return tuple(Create(f"/{'/'.join(names[:count])}", None) for count in range(1, len(names) + 1))


class ControllerMovedError(Exception):
    """Another broker has become the controller: the operation is abandoned."""
