"""Groups: the list, one group with its lag over time, and a reset with its preview."""

from collections.abc import Mapping
from urllib.parse import urlencode

from ottla.base.errors import RefusalError, UnknownNameError, UserError
from ottla.base.partitions import TopicPartition
from ottla.base.texts import whole_number
from ottla.client.admin import Admin
from ottla.client.administration.descriptions import ListedGroup, PartitionLag, totals
from ottla.client.resets import check_nobody_reads, places_to_reset, planned_reset
from ottla.console.charts import Chart, line_chart
from ottla.console.contents import visible
from ottla.console.pages import Ask, Fields, Page, Redirect
from ottla.console.places import Place
from ottla.console.state import LagSample
from ottla.console.views.view import View, check_writes
from ottla.diagnosis.offset_reset import PLACES, PlannedOffset, Reset, ResetKind, parse_place
from ottla.mirror.directory_source import DirectorySource

PER_PAGE = 50


def groups(ask: Ask) -> Page:
    """The list of groups, one page at a time; only the lags of those shown are requested."""
    wanted = ask.query.get("q", "").strip()
    rows, listed = _listed(ask.place)
    rows = [row for row in rows if wanted.lower() in row["name"].lower()]
    pages = max(1, -(-len(rows) // PER_PAGE))
    number = ask.number("page", 1, least=1, most=pages)
    shown = rows[(number - 1) * PER_PAGE : number * PER_PAGE]
    _add_lags(ask, shown, listed)
    shown.sort(key=lambda row: (-(row["lag"] or 0), row["name"]))
    return Page(
        template="groups.html",
        title="Groups",
        section="groups",
        data={
            "groups": shown,
            "count": len(rows),
            "page_number": number,
            "page_count": pages,
            "q": wanted,
        },
    )


def _listed(place: Place) -> tuple[list[Fields], Mapping[str, ListedGroup]]:
    """A row for each group, and the groups found."""
    if place.has_broker:
        with place.admin() as admin:
            found = {one.group: one for one in admin.list_groups()}
        return [_row(one.group, one.state, one.kind) for one in found.values()], found
    return [_row(name) for name in sorted(_committed_in_files(place))], {}


def _row(name: str, state: str = "", kind: str = "") -> Fields:
    return {"name": name, "shown": visible(name), "state": state, "kind": kind, "lag": None,
            "uncommitted": 0, "late_ms": None, "members": None, "topics": []}  # fmt: skip


def _add_lags(ask: Ask, rows: list[Fields], listed: Mapping[str, ListedGroup]) -> None:
    if not ask.place.has_broker:
        committed = _committed_in_files(ask.place)
        for row in rows:
            lags = _lags_in_files(ask.place, committed.get(row["name"], {}))
            row |= totals(lags)
            row["topics"] = sorted({one.place.topic for one in lags})
        return
    with ask.place.admin() as admin:
        for row in rows:
            try:
                (described,) = admin.describe_groups([listed.get(row["name"], row["name"])])
                lags = admin.group_lag(described, now_ms=ask.now_ms)
            except UnknownNameError:
                continue  # deleted meanwhile
            row["members"] = len(described.members)
            row["state"] = described.state
            row["topics"] = sorted({one.place.topic for one in lags})
            row |= totals(lags)


def _committed_in_files(place: Place) -> dict[str, dict[TopicPartition, int]]:
    """The committed offsets by group, from the files of a stopped broker."""
    found: dict[str, dict[TopicPartition, int]] = {}
    first, *others = place.target.directories
    source = DirectorySource(first, others=others)
    for one in source.committed_offsets():
        found.setdefault(one.group, {})[TopicPartition(one.topic, one.partition)] = one.offset
    return found


def _lags_in_files(place: Place, committed: dict[TopicPartition, int]) -> list[PartitionLag]:
    files = place.files()
    assert files is not None
    found = []
    for topic in sorted({one.topic for one in committed}):
        if topic not in files.topics:
            continue
        for log in files.logs(topic):
            at = TopicPartition(topic, log.partition)
            found.append(
                PartitionLag(
                    place=at,
                    committed=committed.get(at),
                    start_offset=log.log_start_offset,
                    end_offset=log.log_end_offset,
                )
            )
    return found


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
    place = ask.place
    data: Fields = {
        "name": name, "shown": visible(name), "state": "", "kind": "", "assignor": "",
        "coordinator": None, "members": [],
    }  # fmt: skip
    if place.has_broker:
        with place.admin() as admin:
            (described,) = admin.describe_groups([name])
            lags = admin.group_lag(described, now_ms=now_ms)
        data |= {
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
    else:
        committed = _committed_in_files(place)
        if name not in committed:
            raise UnknownNameError("group", name, committed)
        lags = _lags_in_files(place, committed[name])
    summed = dict(totals(lags))
    sample = LagSample(now_ms, summed["lag"] or 0, summed["late_ms"])
    samples = ask.state.lags.add(place.user, name, sample)
    return data | summed | {
        "partitions": [_lag_fields(one) for one in lags],
        "chart": _chart(samples),
        "samples": [{"at_ms": one.at_ms, "lag": one.lag} for one in samples],
        "is_changeable": ask.state.allows_writes and not data["members"],
        "allows_writes": ask.state.allows_writes,
    }  # fmt: skip


def _lag_fields(one: PartitionLag) -> Fields:
    return {
        "topic": one.place.topic,
        "partition": one.place.partition,
        "committed": one.committed,
        "start_offset": one.start_offset,
        "end_offset": one.end_offset,
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
    """Previews a reset; a submitted form carries it out."""
    fields = ask.query if ask.form is None else ask.form
    name, text = fields.get("name", ""), fields.get("to", "").strip()
    topics = tuple(fields.get("topics", "").split())
    data: Fields = {
        "name": name, "shown": visible(name), "to": text, "topics": " ".join(topics),
        "places": PLACES, "planned": [], "problem": "", "is_changeable": ask.state.allows_writes,
    }  # fmt: skip
    if ask.form is not None:
        check_writes(ask)
    if text:
        try:
            planned = _planned(ask, name, topics, text)
            data["planned"] = [_planned_fields(one) for one in planned]
        except UserError as error:
            if ask.form is not None:
                raise
            data["problem"] = str(error)
    if ask.form is not None:
        changed = sum(one["after"] != one["before"] for one in data["planned"])
        return Redirect(_path_of(name), f"{changed} offset{'' if changed == 1 else 's'} changed")
    return Page(
        template="reset.html",
        title=f"Reset {visible(name)}",
        section="groups",
        data=data,
        status=400 if data["problem"] else 200,
    )


def _planned(ask: Ask, group: str, topics: tuple[str, ...], text: str) -> list[PlannedOffset]:
    """Plans a reset, and carries it out for a submitted form, which may be older than the plan."""
    wanted = _wanted(text, ask.now_ms)
    if ask.form is None and not ask.place.has_broker:
        raise RefusalError("a preview needs a running broker; ottla groups reset works without")
    with ask.place.changing() if ask.form is not None else ask.place.cluster() as cluster:
        admin = Admin(cluster)
        known = {one.group for one in admin.list_groups()}
        if group not in known:
            raise UnknownNameError("group", group, known)
        committed = {key: one.offset for key, one in admin.group_offsets(group).items()}
        places = places_to_reset(admin, group, topics, committed)
        planned = planned_reset(admin, wanted, places, committed)
        if ask.form is not None:
            check_nobody_reads(admin, group, known)
            admin.alter_group_offsets(group, {one.place: one.after for one in planned})
    return planned


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
