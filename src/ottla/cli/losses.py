"""What files have lost, or brokers do not answer, that a command lists the rest of."""

import sys
from typing import TYPE_CHECKING

import click

from ottla.cli.endings import EXIT_FAILED

if TYPE_CHECKING:
    from ottla.base.errors import UnreachableError


class Losses:
    """Says what is lost on standard error, when it is found, and each once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def __call__(self, line: str) -> None:
        if line not in self._said:
            self._said.add(line)
            click.echo(f"warning: {line}", err=True)

    def leader_is_silent(self, error: "UnreachableError") -> None:
        """Says that a broker does not answer, whose partitions are shown as empty."""
        self(f"a broker does not answer, and the partitions that it leads count as empty: {error}")

    def coordinator_is_silent(self, error: "UnreachableError") -> None:
        """Says that a broker does not answer, whose transactional ids are left out."""
        self(f"a broker does not answer, and its transactional ids are left out: {error}")

    def no_verdict(self, error: "UnreachableError") -> None:
        """Says that a broker does not answer, without which no transaction counts as hanging."""
        self(
            "a broker does not answer, and whether a transaction hangs is not known, since it may "
            f"coordinate it: {error}"
        )

    def open_transactions_are_left_out(self, error: "UnreachableError") -> None:
        """Says that a broker does not answer, in whose partitions transactions may be open."""
        self(
            "a broker does not answer, and what is open in partitions that it leads is left out: "
            f"{error}"
        )

    def directories_are_left_out(self, error: "UnreachableError") -> None:
        """Says that a broker does not answer, whose directories are not explained."""
        self(f"a broker does not answer, and its directories are left out: {error}")

    def __bool__(self) -> bool:
        return bool(self._said)

    def end(self) -> None:
        """Exits with 1 if something is lost."""
        if self:
            sys.exit(EXIT_FAILED)
