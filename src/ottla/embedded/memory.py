"""`ottla.open(":memory:")`: a data directory in memory, which is gone when the log is closed.

It lies in the system's memory file system where there is one, and in the directory for temporary
files elsewhere. A process that is killed leaves it there, as it leaves any temporary file.
"""

import os
from collections.abc import Callable

MEMORY = ":memory:"
SHARED_MEMORY = "/dev/shm"


def make_directory() -> tuple[str, Callable[[], None]]:
    """A new directory, and what removes it."""
    import shutil
    import tempfile

    has_memory = os.path.isdir(SHARED_MEMORY) and os.access(SHARED_MEMORY, os.W_OK)
    path = tempfile.mkdtemp(prefix="ottla-", dir=SHARED_MEMORY if has_memory else None)
    return path, lambda: shutil.rmtree(path, ignore_errors=True)


def leave() -> None:
    """Of any other directory, which stays."""
