"""What all crash tests share."""

import logging

import pytest


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Recoveries have much to warn of, and a formatted line costs more than some of them."""
    caplog.set_level(logging.CRITICAL)
