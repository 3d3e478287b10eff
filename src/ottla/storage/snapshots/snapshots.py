"""The snapshots of a log directory: creates, lists, restores, branches and deletes them.

They are stored beside it, in `DIR.snapshots`. Each is a cleanly shut down log directory; a snapshot
of a directory in use is recovered before it is published. Incomplete snapshots have a name that
begins with a dot: a snapshot gets its name last, by a rename, and loses it first. So a crash leaves
a complete snapshot or none, and the next `create` removes the leftovers. Kafka has no snapshots.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from ottla.base.errors import RefusalError, UnknownNameError, UserError
from ottla.base.files import (
    FileSystem,
    base_name,
    join,
    make_durable_directory,
    parent_directory,
    read_file,
    replace_file,
)
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.storage.files.filenames import (
    CLEAN_SHUTDOWN,
    LOCK,
    META_PROPERTIES,
    SNAPSHOT_NOTE,
    parse_directory_name,
)
from ottla.storage.files.java_properties import parse_properties, properties_line
from ottla.storage.snapshots.copying import (
    OnCopied,
    check_clean,
    copy_log_directory,
    held,
    remove_tree,
)
from ottla.storage.snapshots.pinning import Pins

_NAME = lazy_pattern(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_MAKING = ".making-"
_DELETING = ".deleting-"
STOP_FIRST = "stop it first"

Change = Callable[[str], None]
"""Changes the files of a new directory before it is published; called with its temporary path."""


def change_nothing(path: str) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot; sizes are in bytes.

    `own_size` is the size of files without other hard links, which a deletion frees.
    """

    name: str
    path: str
    created_ms: int
    partition_count: int
    size: int
    own_size: int
    is_clean: bool
    """Whether the last process that opened it, if any, shut it down cleanly."""


