"""Copies a closed log directory to a new one, by `plan`. The caller locks the source.

A crash leaves an incomplete target, so the caller gives it a name that marks it as such. The source
is not changed.
"""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ottla.base.errors import UserError
from ottla.base.file_copies import copy_file
from ottla.base.files import FileSystem, join, make_durable_directory
from ottla.storage.directory.owner_note import refuse_in_use
from ottla.storage.files.clean_shutdown import read_clean_shutdown
from ottla.storage.files.filenames import CLEAN_SHUTDOWN, LOCK, META_PROPERTIES
from ottla.storage.snapshots.plan import CopyPlan, SizedFile, is_taken, plan_copy

OnCopied = Callable[[int, int], None]
"""Called after each file with the bytes copied so far and in total."""

CANNOT_LINK = (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS)
"""Errors of a hard link to another file system, without link support, or to another user's file."""


class UncleanStopError(UserError):
    """A directory that its last process did not close, so that its logs must be recovered first."""


@contextmanager
def held(file_system: FileSystem, path: str, remedy: str) -> Iterator[None]:
    """Holds the lock of a log directory; raises `UserError` if there is none or it is in use."""
    status = file_system.status(join(path, META_PROPERTIES))
    if status is None:
        raise UserError(f"{path} is not a data directory; name one")
    lock = file_system.lock(join(path, LOCK))
    if lock is None:
        raise refuse_in_use(file_system, path, remedy)
    try:
        yield
    finally:
        lock.release()


def check_clean(file_system: FileSystem, path: str) -> None:
    """Raises `UncleanStopError` unless the directory was shut down cleanly."""
    if read_clean_shutdown(file_system, join(path, CLEAN_SHUTDOWN)) is None:
        raise UncleanStopError(
            f"{path} was not stopped cleanly; start a broker on it, and stop that broker"
        )


def copy_log_directory(
    file_system: FileSystem, source: str, target: str, on_copied: OnCopied
) -> CopyPlan:
    """Copies `source` to `target`, which is created or empty; durable on return."""
    plan = plan_copy(
        _files_in(file_system, source),
        {
            name: _files_in(file_system, join(source, name))
            for name in file_system.list(source)
            if is_taken(name)
        },
    )
    make_durable_directory(file_system, target)
    for folder in plan.folders:
        file_system.make_directory(join(target, folder))
    done = 0
    for one in plan.linked:
        _link(file_system, join(source, one.name), join(target, one.name))
        done += one.size
        on_copied(done, plan.size)
    for one in plan.copied:
        copy_file(file_system, join(source, one.name), join(target, one.name))
        done += one.size
        on_copied(done, plan.size)
    for folder in plan.folders:
        file_system.sync_directory(join(target, folder))
    file_system.sync_directory(target)
    return plan


def remove_tree(file_system: FileSystem, path: str) -> None:
    """Removes a directory and everything in it."""
    for name in file_system.list(path):
        below = join(path, name)
        status = file_system.status(below)
        if status is not None and status.is_directory:
            remove_tree(file_system, below)
        else:
            file_system.remove(below)
    file_system.remove_directory(path)


def _files_in(file_system: FileSystem, path: str) -> list[SizedFile]:
    return [
        SizedFile(name, status.size)
        for name in file_system.list(path)
        if (status := file_system.status(join(path, name))) is not None and not status.is_directory
    ]


def _link(file_system: FileSystem, source: str, target: str) -> None:
    try:
        file_system.link(source, target)
    except OSError as error:
        if error.errno not in CANNOT_LINK:
            raise
        copy_file(file_system, source, target)
