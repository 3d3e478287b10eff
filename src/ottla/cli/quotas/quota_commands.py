"""`ottla quotas list`, `set` and `remove`."""

from typing import TYPE_CHECKING

import click

from ottla.base.errors import UnknownNameError, UserError
from ottla.base.patterns import lazy_pattern
from ottla.base.texts import setting_value
from ottla.cli.output import NAMES_ONLY, Output, output_options
from ottla.cli.settings_files import parse_setting
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import with_options

if TYPE_CHECKING:
    from ottla.client.administration.quota_values import Quota

LIMITS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
DEFAULT = "(default)"
_NUMBER = lazy_pattern(r"\d+(\.\d+)?")

entity_options = with_options(
    click.option("--user", metavar="NAME", help=f"User; {DEFAULT} is every other one."),
    click.option("--client-id", metavar="ID", help=f"Client id; {DEFAULT} is every other one."),
    click.option("--ip", metavar="ADDRESS", help=f"Address; {DEFAULT} is every other one."),
)


@click.command("list", cls=TargetCommand, examples=("ottla quotas list localhost:9092",))
@target_argument()
@entity_options
@output_options(NAMES_ONLY)
def list_command(target: Target, output: Output, **names: str | None) -> None:
    """List quotas: all of them, or those of one user, client id or address."""
    from ottla.client.administration.quota_values import entity_text
    from ottla.client.administration.quotas import QuotaAdmin

    entity = _entity(**names)
    with target.reading() as cluster:
        found = QuotaAdmin(cluster).describe_quotas(entity)
    found.sort(key=lambda one: sorted(map(str, one.entity.items())))
    output.listing(
        found,
        ("user", "client id", "address", "limit", "#value"),
        (
            (*(_name(one, kind) for kind in ("user", "client-id", "ip")), limit, f"{value:,.10g}")
            for one in found
            for limit, value in sorted(one.limits.items())
        ),
        fields=lambda one: {"entity": dict(one.entity), "limits": dict(one.limits)},
        name=lambda one: entity_text(one.entity),
        none="there are no quotas",
    )


@click.command(
    "set",
    cls=TargetCommand,
    examples=("ottla quotas set localhost:9092 --client-id loader producer_byte_rate=10M",),
)
@target_argument()
@click.argument("limits", metavar="LIMIT=NUMBER...", nargs=-1, required=True)
@entity_options
@output_options()
def set_command(
    target: Target, limits: tuple[str, ...], output: Output, **names: str | None
) -> None:
    """Set limits of a user, a client id or an address; bytes may be written as 10M."""
    from ottla.client.administration.quota_values import entity_text
    from ottla.client.administration.quotas import QuotaAdmin

    entity = _required(**names)
    pairs = [parse_setting(one, "producer_byte_rate=10M", option="limit") for one in limits]
    values = {name: _number(name, text) for name, text in pairs}
    with target.open() as cluster:
        QuotaAdmin(cluster).alter_quotas(entity, values)
    texts = ", ".join(f"{name}={value:.10g}" for name, value in values.items())
    output.say(f"{entity_text(entity)}: {texts}", {"entity": entity, "limits": values})


@click.command(
    "remove",
    cls=TargetCommand,
    examples=("ottla quotas remove localhost:9092 --client-id loader",),
)
@target_argument()
@click.argument("limits", metavar="[LIMIT]...", nargs=-1)
@entity_options
@output_options()
def remove_command(
    target: Target, limits: tuple[str, ...], output: Output, **names: str | None
) -> None:
    """Remove limits of a user, a client id or an address: those named, or all."""
    from ottla.client.administration.quota_values import entity_text
    from ottla.client.administration.quotas import QuotaAdmin

    entity = _required(**names)
    for name in limits:
        _check_limit(name)
    with target.open() as cluster:
        admin = QuotaAdmin(cluster)
        found = [one for one in admin.describe_quotas(entity) if dict(one.entity) == dict(entity)]
        there = [name for one in found for name in one.limits]
        if not found or any(name not in there for name in limits):
            raise UnknownNameError("quota", limits[0] if limits else "", there, entity_text(entity))
        gone = limits or there
        admin.alter_quotas(entity, dict.fromkeys(gone))
    output.say(
        f"{entity_text(entity)}: removed {', '.join(gone)}",
        {"entity": entity, "removed": list(gone)},
    )


def _entity(user: str | None, client_id: str | None, ip: str | None) -> dict[str, str | None]:
    given = {"user": user, "client-id": client_id, "ip": ip}
    if ip is not None and (user is not None or client_id is not None):
        raise UserError("--ip stands alone: addresses have limits of their own")
    return {
        kind: None if name == DEFAULT else name for kind, name in given.items() if name is not None
    }


def _required(**names: str | None) -> dict[str, str | None]:
    entity = _entity(**names)
    if not entity:
        raise UserError("name what is limited: --user NAME, --client-id ID or --ip ADDRESS")
    return entity


def _check_limit(name: str) -> None:
    if name not in LIMITS:
        raise UnknownNameError("limit", name, LIMITS)


def _number(name: str, text: str) -> float:
    _check_limit(name)
    plain = setting_value(".bytes" if name.endswith("byte_rate") else name, text)
    if not _NUMBER.fullmatch(plain):
        example = "10M" if name.endswith("byte_rate") else "50"
        raise UserError(f"{name}={text}: a limit is a number, such as {example}")
    return float(plain)


def _name(one: "Quota", kind: str) -> str:
    if kind not in one.entity:
        return ""
    return one.entity[kind] or DEFAULT
