"""Groups: the list, one group with its lag over time, and a reset with its preview."""

from collections.abc import Mapping, Sequence
from urllib.parse import urlencode

from ottla.base.errors import CorruptionError, UnknownNameError, UserError
from ottla.base.partitions import TopicPartition
from ottla.base.texts import whole_number
from ottla.client.administration.admin import Admin
from ottla.client.administration.descriptions import ListedGroup, PartitionLag, totals
from ottla.client.administration.group_resets import (
    check_nobody_reads,
    check_there,
    places_to_reset,
    planned_reset,
)
from ottla.console.changes import Change, Plan, propose
from ottla.console.charts import Chart, line_chart
from ottla.console.commands import Command
from ottla.console.contents import counted, visible
from ottla.console.lags import LagSample
from ottla.console.pages import Ask, Fields, Page, Redirect
from ottla.console.views.view import View
from ottla.diagnosis.offset_reset import (
    PLACES,
    PlannedOffset,
    Reset,
    ResetKind,
    csv_of,
    parse_place,
    read_csv,
)
from ottla.storage.reading.read_only_directory import LostPartitionError

PER_PAGE = 50


def groups(ask: Ask) -> Page:
    """The list of groups, one page at a time; only the lags of those shown are requested."""
    wanted = ask.query.get("q", "").strip()
    lost: list[str] = []
    with ask.place.reading(lost.append) as known:
        found = [one for one in known.list_groups() if wanted.lower() in one.group.lower()]
        pages = max(1, -(-len(found) // PER_PAGE))
        number = ask.number("page", 1, least=1, most=pages)
        shown = []
        for one in found[(number - 1) * PER_PAGE : number * PER_PAGE]:
            shown.append(row := _row(one.group, one.state, one.kind))
            _add_lags(known, row, one, ask.now_ms, lost)
    shown.sort(key=lambda row: (-(row["lag"] or 0), row["name"]))
    return Page(
        template="groups.html",
        title="Groups",
        section="groups",
        data={
            "groups": shown,
            "count": len(found),
            "lost": [visible(line) for line in lost],
            "page_number": number,
            "page_count": pages,
            "q": wanted,
        },
    )


def _row(name: str, state: str = "", kind: str = "") -> Fields:
    return {"name": name, "shown": visible(name), "state": state, "kind": kind, "lag": None,
            "uncommitted": 0, "late_ms": None, "members": None, "topics": []}  # fmt: skip


def _add_lags(known: Admin, row: Fields, one: ListedGroup, now_ms: int, lost: list[str]) -> None:
    try:
        (described,) = known.describe_groups([one])
        row["members"] = len(described.members)
        row["state"] = described.state
        lags = known.group_lag(described, now_ms=now_ms)
    except UnknownNameError:
        return  # deleted meanwhile
    except (CorruptionError, LostPartitionError) as error:
        lost.append(f"group {row['shown']}: {error}")
        return
    row["topics"] = sorted({one.place.topic for one in lags})
    row |= totals(lags)


def group(ask: Ask) -> Page:
    """One group; each view of the page adds a point to its lag chart."""
    name = ask.query.get("name", "")
    return Page(
        template="group.html",
        title=f"Group {visible(name)}",
        section="groups",
        data=group_fields(ask, name, ask.now_ms),
    )


def group_fields(ask: Ask, name: str, now_ms: int) -> Fields:
    """The content of the page, which the stream sends repeatedly."""
    lost: list[str] = []
    with ask.place.reading(lost.append) as known:
        try:
            (described,) = known.describe_groups([name])
        except UnknownNameError as error:
            if lost:  # The group may be among what is lost.
                raise UserError("; ".join((str(error), *lost))) from error
            raise
        lags = known.group_lag(described, now_ms=now_ms)
    data: Fields = {
        "name": name,
        "shown": visible(name),
        "lost": [visible(line) for line in lost],
        "state": described.state,
        "kind": described.kind,
        "assignor": described.assignor,
        "coordinator": described.coordinator,
        "members": [
            {
                "client_id": visible(one.client_id),
                "member_id": visible(one.member_id),
                "instance_id": visible(one.instance_id or ""),
                "host": visible(one.host),
                "topics": [visible(topic) for topic in one.topics],
                "assigned": [f"{topic}-{index}" for topic, index in one.assigned],
            }
            for one in described.members
        ],
    }
    summed = dict(totals(lags))
    sample = LagSample(now_ms, summed["lag"] or 0, summed["late_ms"])
    samples = ask.state.lags.add(ask.place.user, name, sample)
    if ask.state.lags.remark:
        data["lost"].append(visible(ask.state.lags.remark))
    return data | summed | {
        "partitions": [_lag_fields(one) for one in lags],
        "chart": _chart(samples),
        "samples": [{"at_ms": one.at_ms, "lag": one.lag} for one in samples],
        "is_changeable": not ask.state.is_read_only and not data["members"],
    }  # fmt: skip


def _lag_fields(one: PartitionLag) -> Fields:
    return {
        "topic": one.place.topic,
        "partition": one.place.partition,
        "committed": one.committed,
        "start_offset": None if one.start_offset < 0 else one.start_offset,
        "end_offset": None if one.end_offset < 0 else one.end_offset,
        "lag": one.lag,
        "lost": one.lost_count,
        "late_ms": one.late_ms,
        "member": visible(one.member or ""),
    }


def _chart(samples: list[LagSample]) -> Fields:
    points = [(one.at_ms, one.lag) for one in samples]
    chart: Chart = line_chart(points)
    return chart.fields()


def reset(ask: Ask) -> Page | Redirect:
    """The form; and, once it names a place, what would change, which a person may confirm."""
    name, text = ask.fields.get("name", ""), ask.fields.get("to", "").strip()
    topics = tuple(ask.fields.get("topics", "").split())
    data: Fields = {
        "name": name, "shown": visible(name), "to": text, "topics": " ".join(topics),
        "places": PLACES, "planned": [],
    }  # fmt: skip
    pinned = ask.fields.get("offsets", "")
    status, problem = 200, ""
    if text or pinned:
        try:
            return propose(ask, _reset(ask, name, data, pinned))
        except UserError as error:
            if ask.form is not None:
                raise
            status, problem = 400, str(error)
    return Page(
        template="reset.html",
        title=f"Reset {visible(name)}",
        section="groups",
        data=data | {"problem": problem, "confirm": ""},
        status=status,
    )


def _reset(ask: Ask, group: str, data: Fields, pinned: str) -> Change:
    """`pinned` are the offsets of a preview, which do not change with the time or the log."""
    with ask.place.reading() as admin:
        if pinned:
            planned = _pinned(admin, group, read_csv("offsets", pinned))
        else:
            wanted = _wanted(data["to"], ask.now_ms)
            planned = _plan(admin, wanted, group, data["topics"].split())
    changed = [one for one in planned if one.is_changed]
    done = f"{counted(len(changed), 'offset')} changed"

    def deed() -> Redirect:
        with ask.place.changing() as cluster:
            admin = Admin(cluster)
            check_nobody_reads(admin, group, {one.group for one in admin.list_groups()})
            admin.alter_group_offsets(group, {one.place: one.after for one in planned})
        return Redirect(_path_of(group), done)

    return Change(
        title=f"Reset offsets of {group}",
        lines=("The group must have no members.",),
        plan=Plan(
            ("Topic", "#Partition", "#Committed", "#New offset", "Change", "#New lag", "Note"),
            [_row_of(one) for one in planned],
            passing=("#New lag", "Note"),
        ),
        command=Command(
            verb=("groups", "commit"),
            arguments=(group, *(f"{one.place[0]}:{one.place[1]}={one.after}" for one in planned)),
        ),
        fields={"name": group, "offsets": csv_of(planned)},
        button="Commit these offsets",
        back=_path_of(group),
        section="groups",
        template="reset.html",
        data=data | {"planned": [_planned_fields(one) for one in planned]},
        deed=deed,
    )


def _row_of(one: PlannedOffset) -> tuple[str | int | None, ...]:
    lag = one.end_offset - one.after
    is_moved = one.is_changed and one.before is not None
    change = f"{one.after - (one.before or 0):+,}" if is_moved else ""
    note = ("the log’s end" if lag == 0 else "the log’s start") if one.is_clamped else ""
    return (*one.place, one.before, one.after, change, lag, note)


def _plan(admin: Admin, wanted: Reset, group: str, topics: Sequence[str]) -> list[PlannedOffset]:
    committed = _committed(admin, group)
    places = places_to_reset(admin, group, topics, committed)
    return planned_reset(admin, wanted, places, committed)


def _pinned(admin: Admin, group: str, offsets: Mapping[TopicPartition, int]) -> list[PlannedOffset]:
    """The plan of a preview, by the group's offsets and the log's ends now."""
    committed = _committed(admin, group)
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


def _committed(admin: Admin, group: str) -> dict[TopicPartition, int]:
    known = {one.group for one in admin.list_groups()}
    if group not in known:
        raise UnknownNameError("group", group, known)
    return {key: one.offset for key, one in admin.group_offsets(group).items()}


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


def _path_of(group: str) -> str:
    return f"/group?{urlencode({'name': group})}"


VIEWS = {
    "/groups": View(groups),
    "/group": View(group),
    "/group/reset": View(reset, takes_forms=True),
}
