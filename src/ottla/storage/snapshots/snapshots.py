"""The snapshots of a broker's log directories: creates, lists, restores, branches, deletes them.

A snapshot has a part for each directory, stored beside it in `DIR.snapshots`, since files are only
shared on one disk. Each part is a log directory that was shut down cleanly; a snapshot of
directories in use is recovered before it is published. Incomplete parts have a name that begins
with a dot: a part gets its name last, by a rename, and loses it first. The part of the first
directory is the last to get its name, and the first to lose it. So a crash leaves a complete
snapshot or none, and the next `create` removes the leftovers. Kafka has no snapshots.
"""

import itertools
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress

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
    REPLICAS_MARK,
    SNAPSHOT_NOTE,
    parse_directory_name,
)
from ottla.storage.files.java_properties import parse_properties, properties_line
from ottla.storage.files.known_topics import read_known_topics
from ottla.storage.files.meta_properties import read_meta_properties
from ottla.storage.snapshots.copying import (
    OnCopied,
    check_clean,
    copy_log_directory,
    held,
    remove_tree,
)
from ottla.storage.snapshots.pinning import Pins
from ottla.storage.snapshots.restoring import (
    RestoringNote,
    finish,
    interrupted,
    remove_notes,
    write_notes,
)

_NAME = lazy_pattern(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")
_MAKING = ".making-"
_DELETING = ".deleting-"
STOP_FIRST = "stop it first"
CREATION_TRIES = 100
PART = "directory."
"""Begins the names in a note of a snapshot's directories, which end with the part's number."""

Change = Callable[[Sequence[str]], None]
"""Changes new directories before they are published; called with their temporary paths."""


def change_nothing(paths: Sequence[str]) -> None:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """A snapshot; sizes are in bytes, and `paths` those of its parts.

    `own_size` is the size of files without other hard links, which a deletion frees.
    """

    name: str
    paths: tuple[str, ...]
    created_ms: int
    partition_count: int
    size: int
    own_size: int
    is_clean: bool
    """Whether the last process that opened it, if any, shut it down cleanly."""


class Snapshots:
    """The snapshots of the directories of one broker.

    The parts of the first one are in the directory `place`, by default beside it, and those of the
    others beside them or below `place`.
    """

    def __init__(
        self, file_system: FileSystem, directories: str | Sequence[str], place: str | None = None
    ) -> None:
        given = [directories] if isinstance(directories, str) else directories
        self._file_system = file_system
        self.directories = tuple(map(file_system.canonical, given))
        self.places = tuple(
            file_system.canonical(
                f"{directory}.snapshots"
                if place is None
                else join(place, f".{number + 1}")
                if number
                else place
            )
            for number, directory in enumerate(self.directories)
        )
        self.place = self.places[0]
        self.text = ", ".join(self.directories)

    def paths_of(self, name: str) -> tuple[str, ...]:
        return tuple(join(place, name) for place in self.places)

    def find(self, name: str) -> tuple[str, ...]:
        """The paths of a snapshot; raises `UnknownNameError`, and `RefusalError` if it is of other
        directories.
        """
        names = self._names()
        if name not in names:
            raise UnknownNameError("snapshot", name, names, where=self.place)
        paths = self.paths_of(name)
        of = self._noted_directories(paths[0]) or (self.directories[0],)
        missing = [one for one in paths if not self._is_there(one)]
        if len(of) != len(paths):
            raise RefusalError(f"snapshot {name} is of {_options(of)}; name exactly these")
        if missing:
            raise RefusalError(f"snapshot {name} lacks {', '.join(missing)}; put it back")
        return paths

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
        """Creates a snapshot of directories that are not in use.

        Raises `UncleanStopError`, `RefusalError` for a taken name, and `UserError`.
        """
        with self._held(self.directories):
            for directory in self.directories:
                check_clean(self._file_system, directory)
            self.check_all_named()
            with self._making(name, now_ms) as making:
                self._copy(self.directories, making, on_copied)
        return self._look_at(name)

    def create_beside(
        self, name: str, *, now_ms: int, on_copied: OnCopied, recover: Change
    ) -> Snapshot:
        """Creates a snapshot of directories in use, as of one instant.

        `recover` opens the copied directories, which are as after a kill, and shuts them down
        cleanly. Raises `RefusalError` and `UserError`.
        """
        self.check_all_named()
        with self._making(name, now_ms) as making:
            pins = Pins(self._file_system, self.directories, making)
            pins.settle(pins.take(), on_copied)
            recover(making)
            for path in making:
                check_clean(self._file_system, path)
        return self._look_at(name)

    def check_all_named(self) -> None:
        """Raises `RefusalError` if a partition is in none of the directories, but in another one.

        Restored without the others, a broker would create its partitions again, empty. Nor may a
        directory lack its identity: its copy would be no snapshot.
        """
        for directory in self.directories:
            path = join(directory, META_PROPERTIES)
            if read_meta_properties(self._file_system, path) is None:
                raise RefusalError(f"{path} is missing; put it back, or start a broker there first")
        for _ in range(CREATION_TRIES):  # a topic's entry is written before its partitions
            missing = self._missing()
            if not missing:
                return
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise RefusalError(
            f"{missing[0]}{more} is not in {self.text}: a snapshot spans all directories of a "
            "broker; name all of them, as -d DIR -d DIR, or put back the one that is missing"
        )

    def _missing(self) -> list[str]:
        """The partitions of known topics that are in none of the directories."""
        files = self._file_system
        if any(files.status(join(one, REPLICAS_MARK)) is not None for one in self.directories):
            return []  # other brokers have the other partitions
        known: dict[str, Collection[int]] = {}
        for directory in self.directories:
            for name, entry in read_known_topics(files, directory).entries.items():
                known[name] = entry.partitions
        names = {name for directory in self.directories for name in files.list(directory)}
        here = {(one.topic, one.partition) for one in map(parse_directory_name, names) if one}
        return [
            f"{name}-{index}"
            for name, indexes in known.items()
            for index in indexes
            if (name, index) not in here
        ]

    @contextmanager
    def _making(self, name: str, now_ms: int) -> Iterator[tuple[str, ...]]:
        """Yields temporary paths for a new snapshot, and renames them to its name afterwards."""
        check_name(name)
        self._check_free(name)
        with self._alone():
            self._remove_leftovers()
            making = self.paths_of(_MAKING + name)
            with self._removed_on_error(making):
                yield making
                for path in making:
                    self._write_note(path, now_ms)
                self._publish(making, self.paths_of(name))

    def _publish(self, making: Sequence[str], paths: Sequence[str]) -> None:
        """Gives the parts their names; the first part last, which makes it a snapshot."""
        for before, after in reversed(list(zip(making, paths, strict=True))):
            self._file_system.rename(before, after)
            self._file_system.sync_directory(parent_directory(after))

    def _copy(self, sources: Sequence[str], targets: Sequence[str], on_copied: OnCopied) -> None:
        for source, target in zip(sources, targets, strict=True):
            copy_log_directory(self._file_system, source, target, on_copied)

    @contextmanager
    def _held(self, paths: Sequence[str]) -> Iterator[None]:
        with ExitStack() as stack:
            for path in paths:
                stack.enter_context(held(self._file_system, path, STOP_FIRST))
            yield

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
        paths = self.find(name)
        with self._held(paths):
            for path, deleting in zip(paths, self.paths_of(_DELETING + name), strict=True):
                if self._file_system.status(deleting) is not None:
                    remove_tree(self._file_system, deleting)
                self._file_system.rename(path, deleting)
                self._file_system.sync_directory(parent_directory(path))
            for deleting in self.paths_of(_DELETING + name):
                remove_tree(self._file_system, deleting)

    def branch(
        self,
        name: str,
        targets: str | Sequence[str],
        *,
        on_copied: OnCopied,
        change: Change = change_nothing,
    ) -> tuple[str, ...]:
        """Copies a snapshot to new, independent log directories; returns their paths.

        There must be as many as the snapshot has. `change` may change the copies before they get
        their names. Raises `UnknownNameError`, `UncleanStopError`, `RefusalError` if a target is
        not empty, and `UserError`.
        """
        paths = self.find(name)
        given = [targets] if isinstance(targets, str) else targets
        into = tuple(map(self._file_system.canonical, given))
        if len(into) != len(paths):
            raise RefusalError(
                f"snapshot {name} has {len(paths)} directories; name as many new ones"
            )
        for target in into:
            self._check_absent(target)
        making = tuple(join(parent_directory(one), f".{base_name(one)}{_MAKING}") for one in into)
        with self._held(paths):
            for path, one in zip(paths, making, strict=True):
                check_clean(self._file_system, path)
                if self._file_system.status(one) is not None:
                    remove_tree(self._file_system, one)
            with self._removed_on_error(making):
                self._copy(paths, making, on_copied)
                change(making)
                self._publish(making, into)
        return into

    def restore(
        self,
        name: str,
        *,
        kept: str,
        now_ms: int,
        on_copied: OnCopied,
        change: Change = change_nothing,
    ) -> Snapshot | None:
        """Replaces the directories by a copy of a snapshot; what they held becomes snapshot `kept`.

        Returns `kept`, or `None` if there was no directory. Finishes an earlier restore of several
        directories first if a crash has interrupted it. Raises `UserError` if a directory or the
        snapshot is in use, or if the file system cannot exchange two directories atomically.
        """
        self._finish_restoring(now_ms)
        paths = self.find(name)
        there = [one for one in self.directories if self._is_there(one)]
        if not there:
            self.branch(name, self.directories, on_copied=on_copied, change=change)
            return None
        for directory in self.directories:
            if directory not in there:
                raise RefusalError(
                    f"{directory} is not there, but {there[0]} is; put it back, or move "
                    f"{' and '.join(there)} away, to restore all of them"
                )
        check_name(kept)
        with self._held(self.directories), self._held(paths):
            for path in paths:
                check_clean(self._file_system, path)
            self._check_free(kept)
            making = self.paths_of(_MAKING + kept)
            with self._alone(), self._removed_on_error(making):
                self._remove_leftovers()
                self._copy(paths, making, on_copied)
                change(making)
                self._replace(making, kept, now_ms)
        return self._look_at(kept)

    def _replace(self, making: Sequence[str], kept: str, now_ms: int) -> None:
        files, others = self._file_system, self.paths_of(kept)
        if len(making) > 1:
            write_notes(files, making, RestoringNote(kept=kept, is_new=True))
            write_notes(files, self.directories, RestoringNote(kept=kept, is_new=False))
        # Renamed before the exchange: afterwards it is the directory's old content, which a
        # crash must not leave under a temporary name, as the next `create` removes those.
        self._publish(making, others)
        for directory, other in zip(self.directories, others, strict=True):
            self._exchange(directory, other, others)
        for other in others:
            self._write_note(other, now_ms)
        if len(making) > 1:
            remove_notes(files, others)
            remove_notes(files, self.directories)

    def _finish_restoring(self, now_ms: int) -> None:
        """Finishes a restore that a crash has interrupted."""
        files = self._file_system
        there = [one for one in self.directories if self._is_there(one)]
        kept = interrupted(files, there)
        if kept is None:
            return
        with self._held(self.directories):
            others = self.paths_of(kept)
            finish(files, self.directories, others, lambda one: self._write_note(one, now_ms))

    # Below

    @contextmanager
    def _removed_on_error(self, paths: Sequence[str]) -> Iterator[None]:
        """Removes incomplete directories on an error, so that a full disk is freed again."""
        try:
            yield
        except Exception:
            for path in paths:
                with suppress(OSError):
                    remove_tree(self._file_system, path)
            raise

    def _exchange(self, directory: str, other: str, others: Sequence[str]) -> None:
        files = self._file_system
        try:
            files.exchange(directory, other)
        except OSError as error:
            if directory == self.directories[0]:
                for one in others:
                    remove_tree(files, one)
                remove_notes(files, self.directories)
                fix = "use ottla snapshot branch, and serve the new directory"
            else:
                fix = "then run ottla snapshot restore again, which finishes it"
            raise UserError(
                f"{directory} cannot be exchanged atomically: {error.strerror}; {fix}"
            ) from error
        files.sync_directory(parent_directory(directory))
        files.sync_directory(parent_directory(other))

    def _names(self) -> list[str]:
        status = self._file_system.status(self.place)
        if status is None or not status.is_directory:
            return []
        return [
            name
            for name in self._file_system.list(self.place)
            if not name.startswith(".") and self._is_there(join(self.place, name))
        ]

    def _is_there(self, path: str) -> bool:
        return self._file_system.status(join(path, META_PROPERTIES)) is not None

    def _look_at(self, name: str) -> Snapshot:
        paths = tuple(filter(self._is_there, self.paths_of(name)))
        sizes = [self._sizes(path) for path in paths]
        names = [one for path in paths for one in self._file_system.list(path)]
        return Snapshot(
            name=name,
            paths=paths,
            created_ms=self._created_ms(paths[0]),
            partition_count=sum(parse_directory_name(one) is not None for one in names),
            size=sum(size for size, _ in sizes),
            own_size=sum(own_size for _, own_size in sizes),
            is_clean=names.count(CLEAN_SHUTDOWN) == len(paths),
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
            return int(self._note(path)["created"])
        except (ValueError, KeyError):
            status = self._file_system.status(path)
            return 0 if status is None else status.modified_ms

    def _note(self, path: str) -> dict[str, str]:
        try:
            text = read_file(self._file_system, join(path, SNAPSHOT_NOTE)).decode()
            return dict(parse_properties(text))
        except (FileNotFoundError, ValueError):
            return {}

    def _noted_directories(self, path: str) -> tuple[str, ...]:
        """The directories of a snapshot with several parts, in order."""
        note = self._note(path)
        parts = (note.get(f"{PART}{number}") for number in itertools.count(1))
        return tuple(itertools.takewhile(bool, parts))  # type: ignore[arg-type]

    def _write_note(self, path: str, now_ms: int) -> None:
        fields = {"created": str(now_ms), "directory": self.directories[0]}
        if len(self.directories) > 1:
            number = self.places.index(parent_directory(path))
            fields["directory"] = self.directories[number]
            fields |= {f"{PART}{one}": path for one, path in enumerate(self.directories, 1)}
        text = "".join(f"{properties_line(name, value)}\n" for name, value in fields.items())
        replace_file(self._file_system, join(path, SNAPSHOT_NOTE), text.encode())

    def _check_free(self, name: str) -> None:
        for place in self.places:
            make_durable_directory(self._file_system, place)
        if self._file_system.status(join(self.place, name)) is not None:
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
        for place in self.places:
            for name in self._file_system.list(place):
                path = join(place, name)
                if name.startswith((_MAKING, _DELETING)) or self._is_lone_part(place, name):
                    remove_tree(self._file_system, path)

    def _is_lone_part(self, place: str, name: str) -> bool:
        """Whether this part of a snapshot has no first part."""
        if place == self.place or name.startswith("."):
            return False
        is_ours = self._noted_directories(join(place, name)) == self.directories
        return is_ours and not self._is_there(join(self.place, name))


def _options(directories: Sequence[str]) -> str:
    """Directories as a command takes them."""
    return " ".join(f"-d {one}" for one in directories)


def check_name(name: str) -> None:
    """Raises `UserError` unless `name` is a valid name of a snapshot."""
    if _NAME.fullmatch(name) is None:
        raise UserError(
            f"{name!r} is not a valid name of a snapshot; use letters, digits, '.', '_' and '-', "
            "beginning with a letter, a digit or '_'"
        )
