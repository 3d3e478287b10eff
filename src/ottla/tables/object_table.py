"""A table copied into an object store, commit by commit, each of them taken by one writer only.

Data files come first, then the entries of the manifest, then one list of the files that the table
is: readers go by the list of the highest number, so they see a commit whole or not at all. The copy
is no table to load into: that is what `ottla load` to the address makes. Format page:
docs/format/load-manifest.md.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from ottla.base.errors import UserError
from ottla.tables.manifest import FileRole, ManifestEntry, entry_path, format_entry
from ottla.tables.object_store import ObjectStore
from ottla.tables.store import is_address
from ottla.tables.table_directory import MARKER, TableDirectory

LISTS = "_ottla/current"

_LIST_NAME = re.compile(r"(\d{20})\.txt")


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishReport:
    """`commit_count` is how many commits are there now; what was there before came from earlier."""

    url: str
    commit_count: int
    new_commit_count: int
    uploaded_count: int
    uploaded_size: int


class ObjectTable:
    """The copy at one address, such as `s3://bucket/tables/orders`.

    >>> copy = ottla.table.ObjectTable("memory://bucket/orders")
    >>> copy.commit_count()
    1
    >>> copy.files()
    ['memory://bucket/orders/data/commit-0/part-0.parquet']
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._store = ObjectStore(url)

    def _check_is_copy(self) -> None:
        """Raises `UserError` where a table lies that was loaded there."""
        if self._store.has(MARKER):
            raise UserError(f"{self.url} is a table of its own, that was loaded there, no copy")

    def commit_count(self) -> int:
        """How many commits readers see."""
        names = self._store.names(LISTS)
        ids = [int(found[1]) for name in names if (found := _LIST_NAME.fullmatch(name))]
        return max(ids) + 1 if ids else 0

    def files(self) -> list[str]:
        """The addresses of the files with rows, as of the last commit; raises `UserError`."""
        count = self.commit_count()
        if not count:
            raise UserError(f"{self.url} holds no table that ottla published")
        listed = self._store.read(_list_path(count - 1)).decode()
        return [f"{self._store.address}/{path}" for path in listed.splitlines()]

    def _put_entry(self, entry: ManifestEntry) -> None:
        """Raises `UserError` when another writer has made this commit, and made it differently."""
        self._create(entry_path(entry.commit_id), format_entry(entry))

    def _put_list(self, commit_id: int, paths: list[str]) -> None:
        """Shows a commit to readers; raises as `put_entry` does."""
        self._create(_list_path(commit_id), "".join(f"{path}\n" for path in paths).encode())

    def _sizes(self) -> dict[str, int]:
        """Of the data files that are there."""
        return {one.path: one.size for one in self._store.find("data")}

    def _upload(self, local_path: str, path: str) -> None:
        self._store.upload(local_path, path)

    def _create(self, path: str, content: bytes) -> None:
        try:
            self._store.create(path, content)
        except FileExistsError:
            if self._store.read(path) != content:
                raise UserError(
                    f"{self.url}: another writer has put another {path} there; one table, one "
                    f"address"
                ) from None


def publish(
    path: str, url: str, on_upload: Callable[[str], None] = lambda _: None
) -> PublishReport:
    """Copies what is new of a table; done again after a kill, it continues.

    `on_upload` hears of each file before it goes. Raises `UserError` where there is no table, or
    when the address holds another one, and `CorruptionError` for a manifest that cannot be read.
    """
    if is_address(path):
        raise UserError(f"{path} is in an object store already; what is published is a directory")
    table = TableDirectory(path)
    entries, current = table.entries(), table.current_files()
    target = ObjectTable(url)
    target._check_is_copy()
    before = target.commit_count()
    for entry in entries[:before]:
        target._put_entry(entry)
    if before > len(entries):
        raise UserError(f"{url} has {before} commits, {table.path} only {len(entries)}")
    there = target._sizes() if before < len(entries) else {}
    missing = [
        file for file in current if before < len(entries) and there.get(file.path) != file.size
    ]
    for file in missing:
        on_upload(file.path)
        target._upload(f"{table.path}/{file.path}", file.path)
    for entry in entries[before:]:
        target._put_entry(entry)
    if before < len(entries):
        rows = [file.path for file in current if file.role is FileRole.ROWS]
        target._put_list(len(entries) - 1, rows)
    return PublishReport(
        url=url,
        commit_count=len(entries),
        new_commit_count=len(entries) - before,
        uploaded_count=len(missing),
        uploaded_size=sum(file.size for file in missing),
    )


def _list_path(commit_id: int) -> str:
    return f"{LISTS}/{commit_id:020d}.txt"
