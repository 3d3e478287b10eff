"""`ottla users list`, `set` and `remove`."""

import os
from pathlib import Path
from typing import Any

import click

from ottla.base.errors import UnknownNameError, UserError
from ottla.cli.output import NAMES_ONLY, Output, output_options
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.zookeeper_access import read_zookeeper_access, zookeeper_access_option

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
ZOOKEEPER = "zookeeper://"
PASSWORD_VARIABLE = "OTTLA_USER_PASSWORD"

mechanism_option = click.option(
    "--mechanism",
    "mechanisms",
    type=click.Choice(MECHANISMS, case_sensitive=False),
    multiple=True,
    help="SCRAM-SHA-256 or SCRAM-SHA-512; repeatable. By default both.",
)


@click.command("list", cls=TargetCommand, examples=("ottla users list localhost:9092",))
@target_argument()
@output_options(NAMES_ONLY)
def list_command(target: Target, output: Output) -> None:
    """List the users that have passwords, with the mechanisms."""
    from ottla.client.administration.security import SecurityAdmin

    with target.reading() as cluster:
        users = SecurityAdmin(cluster).describe_user_scram_credentials()
    output.listing(
        list(users.items()),
        ("user", "mechanism", "#iterations"),
        (
            (user, mechanism, str(iterations))
            for user, mechanisms in users.items()
            for mechanism, iterations in mechanisms.items()
        ),
        fields=lambda one: {"user": one[0], "mechanisms": one[1]},
        name=lambda one: one[0],
        none="there are no users with passwords",
    )


@click.command(
    "set",
    cls=TargetCommand,
    examples=(
        "ottla users set ./ottla-data admin",
        "ottla users set localhost:9092 ana --password-file ana.password",
        "ottla users set zookeeper://zk1:2181/ottla broker --password-file broker.password",
    ),
)
@target_argument()
@click.argument("user", metavar="USER")
@click.option(
    "--password-file",
    type=click.Path(dir_okay=False, path_type=Path, allow_dash=True),
    metavar="FILE",
    help=f"File whose first line is the password, - for standard input; without it the variable "
    f"{PASSWORD_VARIABLE} or a prompt.",
)
@mechanism_option
@click.option(
    "--iterations",
    type=click.IntRange(4096, 16384),
    default=4096,
    show_default=True,
    help="Number of hash iterations.",
)
@zookeeper_access_option
@output_options()
def set_command(
    target: Target,
    user: str,
    password_file: Path | None,
    mechanisms: tuple[str, ...],
    iterations: int,
    output: Output,
    **more: Any,
) -> None:
    """Set a user's password; in a data directory it can be set before the broker first starts.

    Use zookeeper://HOST:PORT/CHROOT as TARGET before a cluster's first broker starts.
    """
    from ottla.client.administration.security import SecurityAdmin
    from ottla.client.administration.security_values import UserScramCredentialUpsertion

    password = _password(password_file)
    names = mechanisms or MECHANISMS
    if target.text.startswith(ZOOKEEPER):
        from ottla.cli.zookeeper_users import set_in_zookeeper

        address = target.text.removeprefix(ZOOKEEPER)
        access = read_zookeeper_access(more["zookeeper_settings"])
        set_in_zookeeper(address, user, password, names, iterations, access)
    else:
        with target.open(may_create=True) as cluster:
            SecurityAdmin(cluster).alter_user_scram_credentials(
                UserScramCredentialUpsertion(
                    user=user, mechanism=one, password=password, iterations=iterations
                )
                for one in names
            )
    output.say(
        f"user {user}: password set for {', '.join(names)}",
        {"user": user, "mechanisms": dict.fromkeys(names, iterations)},
    )


@click.command("remove", cls=TargetCommand, examples=("ottla users remove localhost:9092 ana",))
@target_argument()
@click.argument("user", metavar="USER")
@mechanism_option
@output_options()
def remove_command(target: Target, user: str, mechanisms: tuple[str, ...], output: Output) -> None:
    """Remove a user's passwords, for the named mechanisms or for all."""
    from ottla.client.administration.security import SecurityAdmin
    from ottla.client.administration.security_values import UserScramCredentialDeletion

    with target.open() as cluster:
        admin = SecurityAdmin(cluster)
        users = admin.describe_user_scram_credentials()
        if user not in users:
            raise UnknownNameError("user", user, users)
        names = mechanisms or tuple(users[user])
        admin.alter_user_scram_credentials(
            UserScramCredentialDeletion(user=user, mechanism=one) for one in names
        )
    output.say(f"user {user}: removed {', '.join(names)}", {"user": user, "removed": list(names)})


def _password(path: Path | None) -> str:
    """Never an argument, since every user of the machine could see it."""
    password: str
    if path is not None:
        try:
            with click.open_file(str(path)) as file:
                text = file.readline()
        except OSError as error:
            raise UserError(f"{path}: {error.strerror}; name a file with the password") from error
        password = text.rstrip("\r\n")
    elif PASSWORD_VARIABLE in os.environ:
        password = os.environ[PASSWORD_VARIABLE]
    else:
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True)
    if not password:
        raise UserError("the password is empty")
    return password
