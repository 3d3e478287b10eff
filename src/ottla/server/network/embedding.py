"""What a server shares with the program that embeds it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import field
from threading import RLock
from typing import Protocol

from ottla.base.values import dataclass
from ottla.protocol.api_keys import ApiKey
from ottla.server.dispatching.request_context import Handler


class Upkeep(Protocol):
    """Occasional work of the process for which clients would wait."""

    def begin(self) -> None:
        """Called once, when the server listens and everything permanent is loaded."""

    def is_due(self) -> bool:
        """Whether it is due as soon as no request is expected."""

    def collect_when_quiet(self) -> None: ...

    def collect_when_overdue(self) -> None:
        """Called when a long request has ended and no other is active."""


def _forget(pending_id: object) -> None:
    """Nothing in this process waits for a response."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """The broker's `lock`, and hooks of the program.

    `on_answered` gets the pending ids for which no connection waits: threads of the program may,
    using the broker under the same lock. `handlers` are a test's replacements for the server's;
    `upkeep` runs while no client waits.
    """

    lock: AbstractContextManager[object] = field(default_factory=RLock)
    on_answered: Callable[[object], None] = _forget
    handlers: Callable[[ApiKey], Handler] | None = None
    upkeep: Upkeep | None = None
