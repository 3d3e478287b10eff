"""Removes data files that no reader needs, with the library of the table's format.

These are files that reruns and optimizations have replaced, and files of killed commits. Readers
use the table as of their start, so replaced files are kept for a while. After a crash the next
vacuum removes the remaining files.
"""

from collections.abc import Callable

from ottla.base.clock import Clock
from ottla.base.values import dataclass
from ottla.tables.entries import DIRECTORIES, commit_of, folded_files
from ottla.tables.formats.quarantine_table import LOG_DIRECTORY
from ottla.tables.ledger.completeness import HOUR_MS
from ottla.tables.table import Table

RETENTION_MS = 24 * HOUR_MS
"""The default time to keep replaced files: longer than any reader runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumReport:
    """The removed files, or with `is_dry` those to be removed. `retained_paths` are too recent."""

    table: str
    removed_paths: tuple[str, ...]
    removed_size: int
    retained_paths: tuple[str, ...]


def vacuum(
    path: str,
    clock: Clock,
    *,
    retention_ms: int = RETENTION_MS,
    is_dry: bool = False,
    on_removal: Callable[[str], None] = lambda _: None,
) -> VacuumReport:
    """Removes files that were replaced more than `retention_ms` ago; `is_dry` only lists them.

    `on_removal` is called for each file before any is removed. Raises `UserError` if there is no
    table, or if a load into it is running.
    """
    table = Table(path)
    table.require()  # before `claim`, which would create the directory
    with table.claim():
        sizes = table.sizes()
        beside = _old_beside(table, clock.now_ms() - retention_ms)
        # Some of the listed files may already be gone.
        there = [*(one for one in table.log.vacuum(0, is_dry=True) if one in sizes), *beside]
        expired = {*table.log.vacuum(retention_ms, is_dry=True), *beside}
        old = [one for one in there if one in expired]
        if not is_dry:
            for one in old:
                on_removal(one)
            table.log.vacuum(retention_ms, is_dry=False)
            table.remove_files(beside)
    return VacuumReport(
        table=table.address,
        removed_paths=tuple(old),
        removed_size=sum(sizes.get(one, 0) for one in old),
        retained_paths=tuple(one for one in there if one not in set(old)),
    )


def _old_beside(table: Table, before_ms: int) -> list[str]:
    """Old files beside the table, as of quarantined records, which are not in its log."""
    entries = table.entries()
    needed = {file.path for file in folded_files(entries)}
    for entry in entries:
        if entry.committed_ms > before_ms:
            needed.update(entry.replaces)
    return [
        file.path
        for directory in DIRECTORIES.values()
        for file in table.store.find(directory)
        # In an object store a load may be writing files of the next commit.
        if file.path not in needed
        and not file.path.startswith(f"{LOG_DIRECTORY}/")
        and (not table.store.is_shared or commit_of(file.path) < len(entries))
    ]
