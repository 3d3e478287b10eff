"""Writes the two pages of commands, docs/cli.md first, from what `--help` is made of."""

import inspect
from collections.abc import Iterator, Set
from pathlib import Path

import click

from ottla.cli.main import cli
from ottla.cli.mirror.mirror_command import MirrorCommand
from ottla.cli.mirror.verify import verify_command
from ottla.cli.output import ERRORS_ONLY, NAMES_ONLY, RESULTS_ONLY
from ottla.cli.target import TargetCommand
from ottla.cli.terminal import ExampleCommand

USUAL = (ERRORS_ONLY, NAMES_ONLY, RESULTS_ONLY)
"""Meanings of `-q` that the head of the page explains."""

PAGE = Path(__file__).resolve().parent / "cli.md"
"""What all commands share, all commands in a table, and the commands up to `sql`."""

UPKEEP_PAGE = PAGE.with_name("cli-upkeep.md")
"""The commands from `load` on: one page with all would be longer than anybody reads."""

FIRST_OF_UPKEEP = "load"

BEGIN = "<!-- from here on made by `make docs` from the commands in src/ottla/cli -->"

UPKEEP_HEAD = """# Commands for tables and upkeep

<!-- made by `make docs` from the commands in src/ottla/cli -->

What all commands share, and a table of them all, is on the [first page](cli.md).
"""


def pages() -> dict[Path, str]:
    """The text of each page; that of the first begins with what a person wrote."""
    words = [words for words, _ in commands()]
    count = next(i for i, one in enumerate(words) if one.split()[1] == FIRST_OF_UPKEEP)
    head = PAGE.read_text().partition(BEGIN)[0]
    sections = [*_sections()]
    first = [head + BEGIN, "", *_index({*words[count:]}), *sections[:count]]
    return {
        page: "\n".join(parts).rstrip() + "\n"
        for page, parts in ((PAGE, first), (UPKEEP_PAGE, [UPKEEP_HEAD, *sections[count:]]))
    }


def commands(group: click.Group = cli, words: str = "ottla") -> Iterator[tuple[str, click.Command]]:
    """Every command that does something, with the words that call it."""
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{words} {name}")
        else:
            yield f"{words} {name}", command
            if isinstance(command, MirrorCommand):
                yield f"{words} {name} verify", verify_command


def _index(of_upkeep: Set[str]) -> list[str]:
    lines = ["| command | purpose |", "|---|---|"]
    for words, command in commands():
        page = UPKEEP_PAGE.name if words in of_upkeep else ""
        link = f"{page}#{words.replace(' ', '-')}"
        lines.append(f"| [`{words}`]({link}) | {command.get_short_help_str(200)} |")
    return [*lines, ""]


def _sections() -> Iterator[str]:
    for words, command in commands():
        yield "\n".join(_section(words, command))


def _section(words: str, command: click.Command) -> Iterator[str]:
    yield f"## `{words}`\n"
    examples = command.examples if isinstance(command, ExampleCommand) else ()
    context = click.Context(command, info_name=words)
    # All have options, which the table has.
    pieces = command.collect_usage_pieces(context)
    usage = " ".join(one for one in pieces if one != "[OPTIONS]")
    yield "```"
    yield from (f"$ {line}" for line in examples)
    yield f"usage: {words} {usage}".rstrip()
    yield "```\n"
    yield inspect.cleandoc(command.help or "") + "\n"
    rows = list(_options(command, context))
    if rows:
        yield "| option | meaning |\n|---|---|"
        yield "\n".join(f"| `{name}` | {text} |" for name, text in rows) + "\n"


def _options(command: click.Command, context: click.Context) -> Iterator[tuple[str, str]]:
    """Those that are the command's own, as `--help` has them, and a `-q` with its own meaning."""
    has_target = isinstance(command, TargetCommand)
    shared = ExampleCommand.SHARED if has_target else {"--json", "--quiet", "--help"}
    for one in command.params:
        if not isinstance(one, click.Option):
            continue
        is_own = not shared & {*one.opts}
        if is_own or (one.name == "is_quiet" and one.help not in USUAL):
            record = one.get_help_record(context)
            if record is not None:
                yield record[0].replace("|", "\\|"), record[1].replace("|", "\\|")
