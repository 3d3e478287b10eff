"""Limits of the system, as a user's shell may have them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

FEW = 100


@contextmanager
def few_open_files() -> Iterator[None]:
    """Few more than this process has, for it and its children; they may ask for more."""
    resource = pytest.importorskip("resource", reason="no such limit on this system")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    last = max(map(int, os.listdir("/dev/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (last + 1 + FEW, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