class Snapshots:
    """The snapshots of one log directory, stored in the directory `place`."""

    def __init__(self, file_system: FileSystem, directory: str, place: str | None = None) -> None:
        self._file_system = file_system
        self.directory = file_system.canonical(directory)
        self.place = file_system.canonical(place or f"{self.directory}.snapshots")

    def path_of(self, name: str) -> str:
        return join(self.place, name)

    def find(self, name: str) -> str:
        """The path of a snapshot; raises `UnknownNameError`."""
        names = self._names()
        if name not in names:
            raise UnknownNameError("snapshot", name, names, where=self.place)
        return self.path_of(name)

    def free_name(self, name: str) -> str:
        """The name, with a number appended if it is taken."""
        taken = set(self._names())
        numbered = (f"{name}-{number}" for number in itertools.count(2))
        return next(one for one in itertools.chain((name,), numbered) if one not in taken)

    def find_all(self) -> list[Snapshot]:
        """All snapshots, oldest first."""
        found = [self._look_at(name) for name in self._names()]
        return sorted(found, key=lambda one: (one.created_ms, one.name))

    def create(self, name: str, *, now_ms: int, on_copied: OnCopied) -> Snapshot:
        """Creates a snapshot of a directory that is not in use.

        Raises `UncleanStopError`, `RefusalError` for a taken name, and `UserError`.
        """
        with held(self._file_system, self.directory, STOP_FIRST):
            check_clean(self._file_system, self.directory)
            with self._making(name, now_ms) as making:
                copy_log_directory(self._file_system, self.directory, making, on_copied)
        return self._look_at(name)

    def create_beside(
        self, name: str, *, now_ms: int, on_copied: OnCopied, recover: Change
    ) -> Snapshot:
        """Creates a snapshot of a directory in use, as of one instant.

        `recover` opens the copied directory, which is as after a kill, and shuts it down cleanly.
        Raises `RefusalError` and `UserError`.
        """
        with self._making(name, now_ms) as making:
            pins = Pins(self._file_system, self.directory, making)
            pins.settle(pins.take(), on_copied)
            recover(making)
            check_clean(self._file_system, making)
        return self._look_at(name)

    @contextmanager
    def _making(self, name: str, now_ms: int) -> Iterator[str]:
        """Yields a temporary path for a new snapshot, and renames it to its name afterwards."""
        check_name(name)
        self._check_free(name)
        with self._alone():
            self._remove_leftovers()
            making = self.path_of(_MAKING + name)
            with self._removed_on_error(making):
                yield making
                self._write_note(making, now_ms)
                self._file_system.rename(making, self.path_of(name))
            self._file_system.sync_directory(self.place)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Holds the lock against other processes that create snapshots; raises `UserError`."""
        lock = self._file_system.lock(join(self.place, LOCK))
        if lock is None:
            raise UserError(
                f"{self.place}: another process is creating a snapshot; wait until it has finished"
            )
        try:
            yield
        finally:
            lock.release()

    def delete(self, name: str) -> None:
        """Deletes a snapshot; raises `UnknownNameError`, and `UserError` if it is in use."""
        path = self.find(name)
        with held(self._file_system, path, STOP_FIRST):
            deleting = self.path_of(_DELETING + name)
            if self._file_system.status(deleting) is not None:
                remove_tree(self._file_system, deleting)
            self._file_system.rename(path, deleting)
            self._file_system.sync_directory(self.place)
            remove_tree(self._file_system, deleting)

    def branch(
        self,
        name: str,
        target: str,
        *,
        on_copied: OnCopied,
        change: Change = change_nothing,
    ) -> str:
        """Copies a snapshot to a new, independent log directory; returns its path.

        `change` may change the copy before it gets its name. Raises `UnknownNameError`,
        `UncleanStopError`, `RefusalError` if `target` is not empty, and `UserError`.
        """
        path = self.find(name)
        target = self._file_system.canonical(target)
        self._check_absent(target)
        making = join(parent_directory(target), f".{base_name(target)}{_MAKING}")
        with held(self._file_system, path, STOP_FIRST):
            check_clean(self._file_system, path)
            if self._file_system.status(making) is not None:
                remove_tree(self._file_system, making)
            with self._removed_on_error(making):
                copy_log_directory(self._file_system, path, making, on_copied)
                change(making)
                self._file_system.rename(making, target)
        self._file_system.sync_directory(parent_directory(target))
        return target

    def restore(
        self,
        name: str,
        *,
        kept: str,
        now_ms: int,
        on_copied: OnCopied,
        change: Change = change_nothing,
    ) -> Snapshot | None:
        """Replaces the directory by a copy of a snapshot; its old content becomes snapshot `kept`.

        Returns `kept`, or `None` if there was no directory. Raises `UserError` if the directory or
        the snapshot is in use, or if the file system cannot exchange two directories atomically.
        """
        path = self.find(name)
        if self._file_system.status(join(self.directory, META_PROPERTIES)) is None:
            self.branch(name, self.directory, on_copied=on_copied, change=change)
            return None
        check_name(kept)
        with (
            held(self._file_system, self.directory, STOP_FIRST),
            held(self._file_system, path, STOP_FIRST),
        ):
            check_clean(self._file_system, path)
            self._check_free(kept)
            making = self.path_of(_MAKING + kept)
            with self._alone(), self._removed_on_error(making):
                self._remove_leftovers()
                copy_log_directory(self._file_system, path, making, on_copied)
                change(making)
            # Renamed before the exchange: afterwards it is the directory's old content, which a
            # crash must not leave under a temporary name, as the next `create` removes those.
            self._file_system.rename(making, self.path_of(kept))
            self._file_system.sync_directory(self.place)
            self._exchange(self.path_of(kept))
            self._write_note(self.path_of(kept), now_ms)
        return self._look_at(kept)

    # Below

    @contextmanager
    def _removed_on_error(self, path: str) -> Iterator[None]:
        """Removes an incomplete directory on an error, so that a full disk is freed again."""
        try:
            yield
        except Exception:
            with suppress(OSError):
                remove_tree(self._file_system, path)
            raise

    def _exchange(self, path: str) -> None:
        try:
            self._file_system.exchange(self.directory, path)
        except OSError as error:
            remove_tree(self._file_system, path)
            raise UserError(
                f"{self.directory} cannot be exchanged atomically: {error.strerror}; "
                "use ottla snapshot branch, and serve the new directory"
            ) from error
        self._file_system.sync_directory(parent_directory(self.directory))
        self._file_system.sync_directory(self.place)

    def _names(self) -> list[str]:
        status = self._file_system.status(self.place)
        if status is None or not status.is_directory:
            return []
        return [
            name
            for name in self._file_system.list(self.place)
            if not name.startswith(".")
            and self._file_system.status(join(self.place, name, META_PROPERTIES)) is not None
        ]

    def _look_at(self, name: str) -> Snapshot:
        path = self.path_of(name)
        size, own_size = self._sizes(path)
        names = self._file_system.list(path)
        return Snapshot(
            name=name,
            path=path,
            created_ms=self._created_ms(path),
            partition_count=sum(parse_directory_name(one) is not None for one in names),
            size=size,
            own_size=own_size,
            is_clean=CLEAN_SHUTDOWN in names,
        )

    def _sizes(self, path: str) -> tuple[int, int]:
        size = own_size = 0
        for name in self._file_system.list(path):
            below = join(path, name)
            status = self._file_system.status(below)
            if status is None:
                continue
            if status.is_directory:
                more, more_own = self._sizes(below)
            else:
                more, more_own = status.size, status.size if status.link_count == 1 else 0
            size, own_size = size + more, own_size + more_own
        return size, own_size

    def _created_ms(self, path: str) -> int:
        try:
            fields = parse_properties(
                read_file(self._file_system, join(path, SNAPSHOT_NOTE)).decode()
            )
            return int(fields["created"])
        except (FileNotFoundError, ValueError, KeyError):
            status = self._file_system.status(path)
            return 0 if status is None else status.modified_ms

    def _write_note(self, path: str, now_ms: int) -> None:
        fields = {"created": str(now_ms), "directory": self.directory}
        text = "".join(f"{properties_line(name, value)}\n" for name, value in fields.items())
        replace_file(self._file_system, join(path, SNAPSHOT_NOTE), text.encode())

    def _check_free(self, name: str) -> None:
        make_durable_directory(self._file_system, self.place)
        if self._file_system.status(self.path_of(name)) is not None:
            raise RefusalError(
                f"snapshot {name} in {self.place} already exists; choose another name, or delete it"
            )

    def _check_absent(self, target: str) -> None:
        status = self._file_system.status(target)
        if status is not None and (not status.is_directory or self._file_system.list(target)):
            raise RefusalError(f"{target} already exists; name a new directory")
        make_durable_directory(self._file_system, parent_directory(target))

    def _remove_leftovers(self) -> None:
        """Removes what a crash has left; the caller holds the lock."""
        for name in self._file_system.list(self.place):
            if name.startswith((_MAKING, _DELETING)):
                remove_tree(self._file_system, join(self.place, name))


def check_name(name: str) -> None:
    """Raises `UserError` unless `name` is a valid name of a snapshot."""
    if _NAME.fullmatch(name) is None:
        raise UserError(
            f"{name!r} is not a valid name of a snapshot; use letters, digits, '.', '_' and '-', "
            "beginning with a letter, a digit or '_'"
        )
