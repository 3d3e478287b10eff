"""What other people's clients leave behind is not ours to complain of.

An event loop that ends before the sockets of its client are closed leaves them to the collector of
garbage, which comes in that test or in the middle of another.
"""

import gc
import warnings

import pytest

of_clients = pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")
"""Marks a test that other people's clients take part in."""


def collect_leftovers() -> None:
    """Before another test is blamed for them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
