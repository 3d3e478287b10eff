"""Work on the tier as steps: decisions under the broker's lock, and deeds without it.

A generator decides, and yields what it waits for: a deed, which a thread carries out without the
lock, a record of metadata, or a time. So a job reads like the list of its steps, needs no thread,
and a test may end it between any two of them.
"""

from collections.abc import Callable, Generator
from typing import Any, TypeVar

from ottla.base.values import dataclass
from ottla.broker.tiering.remote_log_metadata import Publication

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Deed:
    """Carried out in a thread, without the broker's lock; its result, or error, is sent back."""

    carry_out: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class InTurns:
    """A long change of the broker, made under its lock and in turns (`base.turns`)."""

    carry_out: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Until:
    """Waits for a time on the monotonic clock."""

    monotonic_ms: float


Step = Deed | InTurns | Until | Publication
Steps = Generator[Step, Any, T]
