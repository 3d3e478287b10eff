"""How long a test waits for what must come.

None that passes waits as long: it is for a host of a tenth of the usual speed whose processors are
busy, and ends a test that would otherwise wait forever.
"""

import time
from collections.abc import Callable
from typing import TypeVar

PATIENCE_S = 150
LOOK_S = 0.01

Found = TypeVar("Found")


def wait_until(
    is_so: Callable[[], Found], what: str | Callable[[], str] = "it did not come"
) -> Found:
    """What it returns once it is true, for what other threads and processes do.

    `what` is wrong where it does not become so.
    """
    deadline_s = time.monotonic() + PATIENCE_S
    while not (found := is_so()):
        if time.monotonic() >= deadline_s:
            raise AssertionError(what if isinstance(what, str) else what())
        time.sleep(LOOK_S)
    return found
