"""`ottla.open(":memory:")`: a data directory in memory, which is removed when the log is closed.

It is in the system's memory file system if there is one, otherwise in the directory for temporary
files. A killed process leaves it there, like any temporary file.
"""

import os
from collections.abc import Callable

MEMORY = ":memory:"
SHARED_MEMORY = "/dev/shm"


def make_directory() -> tuple[str, Callable[[], None]]:
    """Creates a directory; returns it with the function that removes it."""
    import shutil
    import tempfile

    has_memory = os.path.isdir(SHARED_MEMORY) and os.access(SHARED_MEMORY, os.W_OK)
    path = tempfile.mkdtemp(prefix="ottla-", dir=SHARED_MEMORY if has_memory else None)
    return path, lambda: shutil.rmtree(path, ignore_errors=True)


def leave() -> None:
    """Does nothing: any other directory stays."""
