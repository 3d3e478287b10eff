"""Captures the files of a log directory as of one instant, while another process writes it.

1. Every file gets a hard link below the new directory, so that files which are rolled, deleted or
   compacted later are kept. Of the active segment only the log and the transaction index are
   linked: the process changes the other two indexes in place, and recovery rebuilds them.
2. The directory is scanned again, and partitions whose segments or small files have changed are
   linked again. A log only grows, and every file has its own inode number. So if two consecutive
   scans are equal, nothing changed between them, and that is the instant. If the process writes
   too quickly for that, one scan is accepted during which no transaction changed; it reads the
   groups' offsets before the logs that they refer to.
3. Files that the process changes in place are replaced by copies, of the size in the scan.

The result is what a kill at that instant would leave, without `.kafka_cleanshutdown`. Opening it
recovers it, from recovery points that were written earlier.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Final

from ottla.base.errors import RefusalError, UserError
from ottla.base.file_copies import copy_file
from ottla.base.files import FileSystem, join, make_durable_directory
from ottla.base.values import dataclass
from ottla.storage.files.filenames import (
    CLEAN_SHUTDOWN,
    CLUSTER_METADATA_DIRECTORY,
    FileKind,
    FileSuffix,
    parse_file_name,
)
from ottla.storage.snapshots.copying import CANNOT_LINK, OnCopied, remove_tree
from ottla.storage.snapshots.plan import ended_logs, is_lasting, is_taken

INSTANT_TRIES = 20
TRIES = 400

TOP: Final = ""
"""The key of the directory itself in a `Look`."""

TRANSACTIONS = "__transaction_state-"
OFFSETS = "__consumer_offsets-"
GROWING = (FileKind.LOG, FileKind.TRANSACTION_INDEX)

Seen = tuple[int, int]
"""A file's inode number and size in bytes."""

Look = dict[str, dict[str, Seen]]
"""One scan: the files of each folder by name, the directory's own files under `TOP`."""


