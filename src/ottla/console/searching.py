"""Searches messages step by step; each step takes a limited time.

Ranges of offsets ("windows") are read newest first or oldest first, one window of each partition in
turn, so that results can be shown soon. Between two steps the state of a search is a few numbers
per partition, which a link contains: the next page continues there.
"""

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from heapq import merge
from typing import TYPE_CHECKING

from ottla.base.errors import UnknownNameError, UserError
from ottla.base.partitions import MAX_PARTITION, OffsetRange, TopicPartition
from ottla.base.texts import whole_number
from ottla.base.values import dataclass
from ottla.console.decoding import SIDES, Decodings, RecordDecoding
from ottla.console.pages import QueryError
from ottla.search.encodings import json_bytes
from ottla.search.fields import Entry, FieldReader
from ottla.search.filters import Condition, Filter, all_conditions, parse_condition
from ottla.search.positions import WANTED, PositionKind, parse_position, resolve, times_of
from ottla.search.skipping import Skipped
from ottla.search.sources import SearchSource
from ottla.search.words import exactly

if TYPE_CHECKING:
    from ottla.record.record import Record

NEWEST, OLDEST = "newest", "oldest"
FIRST_WINDOW = 500
LAST_WINDOW = 50_000
LOOK_EVERY = 64
"""Records between two checks of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchQuery:
    """A user's query. Empty texts match everything."""

    topic: str
    partitions: tuple[int, ...] = ()
    order: str = NEWEST
    start: str = ""
    until: str = ""
    key: str = ""
    text: str = ""
    header: str = ""
    where: str = ""
    limit: int = 50

    @property
    def has_filter(self) -> bool:
        return bool(self.key or self.text or self.header or self.where)


@dataclass(slots=True)
class Lane:
    """The unread range [low, high) of a partition, read from the end given by the order."""

    place: TopicPartition
    low: int
    high: int
    window: int = FIRST_WINDOW

    @property
    def left(self) -> int:
        return self.high - self.low

    def take(self, *, is_newest: bool) -> OffsetRange:
        """Removes and returns the next window; windows double in size up to a limit."""
        size = min(self.window, self.left)
        self.window = min(self.window * 2, LAST_WINDOW)
        if is_newest:
            self.high -= size
            return OffsetRange(from_offset=self.high, until_offset=self.high + size)
        self.low += size
        return OffsetRange(from_offset=self.low - size, until_offset=self.low)


@dataclass(slots=True)
class _Window:
    """The window of a partition in a round; `before` is the unread range before the window."""

    lane: Lane
    before: tuple[int, int]
    entries: deque[Entry] = field(default_factory=deque)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Offsets read and in total; `record_count` of those read had a record."""

    offset_count: int
    total: int
    record_count: int
    found_count: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of a step; `is_done` if everything was read, or enough was found."""

    entries: list[Entry] = field(default_factory=list)
    progress: Progress
    is_done: bool


def parse_query(query: SearchQuery, now_ms: int, decoding: RecordDecoding) -> Condition | None:
    """The combined condition of all fields; raises `UserError`."""
    several: list[Condition] = []
    if query.key:
        several.append(Condition(_is_key(query.key, decoding), exactly(query.key)))
    if query.text:
        several.append(Condition(_holds_text(query.text, decoding), exactly(query.text)))
    if query.header:
        several.append(_has_header(query.header))
    if query.where:
        several.append(parse_condition(query.where, now_ms))
    if not decoding.is_plain:
        # The bytes of a decoded text need not contain it.
        several = [Condition(one.test) for one in several]
    return all_conditions(several)


def _is_key(text: str, decoding: RecordDecoding) -> Filter:
    """Whether the key is the text, or a decoded key is, with or without JSON's quotes."""
    wanted = text.encode()
    decoded = (wanted, json_bytes(text))

    def test(reader: FieldReader, entry: Entry) -> bool:
        return entry.record.key == wanted or decoding.text("key", entry.record) in decoded

    return test


def _holds_text(text: str, decoding: RecordDecoding) -> Filter:
    """Whether the text is in the key or value, as written or as decoded."""
    wanted = text.encode()

    def test(reader: FieldReader, entry: Entry) -> bool:
        record = entry.record
        return any(
            data is not None and wanted in data for data in (record.value, record.key)
        ) or any(wanted in (decoding.text(side, record) or b"") for side in SIDES)

    return test


def _has_header(text: str) -> Condition:
    """The condition of NAME or NAME=VALUE."""
    name, equals, value = text.partition("=")
    name = name.strip()
    wanted = value.encode() if equals else None

    def test(reader: FieldReader, entry: Entry) -> bool:
        return any(
            one == name and (wanted is None or found == wanted)
            for one, found in entry.record.headers
        )

    return Condition(test, exactly(name) + exactly(value))


