"""A state that lies in one small file of every log directory: changed in each, or refused.

Each change has a higher revision. When directories disagree, the highest is right.
"""

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import FileSystem
from ottla.storage.directory.log_directories import LogDirectories


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisedState:
    revision: int = 0


State = TypeVar("State", bound=RevisedState)


def newest(states: Iterable[State]) -> State:
    return max(states, key=lambda state: state.revision)


@dataclass(frozen=True, slots=True)
class StateFile(Generic[State]):
    """How the file in a directory is read and written, and what to do when it is damaged."""

    read: Callable[[FileSystem, str], State]
    write: Callable[[FileSystem, str, State], None]
    fix: str

    def read_newest(self, paths: Sequence[str], file_system: FileSystem) -> State:
        """What the newest file says; raises `UserError` naming a file that is damaged."""
        try:
            return newest(self.read(file_system, path) for path in paths)
        except CorruptionError as error:
            raise UserError(f"{error}; {self.fix}") from error


class StateStore(Generic[State]):
    """`state` is what is on the disks."""

    def __init__(
        self,
        file: StateFile[State],
        state: State,
        directories: LogDirectories,
        file_system: FileSystem,
    ) -> None:
        self.state = state
        self._file = file
        self._revision = state.revision
        self._directories = directories
        self._file_system = file_system

    def replace(self, state: State) -> None:
        """Writes a new state; raises `StorageError` and then keeps the old one.

        The next one is newer than both, whichever of them a failing disk has kept.
        """
        self._revision += 1
        new = dataclasses.replace(state, revision=self._revision)
        self._directories.check_any_online()
        self._directories.write_in_each(lambda path: self._file.write(self._file_system, path, new))
        self.state = new
