"""`ottla`, as the shell starts it."""

import atexit
import gc
from typing import Any

NEW_OBJECTS = 50_000
"""More than a short command creates, and few compared with what a long one uses."""


def main() -> Any:
    """Runs a command."""
    # What a short command imports stays until its end: nothing in it is worth a search, from the
    # first import on.
    gc.set_threshold(NEW_OBJECTS)
    atexit.register(gc.freeze)
    from ottla.cli.main import main as run

    return run()
