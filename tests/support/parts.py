"""Which slow tests `make test` runs: of each kind (a folder) a part, another at each commit.

A commit's number, how many it has before it, chooses: `COUNT` commits in a row run every slow test.
"""

import subprocess
from collections.abc import Iterable
from itertools import groupby
from pathlib import Path

import pytest

COUNT = 120
"""So many parts: one takes a small share of what the quick tests take (CONTRIBUTING.md)."""

BY_COMMIT = "commit"
WITHOUT_GIT = 1

LARGE = ("unit", "integration")
"""Folders whose own folders are the kinds."""


def chosen_part(asked: str, root: Path) -> int:
    """The number of a part, from 1, of what `--part` says; raises `pytest.UsageError`."""
    if asked == BY_COMMIT:
        number = _commits(root)
        return WITHOUT_GIT if number is None else number % COUNT + 1
    if asked.isdecimal() and 1 <= int(asked) <= COUNT:
        return int(asked)
    raise pytest.UsageError(f"--part takes a number from 1 to {COUNT}, or {BY_COMMIT}: not {asked}")


def of_part(names: Iterable[str], part: int) -> set[str]:
    """Of each kind the names of one part, at least one name. Neighbours share what they start."""
    found: set[str] = set()
    for _, group in groupby(sorted(set(names), key=lambda name: (kind_of(name), name)), kind_of):
        kind = list(group)
        size = -(-len(kind) // COUNT)
        first = (part - 1) * size
        found.update(kind[(first + number) % len(kind)] for number in range(size))
    return found


def kind_of(name: str) -> str:
    """The kind of a test, of its name as pytest prints it."""
    folders = name.partition("::")[0].split("/")[1:-1]
    return "/".join(folders[: 2 if folders[0] in LARGE else 1])


def _commits(root: Path) -> int | None:
    """How many commits there are up to the one that is checked out; `None` without git."""
    command = ("git", "-C", str(root), "rev-list", "--count", "HEAD")
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError:
        return None
    return int(done.stdout) if done.returncode == 0 else None
