"""`ottla`: every command by its name; a command is imported when it is called."""

import importlib
import io
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.screen import ScreenContext, in_plain_words

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem


class LazyGroup(click.Group):
    """Knows its commands' names and help lines without importing them.

    `table` has for each name the place of the command and its line in `--help`.
    """

    context_class = ScreenContext

    def __init__(
        self,
        name: str | None,
        table: Mapping[str, tuple[str, str]],
        examples: Sequence[str] = (),
        **more: Any,
    ) -> None:
        super().__init__(name, **more)
        self.table = table
        self.examples = examples

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.table)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.table:
            return None
        module_name, attribute = self.table[cmd_name][0].split(":")
        command: click.Command = getattr(importlib.import_module(module_name), attribute)
        return command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        with in_plain_words():
            return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.table and not args[0].startswith("-") and not ctx.resilient_parsing:
            from ottla.base.errors import nearest

            found = nearest(args[0], self.table)
            hint = f" There are {', '.join(self.table)}." if ctx.parent is not None else ""
            if found:
                hint = f" Did you mean {' or '.join(found)}?"
            ctx.fail(f"There is no command {args[0]}.{hint}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        found = [
            CompletionItem(name, help=line)
            for name, (_, line) in self.table.items()
            if name.startswith(incomplete)
        ]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for line in self.examples:
            formatter.write(f"$ {line}\n")
        formatter.write_paragraph()
        super().format_help(ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in self.table.items()])


table_group = LazyGroup(
    "table",
    {
        "files": ("ottla.cli.table.files:files_command", "List the files of the table."),
        "read": ("ottla.cli.table.read:read_command", "Print rows."),
        "hours": ("ottla.cli.table.hours:hours_command", "List the complete hours."),
        "history": ("ottla.cli.table.history:history_command", "List the commits."),
        "optimize": ("ottla.cli.table.optimize:optimize_command", "Merge small files."),
        "forget": (
            "ottla.cli.table.forget:forget_command",
            "Delete rows on purpose, such as a person's.",
        ),
        "vacuum": ("ottla.cli.table.vacuum:vacuum_command", "Remove replaced files."),
    },
    examples=("ottla table read table/ --limit 10",),
    help="Read a table that `ottla load` filled, and maintain its files.",
)

explain_group = LazyGroup(
    "explain",
    {
        "compaction": (
            "ottla.cli.explain.compaction:compaction_command",
            "Explain how far a topic is compacted, and what delays the cleaner.",
        ),
        "retention": (
            "ottla.cli.explain.retention:retention_command",
            "Explain when each segment of a topic is deleted, and what keeps it.",
        ),
        "stuck": (
            "ottla.cli.explain.stuck:stuck_command",
            "Find the transaction that read_committed consumers wait for, and how to end it.",
        ),
    },
    examples=("ottla explain retention localhost:9092 orders",),
    help="Explain what a broker does automatically, and what it does not. Nothing is written.",
)

transactions_group = LazyGroup(
    "transactions",
    {
        "list": ("ottla.cli.transactions.list:list_command", "List transactional ids."),
        "describe": (
            "ottla.cli.transactions.list:describe_command",
            "Describe transactional ids and their partitions.",
        ),
        "find-hanging": (
            "ottla.cli.transactions.hanging:find_hanging_command",
            "Find open transactions that no coordinator will end.",
        ),
        "abort": (
            "ottla.cli.transactions.hanging:abort_command",
            "Abort a transaction, by its id or its place.",
        ),
    },
    examples=("ottla transactions list localhost:9092",),
    help="Inspect a running broker's transactions, and abort one that hangs.",
)

