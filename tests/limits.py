"""Limits of the system, as a user's shell may have them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def few_open_files() -> Iterator[None]:
    """256 for this process and its children, as a Mac has it; they may ask for more."""
    resource = pytest.importorskip("resource", reason="no such limit on this system")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
