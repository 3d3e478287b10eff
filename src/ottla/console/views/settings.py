"""Settings: values, sources and meanings, and the form to change one."""

from ottla.base.errors import UnknownNameError
from ottla.client.administration.config_values import ConfigEntry
from ottla.config.broker import broker_settings
from ottla.config.setting import Setting, settings_of
from ottla.config.topic import TopicConfig
from ottla.config.without_effect import is_without_effect, reason_of
from ottla.console.changes import propose
from ottla.console.pages import Ask, Fields, Page, Redirect
from ottla.console.views.setting_changes import OF_A_BROKER, OF_A_TOPIC, setting_change
from ottla.console.views.view import View
from ottla.diagnosis.words.settings import bounds_text, origin_text


def of_topic(ask: Ask) -> Page | Redirect:
    """A topic's settings."""
    name = ask.path["topic"]
    rows = settings_of(TopicConfig)
    with ask.place.reading() as admin:
        entries = admin.describe_configs(OF_A_TOPIC, [name])[name]
    if ask.form is not None:
        return propose(ask, setting_change(ask, OF_A_TOPIC, name, entries, rows))
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
        return propose(ask, setting_change(ask, OF_A_BROKER, name, entries, rows))
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


VIEWS = {
    "/settings": View(of_broker, takes_forms=True),
    "/topics/{topic}/settings": View(of_topic, takes_forms=True),
}
