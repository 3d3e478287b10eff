"""`ottla completion`: the script by which a shell asks `ottla` for completions."""

import click
from click.shell_completion import get_completion_class

from ottla.cli.terminal import ExampleCommand

VARIABLE = "_OTTLA_COMPLETE"
"""The variable by which click recognizes a shell's request."""


@click.command(
    "completion",
    cls=ExampleCommand,
    examples=(
        'eval "$(ottla completion bash)"    # in ~/.bashrc; zsh alike, after compinit',
        "ottla completion fish > ~/.config/fish/completions/ottla.fish",
    ),
)
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
def completion_command(shell: str) -> None:
    """Print the completion script of SHELL: bash, zsh or fish.

    Completes commands and options, and once a target is given, the names of its topics and groups.
    """
    root = click.get_current_context().find_root().command
    found = get_completion_class(shell)
    assert found is not None
    script = found(root, {}, "ottla", VARIABLE)
    click.echo(script.source_template % script.source_vars())
