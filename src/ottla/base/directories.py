"""Directories that only their owner can write into, whatever the umask allows.

Another user who can write into a log directory can replace the files of users and ACLs.
"""

import os
from typing import Final

MODE: Final = 0o755


def make_directories(path: str) -> None:
    """Creates the directory and its missing parents; an existing directory keeps its mode."""
    parent = os.path.dirname(path)
    if parent and not os.path.exists(parent):
        make_directories(parent)
    os.makedirs(path, MODE, exist_ok=True)