topics_group = LazyGroup(
    "topics",
    {
        "list": ("ottla.cli.topics.list:list_command", "List topics with sizes and rates."),
        "describe": (
            "ottla.cli.topics.describe:describe_command",
            "Describe partitions, settings and producers.",
        ),
        "create": ("ottla.cli.topics.change:create_command", "Create topics."),
        "alter": ("ottla.cli.topics.change:alter_command", "Change settings of topics."),
        "grow": ("ottla.cli.topics.change:grow_command", "Add partitions to a topic."),
        "move": (
            "ottla.cli.topics.move:move_command",
            "Move partitions to other log directories of their broker.",
        ),
        "copy": ("ottla.cli.topics.copy:copy_command", "Copy a topic to a new one."),
        "delete": ("ottla.cli.topics.change:delete_command", "Delete topics."),
    },
    examples=(
        "ottla topics create localhost:9092 orders -p 3",
        "ottla topics list localhost:9092",
    ),
    help="List, describe, create, change, copy and delete topics.",
)

groups_group = LazyGroup(
    "groups",
    {
        "list": ("ottla.cli.groups.show:list_command", "List groups with their lag."),
        "describe": (
            "ottla.cli.groups.show:describe_command",
            "Describe members, offsets and lag.",
        ),
        "reset": ("ottla.cli.groups.change:reset_command", "Set where a group continues."),
        "commit": ("ottla.cli.groups.change:commit_command", "Commit offsets for a group."),
        "delete": (
            "ottla.cli.groups.change:delete_command",
            "Delete groups, or some of their offsets.",
        ),
    },
    examples=("ottla groups describe localhost:9092 billing",),
    help="See how far consumer groups are behind, and set where they continue.",
)

queue_group = LazyGroup(
    "queue",
    {
        "consume": (
            "ottla.cli.records.share_group:consume_command",
            "Take records, and say what became of each.",
        ),
        "describe": (
            "ottla.cli.queue.show:describe_command",
            "Describe members, offsets, and what is in flight.",
        ),
        "explain": (
            "ottla.cli.queue.show:explain_command",
            "Explain which record is where, and why again.",
        ),
        "redrive": (
            "ottla.cli.queue.redrive:redrive_command",
            "Send dead letters back to their topics.",
        ),
    },
    examples=("ottla queue explain localhost:9092 workers",),
    help="Work with share groups: queues over topics, with locks and dead letters.",
)

configs_group = LazyGroup(
    "configs",
    {
        "get": (
            "ottla.cli.configs.config_commands:get_command",
            "Print settings with their origin.",
        ),
        "set": ("ottla.cli.configs.config_commands:set_command", "Change settings."),
        "unset": ("ottla.cli.configs.config_commands:unset_command", "Remove settings."),
        "explain": ("ottla.cli.configs.config_commands:explain_command", "Explain settings."),
    },
    examples=("ottla configs get localhost:9092 orders",),
    help="See and change settings of topics, brokers and groups.",
)

quotas_group = LazyGroup(
    "quotas",
    {
        "list": ("ottla.cli.quotas.quota_commands:list_command", "List quotas."),
        "set": (
            "ottla.cli.quotas.quota_commands:set_command",
            "Limit a user, a client id or an address.",
        ),
        "remove": ("ottla.cli.quotas.quota_commands:remove_command", "Remove limits."),
        "explain": (
            "ottla.cli.quotas.quota_commands:explain_command",
            "Explain which limits a client is under.",
        ),
    },
    examples=("ottla quotas list localhost:9092",),
    help="Limit what users, client ids and addresses may send and fetch.",
)

users_group = LazyGroup(
    "users",
    {
        "list": ("ottla.cli.users.user_commands:list_command", "List users with passwords."),
        "set": ("ottla.cli.users.user_commands:set_command", "Set a user's password."),
        "remove": ("ottla.cli.users.user_commands:remove_command", "Remove users' passwords."),
    },
    examples=("ottla users list localhost:9092",),
    help="Set and remove the SCRAM passwords of clients.",
)

acls_group = LazyGroup(
    "acls",
    {
        "list": ("ottla.cli.acls.acl_commands:list_command", "List ACLs."),
        "add": ("ottla.cli.acls.acl_commands:add_command", "Allow or deny operations."),
        "remove": ("ottla.cli.acls.acl_commands:remove_command", "Remove ACLs."),
        "may": ("ottla.cli.acls.acl_commands:may_command", "Answer who may do what, and why."),
    },
    examples=("ottla acls list localhost:9092",),
    help="List, change and test access rules.",
)

