"""Priorities of lines on standard error, where systemd's journal reads it: sd-daemon(3)."""

import logging
import os
import sys

PRIORITIES = (
    (logging.CRITICAL, 2),
    (logging.ERROR, 3),
    (logging.WARNING, 4),
    (logging.INFO, 6),
    (logging.NOTSET, 7),
)
"""The lowest level of Python's that has syslog's priority."""


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
    return _mark(level) if is_read_by_journal() else ""


class JournalFormatter(logging.Formatter):
    """Marks each line of another formatter: the journal has an entry for each."""

    def __init__(self, lines: logging.Formatter) -> None:
        super().__init__()
        self._lines = lines

    def format(self, record: logging.LogRecord) -> str:
        mark = _mark(record.levelno)
        return "\n".join(mark + line for line in self._lines.format(record).split("\n"))


def _mark(level: int) -> str:
    return f"<{next(priority for lowest, priority in PRIORITIES if level >= lowest)}>"
