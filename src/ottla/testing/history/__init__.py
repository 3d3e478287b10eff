"""Histories of what clients of a log did and saw, checked against Kafka's guarantees.

Operations come from a test (`operations.py`) or from files that processes wrote, also killed ones
(`lines.py`); `check.py: check` finds what is wrong. Pure functions over values: any broker that
speaks Kafka's protocol can be judged. The kinds of wrong are those that Jepsen's tests of Kafka
and of its relatives look for. Start at `check.py`. A user's page: docs/testing.md.
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
