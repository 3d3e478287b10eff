"""Several topics at once: delete those that are chosen in the list, or set a setting of each."""

from ottla.base.errors import UserError
from ottla.base.resource_kinds import ResourceKind
from ottla.base.texts import setting_value, value_text
from ottla.client.administration.admin import Admin
from ottla.config.setting import settings_of, unknown_setting
from ottla.config.topic import TopicConfig
from ottla.console.changes import Change, Plan, propose
from ottla.console.commands import Command
from ottla.console.contents import counted
from ottla.console.pages import Ask, Page, Redirect
from ottla.console.views.topics import partition_sizes
from ottla.console.views.view import View

MOST_TOPICS = 1000
CHOSEN = "topic."
"""The beginning of the fields of a list's check boxes, before the topics' names."""
SEPARATOR = ","
"""Between the names of the topics, none of which can have it."""


def delete(ask: Ask) -> Page | Redirect:
    """What is lost with the chosen topics."""
    names = _chosen(ask)
    with ask.place.reading() as admin:
        there = admin.partitions(names)
        sizes = partition_sizes(admin, there)
        bounds = admin.bounds(admin.existing_of(names))
    rows = [
        (
            name,
            len(there[name]),
            sum(end - start for one, (start, end) in bounds.items() if one.topic == name),
            sum(size for one, size in sizes.items() if one.topic == name),
        )
        for name in names
    ]
    what = counted(len(names), "topic")

    def deed() -> Redirect:
        with ask.place.changing() as cluster:
            Admin(cluster).delete_topics(names)
        return Redirect("/topics", f"{what} deleted")

    return propose(
        ask,
        Change(
            title=f"Delete {what}",
            lines=(
                "They are deleted with their settings and all their records, which cannot be "
                "brought back. Groups lose their offsets there.",
            ),
            warnings=tuple(
                f"{name} is an internal topic: the broker keeps its own state in it."
                for name in names
                if name.startswith("__")
            ),
            plan=Plan(
                ("Topic", "#Partitions", "#Records", "#Bytes"),
                rows,
                passing=("#Records", "#Bytes"),
            ),
            command=Command(verb=("topics", "delete"), options=("--yes",), arguments=names),
            typed=what,
            fields={"topics": SEPARATOR.join(names)},
            back="/topics",
            section="topics",
            deed=deed,
        ),
    )


def change(ask: Ask) -> Page | Redirect:
    """One setting of the chosen topics, before and after."""
    names = _chosen(ask)
    key, text = ask.fields.get("setting", "").strip(), ask.fields.get("value", "").strip()
    rows = settings_of(TopicConfig)
    if key not in rows:
        raise unknown_setting(key, list(rows))
    value = setting_value(key, text) if text else None
    if value is not None:
        rows[key].parse(value)
    with ask.place.reading() as admin:
        admin.partitions(names)  # raises `UnknownNameError`
        entries = admin.describe_configs(ResourceKind.TOPIC, names)
    if ask.place.has_broker:
        with ask.place.admin() as admin:
            for name in names:
                admin.alter_configs(ResourceKind.TOPIC, name, {key: value}, validate_only=True)
    what = counted(len(names), "topic")

    def deed() -> Redirect:
        with ask.place.changing() as cluster:
            admin = Admin(cluster)
            for name in names:
                admin.alter_configs(ResourceKind.TOPIC, name, {key: value})
        return Redirect("/topics", f"{key} of {what} changed")

    return propose(
        ask,
        Change(
            title=f"{'Unset' if value is None else 'Set'} {key} of {what}",
            lines=(rows[key].doc,),
            plan=Plan(
                ("Topic", "Now", "Then"),
                [
                    (
                        name,
                        value_text(key, entries[name][key].value),
                        value_text(key, entries[name][key].default if value is None else value),
                    )
                    for name in names
                ],
            ),
            command=Command(
                verb=("topics", "alter"),
                options=("--unset", key) if value is None else ("-o", f"{key}={value}"),
                arguments=names,
            ),
            button="Change them",
            fields={"topics": SEPARATOR.join(names), "setting": key, "value": text},
            back="/topics",
            section="topics",
            deed=deed,
        ),
    )


def _chosen(ask: Ask) -> tuple[str, ...]:
    """The names of the form, each once; raises `UserError`."""
    listed = ask.fields.get("topics", "").split(SEPARATOR)
    ticked = [one.removeprefix(CHOSEN) for one in ask.fields if one.startswith(CHOSEN)]
    names = dict.fromkeys(one for one in (*listed, *sorted(ticked)) if one)
    if not names:
        raise UserError("choose topics in the list")
    if len(names) > MOST_TOPICS:
        raise UserError(f"{len(names):,} topics: at most {MOST_TOPICS:,} are changed at once")
    return tuple(names)


VIEWS = {
    "/chosen-topics/delete": View(delete, takes_forms=True),
    "/chosen-topics/settings": View(change, takes_forms=True),
}
