"""A state in one small file of every log directory: changed in each, or the change is refused.

Each change has a higher revision. If directories disagree, the highest is right. The file is
written whole, so that a crash leaves the old one or the new one; for a request it is written in
turns: a state of 100,000 entries takes a second to write, and others are served meanwhile. A mark
beside the file records that it exists (`written_marks`).
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
    # What reads such a file need not import what writes logs.
    from ottla.storage.directory.log_directories import LogDirectories


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisedState:
    revision: int = 0


State = TypeVar("State", bound=RevisedState)


def read_state_file(
    file_system: FileSystem, path: str, parse: Callable[[Any], State], what: str
) -> State | None:
    """What the file says, `None` when there is none; raises `CorruptionError`."""

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
    """What the file holds beside version and checksum, with iterables for what may be long."""
    is_secret: Callable[[State], bool]
    """Whether only its owner may read it."""
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
        """The file's bytes, in turns."""
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
        """Makes a file durable that was renamed to its name; raises `OSError`."""
        file_system.sync_directory(directory)
        mark_written(file_system, directory, self.name)


class StateStore(Generic[State]):
    """`state` is what is on the disks, but for what `leave_out` has left out."""

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
        """Writes a new state at once; raises `StorageError` and then keeps the old one.

        The next one is newer than both, whichever of them a failing disk has kept.
        """
        self._revision += 1
        new = dataclasses.replace(state, revision=self._revision)
        self._directories.check_any_online()
        self._directories.write_in_each(lambda path: self._file.write(self._file_system, path, new))
        self.state = new

    def leave_out(self, state: State) -> None:
        """Forgets entries that are no longer needed; they leave the disk with the next change."""
        self.state = state

    def follow(self, state: State) -> None:
        """Applies a state that a cluster stores elsewhere; nothing is written."""
        self.state = state

    def change(
        self, decide: Callable[[State], State], then: Callable[[], None] = lambda: None
    ) -> None:
        """Makes the state what `decide` makes of it, in turns; raises `StorageError`.

        It is decided again when another change came in between. What is decided to be the same
        object is not written. `then` has the broker follow before another change in turns is made.
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
        """Whether nobody has replaced the state meanwhile, with a file of an older state."""
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
    """Not the name that `replace` uses, which may come in between."""
    return join(directory, f"{name}.next.tmp")
