"""Notes which process holds a log directory, and at which addresses it listens.

A broker that listens writes `ottla-owner` to each of its directories: its process id and addresses,
as lines of Java properties. A broker in a long recovery, and a mirror, write their progress. A note
only counts if its process holds the directory's lock, so a note that a crash left is ignored. It is
not durable, and only used in messages and to find the broker. Format page:
docs/format/filenames.md. Kafka has no such file.
"""

import json
from collections.abc import Mapping
from typing import Any

from ottla.base.errors import UserError
from ottla.base.files import (
    FileSystem,
    is_this_process,
    join,
    read_file,
    remove_if_present,
    replace_file,
)
from ottla.base.values import dataclass
from ottla.storage.files.filenames import LOCK, OWNER
from ottla.storage.files.java_properties import parse_properties, properties_line


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process that holds a log directory, Ottla's or Kafka's.

    `addresses` are HOST:PORT for clients on this machine, empty if the process does not listen or
    is not Ottla. `command` is its subcommand, such as `serve`.
    """

    pid: int
    """0 if the process is not visible, as from another container."""
    addresses: tuple[str, ...] = ()
    command: str = ""
    doing: str = ""
    """The progress of a process that does not listen, such as a recovery or a mirror."""
    tables: tuple[Mapping[str, Any], ...] = ()
    """The state of the tables that the process fills, as `ottla status` prints it."""

    @property
    def text(self) -> str:
        """For messages, such as "another process, 4711, a broker at 127.0.0.1:9092"."""
        pid = f", {self.pid}" if self.pid else ""
        broker = f", a broker at {', '.join(self.addresses)}" if self.addresses else ""
        doing = f", ottla {self.command}" if self.doing else ""
        return f"another process{pid}{broker}{doing}"


def owner_of(file_system: FileSystem, directory: str) -> Owner | None:
    """The process that holds the lock of a log directory; `None` if the lock is free or missing."""
    pid = file_system.lock_holder(join(directory, LOCK))
    if pid is None:
        return None
    noted = _read_note(file_system, directory)
    return noted if noted is not None and noted.pid == pid else Owner(pid=pid)


def refuse_in_use(file_system: FileSystem, directory: str, remedy: str) -> UserError:
    """The error for a caller that has found the lock of a directory taken."""
    owner = owner_of(file_system, directory)
    if owner is None:
        return UserError(
            f"{directory} is in use by a child of a process that has ended, such as a compaction; "
            "try again"
        )
    if is_this_process(owner.pid):
        return UserError(f"{directory} is in use by this process; use the open log, or close it")
    return UserError(f"{directory} is in use by {owner.text}; {remedy}")


def write_owner_note(file_system: FileSystem, directory: str, owner: Owner) -> None:
    """Writes the note, not durably; raises `OSError`."""
    fields = {
        "pid": str(owner.pid),
        "addresses": ",".join(owner.addresses),
        "command": owner.command,
        **({"doing": owner.doing} if owner.doing else {}),
        **({"tables": json.dumps(owner.tables)} if owner.tables else {}),
    }
    text = "".join(f"{properties_line(name, value)}\n" for name, value in fields.items())
    replace_file(file_system, join(directory, OWNER), text.encode(), durably=False)


def remove_owner_note(file_system: FileSystem, directory: str) -> None:
    """Removes the note if there is one; raises `OSError`."""
    remove_if_present(file_system, join(directory, OWNER))


def _read_note(file_system: FileSystem, directory: str) -> Owner | None:
    try:
        fields = parse_properties(read_file(file_system, join(directory, OWNER)).decode())
        return Owner(
            pid=int(fields["pid"]),
            addresses=tuple(filter(None, fields["addresses"].split(","))),
            command=fields["command"],
            doing=fields.get("doing", ""),
            tables=tuple(json.loads(fields.get("tables", "[]"))),
        )
    except (OSError, ValueError, KeyError):
        return None