schemas_group = LazyGroup(
    "schemas",
    {
        "list": ("ottla.cli.schemas.schema_commands:list_command", "List subjects."),
        "show": ("ottla.cli.schemas.schema_commands:show_command", "Print a schema."),
        "check": (
            "ottla.cli.schemas.schema_commands:check_command",
            "Check whether a schema may be the next version.",
        ),
        "register": ("ottla.cli.schemas.schema_commands:register_command", "Register a schema."),
        "level": (
            "ottla.cli.schemas.schema_commands:level_command",
            "Print or set compatibility levels.",
        ),
        "delete": (
            "ottla.cli.schemas.schema_commands:delete_command",
            "Delete subjects or versions.",
        ),
    },
    examples=("ottla schemas list http://localhost:8081",),
    help="List, check, register and delete the schemas of a registry.",
)

tokens_group = LazyGroup(
    "tokens",
    {
        "list": ("ottla.cli.tokens.token_commands:list_command", "List delegation tokens."),
        "create": ("ottla.cli.tokens.token_commands:create_command", "Create a delegation token."),
        "renew": (
            "ottla.cli.tokens.token_commands:renew_command",
            "Extend the lifetime of a token.",
        ),
        "expire": ("ottla.cli.tokens.token_commands:expire_command", "Expire a token."),
    },
    examples=("ottla tokens list localhost:9092",),
    help="Create, renew and expire delegation tokens.",
)

context_group = LazyGroup(
    "context",
    {
        "add": ("ottla.cli.context.context_commands:add_command", "Give a target a name."),
        "list": ("ottla.cli.context.context_commands:list_command", "List the contexts."),
        "show": ("ottla.cli.context.context_commands:show_command", "Show a context's settings."),
        "use": ("ottla.cli.context.context_commands:use_command", "Choose the current context."),
        "remove": ("ottla.cli.context.context_commands:remove_command", "Forget contexts."),
    },
    examples=("ottla context add prod broker1:9092",),
    help="Name targets: @NAME stands for a broker and its security, or for a directory.",
)

log_group = LazyGroup(
    "log",
    {
        "dump": ("ottla.cli.log.dump:dump_command", "Print the contents of a log's files."),
        "check": ("ottla.cli.log.check:check_command", "Check whether a log is sound."),
        "give-up": (
            "ottla.cli.log.give_up:give_up_command",
            "Replace a lost partition by an empty one.",
        ),
        "repair": ("ottla.cli.log.repair:repair_command", "Plan a log's repair, and carry it out."),
    },
    examples=("ottla log check data/",),
    help="Dump, check and repair a log's files. No broker is needed.",
)

tier_group = LazyGroup(
    "tier",
    {
        "list": ("ottla.cli.tier.list:list_command", "List the uploads that lie in a tier."),
        "check": ("ottla.cli.tier.check:check_command", "Check whether a tier is whole."),
        "explain": (
            "ottla.cli.tier.explain:explain_command",
            "Explain where each segment of a log is, and why.",
        ),
        "restore": (
            "ottla.cli.tier.restore:restore_command",
            "Rebuild partitions from a tier alone.",
        ),
    },
    examples=("ottla tier list data/ --tier tier/",),
    help="See what lies in a remote tier, check it, and restore logs from it. No broker is needed.",
)

