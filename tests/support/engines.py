"""Both ways to scan records: compiled, and with numpy alone."""

from collections.abc import Iterator
from unittest.mock import patch

import pytest

from ottla.record import scan

NOT_BUILT = "the extensions are not built here: with a C compiler, `pip install -e .` makes them"


@pytest.fixture(scope="module", params=["compiled", "numpy"])
def scanning(request: pytest.FixtureRequest) -> Iterator[str]:
    """Has the tests of a module run with each."""
    if request.param == "compiled":
        if scan.compiled_scan is None:
            pytest.skip(NOT_BUILT)
        yield request.param
        return
    with patch.object(scan, "compiled_scan", None):
        yield request.param
