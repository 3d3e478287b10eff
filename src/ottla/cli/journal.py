"""Priorities of lines on standard error, where systemd's journal reads it: sd-daemon(3)."""

import os
import sys
from typing import Final

ERROR: Final = 40
PRIORITIES: Final = ((50, 2), (ERROR, 3), (30, 4), (20, 6), (0, 7))
"""The lowest level of `logging` that has syslog's priority; not imported, since every command that
ends with an error asks for a mark.
"""


def is_read_by_journal() -> bool:
    """Whether standard error is the stream of which JOURNAL_STREAM has the device and the inode: a
    process that redirects its output inherits the variable too.
    """
    stream = os.environ.get("JOURNAL_STREAM")
    if not stream:
        return False
    try:
        found = os.fstat(sys.stderr.fileno())
    except OSError:  # Closed, or no file.
        return False
    return stream == f"{found.st_dev}:{found.st_ino}"


def priority_mark(level: int) -> str:
    """What a line begins with for the journal, which takes it off; nothing elsewhere."""
    return mark(level) if is_read_by_journal() else ""


def mark(level: int) -> str:
    """The mark of a level, wherever the line goes."""
    return f"<{next(priority for lowest, priority in PRIORITIES if level >= lowest)}>"
