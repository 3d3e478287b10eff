"""`ottla acls list`, `add` and `remove`."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import UnknownNameError, UserError
from ottla.cli.output import Output, output_options
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import with_options

if TYPE_CHECKING:
    from ottla.client.administration.security_values import AclBinding, AclBindingFilter

RESOURCES = {
    "topic": "TOPIC",
    "group": "GROUP",
    "transactional_id": "TRANSACTIONAL_ID",
    "delegation_token": "DELEGATION_TOKEN",
    "owner": "USER",
}
"""Maps options to Kafka's resource types; the cluster has no name."""

CLUSTER_NAME = "kafka-cluster"

ROLES = {
    "producer": (("topic", ("WRITE", "DESCRIBE", "CREATE")), ("transactional_id",
                                                              ("WRITE", "DESCRIBE"))),
    "consumer": (("topic", ("READ", "DESCRIBE")), ("group", ("READ",))),
}  # fmt: skip
"""The operations that `--role` stands for, as in kafka-acls.sh."""

resource_options = with_options(
    click.option("--topic", metavar="NAME", help="Topic; * is every topic."),
    click.option("--group", metavar="NAME", help="Consumer group; * is every group."),
    click.option("--transactional-id", metavar="ID", help="Transactional id; * is every id."),
    click.option("--cluster", is_flag=True, help="The cluster."),
    click.option("--delegation-token", metavar="ID", help="Delegation token."),
    click.option("--owner", metavar="PRINCIPAL", help="Owner of delegation tokens (User:NAME)."),
    click.option("--prefixed", is_flag=True, help="Names are prefixes."),
)

Resources = dict[str, Any]


def entry_options(of_denial: str) -> Callable[[Any], Any]:
    return with_options(
        click.option("--host", metavar="ADDRESS", help="Host of the client; * is every host."),
        click.option("--deny", is_flag=True, help=of_denial),
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
    from ottla.client.administration.security import SecurityAdmin

    with target.reading() as cluster:
        known = SecurityAdmin(cluster)
        found = [acl for one in _filters(resources, principal) for acl in known.describe_acls(one)]
    found.sort()
    output.listing(
        found,
        ("resource", "name", "pattern", "principal", "host", "operation", "permission"),
        (tuple(_fields(acl).values()) for acl in found),
        fields=_fields,
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
    type=click.Choice(tuple(ROLES)),
    help="Allow what a producer or a consumer needs, instead of naming operations.",
)
@resource_options
@entry_options("Deny the operations instead of allowing them.")
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
    from ottla.client.administration.security import SecurityAdmin
    from ottla.client.administration.security_values import AclBinding

    if bool(operations) is (role is not None):
        raise UserError("name operations, such as read, or --role producer or consumer")
    wanted = _operations_by_option(operations, role, given)
    acls = [
        AclBinding(
            **_resource(option, given),
            principal=_principal(principal),
            host=given["host"] or "*",
            operation=_operation(one),
            permission="DENY" if given["deny"] else "ALLOW",
        )
        for option, names in wanted.items()
        for one in names
    ]
    for acl in acls:
        _check_operation(acl.resource_type, acl.operation)
    with target.open() as cluster:
        SecurityAdmin(cluster).create_acls(acls)
    for acl in acls:
        output.say(_sentence(acl), _fields(acl))


@click.command(
    "remove",
    cls=TargetCommand,
    examples=("ottla acls remove localhost:9092 User:ana --topic orders",),
)
@target_argument()
@click.argument("principal", metavar="PRINCIPAL")
@click.argument("operations", metavar="[OPERATION]...", nargs=-1)
@resource_options
@entry_options("Remove only denials.")
@output_options()
def remove_command(
    target: Target,
    principal: str,
    operations: tuple[str, ...],
    output: Output,
    **given: Any,
) -> None:
    """Remove a principal's ACLs on resources, for the named operations or for all."""
    from dataclasses import replace

    from ottla.client.administration.security import SecurityAdmin

    if not _given(given):
        raise UserError("name resources, such as --topic orders")
    permission = "DENY" if given["deny"] else "ANY"
    filters = [
        replace(one, host=given["host"], permission=permission, operation=_operation(operation))
        for one in _filters(given, _principal(principal))
        for operation in operations or ("any",)
    ]
    with target.open() as cluster:
        gone = SecurityAdmin(cluster).delete_acls(filters)
    if not gone:
        raise UnknownNameError("ACL", f"of {principal} like that", ())
    for acl in gone:
        output.say(f"removed: {_sentence(acl)}", {**_fields(acl), "is_deleted": True})


def _check_operation(resource_type: str, operation: str) -> None:
    """Raises `UserError` for an operation that the resource type does not have; brokers accept such
    rules, as Kafka's do.
    """
    from ottla.metadata.acls import OPERATIONS, Operation, ResourceType

    names = [Operation(one).name for one in OPERATIONS[ResourceType[resource_type]]]
    if operation in Operation.__members__ and operation not in ("ALL", *names):
        known = ", ".join(name.lower() for name in names)
        raise UserError(
            f"Operation {operation} is not valid for a resource of type {resource_type}: {known}"
        )


def _given(resources: Resources) -> list[str]:
    """Returns the resources that the options name."""
    given = [option for option in RESOURCES if resources[option] is not None]
    return [*given, "cluster"] if resources["cluster"] else given


def _operations_by_option(
    operations: tuple[str, ...], role: str | None, resources: Resources
) -> dict[str, tuple[str, ...]]:
    given = _given(resources)
    if not given:
        raise UserError("name resources, such as --topic orders")
    if role is None:
        return dict.fromkeys(given, operations)
    by_role = dict(ROLES[role])
    wrong = [option for option in given if option not in by_role]
    if wrong:
        raise UserError(f"--role {role} applies to {' and '.join(by_role)}, not {wrong[0]}")
    return {option: by_role[option] for option in given}


def _resource(option: str, resources: Resources) -> dict[str, str]:
    if option == "cluster":
        return {"resource_type": "CLUSTER", "name": CLUSTER_NAME}
    return {
        "resource_type": RESOURCES[option],
        "name": resources[option],
        "pattern_type": "PREFIXED" if resources["prefixed"] else "LITERAL",
    }


def _filters(resources: Resources, principal: str | None) -> "list[AclBindingFilter]":
    from ottla.client.administration.security_values import AclBindingFilter

    given = _given(resources)
    if not given:
        return [AclBindingFilter(principal=principal)]
    return [AclBindingFilter(**_resource(one, resources), principal=principal) for one in given]


def _operation(text: str) -> str:
    return text.upper().replace("-", "_")


def _principal(text: str) -> str:
    kind, colon, name = text.partition(":")
    if not (kind and colon and name):
        raise UserError(f"{text}: a principal looks like User:ana, or User:* for everybody")
    return text


def _fields(acl: "AclBinding") -> dict[str, str]:
    return {
        "resource": acl.resource_type.lower(),
        "name": acl.name,
        "pattern": acl.pattern_type.lower(),
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.lower(),
        "permission": acl.permission.lower(),
    }


def _sentence(acl: "AclBinding") -> str:
    one = _fields(acl)
    names = f"{one['name']}*" if one["pattern"] == "prefixed" else one["name"]
    host = "" if one["host"] == "*" else f" from {one['host']}"
    return (
        f"{one['permission']} {one['principal']}{host} {one['operation']} on "
        f"{one['resource']} {names}"
    )
