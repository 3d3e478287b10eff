"""The audit log: who changed what through the console, when, and what became of it.

docs/format/console-audit.md describes its lines. Each change has two: one before it is carried out,
without which it is not, and one with its outcome. So a change of which only the first is there was
cut off, by a crash or a full disk.
"""

import json
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

from ottla.base.times import time_text
from ottla.base.values import dataclass
from ottla.console.state_directory import StateDirectory

NAME = "audit.jsonl"
FULL_SIZE = 16 << 20
"""The bytes after which a new file begins."""
MOST_TEXT = 4000
"""The characters of a text in a line: a message may have millions, and a command repeats it."""


class Outcome(Enum):
    """What became of a change."""

    BEGUN = "begun"
    DONE = "done"
    REFUSED = "refused"
    """The broker did not allow it."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditEntry:
    """One line; `said` is what the page said of the outcome."""

    id: str
    """The same in both lines of a change."""
    at_ms: int
    outcome: Outcome
    user: str
    """The user of the broker; empty without one."""
    visitor: str
    """The beginning of the browser's id, or `token` for a program with the console's token."""
    address: str
    target: str
    title: str
    command: str
    said: str = ""

    def fields(self) -> dict[str, str]:
        """The line, as an object of texts."""
        at = time_text(self.at_ms).replace(" ", "T") + "Z"
        texts = {
            "user": self.user, "visitor": self.visitor, "address": self.address,
            "target": self.target, "title": self.title, "command": self.command,
            "said": self.said,
        }  # fmt: skip
        named = {"id": self.id, "at": at, "outcome": self.outcome.value}
        return named | {name: _cut(text) for name, text in texts.items()}


class AuditLog:
    """Lines of JSON in a console's state directory. Raises `UserError`."""

    def __init__(self, directory: StateDirectory) -> None:
        self._directory = directory

    @property
    def path(self) -> str:
        return str(self._directory.path / NAME)

    def add(self, entry: AuditEntry) -> None:
        """Appends a line, on the disk on return."""
        line = json.dumps(entry.fields()).encode()
        self._directory.append(NAME, line, full_size=FULL_SIZE)

    def latest(self) -> Iterator[Mapping[str, str]]:
        """The last line of each change, newest change first; damaged lines are left out."""
        ended: set[str] = set()
        for name in self._directory.appended(NAME):
            for line in reversed(self._directory.read(name).split(b"\n")):
                found = _parsed(line)
                if found is not None and found["id"] not in ended:
                    ended.add(found["id"])
                    yield found


def _parsed(line: bytes) -> dict[str, str] | None:
    try:
        found: Any = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("id"), str):
        return None
    names = AuditEntry.__dataclass_fields__.keys() - {"at_ms"} | {"at"}
    return {name: str(found.get(name, "")) for name in names}


def _cut(text: str) -> str:
    if len(text) <= MOST_TEXT:
        return text
    return f"{text[:MOST_TEXT]}… ({len(text) - MOST_TEXT:,} more characters)"
