"""Topics: the list, its figures, which are loaded later, and the page of one topic."""

from collections.abc import Iterable, Mapping, Sequence

from ottla.base.errors import ApiError
from ottla.base.ids import uuid_text
from ottla.base.partitions import TopicPartition
from ottla.base.texts import rate_text
from ottla.client.admin import Admin
from ottla.client.administration.descriptions import PartitionLag, totals
from ottla.client.reading import EARLIEST, LATEST
from ottla.client.refusals import RefusedError
from ottla.console.pages import Ask, Fields, Page
from ottla.console.targets import Place
from ottla.console.views.view import View
from ottla.diagnosis.words.settings import retention_text
from ottla.storage.reading.locating import locate

PER_PAGE = 100
MOST_PER_PAGE = 1000
RATE_OVER_MS = 300_000
FIGURES_AT_ONCE = 50
GROUPS_ASKED = 50
"""The number of groups whose lag is looked up for a list of topics."""
NO_LAG: Fields = {"lag": None, "lag_group": None, "lag_uncommitted": 0}
SORTS = ("name", "size", "partitions")
INTERNAL = "__"


def topics(ask: Ask) -> Page:
    """All topics with partitions and sizes; rates and lags of some, or loaded by a script."""
    wanted = ask.query.get("q", "").strip()
    shows_internal = ask.query.get("internal") == "1"
    sort = ask.query.get("sort", "name")
    partitions = {
        name: indexes
        for name, indexes in _partitions(ask.place).items()
        if (shows_internal or not name.startswith(INTERNAL)) and wanted.lower() in name.lower()
    }
    rows: list[Fields] = [
        {
            "name": name,
            "partitions": len(indexes),
            "size": None,
            "is_internal": name.startswith(INTERNAL),
        }
        for name, indexes in sorted(partitions.items())
    ]
    if sort == "size":
        _fill_in_sizes(ask.place, rows, partitions)
    if sort in SORTS[1:]:
        rows.sort(key=lambda row: (-(row[sort] or 0), row["name"]))
    per = ask.number("per", PER_PAGE, least=1, most=MOST_PER_PAGE)
    pages = max(1, -(-len(rows) // per))
    number = ask.number("page", 1, least=1, most=pages)
    shown = rows[(number - 1) * per : number * per]
    figures: dict[str, Fields] = {}
    if ask.query.get("figures") == "1":
        figures = _figures(ask, [row["name"] for row in shown])
    if sort != "size":
        _fill_in_sizes(ask.place, shown, partitions)
    for row in shown:
        row.update(figures.get(row["name"], {"records": None, "rate": None, "lag": None}))
    return Page(
        template="topics.html",
        title="Topics",
        section="topics",
        data={
            "topics": shown,
            "count": len(rows),
            "page_number": number,
            "page_count": pages,
            "per": per,
            "sort": sort if sort in SORTS else "name",
            "q": wanted,
            "shows_internal": shows_internal,
            "has_figures": bool(figures),
            "figures_at_once": FIGURES_AT_ONCE,
        },
    )


def _partitions(place: Place) -> Mapping[str, Sequence[int]]:
    if place.has_broker:
        with place.admin() as admin:
            return admin.partitions()
    files = place.files()
    assert files is not None
    return {name: sorted(held) for name, held in locate(files.opened).items()}


def _fill_in_sizes(
    place: Place, rows: Sequence[Fields], partitions: Mapping[str, Sequence[int]]
) -> None:
    names = [row["name"] for row in rows]
    if place.has_broker:
        with place.admin() as admin:
            sizes = _sizes(admin, {name: partitions[name] for name in names})
    else:
        files = place.files()
        assert files is not None
        sizes = {
            name: sum(segment.size for log in files.logs(name) for segment in log.segments)
            for name in names
        }
    for row in rows:
        row["size"] = sizes.get(row["name"])


def _sizes(admin: Admin, partitions: Mapping[str, Sequence[int]]) -> dict[str, int]:
    """The size of one replica of each topic: the largest, which is nearest to the leader's."""
    largest: dict[TopicPartition, int] = {}
    for directory in admin.log_directories(partitions):
        for place, size in directory.sizes.items():
            if size > largest.get(place, -1):
                largest[place] = size
    found: dict[str, int] = {}
    for place, size in largest.items():
        found[place.topic] = found.get(place.topic, 0) + size
    return found


def figures(ask: Ask) -> Page:
    """The figures of the named topics, as JSON for a script."""
    names = [one for one in ask.query.get("names", "").split(",") if one][:FIGURES_AT_ONCE]
    return Page(
        template="error.html",
        title="Figures",
        data={"topics": _figures(ask, names), "error": "these figures are JSON: add format=json"},
    )


def _figures(ask: Ask, names: Sequence[str]) -> dict[str, Fields]:
    """Number of records, records per second, and the largest lag of any group."""
    if not ask.place.has_broker:
        return _figures_of_files(ask.place, names)
    found: dict[str, Fields] = {}
    with ask.place.admin() as admin:
        places = admin.places(names)
        starts = admin.list_offsets(places, EARLIEST)
        ends = admin.list_offsets(places, LATEST)
        recent = admin.list_offsets(places, ask.now_ms - RATE_OVER_MS)
        bounds = {place: (starts[place].offset, ends[place].offset) for place in places}
        lags = _lags(admin, bounds)
    for name in names:
        own = [place for place in places if place.topic == name]
        came = sum(
            max(0, ends[one].offset - max(recent[one].offset, starts[one].offset))
            for one in own
            if recent[one].offset >= 0
        )
        lag = lags.get(name, NO_LAG)
        found[name] = {
            "records": sum(ends[one].offset - starts[one].offset for one in own),
            "rate": rate_text(came, RATE_OVER_MS / 1000),
            **lag,
        }
    return found


def _figures_of_files(place: Place, names: Iterable[str]) -> dict[str, Fields]:
    files = place.files()
    assert files is not None
    return {
        name: {
            "records": sum(log.log_end_offset - log.log_start_offset for log in files.logs(name)),
            "rate": None,
            **NO_LAG,
        }
        for name in names
        if name in files.topics
    }


def _lags(admin: Admin, bounds: Mapping[TopicPartition, tuple[int, int]]) -> dict[str, Fields]:
    """The largest lag of any group by topic, with the group, and how many of the topic's partitions
    it has not committed, in which its lag is not known.
    """
    found: dict[str, Fields] = {}
    by_topic: dict[str, list[tuple[TopicPartition, tuple[int, int]]]] = {}
    for place, offsets in bounds.items():
        by_topic.setdefault(place.topic, []).append((place, offsets))
    for group in admin.list_groups()[:GROUPS_ASKED]:
        try:
            committed = {key: one.offset for key, one in admin.group_offsets(group.group).items()}
        except ApiError:
            continue
        for topic in {one.topic for one in committed} & by_topic.keys():
            total = totals(
                PartitionLag(
                    place=place, committed=committed.get(place), start_offset=start, end_offset=end
                )
                for place, (start, end) in by_topic[topic]
            )
            before = found.get(topic, NO_LAG)["lag"]
            if before is None or (total["lag"] or 0) > before:
                found[topic] = {
                    "lag": total["lag"],
                    "lag_group": group.group,
                    "lag_uncommitted": total["uncommitted"],
                }
    return found


def topic(ask: Ask) -> Page:
    """A topic with its partitions and links."""
    name = ask.path["topic"]
    data = _of_broker(ask, name) if ask.place.has_broker else _of_files(ask, name)
    return Page(template="topic.html", title=name, section="topics", topic=name, data=data)


def _of_broker(ask: Ask, name: str) -> Fields:
    with ask.place.admin() as admin:
        (described,) = admin.describe_topics([name])
        (activity,) = admin.topic_activity([described], ask.now_ms - RATE_OVER_MS)
        settings = _settings(admin, name)
        bounds = {one.place: (one.start_offset, one.end_offset) for one in activity.partitions}
        lags = _lags(admin, bounds)
    led = {one.partition: one for one in described.partitions}
    return {
        "name": name,
        "topic_id": None if described.topic_id is None else uuid_text(described.topic_id),
        "is_internal": described.is_internal,
        "records": activity.count,
        "size": activity.size,
        "rate": rate_text(activity.recent_count, RATE_OVER_MS / 1000),
        **lags.get(name, NO_LAG),
        "retention": retention_text(settings) if settings else "not shown to this user",
        "cleanup_policy": settings.get("cleanup.policy", ""),
        "partitions": [
            {
                "partition": one.place.partition,
                "leader": led[one.place.partition].leader,
                "replicas": list(led[one.place.partition].replicas),
                "in_sync": list(led[one.place.partition].in_sync),
                "start_offset": one.start_offset,
                "end_offset": one.end_offset,
                "size": one.size,
                "rate": rate_text(one.recent_count, RATE_OVER_MS / 1000),
            }
            for one in activity.partitions
        ],
    }


def _settings(admin: Admin, name: str) -> dict[str, str]:
    """The topic's settings; empty if the user may not see them."""
    try:
        return admin.topic_settings(name)
    except RefusedError:
        return {}


def _of_files(ask: Ask, name: str) -> Fields:
    files = ask.place.files(name)
    assert files is not None
    logs = files.logs(name)
    config = files.config(name)
    return {
        "name": name,
        "topic_id": None if logs[0].topic_id is None else uuid_text(logs[0].topic_id),
        "is_internal": name.startswith(INTERNAL),
        "records": sum(log.log_end_offset - log.log_start_offset for log in logs),
        "size": sum(segment.size for log in logs for segment in log.segments),
        "rate": None,
        **NO_LAG,
        "retention": retention_text(
            {
                "cleanup.policy": ",".join(config.cleanup_policy),
                "retention.ms": str(config.retention_ms),
                "retention.bytes": str(config.retention_bytes),
            }
        ),
        "cleanup_policy": ",".join(config.cleanup_policy),
        "partitions": [
            {
                "partition": log.partition,
                "leader": None,
                "replicas": [],
                "in_sync": [],
                "start_offset": log.log_start_offset,
                "end_offset": log.log_end_offset,
                "size": sum(segment.size for segment in log.segments),
                "rate": None,
            }
            for log in logs
        ],
    }


VIEWS = {
    "/topics": View(topics),
    "/topics-figures": View(figures),
    "/topics/{topic}": View(topic),
}
