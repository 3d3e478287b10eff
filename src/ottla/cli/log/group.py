"""`ottla log`: the commands that look at a log's files themselves, without a broker."""

import click

from ottla.cli.main import LazyGroup

COMMANDS = {
    "dump": ("ottla.cli.log.dump:dump_command", "Print what files of a log hold."),
    "check": ("ottla.cli.log.check:check_command", "Say whether a log is sound, and where not."),
    "give-up": (
        "ottla.cli.log.give_up:give_up_command",
        "Replace a lost partition by an empty one.",
    ),
    "repair": ("ottla.cli.log.repair:repair_command", "Plan how to mend a log, and do it."),
}


class LogGroup(LazyGroup):
    table = COMMANDS


@click.group("log", cls=LogGroup)
def log_group() -> None:
    """Look into a log's files, check them, and mend them. No broker is needed."""
