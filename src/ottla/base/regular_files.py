"""Opens files that are what their names say: no link, FIFO, socket or device."""

import errno
import os
import stat


def open_regular(path: str, flags: int) -> int:
    """A descriptor of a regular file.

    Opening a FIFO waits for its other end, a link leads to a file of another name, and a device
    never ends: a broker writes none of them.
    """
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        if error.errno == errno.ELOOP and os.path.islink(path):
            raise _not_regular(path, "a symbolic link") from error
        if error.errno in (errno.ENXIO, errno.EOPNOTSUPP, errno.ENODEV):
            raise _not_regular(path, "a socket or a device") from error
        raise
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode):
        return descriptor
    os.close(descriptor)
    # The kernel rejects directories only for writing; the first `pread` would be too late.
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    raise _not_regular(path, "a FIFO" if stat.S_ISFIFO(mode) else "a socket or a device")


def _not_regular(path: str, kind: str) -> OSError:
    return OSError(errno.EINVAL, f"it is {kind} where a regular file belongs; move it away", path)
