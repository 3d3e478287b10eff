"""Removes data files that no reader needs any more, by the library of the table's format.

That is what reruns and compactions have replaced, and what commits that were killed have left. A
reader goes by the table as it was when it began, so such files stay for a while. Killed half-way, a
vacuum has removed some of them, and the next one removes the rest.
"""

from collections.abc import Callable

from ottla.base.clock import Clock
from ottla.base.values import dataclass
from ottla.tables.ledger_entries import QUARANTINE_DIRECTORY, commit_of, folded_files
from ottla.tables.table_directory import TableDirectory

HOUR_MS = 3_600_000
KEPT_MS = 24 * HOUR_MS
"""How long replaced files stay, unless it is said: longer than any reader reads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VacuumReport:
    """What was removed, or would be. `kept_paths` were replaced, or left over, too recently."""

    table: str
    removed_paths: tuple[str, ...]
    removed_size: int
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

    `on_removal` hears of each file before any goes. Raises `UserError` where there is no table, or
    a load into it is running.
    """
    table = TableDirectory(path)
    table.require()  # Before anything is claimed: where there is no table, none is made.
    with table.claim():
        sizes = table.sizes()
        aside = _old_quarantine(table, clock.now_ms() - kept_ms)
        # Some that it names may be gone already.
        there = [*(one for one in table.log.vacuum(0, is_dry=True) if one in sizes), *aside]
        expired = {*table.log.vacuum(kept_ms, is_dry=True), *aside}
        old = [one for one in there if one in expired]
        if not is_dry:
            for one in old:
                on_removal(one)
            table.log.vacuum(kept_ms, is_dry=False)
            table.remove_files(aside)
    return VacuumReport(
        table=table.address,
        removed_paths=tuple(old),
        removed_size=sum(sizes.get(one, 0) for one in old),
        kept_paths=tuple(one for one in there if one not in set(old)),
    )


def _old_quarantine(table: TableDirectory, before_ms: int) -> list[str]:
    """Files of records that are no rows, of which the table's log does not know."""
    entries = table.entries()
    kept = {file.path for file in folded_files(entries)}
    for entry in entries:
        if entry.committed_ms > before_ms:
            kept.update(entry.replaces)
    return [
        file.path
        for file in table.store.find(QUARANTINE_DIRECTORY)
        # In an object store a load may be writing what the next commit is to bring.
        if file.path not in kept
        and (not table.store.is_shared or commit_of(file.path) < len(entries))
    ]
