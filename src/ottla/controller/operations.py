"""The controller's operations on ZooKeeper, and how it continues with their results.

An operation of the controller is a generator: it yields a batch, and continues with one result for
each operation of it. Nobody else runs meanwhile, as in Kafka's controller thread.
"""

from collections.abc import Generator
from enum import Enum, auto
from typing import TypeAlias, TypeVar

from ottla.base.values import dataclass

ANY_VERSION = -1

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Get:
    """With `watch` an event comes when the node changes, goes, or is created."""

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Children:
    """With `watch` an event comes when a child is created or goes."""

    path: str
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Create:
    """With `is_sequential` ZooKeeper adds a number of ten digits to the path."""

    path: str
    content: bytes | None
    is_ephemeral: bool = False
    is_sequential: bool = False


@dataclass(frozen=True, slots=True)
class Set:
    """Only when the node has the version."""

    path: str
    content: bytes
    version: int = ANY_VERSION


@dataclass(frozen=True, slots=True)
class Delete:
    """Deletes a node with all below it, if it has the version."""

    path: str
    version: int = ANY_VERSION


Operation: TypeAlias = Get | Children | Create | Set | Delete


class Outcome(Enum):
    DONE = auto()
    NO_NODE = auto()
    NODE_EXISTS = auto()
    BAD_VERSION = auto()
    FENCED = auto()
    """Another controller has been elected: nothing of the operation was done."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """`version` is the node's, after a write the new one; `czxid` is the zxid that created it, at
    `created_ms`."""

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
    """Operations in their order.

    With `epoch_version` each write is done only while `/controller_epoch` has that version, in one
    multi-operation with the check. With `is_atomic` all are done or none.
    """

    operations: tuple[Operation, ...]
    epoch_version: int | None = None
    is_atomic: bool = False


Steps: TypeAlias = Generator[Batch, tuple[Result, ...], T]


def folders_of(path: str) -> tuple[Create, ...]:
    """The nodes above another, created where missing."""
    names = path.split("/")[1:-1]
    return tuple(Create(f"/{'/'.join(names[:count])}", None) for count in range(1, len(names) + 1))


class ControllerMovedError(Exception):
    """Another broker is the controller now: the operation is abandoned."""
