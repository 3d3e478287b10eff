"""Tables as lines of text, as wide as needed, at most as wide as the terminal.

Needs no package: importing `rich` takes as long as a broker takes to answer.
"""

import sys
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

import click

from ottla.cli.visible import styled, visible

GAP = "   "
LEAST_WIDTH = 8
"""Minimum width of a narrowed column."""


def print_rows(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Prints a table on standard output; a heading that begins with `#` marks a column of numbers.

    On a narrow terminal cells are wrapped, and where that is not enough each cell is a line;
    elsewhere each row is one line.
    """
    is_screen = sys.stdout.isatty()
    width = _screen_width() if is_screen else None
    shown = visible if is_screen else str
    texts = [["" if cell is None else shown(str(cell)) for cell in row] for row in rows]
    if width is not None and least_width(columns, texts) > width:
        for line in block_lines(columns, texts):
            click.echo(line)
        return
    heading, rule, *lines = table_lines(columns, texts, width)
    for line in (styled(heading, bold=True), styled(rule, dim=True), *lines):
        click.echo(line)


def _screen_width() -> int:
    import shutil  # With its compressors: not for what goes into a pipe.

    return shutil.get_terminal_size().columns


def table_lines(
    columns: Sequence[str], rows: Sequence[Sequence[str]], width: int | None = None
) -> list[str]:
    """Returns heading, rule and rows; no line is longer than `width`, if `least_width` is not."""
    headings = [one.removeprefix("#") for one in columns]
    are_numbers = [one.startswith("#") for one in columns]
    widths, least = _widths(columns, rows)
    if width is not None:
        _shrink(widths, least, width)
    lines = [line for row in rows for line in _row_lines(row, widths, are_numbers)]
    (heading,) = _row_lines(headings, widths, are_numbers)
    return [heading, "─" * _total(widths), *lines]


def least_width(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> int:
    """Width of the table with all columns of text as narrow as they can be."""
    return _total(_widths(columns, rows)[1])


def block_lines(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yields a line for each cell, after its heading, and an empty line between rows."""
    headings = [one.removeprefix("#") for one in columns]
    size = max(map(_width, headings))
    for number, row in enumerate(rows):
        if number:
            yield ""
        for heading, cell in zip(headings, row, strict=True):
            yield f"{heading}{' ' * (size - _width(heading))}  {cell}".rstrip()


def _widths(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> tuple[list[int], list[int]]:
    """Returns the width of each column, and its least one: numbers and headings stay whole."""
    headings = [one.removeprefix("#") for one in columns]
    natural = [max(map(_width, column)) for column in zip(headings, *rows, strict=True)]
    least = [
        size if name.startswith("#") else min(size, max(LEAST_WIDTH, _width(name)))
        for name, size in zip(columns, natural, strict=True)
    ]
    return natural, least


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(GAP) * (len(widths) - 1)


def _shrink(widths: list[int], least: list[int], width: int) -> None:
    """Shrinks the widest columns of text, one character at a time."""
    while _total(widths) > width:
        wide = [index for index, size in enumerate(widths) if size > least[index]]
        if not wide:
            return
        widths[max(wide, key=widths.__getitem__)] -= 1


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
