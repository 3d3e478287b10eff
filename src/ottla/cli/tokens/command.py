"""`ottla tokens list`, `create`, `renew` and `expire`."""

import base64
import binascii
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.base.errors import UserError
from ottla.base.times import second_text
from ottla.cli.tables import print_rows
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import json_option, parse_seconds, print_json, quiet_option

if TYPE_CHECKING:
    from ottla.client.administration.security_values import DelegationToken

secret_option = click.option(
    "--secret-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    required=True,
    help="File with the token's secret, as written by ottla tokens create.",
)


@click.command("list", cls=TargetCommand, examples=("ottla tokens list localhost:9092",))
@target_argument()
@click.option("--owner", "owners", multiple=True, metavar="USER", help="Owner; repeatable.")
@json_option
def list_command(target: Target, owners: tuple[str, ...], as_json: bool) -> None:
    """List the delegation tokens that you may see, without their secrets."""
    from ottla.client.administration.security import SecurityAdmin

    with target.open() as cluster:
        tokens = SecurityAdmin(cluster).describe_delegation_token(owners or None)
    if as_json:
        for one in tokens:
            print_json(_fields(one))
        return
    if not tokens:
        click.echo("there are no delegation tokens that you may see", err=True)
        return
    print_rows(
        ("token", "owner", "renewers", "expires", "at the latest"),
        [
            (
                one.token_id,
                str(one.owner),
                ", ".join(map(str, one.renewers)),
                second_text(one.expires_ms),
                second_text(one.max_ms),
            )
            for one in tokens
        ],
    )


@click.command(
    "create",
    cls=TargetCommand,
    examples=("ottla tokens create localhost:9092 --renewer spark --secret-file job.token",),
)
@target_argument()
@click.option("--owner", metavar="USER", help="User that the token acts for; by default yourself.")
@click.option("--renewer", "renewers", multiple=True, metavar="USER", help="Repeatable.")
@click.option("--lifetime", metavar="TIME", help="Maximum lifetime, such as 24h.")
@click.option(
    "--secret-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    required=True,
    help="New file for the token's secret, which only you may read.",
)
@quiet_option
def create_command(
    target: Target,
    owner: str | None,
    renewers: tuple[str, ...],
    lifetime: str | None,
    secret_file: Path,
    is_quiet: bool,
) -> None:
    """Create a delegation token: its id is printed, its secret goes into a file."""
    from ottla.client.administration.security import SecurityAdmin

    lifetime_ms = -1 if lifetime is None else int(parse_seconds("--lifetime", lifetime) * 1000)
    if secret_file.exists():
        raise UserError(f"{secret_file}: the file exists; name a new one")
    with target.open() as cluster:
        token = SecurityAdmin(cluster).create_delegation_token(owner, renewers, lifetime_ms)
    descriptor = os.open(secret_file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(base64.b64encode(token.secret) + b"\n")
    click.echo(token.token_id)
    if not is_quiet:
        click.echo(
            f"valid for {token.owner} until {second_text(token.expires_ms)}; log in by SCRAM with "
            f"the id as user name and the secret in {secret_file} as password",
            err=True,
        )


@click.command(
    "renew",
    cls=TargetCommand,
    examples=("ottla tokens renew localhost:9092 --secret-file job.token",),
)
@target_argument()
@secret_option
@click.option("--for", "period", metavar="TIME", help="Time from now; by default the broker's.")
def renew_command(target: Target, secret_file: Path, period: str | None) -> None:
    """Extend the lifetime of a token."""
    from ottla.client.administration.security import SecurityAdmin

    period_ms = -1 if period is None else int(parse_seconds("--for", period) * 1000)
    with target.open() as cluster:
        expires_ms = SecurityAdmin(cluster).renew_delegation_token(_secret(secret_file), period_ms)
    click.echo(f"valid until {second_text(expires_ms)}")


@click.command(
    "expire",
    cls=TargetCommand,
    examples=("ottla tokens expire localhost:9092 --secret-file job.token",),
)
@target_argument()
@secret_option
@click.option("--in", "period", metavar="TIME", help="Time from now; by default immediately.")
def expire_command(target: Target, secret_file: Path, period: str | None) -> None:
    """Expire a token, immediately or after a time."""
    from ottla.client.administration.security import SecurityAdmin

    period_ms = -1 if period is None else int(parse_seconds("--in", period) * 1000)
    with target.open() as cluster:
        expires_ms = SecurityAdmin(cluster).expire_delegation_token(_secret(secret_file), period_ms)
    click.echo("ended" if period is None else f"valid until {second_text(expires_ms)}")


def _secret(path: Path) -> bytes:
    try:
        return base64.b64decode(path.read_text().strip(), validate=True)
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name the token's file") from error
    except (binascii.Error, ValueError) as error:
        raise UserError(f"{path}: does not hold a token's secret in base64") from error


def _fields(one: "DelegationToken") -> dict[str, object]:
    return {
        "token": one.token_id,
        "owner": str(one.owner),
        "requester": None if one.requester is None else str(one.requester),
        "renewers": [str(each) for each in one.renewers],
        "issued_ms": one.issued_ms,
        "expires_ms": one.expires_ms,
        "max_ms": one.max_ms,
    }
