"""The directory of what outlives a console: its files are readable by their owner only.

Several consoles of a user share it, so each line of a file says which target it is about.
A crash can leave the end of an appended line away, and a `.new` file beside a replaced one.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ottla.base.errors import UserError

PRIVATE, PRIVATE_DIRECTORY = 0o600, 0o700
LOCK = ".lock"


class StateDirectory:
    """The files of the directory by name. It is created at the first write.

    All methods raise `UserError`, which names the file and the option.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def names(self) -> list[str]:
        """The names of all files; none if the directory is missing."""
        try:
            return sorted(one.name for one in self.path.iterdir() if one.name != LOCK)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._failed(error) from error

    def read(self, name: str) -> bytes:
        """The bytes of a file; empty if it is missing."""
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise self._failed(error) from error

    def replace(self, name: str, data: bytes) -> None:
        """Replaces a whole file: after a crash it has either the old or the new bytes."""
        try:
            with self._locked():
                fresh = self.path / f"{name}.new"
                with self._open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as descriptor:
                    _write(descriptor, data)
                    os.fsync(descriptor)
                os.replace(fresh, self.path / name)
                self._sync_names()
        except OSError as error:
            raise self._failed(error) from error

    def append(self, name: str, line: bytes, *, full_size: int) -> None:
        """Appends a line, on the disk on return, to `name`, such as `audit.jsonl`.

        A file that has reached `full_size` bytes first becomes `audit.1.jsonl`, or the next number;
        none is ever deleted.
        """
        try:
            with self._locked():
                path = self.path / name
                if path.exists() and path.stat().st_size >= full_size:
                    os.rename(path, self.path / self._next_name(name))
                is_new = not path.exists()
                with self._open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND) as descriptor:
                    _append(descriptor, line)
                    os.fsync(descriptor)
                if is_new:
                    self._sync_names()
        except OSError as error:
            raise self._failed(error) from error

    def append_bounded(self, name: str, line: bytes, *, most_size: int) -> None:
        """Appends a line; a crash of the machine may leave it out.

        A file that would then have more than `most_size` bytes first loses its older half.
        """
        try:
            with self._locked():
                path = self.path / name
                size = path.stat().st_size if path.exists() else 0
                if size + len(line) >= most_size:
                    newer = path.read_bytes()[-(most_size // 2) :]
                    fresh = self.path / f"{name}.new"
                    with self._open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) as descriptor:
                        _write(descriptor, newer[newer.find(b"\n") + 1 :])
                        os.fsync(descriptor)
                    os.replace(fresh, path)
                with self._open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND) as descriptor:
                    _append(descriptor, line)
        except OSError as error:
            raise self._failed(error) from error

    def appended(self, name: str) -> list[str]:
        """The files of a name that `append` was given, newest first."""
        found = [one for one in self.names() if one == name or _number(name, one)]
        # The file itself is the newest, and has no number.
        return sorted(found, key=lambda one: -(_number(name, one) or 1 << 62))

    def _next_name(self, name: str) -> str:
        last = max((_number(name, one) for one in self.names()), default=0)
        stem, dot, suffix = name.partition(".")
        return f"{stem}.{last + 1}{dot}{suffix}"

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Excludes other threads and consoles."""
        self.path.mkdir(mode=PRIVATE_DIRECTORY, parents=True, exist_ok=True)
        with self._open(self.path / LOCK, os.O_RDWR | os.O_CREAT) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX)  # until it is closed
            yield

    @contextmanager
    def _open(self, path: Path, flags: int) -> Iterator[int]:
        descriptor = os.open(path, flags | os.O_CLOEXEC, PRIVATE)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _sync_names(self) -> None:
        with self._open(self.path, os.O_RDONLY) as descriptor:
            os.fsync(descriptor)

    def _failed(self, error: OSError) -> UserError:
        return UserError(
            f"{error.filename or self.path}: {error.strerror or error}; "
            "ottla console --state DIR names another directory for the console's files"
        )


def _append(descriptor: int, line: bytes) -> None:
    size = os.fstat(descriptor).st_size
    # A crash or a full disk may have cut the last line: the next begins anew.
    is_cut = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    _write(descriptor, (b"\n" if is_cut else b"") + line + b"\n")


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _number(name: str, one: str) -> int:
    """The number in a full file's name; 0 for other files."""
    stem, _, suffix = name.partition(".")
    if not one.startswith(f"{stem}.") or not one.endswith(f".{suffix}"):
        return 0
    middle = one[len(stem) + 1 : -len(suffix) - 1]
    return int(middle) if middle.isdecimal() and middle.isascii() else 0
