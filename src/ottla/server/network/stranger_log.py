"""Limits what is logged about unauthenticated peers, so that they cannot fill a disk."""

import logging
from typing import Final

LOG_INTERVAL_MS: Final = 1000.0


class StrangerLog:
    """One line per interval, with the number of suppressed lines since the last."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._next_ms = 0.0
        self._unlogged = 0

    def warn(self, text: str, now_ms: float) -> None:
        if now_ms < self._next_ms:
            self._unlogged += 1
            return
        others = f" (and {self._unlogged} others since the last)" if self._unlogged else ""
        self._logger.warning("%s%s", text, others)
        self._unlogged = 0
        self._next_ms = now_ms + LOG_INTERVAL_MS
