"""Exclusive locks on files between processes, which a process can lend to its children."""

import contextlib
import errno
import fcntl
import os
import struct
import sys
import time
from collections.abc import Callable
from typing import Final

from ottla.base.regular_files import open_regular

CAN_LEND_LOCKS: Final = sys.platform == "linux"
"""On other systems `flock` and record locks exclude each other, even within a process."""

LENT_WAIT_S = 10.0
"""How long `take_lock` waits for a lock that only a child of a dead process still has."""

POLL_S: Final = 0.02

IS_BSD: Final = sys.platform == "darwin"
FLOCK: Final = struct.Struct("qqihh" if IS_BSD else "hhqqi4x")
"""C's `struct flock`: type, origin, start, length and process id, in the system's order."""

PF_EXITING: Final = 0x4
"""In the flags of Linux's `/proc/PID/stat`: the process has begun to end."""
SIGKILL_PENDING: Final = 1 << 8
"""In the masks of signals of `/proc/PID/status`, which are in the lines of `PENDING`."""
PENDING: Final = ("SigPnd:", "ShdPnd:")

_LOCKED_HERE: dict[tuple[int, int], list[int]] = {}
"""Device and inode of each file that this process has locked, and the lock's descriptor.

A record lock does not exclude other threads of its process, so they check this table. A child
process does not inherit such locks.
"""


def _give_up_locks() -> None:
    """In a forked child: closes the locks, which could otherwise outlive the parent if lent."""
    for (descriptor,) in _LOCKED_HERE.values():
        os.close(descriptor)
    _LOCKED_HERE.clear()


os.register_at_fork(after_in_child=_give_up_locks)


class OsFileLock:
    """A lock of the process that took it; in a forked child `release` does nothing."""

    def __init__(self, descriptor: int, identity: tuple[int, int], token: list[int]) -> None:
        self._descriptor = descriptor
        self._identity = identity
        self._token = token

    def lend(self) -> int | None:
        if not CAN_LEND_LOCKS or _LOCKED_HERE.get(self._identity) is not self._token:
            return None
        # A record lock belongs to the process; this lock belongs to all holders of the descriptor.
        fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return self._descriptor

    def release(self) -> None:
        if _LOCKED_HERE.get(self._identity) is not self._token:
            return
        if CAN_LEND_LOCKS:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # a child may hold it too
        # In this order: closing later would release the lock of the next thread.
        os.close(self._descriptor)
        del _LOCKED_HERE[self._identity]


def take_lock(path: str) -> OsFileLock | None:
    """See `FileSystem.lock`."""
    with contextlib.suppress(OSError):
        if _identity(os.stat(path)) in _LOCKED_HERE:
            return None
    descriptor = open_regular(path, os.O_RDWR | os.O_CREAT)
    identity = _identity(os.fstat(descriptor))
    token = [descriptor]
    if _LOCKED_HERE.setdefault(identity, token) is not token:
        # Another thread was faster; closing this descriptor would release its lock.
        return None
    try:
        if _is_taken(descriptor):
            return OsFileLock(descriptor, identity, token)
    except BaseException:
        del _LOCKED_HERE[identity]
        os.close(descriptor)
        raise
    del _LOCKED_HERE[identity]
    os.close(descriptor)
    return None


def _is_taken(descriptor: int) -> bool:
    """Takes the lock; waits only for processes that have been killed, and for their children."""
    deadline_s = time.monotonic() + LENT_WAIT_S
    while True:
        # Java's FileChannel.lock is a POSIX record lock, so the same kind excludes Kafka.
        if not _tried(fcntl.lockf, descriptor):
            if not _is_ending(_record_lock_holder(descriptor)):
                return False
        elif not CAN_LEND_LOCKS:
            return True
        # The holder may have died while its child still runs: see `lend`.
        elif _tried(fcntl.flock, descriptor):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            return True
        if time.monotonic() >= deadline_s:
            return False
        _pause()


def _pause() -> None:
    time.sleep(POLL_S)


def _tried(lock: Callable[[int, int], object], descriptor: int) -> bool:
    try:
        lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN):
            return False
        raise
    return True


def _is_ending(pid: int | None) -> bool:
    """Whether a process has been killed, but still has its locks, or has just released them."""
    if not pid:
        return pid is None
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            # The name, in parentheses, may contain any character.
            state, _, _, _, _, _, flags = file.read().rpartition(")")[2].split()[:7]
        with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
            pending = [int(line.split()[1], 16) for line in file if line[:7] in PENDING]
    except FileNotFoundError:
        return _is_gone(pid)  # or the system has no such files, or hides them
    except (OSError, ValueError, IndexError):
        return False
    is_killed = any(signals & SIGKILL_PENDING for signals in pending)
    return is_killed or state in "ZX" or bool(int(flags) & PF_EXITING)


def _is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        pass
    return False


def holder_of_lock(path: str) -> int | None:
    """See `FileSystem.lock_holder`."""
    try:
        if _identity(os.stat(path)) in _LOCKED_HERE:
            return os.getpid()
        descriptor = open_regular(path, os.O_RDONLY)
    except (FileNotFoundError, NotADirectoryError):
        return None
    identity = _identity(os.fstat(descriptor))
    token = [descriptor]
    if _LOCKED_HERE.setdefault(identity, token) is not token:
        return os.getpid()  # locked by another thread just now; see `take_lock`
    try:
        return _record_lock_holder(descriptor)
    finally:
        os.close(descriptor)
        del _LOCKED_HERE[identity]


def _identity(status: os.stat_result) -> tuple[int, int]:
    return (status.st_dev, status.st_ino)


def _record_lock_holder(descriptor: int) -> int | None:
    """The process that holds a record lock on a file; 0 for one in another pid namespace."""
    wanted = (0, 0, 0, fcntl.F_WRLCK, os.SEEK_SET) if IS_BSD else (fcntl.F_WRLCK, 0, 0, 0, 0)
    found = fcntl.fcntl(descriptor, fcntl.F_GETLK, FLOCK.pack(*wanted))
    if IS_BSD:
        _, _, pid, kind, _ = FLOCK.unpack(found)
    else:
        kind, _, _, _, pid = FLOCK.unpack(found)
    return None if kind == fcntl.F_UNLCK else max(0, pid)
