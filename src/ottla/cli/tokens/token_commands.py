"""`ottla tokens list`, `create`, `renew` and `expire`."""

import base64
import binascii
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.base.errors import UserError
from ottla.base.times import second_text
from ottla.cli.output import NAMES_ONLY, RESULTS_ONLY, Output, output_options
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import parse_seconds, print_json

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
@output_options(NAMES_ONLY)
def list_command(target: Target, owners: tuple[str, ...], output: Output) -> None:
    """List the delegation tokens that you may see, without their secrets."""
    from ottla.client.administration.security import SecurityAdmin

    with target.open() as cluster:
        tokens = SecurityAdmin(cluster).describe_delegation_token(owners or None)
    output.listing(
        tokens,
        ("token", "owner", "renewers", "expires", "at the latest"),
        (
            (
                one.token_id,
                str(one.owner),
                ", ".join(map(str, one.renewers)),
                second_text(one.expires_ms),
                second_text(one.max_ms),
            )
            for one in tokens
        ),
        fields=_fields,
        name=lambda one: one.token_id,
        none="there are no delegation tokens that you may see",
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
@output_options(RESULTS_ONLY)
def create_command(
    target: Target,
    owner: str | None,
    renewers: tuple[str, ...],
    lifetime: str | None,
    secret_file: Path,
    output: Output,
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
    if output.as_json:
        print_json({**_fields(token), "secret_file": str(secret_file)})
        return
    click.echo(token.token_id)
    output.remark(
        f"valid for {token.owner} until {second_text(token.expires_ms)}; log in by SCRAM with the "
        f"id as user name and the secret in {secret_file} as password"
    )


@click.command(
    "renew",
    cls=TargetCommand,
    examples=("ottla tokens renew localhost:9092 --secret-file job.token",),
)
@target_argument()
@secret_option
@click.option("--for", "period", metavar="TIME", help="Time from now; by default the broker's.")
@output_options()
def renew_command(target: Target, secret_file: Path, period: str | None, output: Output) -> None:
    """Extend the lifetime of a token."""
    from ottla.client.administration.security import SecurityAdmin

    period_ms = -1 if period is None else int(parse_seconds("--for", period) * 1000)
    with target.open() as cluster:
        expires_ms = SecurityAdmin(cluster).renew_delegation_token(_secret(secret_file), period_ms)
    output.say(f"valid until {second_text(expires_ms)}", {"expires_ms": expires_ms})


@click.command(
    "expire",
    cls=TargetCommand,
    examples=("ottla tokens expire localhost:9092 --secret-file job.token",),
)
@target_argument()
@click.argument("token_id", metavar="[TOKEN]", required=False)
@click.option(
    "--secret-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="File with the token's secret, instead of the token's id.",
)
@click.option("--in", "period", metavar="TIME", help="Time from now; by default immediately.")
@output_options()
def expire_command(
    target: Target,
    token_id: str | None,
    secret_file: Path | None,
    period: str | None,
    output: Output,
) -> None:
    """Expire a token, immediately or after a time.

    TOKEN is the id of a token that `ottla tokens list` shows to you.
    """
    from ottla.client.administration.security import SecurityAdmin
    from ottla.client.administration.security_values import find_token

    period_ms = -1 if period is None else int(parse_seconds("--in", period) * 1000)
    if (token_id is None) is (secret_file is None):
        raise UserError("name a token, by its id or by --secret-file FILE")
    with target.open() as cluster:
        admin = SecurityAdmin(cluster)
        if secret_file is not None:
            secret = _secret(secret_file)
        else:
            assert token_id is not None
            secret = find_token(admin.describe_delegation_token(), token_id).secret
        expires_ms = admin.expire_delegation_token(secret, period_ms)
    output.say(
        "ended" if period is None else f"valid until {second_text(expires_ms)}",
        {"expires_ms": expires_ms},
    )


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
