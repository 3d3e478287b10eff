"""Every command's help opens with an example, and the examples are right."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from ottla.cli.main import LazyGroup, cli
from ottla.cli.mirror.mirror_command import MirrorCommand
from ottla.cli.mirror.verify import verify_command
from ottla.cli.terminal import ExampleCommand


def commands(
    group: click.Group, words: tuple[str, ...] = ()
) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, (*words, name))
        else:
            yield " ".join((*words, name)), command
            if isinstance(command, MirrorCommand):
                yield " ".join((*words, name, "verify")), verify_command


COMMANDS = dict(commands(cli))
GROUPS = {"": cli} | {
    name: found
    for name in cli.list_commands(click.Context(cli))
    if isinstance(found := cli.get_command(click.Context(cli), name), LazyGroup)
}


LACKING = {
    "--json": {
        "completion": "its output is a script of the shell",
        "serve": "it runs until it is stopped; ottla status --json reports what its line says",
    },
    "--quiet": {"completion": "the script is all that it prints"},
    "-q": {"completion": "as --quiet"},
}
"""Commands without an option that all others have, and the reason. That of `produce` is a format of
its input: --json-report prints an object.
"""


def test_every_command_has_json_and_quiet_or_a_reason_to_lack_it() -> None:
    options = {name: {at for one in it.params for at in one.opts} for name, it in COMMANDS.items()}
    for option, reasons in LACKING.items():
        lacking = {name for name, known in options.items() if option not in known}
        assert lacking == set(reasons), option


@pytest.mark.parametrize("name", COMMANDS)
def test_help_opens_with_an_example_that_is_understood(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts = tmp_path / "contexts.toml"
    contexts.write_text('contexts = { prod = { target = "a:1" }, test = { target = "b:1" } }')
    monkeypatch.setenv("OTTLA_CONTEXTS", str(contexts))
    command = COMMANDS[name]
    assert isinstance(command, ExampleCommand)
    assert command.examples
    own = ["ottla", *name.split()]
    for example in command.examples:
        calls = [words for words in calls_in(example) if words[: len(own)] == own]
        assert calls, f"{example} calls another command"
        for words in calls:
            command.make_context(name, words[len(own) :])


def test_help_of_several_commands_opens_with_examples_of_them() -> None:
    for name, group in GROUPS.items():
        assert group.examples[0].startswith(f"ottla {name}")
        for example in group.examples:
            called = [one for one in COMMANDS if f"{example} ".startswith(f"ottla {one} ")]
            words = shlex.split(example)[1 + len(called[0].split()) :]
            COMMANDS[called[0]].make_context(name, words)


def test_a_misspelt_command_is_answered_with_the_nearest() -> None:
    result = CliRunner().invoke(cli, ["topcs", "list"])
    assert result.exit_code == 2
    assert "There is no command topcs. Did you mean topics" in result.output
    assert "no command lst. Did you mean list?" in CliRunner().invoke(cli, ["groups", "lst"]).output


def test_an_unknown_verb_is_answered_with_the_verbs_that_there_are() -> None:
    output = CliRunner().invoke(cli, ["groups", "seek"]).output
    assert "There is no command seek. There are list, describe, reset, " in output


def test_a_number_that_is_none_is_answered_in_plain_words() -> None:
    result = CliRunner().invoke(cli, ["topics", "create", "data", "orders", "-p", "x"])
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        2,
        "Error: Invalid value for '--partitions' / '-p': 'x' is not a whole number.",
    )


def calls_in(line: str) -> Iterator[list[str]]:
    """The commands of a shell's line, those in `$(...)` too, without what goes into files."""
    for substituted in re.findall(r"\$\((.*?)\)", line):
        yield from calls_in(substituted)
    words: list[str] = []
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|><")
    lexer.commenters, lexer.whitespace_split = "", True
    for word in lexer:
        if word in ("|", ">", "<"):
            yield words
            words = []
        else:
            words.append(word)
    yield words


@pytest.mark.parametrize("columns", [40, 60])
def test_no_line_of_prose_is_wider_than_a_narrow_screen(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Examples, and the names of options, are not broken: they are pasted."""
    monkeypatch.setenv("COLUMNS", str(columns))
    for name, command in {**COMMANDS, **GROUPS}.items():
        lines = command.make_context(name, ["--help"], resilient_parsing=True).get_help()
        wide = [one for one in lines.splitlines() if len(one) > columns]
        names = re.compile(r"\$ |  -|Usage: |  +\S+$")
        assert not [one for one in wide if not names.match(one)]
