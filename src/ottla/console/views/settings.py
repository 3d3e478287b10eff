"""Settings: values, sources and meanings, and the form to change one."""

from collections.abc import Mapping

from ottla.base.errors import UnknownNameError
from ottla.base.resource_kinds import ResourceKind
from ottla.base.texts import setting_value, value_text
from ottla.client.administration.admin import Admin
from ottla.client.administration.config_values import ConfigEntry
from ottla.config.broker import broker_settings
from ottla.config.setting import Setting, settings_of
from ottla.config.topic import TopicConfig
from ottla.config.without_effect import is_without_effect, reason_of
from ottla.console.changes import Change, Plan, propose
from ottla.console.commands import Command
from ottla.console.contents import segment
from ottla.console.pages import Ask, Fields, Page, Redirect
from ottla.console.views.view import View
from ottla.diagnosis.words.settings import bounds_text, origin_text

OF_A_TOPIC, OF_A_BROKER = ResourceKind.TOPIC, ResourceKind.BROKER


def of_topic(ask: Ask) -> Page | Redirect:
    """A topic's settings."""
    name = ask.path["topic"]
    rows = settings_of(TopicConfig)
    with ask.place.reading() as admin:
        entries = admin.describe_configs(OF_A_TOPIC, [name])[name]
    if ask.form is not None:
        return propose(ask, _change(ask, entries, OF_A_TOPIC, name))
    settings = [_fields(one, rows.get(one.name)) for one in entries.values()]
    data = _data(ask, settings) | {"topic": name, "of": f"topic {name}"}
    return Page(
        template="settings.html",
        title=f"Settings of {name}",
        section="topics",
        topic=name,
        data=data,
    )


def of_broker(ask: Ask) -> Page | Redirect:
    """The settings of the named broker, or of the first one."""
    rows = broker_settings()
    with ask.place.reading() as admin:
        names = [str(one) for one in sorted(admin.describe_cluster().brokers)]
        name = (ask.form or ask.query).get("broker", names[0])
        if name not in names:
            raise UnknownNameError("broker", name, names)
        entries = admin.describe_configs(OF_A_BROKER, [name])[name]
    if ask.form is not None:
        return propose(ask, _change(ask, entries, OF_A_BROKER, name))
    settings = [_fields(one, rows.get(one.name)) for one in entries.values()]
    data = _data(ask, settings) | {"topic": None, "of": f"broker {name}", "broker": name}
    data["is_changeable"] &= ask.place.has_broker
    return Page(template="settings.html", title="Settings", section="settings", data=data)


def _data(ask: Ask, settings: list[Fields]) -> Fields:
    """The settings that differ from their defaults; all of them for a search or on request."""
    wanted = ask.query.get("q", "").strip().lower()
    shows_all = ask.flag("all") or bool(wanted)
    shown = [
        one
        for one in sorted(settings, key=lambda one: str(one["name"]))
        if wanted in one["name"].lower() and (shows_all or not one["is_default"])
    ]
    return {
        "settings": shown,
        "count": len(settings),
        "q": wanted,
        "shows_all": shows_all,
        "is_changeable": not ask.state.is_read_only,
        "broker": None,
    }


def _fields(one: ConfigEntry, row: Setting | None) -> Fields:
    return {
        "name": one.name,
        "value": one.value,
        "is_sensitive": one.is_sensitive,
        "is_default": one.origin.name == "DEFAULT",
        "is_own": one.is_own or one.origin.name == "OF_THE_BROKER",
        "origin": origin_text(one.origin.name),
        "default": one.default,
        "is_read_only": one.is_read_only,
        **_meaning(one.name, row, one.documentation or ""),
    }


def _meaning(name: str, row: Setting | None, documentation: str) -> Fields:
    """The meaning of a setting, or why it has no effect."""
    effect = row.doc if row is not None else documentation
    if row is None and is_without_effect(name):
        effect = f"has no effect here: {reason_of(name)}"
    return {
        "effect": effect,
        "bounds": "" if row is None else bounds_text(row),
        "kind": "" if row is None else row.kind,
        "is_dynamic": row is None or row.is_dynamic,
    }


def _change(ask: Ask, entries: Mapping[str, ConfigEntry], kind: ResourceKind, name: str) -> Change:
    """Sets one setting, or resets it to its default."""
    key = ask.fields.get("setting", "")
    if key not in entries:
        raise UnknownNameError("setting", key, entries)
    entry = entries[key]
    is_unset = bool(ask.fields.get("unset"))
    value = None if is_unset else setting_value(key, ask.fields.get("value", "").strip())
    of = f"topic {name}" if kind is OF_A_TOPIC else f"broker {name}"
    resource = (name,) if kind is OF_A_TOPIC else ()
    options = () if kind is OF_A_TOPIC else ("--broker", name)
    path = f"/topics/{segment(name)}/settings" if kind is OF_A_TOPIC else f"/settings?broker={name}"
    before = "hidden" if entry.is_sensitive else value_text(key, entry.value)
    after = (
        f"its default, {value_text(key, entry.default)}"
        if value is None
        else value_text(key, value)
    )
    done = f"{key} was reset to its default" if value is None else f"{key} is {value} now"

    def deed() -> Redirect:
        with ask.place.changing() as cluster:
            Admin(cluster).alter_configs(kind, name, {key: value})
        return Redirect(path, done)

    return Change(
        title=f"Unset {key} of {of}" if value is None else f"Set {key} of {of}",
        plan=Plan(("Setting", "Now", "Then"), [(key, before, after)]),
        command=Command(
            verb=("configs", "unset" if value is None else "set"),
            options=options,
            arguments=(*resource, key if value is None else f"{key}={value}"),
        ),
        back=path,
        section="topics" if kind is OF_A_TOPIC else "settings",
        topic=name if kind is OF_A_TOPIC else None,
        deed=deed,
    )


VIEWS = {
    "/settings": View(of_broker, takes_forms=True),
    "/topics/{topic}/settings": View(of_topic, takes_forms=True),
}
