"""`ottla`: a group that imports a command when it is called, so that start-up stays short."""

import importlib
import sys
from typing import Any

import click

from ottla.base.errors import ApiError, CorruptionError, StorageError, UserError

COMMANDS = {
    "serve": ("ottla.cli.serve.command:serve_command", "Serve a data directory to Kafka clients."),
    "records": (
        "ottla.cli.topic.records:records_command",
        "Print the records of a data directory.",
    ),
    "load": ("ottla.cli.load.command:load_command", "Load a topic into Parquet with Spark."),
    "table": ("ottla.cli.table.group:table_group", "Read a table, and keep its files in order."),
    "audit": ("ottla.cli.table.audit:audit_command", "Prove that a table equals its log."),
    "compact": (
        "ottla.cli.topic.compact:compact_command",
        "Compact a topic now, here or on Spark.",
    ),
    "adopt": (
        "ottla.cli.directory.adopt:adopt_command",
        "Say what another Kafka's topics are to keep.",
    ),
    "mirror": ("ottla.cli.mirror.command:mirror_command", "Copy another log here, byte for byte."),
    "doctor": (
        "ottla.cli.doctor.command:doctor_command",
        "Look a broker over: what is wrong, what helps.",
    ),
    "explain": ("ottla.cli.explain.group:explain_group", "Say why data stays, or goes."),
    "transactions": (
        "ottla.cli.transactions.group:transactions_group",
        "See a broker's transactions, and end one that hangs.",
    ),
    "handover": (
        "ottla.cli.directory.handover:handover_command",
        "Let Apache Kafka start on a data directory.",
    ),
    "log": ("ottla.cli.log.group:log_group", "Look into a log's files, check them, and mend them."),
}
"""Name -> where the command is, and its line in `ottla --help`."""

EXIT_USAGE = 2
EXIT_FAILED = 1


class LazyGroup(click.Group):
    """Knows its commands' names and help lines without importing them."""

    table = COMMANDS

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        module_name, attribute = self.table[cmd_name][0].split(":")
        command: click.Command = getattr(importlib.import_module(module_name), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.table.items()])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="ottla")
def cli() -> None:
    """Apache Kafka's log, in Python: the same files on disk, the same bytes on the wire."""


def main(arguments: list[str] | None = None) -> Any:
    """Runs a command; what a person did wrong is one line on standard error and exit code 2.

    A disk that fails, or a log that is damaged, is one line too, and exit code 1.
    """
    try:
        return cli.main(args=arguments, prog_name="ottla")
    except UserError as error:
        click.echo(f"ottla: {error}", err=True)
        sys.exit(EXIT_USAGE)
    except (ApiError, CorruptionError, StorageError) as error:
        click.echo(f"ottla: {error}", err=True)
        sys.exit(EXIT_FAILED)
    except BrokenPipeError:
        # The reader of a pipe (head, say) has seen enough.
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        # What a file is that cannot be read (a FIFO, a link, a folder) is said by whoever opens it.
        click.echo(f"ottla: {error.filename or 'a file'}: {error.strerror or error}", err=True)
        sys.exit(EXIT_FAILED)
