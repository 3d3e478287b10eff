"""`ottla context add|list|show|use|remove`: named targets, kept in the user's own file."""

import os
from dataclasses import replace

import click

from ottla.base.errors import UserError
from ottla.cli.contexts import NAME, Context, Contexts, read_contexts, write_contexts
from ottla.cli.output import NAMES_ONLY, Output, output_options
from ottla.cli.settings_files import is_secret, parse_setting, read_client_settings
from ottla.cli.target import parse_target
from ottla.cli.terminal import ExampleCommand

NO_CONTEXTS = "there are no contexts yet: ottla context add prod HOST:PORT"


@click.command(
    "add",
    cls=ExampleCommand,
    examples=(
        "ottla context add local localhost:9092",
        "ottla context add prod kafka:9093 -o security.protocol=SSL",
    ),
)
@click.argument("name")
@click.argument("target")
@click.option(
    "-o",
    "-X",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Client setting, such as sasl.username=me; repeatable.",
)
@click.option(
    "--client-config",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="File of client settings to copy.",
)
@click.option("--use", "is_used", is_flag=True, help="Also make it the current context.")
@output_options()
def add_command(
    name: str,
    target: str,
    settings: tuple[str, ...],
    client_config: str | None,
    is_used: bool,
    output: Output,
) -> None:
    """Give TARGET, a data directory or HOST:PORT, the name NAME.

    Every command then accepts @NAME as TARGET. Client settings have librdkafka's names.
    """
    if not NAME.fullmatch(name):
        raise UserError(
            f"{name}: a context's name is letters, digits, dots, dashes and underscores"
        )
    given = read_client_settings(client_config)
    given.update(parse_setting(one, "security.protocol=SSL") for one in settings)
    if target.startswith("@"):
        raise UserError(f"{target} is a context itself; name a data directory or HOST:PORT")
    parsed = parse_target(target, given)
    if parsed.is_directory:
        target = os.path.abspath(target)
    else:
        from ottla.client.connecting.settings import admin_settings

        admin_settings(given)
    contexts = read_contexts()
    added = Context(name=name, target=target, settings=given)
    known = {**contexts.known, name: added}
    current = name if is_used or not contexts.known else contexts.current
    changed = replace(contexts, known=known, current=current)
    write_contexts(changed)
    how = "used when no target is named" if current == name else f"named by @{name}"
    output.say(f"context {name}: {target}, {how}", _fields(changed, added))


@click.command("list", cls=ExampleCommand, examples=("ottla context list",))
@output_options(NAMES_ONLY)
def list_command(output: Output) -> None:
    """List the contexts; a star marks the current one."""
    contexts = read_contexts()
    found = [one for _, one in sorted(contexts.known.items())]
    output.listing(
        found,
        ("", "name", "target", "settings"),
        (
            ("*" if one.name == contexts.current else "", one.name, one.target,
             ", ".join(_shown(one)))
            for one in found
        ),
        fields=lambda one: _fields(contexts, one),
        name=lambda one: one.name,
        none=NO_CONTEXTS,
    )  # fmt: skip


@click.command("show", cls=ExampleCommand, examples=("ottla context show prod",))
@click.argument("name", required=False)
@output_options(NAMES_ONLY)
def show_command(name: str | None, output: Output) -> None:
    """Show the context NAME, or the current one."""
    contexts = read_contexts()
    wanted = name or contexts.current
    if wanted is None:
        raise UserError(f"no context is current; {NO_CONTEXTS}")
    one = contexts.named(wanted)
    if output.is_brief:
        output.names([one.name])
        return
    is_current = " (current)" if contexts.current == one.name else ""
    lines = [f"{one.name}{is_current}: {one.target}", *(f"  {line}" for line in _shown(one))]
    output.say("\n".join(lines), _fields(contexts, one))


@click.command("use", cls=ExampleCommand, examples=("ottla context use prod",))
@click.argument("name", required=False)
@click.option("--none", "is_none", is_flag=True, help="Use no context from now on.")
@output_options()
def use_command(name: str | None, is_none: bool, output: Output) -> None:
    """Make NAME the context of commands that name no target."""
    contexts = read_contexts()
    if (name is None) != is_none:
        raise UserError("name either a context, or --none")
    if name is not None:
        contexts.named(name)
    write_contexts(replace(contexts, current=name))
    done = "no context is used" if name is None else f"context {name} is used"
    output.say(f"{done} when no target is named", {"current": name})


@click.command("remove", cls=ExampleCommand, examples=("ottla context remove prod",))
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@output_options()
def remove_command(names: tuple[str, ...], output: Output) -> None:
    """Remove contexts. The brokers and directories that they name are left alone."""
    contexts = read_contexts()
    for name in names:
        contexts.named(name)
    known = {name: one for name, one in contexts.known.items() if name not in names}
    current = None if contexts.current in names else contexts.current
    write_contexts(replace(contexts, known=known, current=current))
    removed = ({"name": name, "is_deleted": True} for name in names)
    output.say(f"removed {', '.join(names)}", *removed)


def _fields(contexts: Contexts, one: Context) -> dict[str, object]:
    return {
        "name": one.name,
        "target": one.target,
        "is_current": one.name == contexts.current,
        "settings": dict(line.split("=", 1) for line in _shown(one)),
    }


def _shown(one: Context) -> list[str]:
    """Returns the settings with secret values hidden."""
    return [
        f"{name}={'(hidden)' if is_secret(name) else value}" for name, value in one.settings.items()
    ]
