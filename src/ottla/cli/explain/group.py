"""`ottla explain`: why the broker does, or does not do, what it does by itself."""

import click

from ottla.cli.main import LazyGroup

COMMANDS = {
    "compaction": (
        "ottla.cli.explain.compaction:compaction_command",
        "Say how far a topic is compacted, and what keeps the cleaner from the rest.",
    ),
    "retention": (
        "ottla.cli.explain.retention:retention_command",
        "Say when each segment of a topic is deleted, and what keeps it.",
    ),
    "stuck": (
        "ottla.cli.explain.stuck:stuck_command",
        "Say which transaction keeps read_committed consumers waiting, and what ends it.",
    ),
}


class ExplainGroup(LazyGroup):
    table = COMMANDS


@click.group("explain", cls=ExplainGroup)
def explain_group() -> None:
    """Say why a broker does, or does not do, what it does by itself. Nothing is written."""
