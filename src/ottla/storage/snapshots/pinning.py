"""Captures the files of log directories as of one instant, while another process writes them.

1. Every file gets a hard link below its new directory, so that files which are rolled, deleted or
   compacted later are kept. Of the active segment only the log and the transaction index are
   linked: the process changes the other two indexes in place, and recovery rebuilds them.
2. The directories are scanned again, and partitions whose segments or small files have changed are
   linked again. A log only grows, and every file has its own inode number. So if two consecutive
   scans are equal, nothing changed between them, and that is the instant. If the process writes
   too quickly for that, one scan is accepted during which no transaction changed; it reads the
   groups' offsets before the logs that they refer to.
3. Files that the process changes in place are replaced by copies, of the size in the scan.

The result is what a kill at that instant would leave, without `.kafka_cleanshutdown`. Opening it
recovers it, from recovery points that were written earlier.
"""

from collections.abc import Mapping, Sequence
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
"""The folder of a `Spot` that is the directory itself."""

Spot = tuple[int, str]
"""The number of a directory, and the name of a folder in it."""

TRANSACTIONS = "__transaction_state-"
GROUPS = ("__consumer_offsets-", "__share_group_state-")
GROWING = (FileKind.LOG, FileKind.TRANSACTION_INDEX)

Seen = tuple[int, int]
"""A file's inode number and size in bytes."""

Look = dict[Spot, dict[str, Seen]]
"""One scan: the files of each folder by name, a directory's own files under `TOP`."""


@dataclass(slots=True)
class Pins:
    """Hard links in each directory of `targets` to the files in that of `sources`."""

    file_system: FileSystem
    sources: Sequence[str]
    targets: Sequence[str]
    _pinned: Look = field(default_factory=dict)

    def take(self) -> Look:
        """Links the files, and returns their state at one instant.

        Raises `RefusalError` if they change too quickly, and `UserError` if links are impossible.
        """
        for target in self.targets:
            make_durable_directory(self.file_system, target)
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
            f"{', '.join(self.sources)}: transactions and segments change too quickly for a "
            "snapshot; try again when less is written, or stop the process first"
        )

    def settle(self, look: Look, on_copied: OnCopied) -> None:
        """Copies the files that may not stay shared; everything is durable on return."""
        total = sum(size for files in look.values() for _, size in files.values())
        done = 0
        for spot, files in look.items():
            place = self._target(spot)
            shared = _shared(spot[1], files)
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
        for target in self.targets:
            self.file_system.sync_directory(target)

    # Step 2

    def _look(self) -> tuple[Look, bool]:
        """A scan, and whether no transaction and no top-level file changed during it."""
        spots = sorted(
            (
                (number, folder)
                for number, source in enumerate(self.sources)
                for folder in filter(is_taken, self.file_system.list(source))
            ),
            key=lambda spot: (_order(spot[1]), spot[0]),
        )
        tops = [(number, TOP) for number in range(len(self.sources))]
        first = {one: self._files(one) for one in spots if one[1].startswith(TRANSACTIONS)}
        top = {one: self._files(one) for one in tops}
        look = {**top, **first}
        look |= {one: self._files(one) for one in spots if one not in first}
        is_quiet = all(self._files(one) == files for one, files in (first | top).items())
        return look, is_quiet

    def _files(self, spot: Spot) -> dict[str, Seen]:
        place = self._source(spot)
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

    def _source(self, spot: Spot) -> str:
        return _at(self.sources[spot[0]], spot[1])

    def _target(self, spot: Spot) -> str:
        return _at(self.targets[spot[0]], spot[1])

    # Step 1

    def _pin(self, look: Look) -> bool:
        """Links the folders that have changed since they were linked; whether any had."""
        changed = [
            spot
            for spot in {**look, **self._pinned}
            if _lasting(look.get(spot, {})) != _lasting(self._pinned.get(spot, {}))
            or (spot in look) != (spot in self._pinned)
        ]
        for spot in changed:
            self._unpin(spot)
            if spot in look and self._link(spot, look[spot]):
                self._pinned[spot] = look[spot]
        return bool(changed)

    def _unpin(self, spot: Spot) -> None:
        self._pinned.pop(spot, None)
        place = self._target(spot)
        if spot[1] != TOP:
            if self.file_system.status(place) is not None:
                remove_tree(self.file_system, place)
            return
        for name in self.file_system.list(place):
            status = self.file_system.status(join(place, name))
            if status is not None and not status.is_directory:
                self.file_system.remove(join(place, name))

    def _link(self, spot: Spot, files: Mapping[str, Seen]) -> bool:
        """Links the files of a folder; whether all were still the files of the scan."""
        source, place = self._source(spot), self._target(spot)
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
                    f"{self.sources[spot[0]]} is in use, and its files cannot be linked to "
                    f"{place}: {error.strerror}; stop the process first"
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
    """Sort key: transactions first, then how far groups are: not later than their records."""
    return (not folder.startswith(TRANSACTIONS), not folder.startswith(GROUPS), folder)


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
