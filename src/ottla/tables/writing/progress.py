"""The steps of a commit, as callbacks hear of them."""

from collections.abc import Callable
from enum import Enum

from ottla.base.values import dataclass


class Step(Enum):
    """The progress of a commit. Before `COMMITTED` the table is unchanged."""

    CLAIMED = "the table is claimed"
    PLANNED = "the offsets are chosen"
    WRITING = "tasks write"
    WRITTEN = "tasks have written all files"
    VERIFIED = "the files match the log"
    SYNCED = "the files are on the disk"
    COMMITTED = "readers see the rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """The argument of progress callbacks: each step once, `WRITING` repeatedly."""

    step: Step
    offset_count: int = 0
    """Offsets to read; at least as many as records."""
    tasks_done: int = 0
    task_count: int = 0
    is_widening: bool = False
    """Whether the table's own files are rewritten with wider types (`widening.py`)."""


OnProgress = Callable[[Progress], None]
