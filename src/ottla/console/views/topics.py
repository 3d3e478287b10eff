"""Topics: the list, its figures, which are loaded later, and the page of one topic."""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence

from ottla.base.errors import ApiError, UnreachableError
from ottla.base.ids import uuid_text
from ottla.base.partitions import TopicPartition, by_topic
from ottla.base.texts import rate_text
from ottla.client.administration.admin import Admin
from ottla.client.administration.descriptions import (
    ListedGroup,
    PartitionDescription,
    PartitionLag,
    ShareGroupOffset,
    count_from,
    led_partitions,
    totals,
)
from ottla.client.administration.group_members import SHARE
from ottla.client.administration.lags import begins
from ottla.client.administration.topics import ListedOffset
from ottla.client.refusals import RefusedError
from ottla.config.setting import settings_of
from ottla.config.topic import TopicConfig
from ottla.console.contents import visible
from ottla.console.pages import Ask, Fields, Page, left_out
from ottla.console.targets import Place
from ottla.console.views.view import View
from ottla.diagnosis.words.settings import retention_text
from ottla.storage.reading.read_only_directory import LostPartitionError

PER_PAGE = 100
MOST_PER_PAGE = 1000
RATE_OVER_MS = 300_000
FIGURES_AT_ONCE = 50
GROUPS_ASKED = 50
"""The number of groups whose lag is looked up for a list of topics."""
SILENT = "the figures are without the partitions that it leads and the groups that it coordinates"
NO_LAG: Fields = {"lag": None, "lag_group": None, "lag_uncommitted": 0}
SORTS = ("name", "size", "partitions")
INTERNAL = "__"


