"""Prints a command's results: as text, as objects with `--json`, or less or nothing with `-q`.

    @output_options()
    def delete_command(target: Target, names: tuple[str, ...], output: Output) -> None:
        ...
        output.say(f"deleted {name}", {"topic": name, "is_deleted": True})

Where both are given, `--json` decides what is printed on standard output.
"""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

from ottla.base.values import dataclass
from ottla.cli.tables import print_rows
from ottla.cli.terminal import confirm, counted, print_json, with_options

ERRORS_ONLY = "Print nothing but errors."
NAMES_ONLY = "Print names only, one per line."
RESULTS_ONLY = "Print results only, and no remarks."

Found = TypeVar("Found")

json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON object per line."
)


def quiet_option(what: str = RESULTS_ONLY) -> Callable[[Any], Any]:
    """Adds `-q` alone; `what` is its help."""
    return click.option("--quiet", "-q", "is_quiet", is_flag=True, help=what)


@dataclass(frozen=True, slots=True)
class Output:
    """How a command prints."""

    as_json: bool = False
    is_quiet: bool = False
    """Whether `-q` was given, alone or with `--json`: neither remarks nor progress are printed."""

    @property
    def is_brief(self) -> bool:
        """Whether only what `-q` leaves is printed."""
        return self.is_quiet and not self.as_json

    @property
    def is_prose(self) -> bool:
        """Whether everything is printed, for people."""
        return not self.is_quiet and not self.as_json

    def say(self, text: str, *objects: Mapping[str, Any]) -> None:
        """Prints what was done: a text for people, or the objects; nothing with `-q`."""
        if self.as_json:
            for one in objects:
                print_json(one)
        elif not self.is_quiet:
            click.echo(text)

    def remark(self, text: str) -> None:
        """Prints a line for people on standard error."""
        if not self.is_quiet:
            click.echo(text, err=True)

    def names(self, names: Iterable[object]) -> None:
        """Prints each name once, whatever was asked for."""
        for one in dict.fromkeys(names):
            click.echo(one)

    def listing(
        self,
        found: Sequence[Found],
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        fields: Callable[[Found], Mapping[str, Any]],
        name: Callable[[Found], object],
        none: str,
    ) -> None:
        """Prints what a command lists: objects of `fields`, with `-q` the names, or a table.

        `rows` may be an iterator, which is only used for a table. If there is nothing to list,
        `none` says so on standard error.
        """
        if self.as_json:
            for one in found:
                print_json(fields(one))
        elif self.is_quiet:
            self.names(map(name, found))
        elif found:
            print_rows(columns, list(rows))
        else:
            click.echo(none, err=True)


def may_move(
    moves: Sequence[str],
    objects: Iterable[Mapping[str, Any]],
    output: Output,
    *,
    is_dry_run: bool,
    is_confirmed: bool,
) -> bool:
    """Prints a plan, a line for each partition, and asks; returns whether it is to be carried out,
    which it is not with `--dry-run`.
    """
    if not moves:
        output.say("nothing is to be moved")
        return False
    plan = "\n".join(moves)
    if is_dry_run:
        output.say(plan, *objects)
        return False
    output.say(plan)
    confirm(f"Move {counted(len(moves), 'partition')}?", is_confirmed=is_confirmed)
    return True


def output_options(what: str = ERRORS_ONLY) -> Callable[[Callable[..., None]], Any]:
    """Adds `--json` and `-q` to a command, which takes them as one parameter, `output: Output`.

    `what` is the help of `-q`.
    """

    def add(command: Callable[..., None]) -> Any:
        @functools.wraps(command)
        def with_output(*args: Any, as_json: bool, is_quiet: bool, **more: Any) -> None:
            command(*args, output=Output(as_json, is_quiet), **more)

        return with_options(json_option, quiet_option(what))(with_output)

    return add