cluster_group = LazyGroup(
    "cluster",
    {
        "up": ("ottla.cli.cluster.up:up_command", "Start a whole cluster on this machine."),
        "down": ("ottla.cli.cluster.up:down_command", "Stop a cluster on this machine."),
        "format": (
            "ottla.cli.cluster.format:format_command",
            "Prepare the directories of a new node of a KRaft cluster.",
        ),
        "new-id": (
            "ottla.cli.cluster.format:new_id_command",
            "Print a random id for a new cluster.",
        ),
        "status": (
            "ottla.cli.cluster.status:status_command",
            "Show brokers, leaders, in-sync replicas and their lag.",
        ),
        "drain": ("ottla.cli.cluster.moves:drain_command", "Move all replicas off a broker."),
        "reassign": (
            "ottla.cli.cluster.moves:reassign_command",
            "Move partitions to other brokers.",
        ),
        "elect": (
            "ottla.cli.cluster.moves:elect_command",
            "Elect the preferred replicas as leaders.",
        ),
        "add-controller": (
            "ottla.cli.cluster.membership:add_controller_command",
            "Make a controller a voter of the quorum.",
        ),
        "remove-controller": (
            "ottla.cli.cluster.membership:remove_controller_command",
            "Take a controller out of the quorum.",
        ),
        "unregister": (
            "ottla.cli.cluster.membership:unregister_command",
            "Forget a broker or controller that is gone.",
        ),
        "features": (
            "ottla.cli.cluster.membership:features_command",
            "Show and change the levels of features.",
        ),
    },
    examples=("ottla cluster status localhost:9092",),
    help="Run several brokers together, show their state, and move replicas and leaders.",
)

metadata_group = LazyGroup(
    "metadata",
    {
        "follow": (
            "ottla.cli.metadata.follow:follow_command",
            "Print the changes of a KRaft cluster as they are committed.",
        ),
    },
    examples=("ottla metadata follow localhost:9093",),
    help="Watch the metadata log of a KRaft cluster. Nothing is written.",
)

snapshot_group = LazyGroup(
    "snapshot",
    {
        "create": (
            "ottla.cli.snapshot.snapshot_commands:create_command",
            "Create a snapshot of a directory.",
        ),
        "list": (
            "ottla.cli.snapshot.snapshot_commands:list_command",
            "List snapshots with sizes and times.",
        ),
        "restore": ("ottla.cli.snapshot.snapshot_commands:restore_command", "Restore a snapshot."),
        "branch": (
            "ottla.cli.snapshot.snapshot_commands:branch_command",
            "Create another data directory from a snapshot.",
        ),
        "delete": ("ottla.cli.snapshot.snapshot_commands:delete_command", "Delete snapshots."),
    },
    examples=(
        "ottla snapshot create data/ before-upgrade",
        "ottla snapshot restore data/ before-upgrade",
    ),
    help="Create and restore snapshots of a data directory, with its offsets and groups.",
)

