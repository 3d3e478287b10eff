"""`ottla quotas list`, `set`, `remove` and `explain`."""

from typing import TYPE_CHECKING

import click

from ottla.base.errors import UnknownNameError
from ottla.cli.output import NAMES_ONLY, Output, output_options
from ottla.cli.settings_files import parse_setting
from ottla.cli.target import Target, TargetCommand, target_argument
from ottla.cli.terminal import with_options

if TYPE_CHECKING:
    from ottla.client.administration.quota_values import Quota

DEFAULT = "(default)"

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
    from ottla.client.administration.quota_words import entity_of
    from ottla.client.administration.quotas import QuotaAdmin

    entity = entity_of(**names)
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
    from ottla.client.administration.quota_words import entity_of, limit_number, required
    from ottla.client.administration.quotas import QuotaAdmin

    entity = required(entity_of(**names))
    pairs = [parse_setting(one, "producer_byte_rate=10M", option="limit") for one in limits]
    values = {name: limit_number(name, text) for name, text in pairs}
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
    from ottla.client.administration.quota_words import check_limit, entity_of, required
    from ottla.client.administration.quotas import QuotaAdmin

    entity = required(entity_of(**names))
    for name in limits:
        check_limit(name)
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


@click.command(
    "explain",
    cls=TargetCommand,
    examples=("ottla quotas explain localhost:9092 --user ana --client-id loader",),
)
@target_argument()
@click.option(
    "--user", metavar="NAME", default="", help="User; by default clients without a login."
)
@click.option("--client-id", metavar="ID", default="", help="Client id.")
@output_options("Print the names of the limits only, one per line.")
def explain_command(target: Target, user: str, client_id: str, output: Output) -> None:
    """Explain which quotas a client is under, and which of them have no effect on it.

    The most specific quota applies: that of a user before that of a client id, a name before the
    default.
    """
    from ottla.client.administration.quota_values import entity_text
    from ottla.client.administration.quota_words import applied_quotas
    from ottla.client.administration.quotas import QuotaAdmin

    with target.reading() as cluster:
        found = applied_quotas(QuotaAdmin(cluster).describe_quotas(), user, client_id)
    output.listing(
        found,
        ("limit", "#value", "quota of", "shared by the clients of", "without effect"),
        (
            (
                one.limit,
                f"{one.value:,.10g}",
                entity_text(one.entity),
                entity_text(one.shared_by),
                "; ".join(f"{entity_text(each)}: {value:,.10g}" for each, value in one.overridden),
            )
            for one in found
        ),
        fields=lambda one: {
            "limit": one.limit,
            "value": one.value,
            "entity": dict(one.entity),
            "shared_by": dict(one.shared_by),
            "overridden": [
                {"entity": dict(each), "value": value} for each, value in one.overridden
            ],
        },
        name=lambda one: one.limit,
        none="no quota applies to such a client",
    )


def _name(one: "Quota", kind: str) -> str:
    if kind not in one.entity:
        return ""
    return one.entity[kind] or DEFAULT
