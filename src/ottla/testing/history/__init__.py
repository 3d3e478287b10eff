"""Checks histories of client operations against Kafka's guarantees.

Operations come from a test (`operations.py`) or from files written by processes that may be killed
(`lines.py`); `check.py: check` returns the violations. Pure functions over values, for any broker
with Kafka's protocol. The kinds of findings are those of Jepsen's tests of Kafka and similar
systems. Start at `check.py`. User documentation: docs/testing.md.
"""

from ottla.testing.history.check import check
from ottla.testing.history.findings import Finding, FindingKind
from ottla.testing.history.lines import HistoryWriter, read_history
from ottla.testing.history.operations import (
    Assign,
    Begin,
    CommitOffsets,
    Crash,
    End,
    LogEnd,
    Operation,
    Outcome,
    Poll,
    Read,
    Send,
    UnusableHistoryError,
)

__all__ = [
    "Assign",
    "Begin",
    "CommitOffsets",
    "Crash",
    "End",
    "Finding",
    "FindingKind",
    "HistoryWriter",
    "LogEnd",
    "Operation",
    "Outcome",
    "Poll",
    "Read",
    "Send",
    "UnusableHistoryError",
    "check",
    "read_history",
]
