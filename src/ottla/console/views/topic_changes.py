"""Changes of topics: create, grow, empty and delete them, each with what will happen."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import lcm

from ottla.base.errors import ApiError, OttlaError, UserError
from ottla.base.partitions import TopicPartition
from ottla.base.texts import setting_value, size_text, value_text, whole_number
from ottla.client.administration.admin import Admin
from ottla.client.administration.descriptions import led_partitions
from ottla.client.administration.group_resets import begins_of
from ottla.client.administration.record_deletions import deleted_count, planned_deletion
from ottla.client.administration.topics import DEFAULT, check_new_topic
from ottla.client.refusals import RefusedError
from ottla.config.setting import Setting, settings_of, with_values
from ottla.config.topic import TopicConfig
from ottla.console.changes import Change, Plan, propose, propose_by_form
from ottla.console.commands import Command
from ottla.console.contents import counted, segment
from ottla.console.pages import Ask, Fields, Page, Redirect
from ottla.console.views.topics import partition_sizes
from ottla.console.views.view import View
from ottla.diagnosis.directories import described_config
from ottla.diagnosis.offset_reset import PlannedOffset, Reset, ResetKind, parse_place, read_csv
from ottla.diagnosis.words.settings import bounds_text
from ottla.tables import Table, loaded_partitions

COMMON = (
    "cleanup.policy",
    "retention.ms",
    "retention.bytes",
    "min.insync.replicas",
    "max.message.bytes",
    "compression.type",
)
"""The settings that are in sight on the form; the others are below them."""
MOST_COUNT = 100_000
GROUPS_ASKED = 50
"""The number of groups that are asked whether they read a topic."""
NAMES_SHOWN = 5
POLICIES = ("delete", "compact", "compact,delete")


# Create


def create(ask: Ask) -> Page | Redirect:
    """The form for a new topic."""
    with ask.place.reading() as admin:
        defaults = _defaults(admin)
    data: Fields = {
        "name": ask.fields.get("name", ""),
        "partitions": ask.fields.get("partitions", ""),
        "replicas": ask.fields.get("replicas", ""),
        "settings": [
            _setting_fields(row, defaults, ask.fields.get(row.name, ""))
            for row in sorted(settings_of(TopicConfig).values(), key=lambda row: row.name)
        ],
        "common": list(COMMON),
    }
    form = Page(template="create_topic.html", title="Create a topic", section="topics", data=data)
    given = ask.form is not None or ask.query.get("name")
    return propose_by_form(ask, form, (lambda: _creation(ask, defaults)) if given else None)


def _defaults(admin: Admin) -> TopicConfig:
    """The broker's defaults for topics; Kafka's if the user may not see them."""
    try:
        return described_config(admin.broker_settings()).topic_defaults
    except RefusedError:
        return TopicConfig()


def _setting_fields(row: Setting, defaults: TopicConfig, value: str) -> Fields:
    choices: Sequence[str] = row.one_of or ()
    if row.name == "cleanup.policy":
        choices = POLICIES
    elif row.kind == "boolean":
        choices = ("true", "false")
    default = row.format(getattr(defaults, row.attribute))
    return {
        "name": row.name,
        "value": value,
        "kind": row.kind,
        "default": value_text(row.name, default),
        "choices": list(choices),
        "bounds": bounds_text(row),
        "doc": row.doc,
    }


def _creation(ask: Ask, defaults: TopicConfig) -> Change:
    name = ask.fields.get("name", "").strip()
    check_new_topic(name)
    partitions = _count(ask, "partitions", "the broker's default")
    replicas = _count(ask, "replicas", "the broker's default")
    settings = _given_settings(ask)
    with ask.place.reading() as admin:
        if name in admin.list_topics(internal=True):
            raise UserError(f"topic {name} exists; choose another name")
        if ask.place.has_broker:
            _create(admin, name, partitions, replicas, settings, validate_only=True)
    rows = settings_of(TopicConfig)

    def deed() -> Redirect:
        with ask.place.changing() as cluster:
            _create(Admin(cluster), name, partitions, replicas, settings)
        return Redirect(f"/topics/{segment(name)}", f"{name} is created")

    return Change(
        title=f"Create topic {name}",
        lines=(
            "Its partitions are the broker's default."
            if partitions == DEFAULT
            else f"It has {counted(partitions, 'partition')}.",
            "Its replicas are the broker's default."
            if replicas == DEFAULT
            else f"Each is on {counted(replicas, 'broker')}.",
        ),
        plan=Plan(
            ("Setting", "Value", "Default"),
            [
                (key, value_text(key, value),
                 value_text(key, rows[key].format(getattr(defaults, rows[key].attribute))))
                for key, value in settings.items()
            ],
        ),
        command=Command(
            verb=("topics", "create"),
            options=(
                *(() if partitions == DEFAULT else ("-p", str(partitions))),
                *(() if replicas == DEFAULT else ("-r", str(replicas))),
                *setting_options(settings),
            ),
            arguments=(name,),
        ),
        button=f"Create {name}",
        back="/topics",
        section="topics",
        deed=deed,
    )  # fmt: skip


def _create(
    admin: Admin,
    name: str,
    partitions: int,
    replicas: int,
    settings: Mapping[str, str],
    *,
    validate_only: bool = False,
) -> None:
    admin.create_topic(
        name,
        partitions=partitions,
        replication_factor=replicas,
        configs=dict(settings),
        validate_only=validate_only,
    )


def _given_settings(ask: Ask) -> dict[str, str]:
    """The settings that the form has a value for, as `-o` of the commands; raises `UserError`."""
    given = {name: ask.fields.get(name, "").strip() for name in settings_of(TopicConfig)}
    settings = {name: setting_value(name, text) for name, text in given.items() if text}
    with_values(TopicConfig(), settings)
    return settings


def setting_options(settings: Mapping[str, str]) -> tuple[str, ...]:
    """Settings as the options `-o` of a command."""
    return tuple(word for name, text in settings.items() for word in ("-o", f"{name}={text}"))


def _count(ask: Ask, name: str, what: str) -> int:
    """A number of the form, -1 for an empty field; raises `UserError`."""
    text = ask.fields.get(name, "").strip()
    if not text:
        return DEFAULT
    number = whole_number(text, MOST_COUNT)
    if not number:
        raise UserError(f"{name} {text}: a whole number from 1; empty is {what}")
    return number


# Grow


def grow(ask: Ask) -> Page | Redirect:
    """A number of partitions, and what becomes of keys."""
    name, text = ask.path["topic"], ask.fields.get("count", "").strip()
    with ask.place.reading() as admin:
        before = len(admin.partitions([name])[name])
    form = form_of(
        name,
        f"Add partitions to {name}",
        [field_of("count", f"Partitions, now {before}", text, f"{before + 1} or more")],
    )
    return propose_by_form(ask, form, (lambda: _growth(ask, name, before)) if text else None)


def _growth(ask: Ask, name: str, before: int) -> Change:
    count = _count(ask, "count", "not possible")
    if count <= before:
        raise UserError(f"{name} has {before} partitions; their number can only grow")
    if ask.place.has_broker:
        with ask.place.admin() as admin:
            admin.create_partitions(name, count, validate_only=True)
    moved = 1 - before / lcm(before, count)

    def deed() -> Redirect:
        with ask.place.changing() as cluster:
            Admin(cluster).create_partitions(name, count)
        path = f"/topics/{segment(name)}"
        return Redirect(path, f"{name} grew from {before} to {counted(count, 'partition')}")

    return Change(
        title=f"Add partitions to {name}",
        lines=(
            f"{name} grows from {counted(before, 'partition')} to {count}.",
            "Records stay where they are.",
            "Consumers of groups share the new partitions when they next look for them, and begin "
            "there as auto.offset.reset says: with latest they miss what is written before.",
        ),
        warnings=(
            f"About {moved:.0%} of all keys go to another partition than before: new records of "
            "such a key are no longer in order with its old ones, and in a compacted topic the "
            "old record stays beside the new one.",
            "The number of partitions can never be made smaller.",
        ),
        command=Command(verb=("topics", "grow"), arguments=(name, str(count))),
        button=f"Grow to {count} partitions",
        back=f"/topics/{segment(name)}",
        section="topics",
        topic=name,
        deed=deed,
    )


# Empty


def empty(ask: Ask) -> Page | Redirect:
    """A place, and the records before it, which are deleted."""
    name, text = ask.path["topic"], ask.fields.get("before", "").strip()
    form = form_of(
        name,
        f"Delete records of {name}",
        [field_of("before", "Delete the records before", text, "end, 1500, @2026-01-31, 30d")],
        note="end deletes all that are there now; or an offset of each partition, a time, an age.",
    )
    return propose_by_form(ask, form, (lambda: _emptying(ask, name, text)) if text else None)


def _emptying(ask: Ask, name: str, text: str) -> Change:
    reset = parse_place("before", text, ask.now_ms)
    place = _place_text(reset, text)
    pinned = ask.fields.get("offsets", "")
    with ask.place.reading() as admin:
        planned = planned_deletion(admin, name, (), reset)
        if pinned:
            planned = _pinned(planned, read_csv("offsets", pinned))
        sizes = partition_sizes(admin, {name: [one.place.partition for one in planned]})
        bounds = admin.bounds([one.place for one in planned])
        readers = list(_readers(admin, name))
        policy = _settings_of(admin, name).get("cleanup.policy", "delete")
    if not planned:
        raise UserError(f"{name} has no record before {text}")
    size = sum(
        round(sizes.get(one.place, 0) * deleted_count(one) / max(1, _length(bounds[one.place])))
        for one in planned
    )
    total = sum(map(deleted_count, planned))
    after = {one.place: one.after for one in planned}
    behind = [
        group
        for group, committed in readers
        if any(offset < after.get(place, 0) for place, offset in committed.items())
    ]

    def deed() -> Redirect:
        with ask.place.changing() as cluster:
            Admin(cluster).delete_records(after)
        return Redirect(f"/topics/{segment(name)}", f"{counted(total, 'record')} deleted")

    return Change(
        title=f"Delete records of {name}",
        lines=("They cannot be brought back. Offsets go on from where they are.",),
        figures=(f"About {size_text(size)} of the partitions' files become free.",),
        warnings=_reader_warnings(behind, "has not read some of these records, and skips them"),
        plan=Plan(
            ("#Partition", "#First offset", "#Then", "#Records"),
            [(one.place.partition, one.before, one.after, deleted_count(one)) for one in planned],
        ),
        command=Command(
            verb=("delete-records",),
            options=("--before", place, "--yes"),
            arguments=(name,),
        ),
        typed=name,
        problem=""
        if "delete" in policy
        else f"{name} is compacted only (cleanup.policy={policy}): its records are not deleted by "
        "offset; delete the topic and create it again.",
        button=f"Delete {counted(total, 'record')}",
        fields={"before": place, "offsets": _csv(planned)},
        back=f"/topics/{segment(name)}",
        section="topics",
        topic=name,
        deed=deed,
    )


def _pinned(
    planned: Sequence[PlannedOffset], offsets: Mapping[TopicPartition, int]
) -> list[PlannedOffset]:
    """The plan up to the offsets of a preview, although the log may have grown since."""
    found = [
        replace(one, after=min(one.after, offsets[one.place]))
        for one in planned
        if one.place in offsets
    ]
    return [one for one in found if one.is_changed]


def _csv(planned: Sequence[PlannedOffset]) -> str:
    return "\n".join(f"{one.place.topic},{one.place.partition},{one.after}" for one in planned)


def _place_text(reset: Reset, text: str) -> str:
    """The place for a command that is run later: an age becomes a time."""
    if reset.kind is ResetKind.TIME:
        return f"@{reset.number}"
    return "latest" if reset.kind is ResetKind.LATEST else text


def _length(bounds: tuple[int, int]) -> int:
    return bounds[1] - bounds[0]


# Delete


def delete(ask: Ask) -> Page | Redirect:
    """What is lost with a topic."""
    name = ask.path["topic"]
    with ask.place.reading() as admin:
        (described,) = admin.describe_topics([name])
        places = led_partitions(described)
        records = sum(map(_length, admin.bounds(places).values()))
        size = sum(partition_sizes(admin, {name: [one.partition for one in places]}).values())
        readers = [group for group, _ in _readers(admin, name)]
    tables = [path for path in ask.state.tables if _is_loaded_from(path, name)]
    warnings = (
        *(
            [f"{name} is an internal topic: the broker keeps its own state in it."]
            if described.is_internal
            else []
        ),
        *_reader_warnings(readers, "reads it: its offsets there are lost"),
        *(f"The table {path} is loaded from it: its loads fail from now on." for path in tables),
    )

    def deed() -> Redirect:
        with ask.place.changing() as cluster:
            Admin(cluster).delete_topics([name])
        return Redirect("/topics", f"{name} is deleted")

    return propose(
        ask,
        Change(
            title=f"Delete topic {name}",
            lines=(
                f"The topic is deleted with its {counted(len(described.partitions), 'partition')}, "
                "its settings and all its records. They cannot be brought back.",
                "Producers and consumers of it fail until there is a topic of this name again.",
            ),
            figures=(f"It has {counted(records, 'record')} in {size_text(size)}.",),
            warnings=warnings,
            command=Command(verb=("topics", "delete"), options=("--yes",), arguments=(name,)),
            typed=name,
            button=f"Delete {name}",
            back=f"/topics/{segment(name)}",
            section="topics",
            topic=name,
            deed=deed,
        ),
    )


# What several changes tell


def _readers(admin: Admin, topic: str) -> Iterator[tuple[str, dict[TopicPartition, int]]]:
    """The groups that have committed offsets of a topic, of the first ones; those that the user
    may not see are left out.
    """
    try:
        groups = admin.list_groups()[:GROUPS_ASKED]
    except (ApiError, OttlaError):
        return
    for one in groups:
        try:
            offsets = begins_of(admin, one.group, one.kind)
        except (ApiError, OttlaError):
            continue
        committed = {place: offset for place, offset in offsets.items() if place.topic == topic}
        if committed:
            yield one.group, committed


def _reader_warnings(groups: Sequence[str], what: str) -> tuple[str, ...]:
    shown = tuple(f"Group {one} {what}." for one in groups[:NAMES_SHOWN])
    more = len(groups) - NAMES_SHOWN
    return (*shown, f"So it is with {counted(more, 'more group')}.") if more > 0 else shown


def _is_loaded_from(path: str, topic: str) -> bool:
    try:
        loaded = loaded_partitions(Table(path).entries())
    except (OttlaError, OSError):
        return False
    return any(one.topic == topic for one in loaded.values())


def _settings_of(admin: Admin, topic: str) -> dict[str, str]:
    """The topic's settings; empty if the user may not see them."""
    try:
        return admin.topic_settings(topic)
    except RefusedError:
        return {}


def form_of(topic: str, title: str, fields: Sequence[Fields], note: str = "") -> Page:
    """The page of a change of a topic with a few fields."""
    return Page(
        template="topic_change.html",
        title=title,
        section="topics",
        topic=topic,
        data={"topic": topic, "form_fields": list(fields), "note": note},
    )


def field_of(name: str, label: str, value: str, placeholder: str = "") -> Fields:
    return {"name": name, "label": label, "value": value, "placeholder": placeholder}


VIEWS = {
    "/create-topic": View(create, takes_forms=True),
    "/topics/{topic}/grow": View(grow, takes_forms=True),
    "/topics/{topic}/empty": View(empty, takes_forms=True),
    "/topics/{topic}/delete": View(delete, takes_forms=True),
}
