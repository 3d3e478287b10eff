"""What an open log uses of the machine; tests replace it."""

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING

from ottla.base.clock import Clock, SystemClock
from ottla.base.events import pass_over
from ottla.base.files import FileSystem, OsFileSystem
from ottla.base.values import dataclass
from ottla.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from ottla.server.dispatching.request_context import Handler


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The clock, the file system, request handlers, and a callback for recovery progress."""

    clock: Clock = field(default_factory=SystemClock)
    file_system: FileSystem = field(default_factory=OsFileSystem)
    handlers: "Callable[[ApiKey], Handler] | None" = None
    """`None` for the server's own, which are imported only when a client connects."""
    on_progress: Callable[[str], None] = field(default=pass_over)
    """Called with each step of a recovery, from several threads."""
