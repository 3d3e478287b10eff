"""`ottla acls list`, `add`, `remove` and `may`."""

import sys
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import UnknownNameError, UserError
from ottla.cli.output import Output, output_options
from ottla.cli.settings_files import broker_config_option, read_server_properties
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import confirm, with_options, yes_option

if TYPE_CHECKING:
    from ottla.client.administration.acl_words import AclWords

EXIT_DENIED = 1

name_options = with_options(
    click.option("--topic", metavar="NAME", help="Topic; * is every topic."),
    click.option("--group", metavar="NAME", help="Consumer group; * is every group."),
    click.option("--transactional-id", metavar="ID", help="Transactional id; * is every id."),
    click.option("--cluster", is_flag=True, help="The cluster."),
    click.option("--delegation-token", metavar="ID", help="Delegation token."),
    click.option("--owner", metavar="PRINCIPAL", help="Owner of delegation tokens (User:NAME)."),
)

resource_options = with_options(
    name_options, click.option("--prefixed", is_flag=True, help="Names are prefixes.")
)


host_option = click.option(
    "--host",
    metavar="ADDRESS",
    help="Address of the client, or a range of them such as 10.0.0.0/8; * is every host.",
)


@click.command(
    "list",
    cls=TargetCommand,
    examples=("ottla acls list localhost:9092", "ottla acls list localhost:9092 --topic orders"),
)
@target_argument()
@resource_options
@click.option("--principal", metavar="PRINCIPAL", help="User:NAME; User:* is everybody.")
@output_options("Print principals only, one per line.")
def list_command(target: Target, principal: str | None, output: Output, **resources: Any) -> None:
    """List ACLs: all of them, or those of some resources or of a principal."""
    from ottla.client.administration.acl_words import ANY_PRINCIPAL, acl_fields
    from ottla.client.administration.security import SecurityAdmin

    with target.reading() as cluster:
        known = SecurityAdmin(cluster)
        filters = _words(resources, principal or ANY_PRINCIPAL).resource_filters()
        found = [acl for one in filters for acl in known.describe_acls(one)]
    found.sort()
    output.listing(
        found,
        ("resource", "name", "pattern", "principal", "host", "operation", "permission"),
        (tuple(acl_fields(acl).values()) for acl in found),
        fields=acl_fields,
        name=lambda acl: acl.principal,
        none="there are no ACLs",
    )


@click.command(
    "add",
    cls=TargetCommand,
    examples=(
        "ottla acls add localhost:9092 User:ana --role consumer --topic orders --group billing",
        "ottla acls add localhost:9092 User:bob write create --topic logs- --prefixed",
    ),
)
@target_argument()
@click.argument("principal", metavar="PRINCIPAL")
@click.argument("operations", metavar="[OPERATION]...", nargs=-1)
@click.option(
    "--role",
    type=click.Choice(("producer", "consumer")),
    help="Allow what a producer or a consumer needs, instead of naming operations.",
)
@resource_options
@host_option
@click.option("--deny", is_flag=True, help="Deny the operations instead of allowing them.")
@output_options()
def add_command(
    target: Target,
    principal: str,
    operations: tuple[str, ...],
    role: str | None,
    output: Output,
    **given: Any,
) -> None:
    """Allow or deny a principal operations on resources."""
    from ottla.client.administration.acl_words import acl_fields, acl_sentence
    from ottla.client.administration.security import SecurityAdmin

    acls = _words(given, principal, operations, role).bindings()
    with target.open() as cluster:
        SecurityAdmin(cluster).create_acls(acls)
    for acl in acls:
        output.say(acl_sentence(acl), acl_fields(acl))


