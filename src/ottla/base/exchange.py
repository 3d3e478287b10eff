"""Exchanges two names on a disk atomically, which Python's `os` does not offer.

Linux: `renameat2` with `RENAME_EXCHANGE`. Not supported on other systems.
"""

import errno
import os
import sys

RENAME_EXCHANGE = 2
AT_FDCWD = -100


def exchange_names(one: str, other: str) -> None:
    """Raises `OSError`; ENOSYS or EINVAL if the system or the file system does not support it."""
    if sys.platform != "linux":
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), one)
    import ctypes

    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if rename is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), one)
    if rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), one, None, other)
