"""What a program that embeds a server shares with it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import RLock
from typing import Protocol

from ottla.protocol.api_keys import ApiKey
from ottla.server.request_context import Handler


class Upkeep(Protocol):
    """What the process has to do now and then, and clients would wait for."""

    def begin(self) -> None:
        """Called once, when the server listens: all is loaded that stays while it runs."""

    def is_due(self) -> bool:
        """Whether it is to be done as soon as no client is expected to ask."""

    def collect_when_quiet(self) -> None: ...

    def collect_when_overdue(self) -> None:
        """Called when a long request has ended and none is at work."""


def _forget(pending_id: object) -> None:
    """Nobody in this process waits for an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """The broker's `lock`, and what the program has a say in.

    `on_answered` is given the pending ids that no connection waits for: threads of the program may,
    which use the broker under the same lock. `handlers` answer requests where a test
    has put others in place of the server's own; `upkeep` is done while no client waits.
    """

    lock: AbstractContextManager[object] = field(default_factory=RLock)
    on_answered: Callable[[object], None] = _forget
    handlers: Callable[[ApiKey], Handler] | None = None
    upkeep: Upkeep | None = None
