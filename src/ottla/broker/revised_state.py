"""A state in one small file per log directory; a change is written to all, or refused.

Each change has a higher revision. If directories disagree, the highest is right. The file is
written as a whole, so that a crash leaves the old one or the new one. Changes by requests are
written in turns: a state of 100,000 entries takes a second to write, and other requests are served
meanwhile. A mark beside the file records that it exists (`written_marks`).
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.base.errors import CorruptionError, RefusalError
from ottla.base.files import FileSystem, join, replace_file, write_file
from ottla.base.turns import OneAtATime, aside, in_a_turn, kept
from ottla.base.values import dataclass
from ottla.storage.files.summed_json import read_summed_json, summed_json
from ottla.storage.files.written_marks import check_not_lost, mark_written

if TYPE_CHECKING:
    # Lazy: readers of the file need not import what writes logs.
    from ottla.storage.directory.log_directories import LogDirectories


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisedState:
    revision: int = 0


State = TypeVar("State", bound=RevisedState)


def read_state_file(
    file_system: FileSystem, path: str, parse: Callable[[Any], State], what: str
) -> State | None:
    """Returns the file's state, `None` without a file; raises `CorruptionError`."""

    def checked(content: Any) -> State:
        if not isinstance(content["revision"], int):
            raise TypeError("revision must be a number")
        return parse(content)

    return read_summed_json(file_system, path, checked, what)


def newest(states: Iterable[State]) -> State:
    return max(states, key=lambda state: state.revision)


@dataclass(frozen=True, slots=True, kw_only=True)
class StateFile(Generic[State]):
    """How the file in a directory is read and written, and what to do when it is damaged."""

    name: str
    read: Callable[[FileSystem, str], State]
    fields: Callable[[State], dict[str, Any]]
    """The file's fields except version and checksum; potentially long ones are iterables."""
    is_secret: Callable[[State], bool]
    """Whether only the file's owner may read it."""
    fix: str

    def read_newest(self, paths: Sequence[str], file_system: FileSystem) -> State:
        """Returns the newest content; raises `RefusalError` naming a damaged or lost file."""
        for path in paths:
            check_not_lost(file_system, path, self.name)
        try:
            return newest(self.read(file_system, path) for path in paths)
        except CorruptionError as error:
            raise RefusalError(f"{error}; {self.fix}") from error

    def parts(self, state: State) -> Iterator[bytes]:
        """Yields the file's bytes, in turns."""
        return summed_json({"revision": state.revision, **self.fields(state)})

    def write(self, file_system: FileSystem, directory: str, state: State) -> None:
        """Replaces the file, durably; raises `OSError`."""
        replace_file(
            file_system,
            join(directory, self.name),
            b"".join(self.parts(state)),
            is_secret=self.is_secret(state),
        )
        mark_written(file_system, directory, self.name)

    def settle(self, file_system: FileSystem, directory: str) -> None:
        """Makes a renamed file durable; raises `OSError`."""
        file_system.sync_directory(directory)
        mark_written(file_system, directory, self.name)


class StateStore(Generic[State]):
    """`state` is the state on the disks, except for entries that `leave_out` has removed."""

    def __init__(
        self,
        file: StateFile[State],
        state: State,
        directories: "LogDirectories",
        file_system: FileSystem,
    ) -> None:
        self.state = state
        self._file = file
        self._revision = state.revision
        self._directories = directories
        self._file_system = file_system
        self._changing = OneAtATime()

    def replace(self, state: State) -> None:
        """Writes a new state immediately; raises `StorageError` and then keeps the old one.

        After a failure some directories may have the new state. The next state has a higher
        revision than both.
        """
        self._revision += 1
        new = dataclasses.replace(state, revision=self._revision)
        self._directories.check_any_online()
        self._directories.write_in_each(lambda path: self._file.write(self._file_system, path, new))
        self.state = new

    def leave_out(self, state: State) -> None:
        """Removes entries that are no longer needed, from the disks with the next change."""
        self.state = state

    def follow(self, state: State) -> None:
        """Applies a cluster's state, which is stored elsewhere; nothing is written."""
        self.state = state

    def change(
        self, decide: Callable[[State], State], then: Callable[[], None] = lambda: None
    ) -> None:
        """Replaces the state by the result of `decide`, in turns; raises `StorageError`.

        If another change came in between, `decide` is called again. If it returns the same object,
        nothing is written. `then` is called before the next change in turns.
        """
        if not in_a_turn():
            while (new := decide(known := self.state)) is not known:
                if self.state is known:
                    self.replace(new)
                    break
            then()
            return
        with self._changing, kept():
            while not self._try_to_change(decide):
                pass
            then()

    def _try_to_change(self, decide: Callable[[State], State]) -> bool:
        """Returns whether the change was made, or unnecessary: `False` if the state was replaced
        meanwhile.
        """
        known = self.state
        decided = decide(known)
        if decided is known:
            return self.state is known
        revision = self._revision + 1
        new = dataclasses.replace(decided, revision=revision)
        parts = list(self._file.parts(new))
        is_secret = self._file.is_secret(new)
        files, name = self._file_system, self._file.name
        self._directories.check_any_online()
        self._directories.write_in_each(
            lambda path: aside(
                lambda: write_file(files, _prepared(path, name), parts, is_secret=is_secret)
            )
        )
        if self.state is not known or self._revision >= revision:
            return False
        self._revision = revision
        self._directories.write_in_each(
            lambda path: files.rename(_prepared(path, name), join(path, name))
        )
        self._directories.write_in_each(lambda path: aside(lambda: self._file.settle(files, path)))
        if self.state is not known:
            return False
        self.state = new
        return True


def _prepared(directory: str, name: str) -> str:
    """Not the name that `replace` uses: a `replace` may happen in between."""
    return join(directory, f"{name}.next.tmp")
