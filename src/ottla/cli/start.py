"""`ottla`, as the shell starts it."""

import atexit
import gc
import os
from typing import Any

NEW_OBJECTS = 50_000
"""More than a short command creates, and few compared with what a long one uses."""


STORE_LOG = "warn,aws_config=off"
"""What `deltalake` logs: that there are no credentials is in its error too."""


def main() -> Any:
    """Runs a command."""
    # What a short command imports stays until its end: nothing in it is worth a search, from the
    # first import on.
    gc.set_threshold(NEW_OBJECTS)
    atexit.register(gc.freeze)
    os.environ.setdefault("RUST_LOG", STORE_LOG)
    from ottla.cli.main import main as run

    return run()
