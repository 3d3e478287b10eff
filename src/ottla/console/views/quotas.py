"""Quotas: the list, limits to set and to remove, and which of them a client is under."""

from collections.abc import Mapping
from urllib.parse import urlencode

from ottla.base.errors import UnknownNameError, UserError
from ottla.client.administration.admin import Admin
from ottla.client.administration.quota_values import Quota, entity_text
from ottla.client.administration.quota_words import (
    DEFAULT,
    LIMITS,
    applied_quotas,
    entity_of,
    entity_options,
    limit_number,
    name_text,
    plain_number,
    required,
)
from ottla.console.changes import Change, Plan, propose
from ottla.console.commands import Command
from ottla.console.contents import visible
from ottla.console.pages import Ask, Fields, Page, Redirect
from ottla.console.views.access import SECTION, absence_of, paged
from ottla.console.views.view import View

FIELDS = {"user": "user", "client-id": "client_id", "ip": "ip"}
"""The form's field for each kind of name."""
OFFERED = tuple(one for one in LIMITS if one != "controller_mutation_rate")
UNITS = {
    "producer_byte_rate": "bytes/s",
    "consumer_byte_rate": "bytes/s",
    "request_percentage": "% of one thread",
    "controller_mutation_rate": "partitions/s",
    "connection_creation_rate": "connections/s",
}
Names = dict[str, str | None]


def quotas(ask: Ask) -> Page:
    """All quotas; and, for a user and a client id, those that apply to that client."""
    wanted = ask.query.get("q", "").strip()
    found: list[Quota] = []
    absence = ""
    with ask.place.reading() as admin:
        try:
            found = admin.describe_quotas()
        except UserError as error:
            absence = absence_of(error)
    named = [one for one in found if wanted.lower() in entity_text(one.entity).lower()]
    named.sort(key=lambda one: entity_text(one.entity))
    shown, pages = paged(ask, named)
    user, client_id = ask.query.get("user", ""), ask.query.get("client_id", "")
    is_asked = ask.flag("explain")
    return Page(
        template="quotas.html",
        title="Quotas",
        section=SECTION,
        data={
            "q": wanted,
            "absence": absence,
            "quotas": [_fields(one) for one in shown],
            "user": user,
            "client_id": client_id,
            "is_asked": is_asked,
            "applied": _applied(found, user, client_id) if is_asked else [],
            "command": _explaining(ask, user, client_id) if is_asked else "",
            "offered": [{"name": one, "unit": UNITS[one]} for one in OFFERED],
            "default": DEFAULT,
            **pages,
        },
    )


def _fields(one: Quota) -> Fields:
    entity = _query(one.entity)
    return {
        "text": visible(entity_text(one.entity)),
        "names": {kind: visible(name_text(name)) for kind, name in one.entity.items()},
        "limits": [
            {
                "name": visible(limit),
                "value": value,
                "text": _amount(limit, value),
                "remove": f"/quotas/remove?{urlencode({**entity, 'limit': limit})}",
            }
            for limit, value in sorted(one.limits.items())
        ],
        "remove": f"/quotas/remove?{urlencode(entity)}",
    }


def _query(entity: Mapping[str, str | None]) -> dict[str, str]:
    return {FIELDS[kind]: name_text(name) for kind, name in entity.items() if kind in FIELDS}


def _amount(limit: str, value: float) -> str:
    return f"{value:,.10g} {UNITS.get(limit, '')}".rstrip()


def _applied(found: list[Quota], user: str, client_id: str) -> list[Fields]:
    return [
        {
            "limit": one.limit,
            "value": one.value,
            "text": _amount(one.limit, one.value),
            "entity": visible(entity_text(one.entity)),
            "shared_by": visible(entity_text(one.shared_by)),
            "overridden": [
                f"{visible(entity_text(entity))}: {_amount(one.limit, value)}"
                for entity, value in one.overridden
            ],
        }
        for one in applied_quotas(found, user, client_id)
    ]


def _explaining(ask: Ask, user: str, client_id: str) -> str:
    named = {"--user": user, "--client-id": client_id}
    options = tuple(f"{option}={name}" for option, name in named.items() if name)
    return Command(verb=("quotas", "explain"), options=options).text(ask.place.command_words)


# Changes


def _named(ask: Ask) -> Names:
    given = {name: ask.fields.get(name, "") or None for name in FIELDS.values()}
    return required(entity_of(**given))


def _known(admin: Admin, entity: Names) -> dict[str, float]:
    """The limits of exactly this entity."""
    found = [one for one in admin.describe_quotas(entity) if dict(one.entity) == entity]
    return {limit: value for one in found for limit, value in one.limits.items()}


def set_limits(ask: Ask) -> Page | Redirect:
    """Sets the limits that the form names; the others stay."""
    entity = _named(ask)
    values = {
        limit: limit_number(limit, text)
        for limit in LIMITS
        if (text := ask.fields.get(limit, "").strip())
    }
    if not values:
        raise UserError("name a limit, such as producer_byte_rate of 10M")
    with ask.place.reading() as admin:
        now = _known(admin, entity)

    def deed() -> Redirect:
        with ask.place.changing() as cluster:
            Admin(cluster).alter_quotas(entity, values)
        return Redirect("/quotas", f"limits of {visible(entity_text(entity))} are set")

    return propose(ask, Change(
        title=f"Set limits of {entity_text(entity)}",
        lines=_scope(entity),
        plan=Plan(
            ("Limit", "Now", "Then"),
            [(limit, _of(limit, now), _amount(limit, value)) for limit, value in values.items()],
        ),
        command=Command(
            verb=("quotas", "set"),
            options=tuple(entity_options(entity)),
            arguments=tuple(f"{limit}={plain_number(value)}" for limit, value in values.items()),
        ),
        button="Set",
        back="/quotas",
        section=SECTION,
        deed=deed,
    ))  # fmt: skip


def _of(limit: str, now: Mapping[str, float]) -> str:
    return _amount(limit, now[limit]) if limit in now else "none"


def _scope(entity: Names) -> tuple[str, ...]:
    if "ip" in entity:
        return ("It applies to each address by itself.",)
    more = "A more specific quota, of a user and a client id, comes before it."
    return () if len(entity) > 1 and None not in entity.values() else (more,)


def remove(ask: Ask) -> Page | Redirect:
    """Removes one limit of an entity, or all."""
    entity, limit = _named(ask), ask.fields.get("limit", "")
    with ask.place.reading() as admin:
        now = _known(admin, entity)
    if not now or (limit and limit not in now):
        raise UnknownNameError("quota", limit, now, entity_text(entity))
    gone = [limit] if limit else sorted(now)

    def deed() -> Redirect:
        with ask.place.changing() as cluster:
            Admin(cluster).alter_quotas(entity, dict.fromkeys(gone))
        return Redirect("/quotas", f"{visible(entity_text(entity))}: removed {', '.join(gone)}")

    return propose(ask, Change(
        title=f"Remove {limit or 'all limits'} of {entity_text(entity)}",
        lines=("A less specific quota applies afterwards, if there is one.",),
        plan=Plan(("Limit", "Now", "Then"), [(one, _of(one, now), "none") for one in gone]),
        command=Command(
            verb=("quotas", "remove"),
            options=tuple(entity_options(entity)),
            arguments=(limit,) if limit else (),
        ),
        button="Remove",
        back="/quotas",
        section=SECTION,
        deed=deed,
    ))  # fmt: skip


VIEWS = {
    "/quotas": View(quotas),
    "/quotas/set": View(set_limits, takes_forms=True),
    "/quotas/remove": View(remove, takes_forms=True),
}
