"""Ends threads that may wait for a disk, and nobody knows for how long."""

from collections.abc import Callable, Sequence
from threading import Thread
from typing import Final

from ottla.base.clock import Clock

QUIET_S: Final = 5.0
"""How long is waited before people are told."""

LIMIT_S: Final = 30.0
"""How long is waited in all: service managers kill after 90 s."""

DEEDS: Final = {
    "ottla-quorum": "a write to the metadata log",
    "ottla-quorum-sync": "a sync of the metadata log",
    "ottla-quorum-snapshot": "a snapshot of the metadata log",
}
"""What the threads do that may hang."""


def have_ended(
    threads: Sequence[Thread | None], clock: Clock, complain: Callable[[str], None]
) -> bool:
    """Waits for threads that are to end; says what it waits for, and what it leaves."""
    begun_ms = clock.monotonic_ms()

    def left_after(limit_s: float) -> str:
        for one in threads:
            if one is not None and one.ident is not None:
                one.join(max(begun_ms / 1000 + limit_s - clock.monotonic_ms() / 1000, 0.0))
        names = [one.name for one in threads if one is not None and one.is_alive()]
        return " and ".join(DEEDS.get(one, one) for one in names)

    if left := left_after(QUIET_S):
        complain(f"stopping waits for the disk: {left} has not returned for {QUIET_S:g} s")
    if left and (left := left_after(LIMIT_S)):
        complain(
            f"stopping without {left}, which has not returned for {LIMIT_S:g} s; the next start "
            "reads all of the log again"
        )
    return not left
