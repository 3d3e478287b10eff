"""Groups: the list, and one group with its lag over time."""

from ottla.base.errors import CorruptionError, UnknownNameError, UnreachableError, UserError
from ottla.client.administration.admin import Admin
from ottla.client.administration.descriptions import ListedGroup, PartitionLag, totals
from ottla.console.charts import Chart, line_chart
from ottla.console.contents import visible
from ottla.console.lags import LagSample
from ottla.console.pages import Ask, Fields, Page, left_out
from ottla.console.views.view import View
from ottla.storage.reading.read_only_directory import LostPartitionError

PER_PAGE = 50


def groups(ask: Ask) -> Page:
    """The list of groups, one page at a time; only the lags of those shown are requested."""
    wanted = ask.query.get("q", "").strip()
    lost: list[str] = []
    with ask.place.reading(lost.append) as known:
        listed = known.list_groups(on_unreachable=left_out(lost, "its groups are left out"))
        found = [one for one in listed if wanted.lower() in one.group.lower()]
        pages = max(1, -(-len(found) // PER_PAGE))
        number = ask.number("page", 1, least=1, most=pages)
        shown = []
        for one in found[(number - 1) * PER_PAGE : number * PER_PAGE]:
            shown.append(row := group_row(one.group, one.state, one.kind))
            add_lags(known, row, one, ask.now_ms, lost)
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


def group_row(name: str, state: str = "", kind: str = "") -> Fields:
    return {"name": name, "shown": visible(name), "state": state, "kind": kind, "lag": None,
            "uncommitted": 0, "late_ms": None, "members": None, "topics": []}  # fmt: skip


def add_lags(known: Admin, row: Fields, one: ListedGroup, now_ms: int, lost: list[str]) -> None:
    try:
        (described,) = known.describe_groups([one])
        row["members"] = len(described.members)
        row["state"] = described.state
        lags = known.group_lag(described, now_ms=now_ms)
    except UnknownNameError:
        return  # deleted meanwhile
    except (CorruptionError, LostPartitionError, UnreachableError) as error:
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
        "epoch": described.epoch,
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


VIEWS = {
    "/groups": View(groups),
    "/group": View(group),
}
