"""Output on a terminal: the layout of `--help`, for which click needs at least 50 columns, and
click's errors in plain words.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import click
from click import formatting

NARROW = 50
LEAST_WIDTH = 20
MARGIN = 2


class ScreenFormatter(click.HelpFormatter):
    """On a narrow terminal, puts names on a line of their own, with their descriptions below."""

    def __init__(
        self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None
    ) -> None:
        super().__init__(indent_increment, width, max_width)
        if width is None and formatting.FORCED_WIDTH is None:
            import shutil  # Click has imported it here too.

            columns = shutil.get_terminal_size().columns
            self.width = min(self.width, max(columns - MARGIN, LEAST_WIDTH))

    def write_dl(
        self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2
    ) -> None:
        if self.width < NARROW:
            col_max = self.width // 4
        super().write_dl(rows, col_max, col_spacing)


class ScreenContext(click.Context):
    """The context of every command: output through click is printed as it is. For what is not a
    terminal, click would cut out of names and data what looks like a colour.
    """

    formatter_class = ScreenFormatter

    def __init__(self, *arguments: Any, **more: Any) -> None:
        super().__init__(*arguments, **more)
        self.color = True


@contextmanager
def in_plain_words() -> Iterator[None]:
    """Calls a number a number."""
    try:
        yield
    except click.BadParameter as error:
        message = error.message.replace("a valid integer range", "a whole number")
        if message == error.message:
            raise
        raise click.BadParameter(message, error.ctx, error.param, error.param_hint) from None
