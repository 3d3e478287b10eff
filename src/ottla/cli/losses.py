"""What files have lost that a command lists the rest of."""

import sys

import click

from ottla.cli.endings import EXIT_FAILED


class Losses:
    """Says what is lost on standard error, when it is found."""

    def __init__(self) -> None:
        self._count = 0

    def __call__(self, line: str) -> None:
        self._count += 1
        click.echo(f"warning: {line}", err=True)

    def __bool__(self) -> bool:
        return self._count > 0

    def end(self) -> None:
        """Exits with 1 if something is lost."""
        if self:
            sys.exit(EXIT_FAILED)