COMMANDS = {
    "serve": (
        "ottla.cli.serve.serve_command:serve_command",
        "Serve a data directory to Kafka clients.",
    ),
    "status": ("ottla.cli.serve.control:status_command", "Show what runs on a data directory."),
    "stop": ("ottla.cli.serve.control:stop_command", "Stop the broker of a data directory."),
    "quick": ("ottla.cli.quick.quick_command:quick_command", "Run a throw-away broker."),
    "console": (
        "ottla.cli.console.console_command:console_command",
        "Show a broker or a directory in a browser.",
    ),
    "topics": ("ottla.cli.main:topics_group", "List, create, change and delete topics."),
    "groups": ("ottla.cli.main:groups_group", "See consumer groups' lag, and reset them."),
    "queue": ("ottla.cli.main:queue_group", "Take records one by one; see who has which, and why."),
    "configs": ("ottla.cli.main:configs_group", "See and change settings."),
    "quotas": ("ottla.cli.main:quotas_group", "Limit users, client ids and addresses."),
    "users": ("ottla.cli.main:users_group", "Set clients' passwords."),
    "acls": ("ottla.cli.main:acls_group", "List and change access rules."),
    "tokens": ("ottla.cli.main:tokens_group", "Create and expire delegation tokens."),
    "schemas": ("ottla.cli.main:schemas_group", "See and change a registry's schemas."),
    "delete-records": (
        "ottla.cli.topics.delete_records:delete_records_command",
        "Delete a topic's records before an offset or a time.",
    ),
    "produce": ("ottla.cli.records.produce:produce_command", "Write records to a topic."),
    "consume": ("ottla.cli.records.consume:consume_command", "Print the records of topics."),
    "records": (
        "ottla.cli.records.records:records_command",
        "Print the records of topics from files alone.",
    ),
    "export": (
        "ottla.cli.records.export_command:export_command",
        "Write a topic to a Parquet, CSV, JSON, Arrow or DuckDB file.",
    ),
    "import": (
        "ottla.cli.records.import_command:import_command",
        "Write exported files to a topic.",
    ),
    "sql": ("ottla.cli.records.sql:sql_command", "Query topics in SQL."),
    "load": ("ottla.cli.load.load_command:load_command", "Load a topic into a table."),
    "table": ("ottla.cli.main:table_group", "Read a table, and maintain its files."),
    "audit": ("ottla.cli.table.audit:audit_command", "Verify that a table equals its log."),
    "compact": (
        "ottla.cli.topic.compact:compact_command",
        "Compact a topic now, here or on Spark.",
    ),
    "adopt": (
        "ottla.cli.directory.adopt:adopt_command",
        "Confirm the topic settings of a directory that another Kafka wrote.",
    ),
    "mirror": (
        "ottla.cli.mirror.mirror_command:mirror_command",
        "Copy another log, byte for byte.",
    ),
    "doctor": ("ottla.cli.doctor.doctor_command:doctor_command", "Check the health of a broker."),
    "explain": ("ottla.cli.main:explain_group", "Explain why data is kept, or deleted."),
    "transactions": (
        "ottla.cli.main:transactions_group",
        "Inspect a broker's transactions, and abort one that hangs.",
    ),
    "handover": (
        "ottla.cli.directory.handover:handover_command",
        "Prepare a data directory for Apache Kafka.",
    ),
    "cluster": ("ottla.cli.main:cluster_group", "Run several brokers, and move replicas."),
    "metadata": ("ottla.cli.main:metadata_group", "Watch the metadata log of a KRaft cluster."),
    "snapshot": (
        "ottla.cli.main:snapshot_group",
        "Create and restore snapshots of a data directory.",
    ),
    "context": ("ottla.cli.main:context_group", "Name brokers and directories."),
    "bench": (
        "ottla.cli.bench.bench_command:bench_command",
        "Measure produce, consume and latency.",
    ),
    "completion": (
        "ottla.cli.completion.completion_command:completion_command",
        "Print the completion script of a shell.",
    ),
    "log": ("ottla.cli.main:log_group", "Dump, check and repair a log's files."),
    "tier": ("ottla.cli.main:tier_group", "See, check and restore what lies in a remote tier."),
}
"""By name: where the command is, and its line in `ottla --help`."""


class Root(LazyGroup):
    """Ends every command the same way: an error is one line and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        from ottla.cli.endings import ended

        with ended():
            return super().invoke(ctx)


def _print_version(ctx: click.Context, param: click.Parameter, is_asked: bool) -> None:
    if not is_asked or ctx.resilient_parsing:
        return
    from importlib.machinery import EXTENSION_SUFFIXES
    from importlib.util import find_spec

    import ottla

    found = find_spec("ottla.server.network.listener")
    is_compiled = found is not None and str(found.origin).endswith(tuple(EXTENSION_SUFFIXES))
    kind = "compiled broker" if is_compiled else "broker not compiled"
    python = ".".join(map(str, sys.version_info[:3]))
    click.echo(f"ottla {ottla.__version__} ({kind}, Python {python})")
    ctx.exit()


@click.group(
    cls=Root,
    table=COMMANDS,
    examples=("ottla serve data/", "ottla topics list localhost:9092"),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version, and whether the broker is compiled.",
)
def cli() -> None:
    """Apache Kafka's log, in Python: the same files on disk, the same bytes on the wire."""


def main(arguments: list[str] | None = None) -> Any:
    """Runs a command."""
    _prepare_output()
    return cli.main(args=arguments, prog_name="ottla")


def _prepare_output() -> None:
    """Escapes what a terminal would obey, or its encoding lacks; drops output that the shell
    closed.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115
        elif isinstance(stream, io.TextIOWrapper):
            is_whole = stream.encoding.lower().replace("-", "") == "utf8"
            stream.reconfigure(errors="surrogateescape" if is_whole else "backslashreplace")
            if stream.isatty():
                from ottla.cli.visible import show_controls

                show_controls(name)
