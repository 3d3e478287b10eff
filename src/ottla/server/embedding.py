"""What a program that embeds a server shares with it."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from threading import RLock

from ottla.protocol.api_keys import ApiKey
from ottla.server.request_context import Handler


def _forget(pending_id: object) -> None:
    """Nobody in this process waits for an answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Embedding:
    """The broker's `lock`, and what the program has a say in.

    `on_answered` is given the pending ids that no connection waits for: threads of the program may,
    which use the broker under the same lock. `handlers` answer requests where a test
    has put others in place of the server's own.
    """

    lock: AbstractContextManager[object] = field(default_factory=RLock)
    on_answered: Callable[[object], None] = _forget
    handlers: Callable[[ApiKey], Handler] | None = None
