"""Data files that no reader wants any more, removed: what reruns and compactions have replaced.

A reader goes by the manifest as it was when it began, so replaced files stay for a while. What
killed commits left goes at once in a directory; in an object store, where a load may be running,
what was written for the next commit stays for as long. The manifest is not touched: a vacuum that
is killed half-way has removed some of the files, and the next one removes the rest.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from ottla.base.clock import Clock
from ottla.tables.manifest import ManifestEntry
from ottla.tables.table_directory import TableDirectory

HOUR_MS = 3_600_000
KEPT_MS = 24 * HOUR_MS
"""How long replaced files stay, unless it is said: longer than any reader reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumReport:
    """What was removed, or would be. `kept_paths` were replaced too recently."""

    table: str
    removed_paths: tuple[str, ...]
    removed_size: int
    leftover_count: int
    """Files of commits that were killed."""
    kept_paths: tuple[str, ...]


def vacuum(
    path: str,
    clock: Clock,
    *,
    kept_ms: int = KEPT_MS,
    is_dry: bool = False,
    on_removal: Callable[[str], None] = lambda _: None,
) -> VacuumReport:
    """Removes files that were replaced more than `kept_ms` ago; `is_dry` only lists them.

    `on_removal` hears of each file just before it goes. Raises `UserError` where there is no
    table, or a load into it is running.
    """
    table = TableDirectory(path)
    table.entries()  # Before anything is claimed: where there is no table, none is made.
    with table.claim():
        entries = table.entries()
        before_ms = clock.now_ms() - kept_ms
        leftovers = 0 if is_dry else table.remove_leftovers(entries, before_ms)
        sizes = table.sizes()
        there = {one: sizes[one] for one in _replaced(entries) if one in sizes}
        old = tuple(one for one in _replaced(entries, before_ms) if one in there)
        if not is_dry:
            table.remove_files(old, on_removal)
    return VacuumReport(
        table=table.path,
        removed_paths=old,
        removed_size=sum(there[one] for one in old),
        leftover_count=leftovers,
        kept_paths=tuple(one for one in there if one not in set(old)),
    )


def _replaced(entries: Iterable[ManifestEntry], before_ms: int | None = None) -> Iterator[str]:
    for entry in entries:
        if before_ms is None or entry.committed_ms <= before_ms:
            yield from entry.replaces