def topics(ask: Ask) -> Page:
    """All topics with partitions and sizes; rates and lags of some, or loaded by a script."""
    wanted = ask.query.get("q", "").strip()
    shows_internal, has_figures = ask.flag("internal"), ask.flag("figures")
    sort = ask.choice("sort", SORTS)
    per = ask.number("per", PER_PAGE, least=1, most=MOST_PER_PAGE)
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
    lost: list[str] = []
    if sort == "size":
        lost = _fill_in_sizes(ask.place, rows, partitions)
    if sort in SORTS[1:]:
        rows.sort(key=lambda row: (-(row[sort] or 0), row["name"]))
    pages = max(1, -(-len(rows) // per))
    number = ask.number("page", 1, least=1, most=pages)
    shown = rows[(number - 1) * per : number * per]
    if sort != "size":
        lost = _fill_in_sizes(ask.place, shown, partitions)
    figures: dict[str, Fields] = {}
    if has_figures:
        figures = _figures(ask, [row["name"] for row in shown], lost)
    for row in shown:
        row.update(figures.get(row["name"], {"records": None, "rate": None, "lag": None}))
    return Page(
        template="topics.html",
        title="Topics",
        section="topics",
        data={
            "topics": shown,
            "lost": [visible(line) for line in lost],
            "count": len(rows),
            "page_number": number,
            "page_count": pages,
            "per": per,
            "sort": sort,
            "q": wanted,
            "shows_internal": shows_internal,
            "has_figures": bool(figures),
            "figures_at_once": FIGURES_AT_ONCE,
            "settings": list(settings_of(TopicConfig)),
        },
    )


def _partitions(place: Place) -> Mapping[str, Sequence[int]]:
    with place.reading() as admin:
        return admin.partitions()


def _fill_in_sizes(
    place: Place, rows: Sequence[Fields], partitions: Mapping[str, Sequence[int]]
) -> list[str]:
    """Returns a line for each topic of which a partition is lost, which only files tell."""
    shown = {row["name"]: partitions[row["name"]] for row in rows}
    found: dict[str, int] = {}
    with place.reading() as admin:
        sizes = partition_sizes(admin, shown)
        lost = [] if place.has_broker else list(_lost(admin, shown, sizes))
    for one, size in sizes.items():
        found[one.topic] = found.get(one.topic, 0) + size
    for row in rows:
        row["size"] = found.get(row["name"])
    return lost


def _lost(
    admin: Admin, shown: Mapping[str, Sequence[int]], sizes: Container[TopicPartition]
) -> Iterator[str]:
    for topic, indexes in shown.items():
        places = (TopicPartition(topic, index) for index in indexes)
        absent = [one for one in places if one not in sizes]
        try:
            if absent:
                admin.bounds(absent)
        except LostPartitionError as error:
            yield str(error)


def partition_sizes(
    admin: Admin, partitions: Mapping[str, Sequence[int]]
) -> dict[TopicPartition, int]:
    """The size of one replica: the largest, which is nearest to the leader's."""
    largest: dict[TopicPartition, int] = {}
    # Of a broker that does not answer, replicas on others are as large.
    for directory in admin.log_directories(partitions, on_unreachable=lambda _: None):
        for place, size in directory.sizes.items():
            if size > largest.get(place, -1):
                largest[place] = size
    return largest


def figures(ask: Ask) -> Page:
    """The figures of the named topics, as JSON for a script."""
    names = [one for one in ask.query.get("names", "").split(",") if one][:FIGURES_AT_ONCE]
    lost: list[str] = []
    return Page(
        template="error.html",
        title="Figures",
        data={
            "topics": _figures(ask, names, lost),
            "lost": [visible(line) for line in lost],
            "error": "these figures are JSON: add format=json",
        },
    )


def _figures(ask: Ask, names: Sequence[str], lost: list[str]) -> dict[str, Fields]:
    """Number of records, records per second, and the largest lag of any group; `lost` gets a line
    for each broker that does not answer.
    """
    with ask.place.reading() as admin:
        found = _Measures(ask, admin, admin.existing_of(names), lost)
    return {
        name: {
            "records": sum(found.count(one) for one in found.of(name)),
            "rate": found.rate(found.of(name)),
            **found.lags.get(name, NO_LAG),
        }
        for name in names
        if found.of(name)
    }


class _Measures:
    """Bounds, rates and lags of partitions; of files neither rates nor lags, for which records
    would be read. What only brokers know that do not answer is left out.
    """

    def __init__(
        self, ask: Ask, admin: Admin, places: Collection[TopicPartition], lost: list[str]
    ) -> None:
        note = left_out(lost, SILENT) if ask.place.has_broker else None
        self.bounds = admin.bounds(places, on_unreachable=note)
        self._recent: Mapping[TopicPartition, ListedOffset] | None = None
        self.lags: Mapping[str, Fields] = {}
        if ask.place.has_broker:
            self._recent = admin.list_offsets(list(self.bounds), ask.now_ms - RATE_OVER_MS)
            self.lags = _lags(admin, self.bounds, note)

    def of(self, topic: str) -> list[TopicPartition]:
        return [one for one in self.bounds if one.topic == topic]

    def count(self, place: TopicPartition) -> int:
        start, end = self.bounds[place]
        return end - start

    def rate(self, places: Iterable[TopicPartition]) -> str | None:
        """Records per second, as text."""
        recent = self._recent
        if recent is None:
            return None
        came = sum(count_from(recent[one].offset, *self.bounds[one]) for one in places)
        return rate_text(came, RATE_OVER_MS / 1000)


def _lags(
    admin: Admin,
    bounds: Mapping[TopicPartition, tuple[int, int]],
    on_unreachable: Callable[[UnreachableError], object] | None,
) -> dict[str, Fields]:
    """The largest lag of any group by topic, with the group, and how many of the topic's partitions
    it has not committed, in which its lag is not known.
    """
    found: dict[str, Fields] = {}
    by_topic: dict[str, list[tuple[TopicPartition, tuple[int, int]]]] = {}
    for place, offsets in bounds.items():
        by_topic.setdefault(place.topic, []).append((place, offsets))
    for group in admin.list_groups(on_unreachable=on_unreachable)[:GROUPS_ASKED]:
        try:
            committed = _committed(admin, group)
        except (ApiError, RefusedError):
            continue
        except UnreachableError as error:
            if on_unreachable is None:
                raise
            on_unreachable(error)
            continue
        for topic in {one.topic for one in committed} & by_topic.keys():
            total = totals(
                _lag(place, committed.get(place), start, end)
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


def _committed(admin: Admin, group: ListedGroup) -> Mapping[TopicPartition, int | ShareGroupOffset]:
    if group.kind == SHARE:
        return admin.share_group_offsets(group.group)
    return {key: one.offset for key, one in admin.group_offsets(group.group).items()}


def _lag(
    place: TopicPartition, known: int | ShareGroupOffset | None, start: int, end: int
) -> PartitionLag:
    committed, counted = begins(known)
    return PartitionLag(
        place=place,
        committed=committed,
        start_offset=start,
        end_offset=end,
        counted_lag=counted,
    )


def topic(ask: Ask) -> Page:
    """A topic with its partitions and links."""
    name = ask.path["topic"]
    lost: list[str] = []
    with ask.place.reading() as admin:
        (described,) = admin.describe_topics([name])
        places = led_partitions(described)
        found = _Measures(ask, admin, places, lost)
        sizes = partition_sizes(admin, by_topic(places))
        settings = _settings(admin, name)
    data = {
        "name": name,
        "topic_id": None if described.topic_id is None else uuid_text(described.topic_id),
        "is_internal": described.is_internal,
        "lost": [visible(line) for line in lost],
        "records": sum(map(found.count, found.of(name))),
        "size": sum(sizes.values()),
        "rate": found.rate(found.of(name)),
        **found.lags.get(name, NO_LAG),
        "retention": retention_text(settings) if settings else "not known here",
        "cleanup_policy": settings.get("cleanup.policy", ""),
        "partitions": [_partition_fields(name, one, found, sizes) for one in described.partitions],
    }
    return Page(template="topic.html", title=name, section="topics", topic=name, data=data)


def _partition_fields(
    topic: str,
    one: PartitionDescription,
    found: _Measures,
    sizes: Mapping[TopicPartition, int],
) -> Fields:
    place = TopicPartition(topic, one.partition)
    start, end = found.bounds.get(place, (None, None))
    return {
        "partition": one.partition,
        "leader": one.leader,
        "replicas": list(one.replicas),
        "in_sync": list(one.in_sync),
        "start_offset": start,
        "end_offset": end,
        "size": sizes.get(place),
        "rate": None if start is None else found.rate([place]),
    }


def _settings(admin: Admin, name: str) -> dict[str, str]:
    """The topic's settings; empty if the user may not see them."""
    try:
        return admin.topic_settings(name)
    except RefusedError:
        return {}


VIEWS = {
    "/topics": View(topics),
    "/topics-figures": View(figures),
    "/topics/{topic}": View(topic),
}