@dataclass(slots=True)
class Pins:
    """Hard links in `target` to the files in `source`."""

    file_system: FileSystem
    source: str
    target: str
    _pinned: Look = field(default_factory=dict)

    def take(self) -> Look:
        """Links the files, and returns their state at one instant.

        Raises `RefusalError` if they change too quickly, and `UserError` if links are impossible.
        """
        make_durable_directory(self.file_system, self.target)
        before: Look | None = None
        for number in range(TRIES):
            look, is_quiet = self._look()
            if self._pin(look):
                before = None
                continue
            if look == before or (is_quiet and number >= INSTANT_TRIES):
                return look
            before = look
        raise RefusalError(
            f"{self.source}: transactions and segments change too quickly for a snapshot; "
            "try again when less is written, or stop the process first"
        )

    def settle(self, look: Look, on_copied: OnCopied) -> None:
        """Copies the files that may not stay shared; everything is durable on return."""
        total = sum(size for files in look.values() for _, size in files.values())
        done = 0
        for folder, files in look.items():
            place = _at(self.target, folder)
            shared = _shared(folder, files)
            for name, (_, size) in files.items():
                path = join(place, name)
                if name in shared:
                    self._sync(path)
                else:
                    copy_file(self.file_system, path, f"{path}.tmp", size)
                    self.file_system.rename(f"{path}.tmp", path)
                done += size
                on_copied(done, total)
            self.file_system.sync_directory(place)
        self.file_system.sync_directory(self.target)

    # Step 2

    def _look(self) -> tuple[Look, bool]:
        """A scan, and whether no transaction and no top-level file changed during it."""
        names = self.file_system.list(self.source)
        folders = sorted(filter(is_taken, names), key=_order)
        first = {one: self._files(one) for one in folders if one.startswith(TRANSACTIONS)}
        top = self._files(TOP)
        look = {TOP: top, **first}
        look |= {one: self._files(one) for one in folders if one not in first}
        is_quiet = all(self._files(one) == files for one, files in first.items())
        return look, is_quiet and self._files(TOP) == top

    def _files(self, folder: str) -> dict[str, Seen]:
        place = _at(self.source, folder)
        try:
            names = self.file_system.list(place)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        found = {}
        active = _active(names)
        for name in names:
            if not is_lasting(name) or name == CLEAN_SHUTDOWN or _is_rebuilt(name, active):
                continue
            status = self.file_system.status(join(place, name))
            if status is not None and not status.is_directory:
                found[name] = (status.number, status.size)
        return found

    # Step 1

    def _pin(self, look: Look) -> bool:
        """Links the folders that have changed since they were linked; whether any had."""
        changed = [
            folder
            for folder in {**look, **self._pinned}
            if _lasting(look.get(folder, {})) != _lasting(self._pinned.get(folder, {}))
            or (folder in look) != (folder in self._pinned)
        ]
        for folder in changed:
            self._unpin(folder)
            if folder in look and self._link(folder, look[folder]):
                self._pinned[folder] = look[folder]
        return bool(changed)

    def _unpin(self, folder: str) -> None:
        self._pinned.pop(folder, None)
        place = _at(self.target, folder)
        if folder and self.file_system.status(place) is not None:
            remove_tree(self.file_system, place)
        elif not folder:
            for name in self.file_system.list(place):
                status = self.file_system.status(join(place, name))
                if status is not None and not status.is_directory:
                    self.file_system.remove(join(place, name))

    def _link(self, folder: str, files: Mapping[str, Seen]) -> bool:
        """Links the files of a folder; whether all were still the files of the scan."""
        source, place = _at(self.source, folder), _at(self.target, folder)
        self.file_system.make_directory(place)
        for name, (number, _) in files.items():
            try:
                self.file_system.link(join(source, name), join(place, name))
            except FileNotFoundError:
                return False
            except OSError as error:
                if error.errno not in CANNOT_LINK:
                    raise
                raise UserError(
                    f"{self.source} is in use, and its files cannot be linked to {place}: "
                    f"{error.strerror}; stop the process first"
                ) from error
            status = self.file_system.status(join(place, name))
            if status is None or status.number != number:
                return False
        return True

    # Step 3

    def _sync(self, path: str) -> None:
        """Syncs a linked file: the writing process may not have flushed it yet."""
        file = self.file_system.open(path)
        try:
            file.sync()
        finally:
            file.close()


def _at(directory: str, folder: str) -> str:
    return join(directory, folder) if folder else directory


def _order(folder: str) -> tuple[bool, bool, str]:
    """Sort key: transactions first, then groups' offsets."""
    return (not folder.startswith(TRANSACTIONS), not folder.startswith(OFFSETS), folder)


def _active(names: list[str]) -> int | None:
    """The base offset of the active segment; `None` without segments."""
    return max(
        (
            found.offset
            for name in names
            if (found := parse_file_name(name)) is not None
            and found.kind is FileKind.LOG
            and found.suffix is FileSuffix.LIVE
        ),
        default=None,
    )


def _is_rebuilt(name: str, active: int | None) -> bool:
    found = parse_file_name(name)
    return (
        found is not None
        and found.offset == active
        and found.kind in (FileKind.OFFSET_INDEX, FileKind.TIME_INDEX)
    )


def _lasting(files: Mapping[str, Seen]) -> dict[str, Seen]:
    """The files without the sizes of those that only grow, for comparison."""
    active = _active(list(files))

    def kept(name: str, seen: Seen) -> Seen:
        found = parse_file_name(name)
        is_growing = found is not None and found.offset == active and found.kind in GROWING
        return (seen[0], 0) if is_growing else seen

    return {name: kept(name, seen) for name, seen in files.items()}


def _shared(folder: str, files: Mapping[str, Seen]) -> set[str]:
    return set() if folder in (TOP, CLUSTER_METADATA_DIRECTORY) else ended_logs(files)
