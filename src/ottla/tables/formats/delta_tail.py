"""The end of a Delta log in a directory: commits that only add files, and what others have added.

For each question and each commit the library lists the whole log, which has an entry for each
commit of the last month. What a load asks (the number of the last commit, the next offsets) is
therefore followed here from entry to entry, and the entry of a load that adds rows is written here.
Everything else is left to the library: other actions than those of rows (`advance`), tables with
features that a writer would have to know (`is_plain`), object stores.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.base.patterns import lazy_pattern
from ottla.tables.formats.delta_entries import (
    COMMITS,
    FACTS,
    WIDENING,
    entry_path,
    parsed_actions,
    written_actions,
)
from ottla.tables.stores.local_store import LocalStore

if TYPE_CHECKING:
    from deltalake import DeltaTable

_OF_ROWS = {"add", "remove", "commitInfo", "cdc"}
"""The actions after which a table has the same columns and settings as before."""

_PLAIN_WRITER = 2
_PLAIN_PATH = lazy_pattern(r"[\w./=-]+")
"""Paths that are the same as the URLs by which Delta names files."""


class DeltaTail:
    """The last entries of one table's log; to be forgotten when `advance` says so."""

    def __init__(self, store: LocalStore, version: int) -> None:
        self._store = store
        self.version = version
        self.transactions: dict[str, int | None] = {}
        """The version by application id, as far as it is known."""
        self.columns: int | None = None
        """The `columns_sum` of the last commit whose columns the table had."""

    @classmethod
    def resumed(cls, store: LocalStore, version: int) -> "DeltaTail | None":
        """The table by the entry of a version that `append` has written; `None` for any other.

        What has to be so for such an entry was so, and the entry has not changed it.
        """
        path = entry_path(version)
        try:
            actions = list(parsed_actions(store.read(path))) if store.has(path) else []
        except ValueError:
            return None
        infos = [one["commitInfo"] for one in actions if "commitInfo" in one]
        sums = [one.get(FACTS, {}).get("columns") for one in infos]
        if len(sums) != 1 or sums[0] is None:
            return None
        tail = cls(store, version)
        # Begun since, it would be in a later entry, with metadata, which `advance` does not take.
        tail.transactions[WIDENING] = None
        tail.columns = sums[0]
        return tail if tail._take(actions) and COMMITS in tail.transactions else None

    def advance(self) -> bool:
        """Reads the entries that others have added; whether the table is still known."""
        if not self._store.has(entry_path(self.version)):
            return False
        while self._store.has(path := entry_path(self.version + 1)):
            try:
                actions = list(parsed_actions(self._store.read(path)))
            except ValueError:
                return False
            if not self._take(actions):
                return False
            self.version += 1
        return True

    def _take(self, actions: Sequence[Mapping[str, Any]]) -> bool:
        """Whether the columns and settings stay as they are."""
        named = [one for action in actions for one in action.items()]
        if any(name != "txn" and name not in _OF_ROWS for name, _ in named):
            return False
        for name, one in named:
            if name == "txn":
                self.transactions[one["appId"]] = one["version"]
        return True

    def append(self, actions: Sequence[Mapping[str, Any]]) -> bool:
        """Writes the next entry durably; `False` if another writer was first."""
        return self._store.put_new(entry_path(self.version + 1), written_actions(actions))


def is_plain(table: "DeltaTable") -> bool:
    """Whether a writer of the table has to know of no features, such as mapped columns."""
    protocol = table.protocol()
    return protocol.min_writer_version <= _PLAIN_WRITER and not protocol.writer_features


def is_plain_path(path: str) -> bool:
    return _PLAIN_PATH.fullmatch(path) is not None
