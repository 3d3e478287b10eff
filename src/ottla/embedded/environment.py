"""What an open log takes from the machine around it; tests put something else in its place."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ottla.base.clock import Clock, SystemClock
from ottla.base.files import FileSystem, OsFileSystem
from ottla.protocol.api_keys import ApiKey
from ottla.server.dispatch import handler_of
from ottla.server.request_context import Handler


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """Time, files, and who handles a request."""

    clock: Clock = field(default_factory=SystemClock)
    file_system: FileSystem = field(default_factory=OsFileSystem)
    handlers: Callable[[ApiKey], Handler] = handler_of
