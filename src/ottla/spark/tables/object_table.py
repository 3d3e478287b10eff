"""A table copied into an object store, commit by commit, each of them taken by one writer only.

Objects cannot be renamed, but they can be put on the condition that there is none of that name:
`If-None-Match: *` on S3, `ifGenerationMatch=0` on Google's. fsspec's file systems have that as
`pipe_file(..., mode="create")`; `pyarrow.fs` has it not. Data files come first, then the entries of
the manifest, then one list of the files that the table is: readers go by the list of the highest
number, so they see a commit whole or not at all. Format page: docs/format/load-manifest.md.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ottla.base.errors import UserError
from ottla.spark.table import TableDirectory
from ottla.spark.tables.manifest import FileRole, ManifestEntry, entry_file_name, format_entry

LISTS = "_ottla/current"
MANIFEST = "_ottla/manifest"

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
    """The copy at one address, such as `s3://bucket/tables/orders`."""

    def __init__(self, url: str) -> None:
        fsspec = _fsspec()
        self.url = url
        try:
            self._store, root = fsspec.core.url_to_fs(url)
        except (ImportError, ValueError) as error:
            raise UserError(f"{url}: {error}") from error
        self._root = root.rstrip("/")

    def commit_count(self) -> int:
        """How many commits readers see."""
        ids = [
            int(found[1]) for name in self._names(LISTS) if (found := _LIST_NAME.fullmatch(name))
        ]
        return max(ids) + 1 if ids else 0

    def files(self) -> list[str]:
        """The addresses of the files with rows, as of the last commit; raises `UserError`."""
        count = self.commit_count()
        if not count:
            raise UserError(f"{self.url} holds no table that ottla published")
        listed = self._store.cat_file(self._at(f"{LISTS}/{_list_name(count - 1)}")).decode()
        return [self._store.unstrip_protocol(self._at(path)) for path in listed.splitlines()]

    def upload(self, local_path: str, path: str, size: int) -> bool:
        """Puts a data file there unless it is there whole; names are never given twice."""
        place = self._at(path)
        if self._store.exists(place) and self._store.size(place) == size:
            return False
        self._store.put_file(local_path, place)
        return True

    def put_entry(self, entry: ManifestEntry) -> None:
        """Raises `UserError` when another writer has made this commit, and made it differently."""
        self._create(f"{MANIFEST}/{entry_file_name(entry.commit_id)}", format_entry(entry))

    def put_list(self, commit_id: int, paths: list[str]) -> None:
        """Shows a commit to readers; raises as `put_entry` does."""
        content = "".join(f"{path}\n" for path in paths).encode()
        self._create(f"{LISTS}/{_list_name(commit_id)}", content)

    def _create(self, path: str, content: bytes) -> None:
        place = self._at(path)
        try:
            self._store.pipe_file(place, content, mode="create")
        except FileExistsError:
            if self._store.cat_file(place) != content:
                raise UserError(
                    f"{self.url}: another writer has put another {path} there; one table, one "
                    f"address"
                ) from None

    def _names(self, directory: str) -> list[str]:
        self._store.invalidate_cache()
        try:
            listed = self._store.ls(self._at(directory), detail=False)
        except FileNotFoundError:
            return []
        return [path.rstrip("/").rsplit("/", 1)[-1] for path in listed]

    def _at(self, path: str) -> str:
        return f"{self._root}/{path}"


def publish(
    path: str, url: str, on_upload: Callable[[str], None] = lambda _: None
) -> PublishReport:
    """Copies what is new of a table; done again after a kill, it goes on.

    `on_upload` hears of each file before it goes. Raises `UserError` where there is no table, or
    when the address holds another one, and `CorruptionError` for a manifest that cannot be read.
    """
    table = TableDirectory(path)
    entries, current = table.entries(), table.current_files()
    target = ObjectTable(url)
    before = target.commit_count()
    for entry in entries[:before]:
        target.put_entry(entry)
    if before > len(entries):
        raise UserError(f"{url} has {before} commits, {table.path} only {len(entries)}")
    count = size = 0
    for file in current if before < len(entries) else ():
        on_upload(file.path)
        if target.upload(f"{table.path}/{file.path}", file.path, file.size):
            count, size = count + 1, size + file.size
    for entry in entries[before:]:
        target.put_entry(entry)
    if before < len(entries):
        rows = [file.path for file in current if file.role is FileRole.ROWS]
        target.put_list(len(entries) - 1, rows)
    return PublishReport(
        url=url,
        commit_count=len(entries),
        new_commit_count=len(entries) - before,
        uploaded_count=count,
        uploaded_size=size,
    )


def _list_name(commit_id: int) -> str:
    return f"{commit_id:020d}.txt"


def _fsspec() -> Any:
    try:
        import fsspec.core
    except ImportError as error:
        raise UserError(
            "publishing needs fsspec, and its package for the store (s3fs, gcsfs, adlfs); "
            "run: pip install fsspec"
        ) from error
    return fsspec
