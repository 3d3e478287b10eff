"""Tables as lines of text, as wide as needed, at most as wide as the terminal.

Needs no package: importing `rich` takes as long as a broker takes to answer.
"""

import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

import click

GAP = "   "
LEAST_WIDTH = 8
"""Minimum width of a narrowed column."""


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table on standard output; a heading that begins with `#` marks a column of numbers.

    On a narrow terminal cells are wrapped; elsewhere each row is one line.
    """
    is_screen = sys.stdout.isatty()
    width = _screen_width() if is_screen else None
    texts = [["" if cell is None else str(cell) for cell in row] for row in rows]
    heading, rule, *lines = table_lines(columns, texts, width)
    if is_screen:
        heading, rule = click.style(heading, bold=True), click.style(rule, dim=True)
    for line in (heading, rule, *lines):
        click.echo(line)


def _screen_width() -> int:
    import shutil  # With its compressors: not for what goes into a pipe.

    return shutil.get_terminal_size().columns


def table_lines(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None
) -> list[str]:
    """Returns heading, rule and rows; no line is longer than `width` if the columns can be
    shrunk that far.
    """
    headings = [one.removeprefix("#") for one in columns]
    are_numbers = [one.startswith("#") for one in columns]
    natural = [max(map(_width, column)) for column in zip(headings, *rows, strict=True)]
    widths = natural if width is None else _fitted(natural, are_numbers, width)
    lines = [line for row in (headings, *rows) for line in _row_lines(row, widths, are_numbers)]
    heading_count = max(len(_folded(one, size)) for one, size in zip(headings, widths, strict=True))
    rule = "─" * (sum(widths) + len(GAP) * (len(widths) - 1))
    first = "\n".join(lines[:heading_count])
    return [first, rule, *lines[heading_count:]]


def _fitted(natural: list[int], are_numbers: list[bool], width: int) -> list[int]:
    """Shrinks the widest columns of text, one character at a time."""
    widths = list(natural)
    room = width - len(GAP) * (len(widths) - 1)
    while sum(widths) > room:
        text = [one for one, is_number in zip(widths, are_numbers, strict=True) if not is_number]
        widest = max(text, default=0)
        if widest <= LEAST_WIDTH:
            break
        chosen = next(
            index for index, size in enumerate(widths) if size == widest and not are_numbers[index]
        )
        widths[chosen] -= 1
    return widths


def _row_lines(row: Sequence[str], widths: list[int], are_numbers: list[bool]) -> Iterator[str]:
    cells = [_folded(cell, size) for cell, size in zip(row, widths, strict=True)]
    for number in range(max(map(len, cells))):
        parts = []
        for cell, size, is_number in zip(cells, widths, are_numbers, strict=True):
            text = cell[number] if number < len(cell) else ""
            space = " " * (size - _width(text))
            parts.append(space + text if is_number else text + space)
        yield GAP.join(parts).rstrip()


def _folded(text: str, width: int) -> list[str]:
    """Wraps text to a width, after a space or a dash where there is one."""
    lines = []
    while _width(text) > width:
        end = _cut(text, width)
        found = max(text.rfind(mark, 0, end) for mark in (" ", "-", ",", ".", "/"))
        end = found + 1 if found > 0 else end
        lines.append(text[:end].rstrip())
        text = text[end:].lstrip()
    return [*lines, text]


def _cut(text: str, width: int) -> int:
    """Returns how many characters fit, at least one."""
    taken = 0
    for number, character in enumerate(text):
        taken += _width(character)
        if taken > width:
            return max(1, number)
    return len(text)


def _width(text: str) -> int:
    """Width on a terminal: East Asian characters take two columns."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)
