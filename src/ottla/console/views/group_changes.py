"""Changes to groups: offsets that are reset or forgotten, and groups that are deleted."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from ottla.base.errors import RefusalError, UnknownNameError, UserError
from ottla.base.partitions import TopicPartition
from ottla.base.texts import whole_number
from ottla.client.administration.admin import Admin
from ottla.client.administration.descriptions import GroupDescription, PartitionLag
from ottla.client.administration.group_members import SHARE
from ottla.client.administration.group_resets import (
    begin_at,
    begins_of,
    check_nobody_reads,
    check_there,
    forget,
    places_to_reset,
    planned_reset,
)
from ottla.console.changes import Cell, Change, Plan, is_of_brokers, propose, to_type
from ottla.console.commands import Command
from ottla.console.contents import counted, visible
from ottla.console.pages import Ask, Fields, Page, Redirect
from ottla.console.views.view import View
from ottla.diagnosis.offset_reset import (
    PlannedOffset,
    Reset,
    ResetKind,
    csv_of,
    parse_place,
    read_csv,
)

KINDS = {
    "beginning": "the beginning",
    "end": "the end",
    "time": "a time",
    "ago": "an age",
    "offset": "an offset",
    "shift": "records forward or back",
    "current": "where it is",
}
"""What the form offers; each with a field of its name takes the text of that field."""
MOST_SHOWN = 1000
"""The number of partitions of a plan that are shown; the others are counted."""


def reset(ask: Ask) -> Page | Redirect:
    """The form; and, once it names a place, what would change, which a person may confirm."""
    fields = ask.fields
    name = fields.get("name", "")
    topics = tuple(fields.get("topics", "").split())
    pinned = fields.get("offsets", "")
    given = {one: fields.get(one, "").strip() for one in ("kind", "zone", *KINDS)}
    data: Fields = {
        "name": name, "shown": visible(name), "to": fields.get("to", "").strip(),
        "topics": " ".join(topics), "given": given, "kinds": KINDS, "planned": [], "known": [],
    }  # fmt: skip
    status, problem = 200, ""
    try:
        text = place_text(fields)
        if text or pinned:
            return propose(ask, _reset(ask, name, data | {"to": text}, pinned))
        with ask.place.reading() as admin:
            data["known"] = sorted({one.topic for one in _committed(admin, name)})
    except UserError as error:
        if ask.form is not None or is_of_brokers(error):
            raise
        status, problem = 404 if isinstance(error, UnknownNameError) else 400, str(error)
    return Page(
        template="reset.html",
        title=f"Reset {visible(name)}",
        section="groups",
        data=data | {"problem": problem, "confirm": ""},
        status=status,
    )


def place_text(fields: Mapping[str, str]) -> str:
    """The place that a form names, as `ottla groups reset --to` takes it; `to` has it as a text.

    A time is that of the visitor's clock; `zone` is its distance to UTC, such as +01:00.
    """
    text, kind = fields.get("to", "").strip(), fields.get("kind", "").strip()
    if text or not kind:
        return text
    if kind not in KINDS:
        raise UserError(f"kind={kind}: one of {', '.join(KINDS)}")
    if kind in ("beginning", "end", "current"):
        return kind
    value = fields.get(kind, "").strip()
    if not value:
        raise UserError(f"fill in the field for {KINDS[kind]}")
    if kind == "time":
        return f"@{value}{fields.get('zone', '').strip()}"
    return value if kind != "shift" or value[:1] in "+-" else f"+{value}"


def _reset(ask: Ask, group: str, data: Fields, pinned: str) -> Change:
    """`pinned` are the offsets of a preview, which do not change with the time or the log."""
    with ask.place.reading() as admin:
        committed = _committed(admin, group)
        if pinned:
            planned = _pinned(admin, committed, read_csv("offsets", pinned))
        else:
            places = places_to_reset(admin, group, data["topics"].split(), committed)
            planned = planned_reset(admin, _wanted(data["to"], ask.now_ms), places, committed)
        problem = _who_reads(admin, group)
    changed = [one for one in planned if one.is_changed]
    done = f"{counted(len(changed), 'offset')} changed"

    def deed() -> Redirect:
        with ask.place.changing() as cluster:
            admin = Admin(cluster)
            check_nobody_reads(admin, group, {one.group for one in admin.list_groups()})
            offsets = {one.place: one.after for one in planned}
            begin_at(admin, group, _kind_of(admin, group), offsets)
        return Redirect(_path_of(group), done)

    return Change(
        title=f"Reset offsets of {group}",
        lines=tuple(_moves(planned)),
        plan=Plan(
            ("Topic", "#Partition", "#Committed", "#New offset", "Change", "#Lag", "#New lag",
             "Note"),
            [_row_of(one) for one in planned],
            passing=("#Lag", "#New lag", "Note"),
        ),
        command=Command(
            verb=("groups", "commit"),
            arguments=(group, *(f"{one.place[0]}:{one.place[1]}={one.after}" for one in planned)),
        ),
        fields={"name": group, "offsets": csv_of(planned)},
        button="Commit these offsets",
        problem=problem,
        back=_path_of(group),
        section="groups",
        template="reset.html",
        data=data | {"planned": [_planned_fields(one) for one in planned]},
        deed=deed,
    )  # fmt: skip


def _moves(planned: Sequence[PlannedOffset]) -> list[str]:
    """What the group skips, and what it reads again."""
    steps = [one.after - one.before for one in planned if one.before is not None]
    skipped, again = sum(one for one in steps if one > 0), -sum(one for one in steps if one < 0)
    found = []
    if skipped:
        found.append(f"It skips {counted(skipped, 'offset')} that it has not read.")
    if again:
        found.append(f"It reads {counted(again, 'offset')} again.")
    new = sum(one.before is None for one in planned)
    if new:
        found.append(f"It begins in {counted(new, 'partition')} without a committed offset.")
    return found or ["Nothing changes."]


def _row_of(one: PlannedOffset) -> tuple[Cell, ...]:
    lag = one.end_offset - one.after
    before = None if one.before is None else max(0, one.end_offset - one.before)
    is_moved = one.is_changed and one.before is not None
    change = f"{one.after - (one.before or 0):+,}" if is_moved else ""
    note = ("the log’s end" if lag == 0 else "the log’s start") if one.is_clamped else ""
    return (*one.place, one.before, one.after, change, before, lag, note)


def _pinned(
    admin: Admin, committed: Mapping[TopicPartition, int], offsets: Mapping[TopicPartition, int]
) -> list[PlannedOffset]:
    """The plan of a preview, by the group's offsets and the log's ends now."""
    check_there(admin, list(offsets))
    planned = []
    for place, (start, end) in admin.bounds(list(offsets)).items():
        after = min(max(offsets[place], start), end)
        planned.append(
            PlannedOffset(
                place=place,
                before=committed.get(place),
                after=after,
                end_offset=end,
                is_clamped=after != offsets[place],
            )
        )
    return planned


def _kind_of(admin: Admin, group: str) -> str:
    known = {one.group: one.kind for one in admin.list_groups()}
    if group not in known:
        raise UnknownNameError("group", group, known)
    return known[group]


def _committed(admin: Admin, group: str) -> dict[TopicPartition, int]:
    """What a group has committed; of a share group where it begins."""
    return begins_of(admin, group, _kind_of(admin, group))


def _wanted(text: str, now_ms: int) -> Reset:
    """Parses a position, or a number of records to move by: `+100`, `-100`."""
    if text[:1] in "+-" and (number := whole_number(text[1:])) is not None:
        return Reset(kind=ResetKind.SHIFT, number=number if text[0] == "+" else -number)
    return parse_place("to", text, now_ms)


def _planned_fields(one: PlannedOffset) -> Fields:
    return {
        "topic": one.place.topic,
        "partition": one.place.partition,
        "before": one.before,
        "after": one.after,
        "lag": one.end_offset - one.after,
        "is_clamped": one.is_clamped,
        "is_changed": one.is_changed,
    }


def _who_reads(admin: Admin, group: str) -> str:
    """Why the offsets cannot be changed: the members; empty without any."""
    try:
        check_nobody_reads(admin, group, {group})
    except RefusalError as error:
        return str(error)
    return ""


def _path_of(group: str) -> str:
    return f"/group?{urlencode({'name': group})}"


# Deleting


def delete(ask: Ask) -> Page | Redirect:
    """Deletes a group with its offsets, or its offsets of some topics."""
    name = ask.fields.get("name", "")
    topics = tuple(ask.fields.get("topics", "").split())
    with ask.place.reading() as admin:
        committed = _committed(admin, name)
        (described,) = admin.describe_groups([name])
        lags = {one.place: one for one in admin.group_lag(described, now_ms=ask.now_ms)}
        if not topics:
            return propose(ask, _deletion(ask, described, committed, lags))
        places = [
            one for one in places_to_reset(admin, name, topics, committed) if one in committed
        ]
    if not places:
        raise UserError(f"group {visible(name)} has committed nothing there")
    gone = {one: committed[one] for one in places}
    return propose(ask, _forgetting(ask, described, topics, gone, lags))


def _deletion(
    ask: Ask,
    described: GroupDescription,
    committed: Mapping[TopicPartition, int],
    lags: Mapping[TopicPartition, PartitionLag],
) -> Change:
    name = described.group

    def deed() -> Redirect:
        with ask.place.changing() as cluster:
            Admin(cluster).delete_groups([name])
        return Redirect("/groups", f"group {visible(name)} is deleted")

    topics = len({one.topic for one in committed})
    with ask.place.reading() as admin:
        problem = _who_reads(admin, name)
    return Change(
        title=f"Delete group {name}",
        lines=(
            f"{counted(len(committed), 'committed offset')} of {counted(topics, 'topic')} "
            f"{'is' if len(committed) == 1 else 'are'} lost.",
            _ITS_NEXT_BEGINNING[described.kind == SHARE],
            *_not_shown(committed),
        ),
        plan=_lost(committed, lags),
        command=Command(verb=("groups", "delete"), options=("--yes",), arguments=(name,)),
        typed=to_type(name),
        button="Delete the group",
        problem=problem,
        back=_path_of(name),
        section="groups",
        deed=deed,
    )


def _forgetting(
    ask: Ask,
    described: GroupDescription,
    topics: Sequence[str],
    gone: Mapping[TopicPartition, int],
    lags: Mapping[TopicPartition, PartitionLag],
) -> Change:
    name = described.group

    def deed() -> Redirect:
        with ask.place.changing() as cluster:
            forget(Admin(cluster), name, described.kind, list(gone))
        return Redirect(_path_of(name), f"{counted(len(gone), 'offset')} deleted")

    readers = {one for member in described.members for one in member.topics}
    read = sorted(readers & {one.topic for one in gone})
    return Change(
        title=f"Delete offsets of group {name}",
        lines=(
            _ITS_NEXT_BEGINNING[described.kind == SHARE],
            *_not_shown(gone),
        ),
        plan=_lost(gone, lags),
        command=Command(
            verb=("groups", "delete"),
            options=(*(f"--topic={one}" for one in topics), "--yes"),
            arguments=(name,),
        ),
        typed=to_type(name),
        button=f"Delete {counted(len(gone), 'offset')}",
        problem=f"Members read {', '.join(read)}; stop them first." if read else "",
        back=_path_of(name),
        section="groups",
        deed=deed,
    )


_ITS_NEXT_BEGINNING = (
    "A consumer of this group then begins there where its auto.offset.reset says.",
    "The share group then begins there where its share.auto.offset.reset says.",
)


def _lost(gone: Mapping[TopicPartition, int], lags: Mapping[TopicPartition, PartitionLag]) -> Plan:
    rows = [
        (*place, offset, lags[place].lag if place in lags else None)
        for place, offset in sorted(gone.items())[:MOST_SHOWN]
    ]
    return Plan(("Topic", "#Partition", "#Committed", "#Lag"), rows, passing=("#Lag",))


def _not_shown(gone: Mapping[TopicPartition, int]) -> list[str]:
    rest = len(gone) - MOST_SHOWN
    return [f"{rest:,} more offsets go, which are not shown."] if rest > 0 else []


VIEWS = {
    "/group/reset": View(reset, takes_forms=True),
    "/group/delete": View(delete, takes_forms=True),
}