class Search:
    """A search, used by one thread at a time, and closed. The constructor raises `UserError`."""

    def __init__(
        self,
        source: AbstractContextManager[SearchSource],
        query: SearchQuery,
        now_ms: int,
        *,
        cursor: Mapping[int, int] | None = None,
        decoding: RecordDecoding | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`cursor` is where an earlier search stopped, by partition."""
        self.query = query
        self._clock = clock
        self.decoding = decoding or Decodings().of(query.topic)
        self._condition = parse_query(query, now_ms, self.decoding)
        self._is_newest = query.order != OLDEST
        self._opened = source
        self._source = source.__enter__()
        try:
            self._lanes = self._planned(now_ms, cursor or {})
        except BaseException:
            source.__exit__(None, None, None)
            raise
        self._total = sum(lane.left for lane in self._lanes)
        self._records: Iterator[Record | Skipped] | None = None
        self._round: list[_Window] = []
        self._record_count = 0
        self._found_count = 0
        self._turn = 0
        self._began = clock()
        self._is_closed = False

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            if self._records is not None:
                self._records = None
                # A response may still arrive, so the connection is not reused.
                self._opened.__exit__(GeneratorExit, GeneratorExit(), None)
            else:
                self._opened.__exit__(None, None, None)

    @property
    def cursor(self) -> dict[int, int]:
        """Where another search continues, by partition: directly after the shown messages."""
        found = {
            lane.place.partition: lane.high if self._is_newest else lane.low for lane in self._lanes
        }
        for window in self._round:
            low, high = window.before
            found[window.lane.place.partition] = high if self._is_newest else low
        return found

    @property
    def has_more(self) -> bool:
        return any(lane.left for lane in self._lanes)

    def _planned(self, now_ms: int, cursor: Mapping[int, int]) -> list[Lane]:
        query = self.query
        there = self._source.partitions(query.topic)
        if not there:
            raise UnknownNameError("topic", query.topic, self._source.topics())
        places = chosen_places(query.topic, query.partitions, there)
        bounds = self._source.bounds(places)
        starts = self._resolved("from", query.start, bounds, now_ms, is_start=True)
        ends = self._resolved("until", query.until, bounds, now_ms, is_start=False)
        lanes = []
        for place, bound in bounds.items():
            low = bound.from_offset if starts is None else min(starts[place], bound.until_offset)
            high = bound.until_offset if ends is None else min(ends[place], bound.until_offset)
            reached = cursor.get(place.partition)
            if reached is not None and self._is_newest:
                high = min(high, reached)
            elif reached is not None:
                low = max(low, reached)
            # Without a filter every record is shown, so read no more than fit on the page.
            window = FIRST_WINDOW if self._condition is not None else query.limit
            lanes.append(Lane(place, low, max(low, high), window))
        return lanes

    def _resolved(
        self,
        field_name: str,
        text: str,
        bounds: Mapping[TopicPartition, OffsetRange],
        now_ms: int,
        *,
        is_start: bool,
    ) -> dict[TopicPartition, int] | None:
        if not text.strip():
            return None
        try:
            position = parse_position(field_name, text, now_ms)
        except UserError as error:
            raise QueryError(field_name, text, WANTED) from error
        if position.kind is PositionKind.STORED:
            raise QueryError(field_name, text, WANTED)
        times = times_of(position, bounds)
        at_time = self._source.offsets_at(times) if times else {}
        return {
            place: resolve(position, bounds[place], at_time.get(place), is_start=is_start)
            for place in bounds
        }

    def step(self, seconds: float) -> Found:
        """Reads for about `seconds`, or until enough is found.

        A round reads one window of each partition; its results are shown in order of time.
        """
        if self._condition is None:
            return self._browsed()
        until = self._clock() + seconds
        entries: list[Entry] = []
        while self._room:
            if self._records is not None or self._begin_window():
                self._read(until)
            elif self._round:
                entries += self._end_round()
            else:
                break
            # Checked after reading, so that even a late step makes progress.
            if self._clock() >= until:
                break
        if self._room and not self.has_more and self._records is None:
            entries += self._end_round()
        is_idle = self._records is None and not self._round
        is_done = is_idle and (not self._room or not self.has_more)
        return Found(entries=entries, progress=self._progress(), is_done=is_done)

    @property
    def _room(self) -> int:
        return max(0, self.query.limit - self._found_count)

    def _begin_window(self) -> bool:
        """Begins the next window of this round; returns whether there was one."""
        while self._turn < len(self._lanes):
            lane = self._lanes[self._turn]
            self._turn += 1
            if lane.left:
                before = lane.low, lane.high
                wanted = lane.take(is_newest=self._is_newest)
                self._round.append(_Window(lane, before))
                assert self._condition is not None
                words = self._condition.words
                self._records = self._source.records_with(lane.place, wanted, words)
                return True
        return False

    def _read(self, until: float) -> None:
        """Reads the current window until its end or until time is up."""
        assert self._records is not None
        assert self._condition is not None
        test, reader, window = self._condition.test, self.decoding.reader(), self._round[-1]
        place = window.lane.place
        for number, record in enumerate(self._records):
            if isinstance(record, Skipped):
                self._record_count += record.record_count
                if self._clock() >= until:
                    return
                continue
            self._record_count += 1
            entry = Entry(*place, record)
            if test(reader, entry):
                self._keep(window, entry)
            if not number % LOOK_EVERY and self._clock() >= until:
                return
        self._records = None

    def _keep(self, window: _Window, entry: Entry) -> None:
        """Keeps a match; a window's matches beyond the remaining room are dropped, and reread."""
        lane, found = window.lane, window.entries
        if len(found) < self._room:
            found.append(entry)
        elif self._is_newest:
            found.append(entry)
            lane.high = max(lane.high, found.popleft().record.offset + 1)
        else:
            lane.low = min(lane.low, entry.record.offset)

    def _end_round(self) -> list[Entry]:
        windows, self._round, self._turn = self._round, [], 0
        return self._shown([list(one.entries) for one in windows])

    def _browsed(self) -> Found:
        """A page of messages without a filter."""
        found = [self._some_of(lane) for lane in self._lanes]
        self._record_count += sum(map(len, found))
        return Found(entries=self._shown(found), progress=self._progress(), is_done=True)

    def _shown(self, by_lane: list[list[Entry]]) -> list[Entry]:
        """Merges partitions by time, up to the remaining room; other messages are read again.

        Within a partition the order is by offset, whatever the timestamps.
        """
        if self._is_newest:
            by_lane = [entries[::-1] for entries in by_lane]
        merged = list(merge(*by_lane, key=_age if self._is_newest else _time))
        shown, left = merged[: self._room], merged[self._room :]
        lanes = {lane.place.partition: lane for lane in self._lanes}
        for entry in left:
            lane = lanes[entry.partition]
            if self._is_newest:
                lane.high = max(lane.high, entry.record.offset + 1)
            else:
                lane.low = min(lane.low, entry.record.offset)
        self._found_count += len(shown)
        return shown

    def _some_of(self, lane: Lane) -> list[Entry]:
        """The messages of a partition for a page; reads further windows if offsets are missing."""
        found: list[Entry] = []
        while lane.left and len(found) < self.query.limit:
            wanted = lane.take(is_newest=self._is_newest)
            window = [
                Entry(*lane.place, record) for record in self._source.records(lane.place, wanted)
            ]
            found = window + found if self._is_newest else found + window
        return found

    def _progress(self) -> Progress:
        left = sum(lane.left for lane in self._lanes)
        return Progress(
            offset_count=self._total - left,
            total=self._total,
            record_count=self._record_count,
            found_count=self._found_count,
            seconds=self._clock() - self._began,
        )


def _age(entry: Entry) -> tuple[int, int]:
    return -entry.record.timestamp_ms, entry.partition


def _time(entry: Entry) -> tuple[int, int]:
    return entry.record.timestamp_ms, entry.partition


def cursor_text(cursor: Mapping[int, int]) -> str:
    """The cursor in a link: `0:120,1:95`."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(cursor.items()))


def parse_cursor(text: str) -> dict[int, int]:
    """The inverse of `cursor_text`; raises `QueryError`."""
    found = {}
    for part in filter(None, text.split(",")):
        partition, _, offset = part.partition(":")
        index, reached = whole_number(partition, MAX_PARTITION), whole_number(offset)
        if index is None or reached is None:
            raise QueryError("after", text, "PARTITION:OFFSET,..., as a link to more messages says")
        found[index] = reached
    return found


def chosen_places(topic: str, wanted: Sequence[int], there: Sequence[int]) -> list[TopicPartition]:
    """The wanted partitions of those that are there, or all; raises `QueryError`."""
    unknown = sorted(set(wanted).difference(there))
    if unknown:
        known = f"{there[0]} to {there[-1]}" if len(there) > 1 else f"only {there[0]}"
        raise QueryError("partition", str(unknown[0]), f"{known} in topic {topic}")
    return [TopicPartition(topic, one) for one in wanted or there]


def parse_partitions(text: str) -> tuple[int, ...]:
    """Parses `0,2`; raises `QueryError`."""
    found = []
    for one in filter(None, text.replace(" ", "").split(",")):
        number = whole_number(one, MAX_PARTITION)
        if number is None:
            raise QueryError("partition", text, "numbers, such as 0 or 0,2")
        found.append(number)
    return tuple(found)
