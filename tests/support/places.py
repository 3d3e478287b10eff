"""Where a process of a test runs."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A machine, or what looks like one; `command` is what runs another command there."""

    host: str = "127.0.0.1"
    command: Sequence[str] = ()


HERE = Place()
