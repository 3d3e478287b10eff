"""A line about work that takes more than a second; nothing if standard error is not a terminal."""

import os
import stat
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self, TextIO

from ottla.base.texts import size_text
from ottla.cli.terminal import draw_over

FIRST_S = 1.0
STEP_S = 0.2


class LateLine:
    """Used in a `with` statement, which removes the line.

    A thread draws the line while the work itself reports nothing.
    """

    def __init__(self, words: str, *, is_quiet: bool) -> None:
        self._title = self._words = words
        self._is_shown = not is_quiet and sys.stderr.isatty()
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._has_line = False

    def __enter__(self) -> Self:
        self._began_s = time.monotonic()
        self._next_s = self._began_s + FIRST_S
        if self._is_shown:
            threading.Thread(target=self._redraw, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        """Removes the line for good; further calls change nothing."""
        with self._lock:
            self._over.set()
            self._clear()

    def say(self, words: str) -> None:
        """Changes the words; draws the line if it is due."""
        with self._lock:
            self._words = words
            self._draw()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Removes the line while the block prints."""
        with self._lock:
            self._clear()
            yield

    def _redraw(self) -> None:
        while not self._over.wait(STEP_S):
            with self._lock:
                self._draw()

    def _draw(self) -> None:
        now_s = time.monotonic()
        if not self._is_shown or self._over.is_set() or now_s < self._next_s:
            return
        self._next_s = now_s + STEP_S
        self._has_line = True
        draw_over(f"{self._words} ({now_s - self._began_s:.0f} s)")

    def _clear(self) -> None:
        if self._has_line:
            self._has_line = False
            draw_over("")


class CountLine(LateLine):
    """A line with how much of a known total is done."""

    def __init__(self, verb: str, noun: str, *, is_quiet: bool) -> None:
        super().__init__(verb, is_quiet=is_quiet)
        self._noun = noun

    def show(self, done: int, total: int) -> None:
        """Draws the line again, when it is due."""
        self.say(f"{self._title}: {done:,} of {total:,} {self._noun}")


class CopyLine(LateLine):
    """A line with how many bytes are copied."""

    def show(self, done: int, total: int) -> None:
        """Draws the line again, when it is due."""
        self.say(f"{self._title}: {size_text(done)} of {size_text(total)}")


def is_file(stream: TextIO) -> bool:
    """Whether a stream is a file on a disk: neither a terminal nor a pipe."""
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except OSError:  # A stream in memory.
        return False