@click.command(
    "remove",
    cls=TargetCommand,
    examples=(
        "ottla acls remove localhost:9092 User:ana --topic orders",
        "ottla acls remove localhost:9092 any --group billing --yes",
    ),
)
@target_argument()
@click.argument("principal", metavar="PRINCIPAL")
@click.argument("operations", metavar="[OPERATION]...", nargs=-1)
@resource_options
@host_option
@click.option("--deny", is_flag=True, help="Remove only denials.")
@click.option("--allow", is_flag=True, help="Remove only allowances.")
@click.option("--all-resources", is_flag=True, help="Remove ACLs on whatever resource.")
@yes_option
@output_options()
def remove_command(
    target: Target,
    principal: str,
    operations: tuple[str, ...],
    is_confirmed: bool,
    output: Output,
    **given: Any,
) -> None:
    """Remove a principal's ACLs on resources, for the named operations or for all.

    PRINCIPAL is any for those of everyone. At a terminal the command asks before it removes ACLs of
    every principal, or of every resource.
    """
    from ottla.client.administration.acl_words import ANY_PRINCIPAL, acl_fields, acl_sentence
    from ottla.client.administration.security import SecurityAdmin

    words = _words(given, principal, operations)
    filters = words.filters()
    if words.is_wide:
        of = "of every principal" if principal == ANY_PRINCIPAL else f"of {principal}"
        on = " on whatever resource" if words.is_anything else ""
        confirm(f"Remove the ACLs {of}{on}?", is_confirmed=is_confirmed)
    with target.open() as cluster:
        gone = SecurityAdmin(cluster).delete_acls(filters)
    if not gone:
        raise UnknownNameError("ACL", f"of {principal} like that", ())
    for acl in sorted(gone):
        output.say(f"removed: {acl_sentence(acl)}", {**acl_fields(acl), "is_deleted": True})


@click.command(
    "may",
    cls=TargetCommand,
    examples=(
        "ottla acls may localhost:9092 User:ana read --topic orders",
        "ottla acls may localhost:9092 User:ana read --group billing --host 10.0.0.9",
    ),
)
@target_argument()
@click.argument("principal", metavar="PRINCIPAL")
@click.argument("operation", metavar="OPERATION")
@name_options
@click.option(
    "--host", metavar="ADDRESS", help="Host of the client; without it one that no rule names."
)
@broker_config_option
@output_options("Print nothing; the exit code answers.")
def may_command(
    target: Target,
    principal: str,
    operation: str,
    host: str | None,
    config_file: str | None,
    output: Output,
    **resources: Any,
) -> None:
    """Answer whether a principal may do something, with the rule that decides.

    The rules are those of TARGET, and the code that decides is the brokers' own. Brokers do not
    show super.users; name a broker's settings file with --config to have them counted. Exits with
    1 if it is denied.
    """
    from ottla.client.administration.acl_rulings import (
        NOT_KNOWN,
        ask_access,
        question_of,
        settings_in,
        settings_shown,
    )
    from ottla.client.administration.acl_words import acl_fields
    from ottla.client.administration.admin import Admin

    named = _words({**resources, "prefixed": False}, principal).resources
    if len(named) != 1:
        raise UserError("name one resource, such as --topic orders")
    ((option, name),) = named.items()
    question = question_of(principal, operation, option, name, host)
    with target.reading() as cluster:
        admin = Admin(cluster)
        if config_file is not None:
            settings = settings_in(read_server_properties(config_file))
        else:
            is_at_rest = target.is_directory and not target.broker_addresses()
            settings = NOT_KNOWN if is_at_rest else settings_shown(admin)
        answer = ask_access(admin, question, settings)
    output.say(
        answer.text,
        {
            "principal": question.principal,
            "operation": question.operation.lower(),
            "resource": question.resource_type.lower(),
            "name": question.name,
            "host": question.host,
            "is_allowed": answer.is_allowed,
            "reason": answer.reason.name.lower(),
            "rule": None if answer.rule is None else acl_fields(answer.rule),
            "doubts": list(answer.doubts),
        },
    )
    if not answer.is_allowed:
        sys.exit(EXIT_DENIED)


def _words(
    given: dict[str, Any],
    principal: str,
    operations: tuple[str, ...] = (),
    role: str | None = None,
) -> "AclWords":
    """What the options say."""
    from ottla.client.administration.acl_words import RESOURCES, AclWords

    if given.get("allow") and given.get("deny"):
        raise UserError("--allow and --deny exclude each other; without both, either is removed")
    permission = "DENY" if given.get("deny") else "ALLOW" if given.get("allow") else None
    return AclWords(
        principal=principal,
        resources={option: given[option] if option != "cluster" else ""
                   for option in RESOURCES if given[option] not in (None, False)},
        operations=operations,
        role=role,
        is_prefixed=given["prefixed"],
        host=given.get("host"),
        permission=permission,
        is_anything=given.get("all_resources", False),
    )  # fmt: skip
