"""The event streams: a continuing search, new messages, and the progress of a group."""

import time
from collections.abc import Callable
from dataclasses import asdict

from ottla.base.errors import UnknownNameError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.console.contents import message_fields
from ottla.console.events import EventStream, Fragment
from ottla.console.pages import Ask, Fields
from ottla.console.searching import chosen_places, cursor_text, parse_partitions
from ottla.console.views.groups import group_fields
from ottla.console.views.messages import FETCH_SIZE, decoding_fields, decoding_of, open_search
from ottla.search.fields import Entry

SEARCH_STEP_S = 0.25
TAIL_STEP_S = 0.5
GROUP_STEP_S = 2.0
TAIL_SHOWN = 25
"""The number of messages shown per step of a tail; further ones are only counted."""

Stream = Callable[[Ask], EventStream]


class SearchStream:
    """Sends matches as they are found, and the search's progress."""

    def __init__(self, ask: Ask) -> None:
        self._search = open_search(ask)
        self._decode = decoding_fields(ask, self._search.decoding)["decode"]
        self._is_done = False

    def step(self) -> list[Fragment] | None:
        if self._is_done:
            return None
        found = self._search.step(SEARCH_STEP_S)
        self._is_done = found.is_done
        events = []
        if found.entries:
            self._search.decoding.begin()
            rows = self._rows(found.entries)
            events.append(Fragment(event="messages", data=rows, template="message_rows.html"))
        has_more = self._search.has_more or not found.is_done
        progress = asdict(found.progress) | {
            "is_done": found.is_done,
            "after": cursor_text(self._search.cursor) if has_more else "",
        }
        return [*events, Fragment(event="progress", data=progress)]

    def _rows(self, entries: list[Entry]) -> Fields:
        decoding = self._search.decoding
        return {
            "messages": [message_fields(one, decoding) for one in entries],
            "decode": self._decode,
        }

    def close(self) -> None:
        self._search.close()


class TailStream:
    """Sends the newest messages twice a second, and the number of new messages.

    The number is computed from offsets; only shown messages are read.
    """

    def __init__(self, ask: Ask) -> None:
        name = ask.path["topic"]
        self._decoding = decoding_of(ask)
        self._decode = decoding_fields(ask, self._decoding)["decode"]
        self._opened = ask.place.records(read_committed=True, fetch_size=FETCH_SIZE)
        self._source = self._opened.__enter__()
        try:
            wanted = parse_partitions(ask.query.get("partition", ""))
            there = self._source.partitions(name)
            if not there:
                raise UnknownNameError("topic", name, self._source.topics())
            self._places = chosen_places(name, wanted, there)
            bounds = self._source.bounds(self._places)
        except BaseException as error:
            self._opened.__exit__(type(error), error, None)
            raise
        self._stopping = ask.state.stopping
        self._reached = {place: one.until_offset for place, one in bounds.items()}
        self._at = time.monotonic()

    def step(self) -> list[Fragment] | None:
        self._stopping.wait(TAIL_STEP_S)
        bounds = self._source.bounds(self._places)
        new = {
            place: OffsetRange(from_offset=self._reached[place], until_offset=one.until_offset)
            for place, one in bounds.items()
            if one.until_offset > self._reached[place]
        }
        count = sum(one.until_offset - one.from_offset for one in new.values())
        now = time.monotonic()
        seconds, self._at = now - self._at, now
        entries = self._newest(new)
        self._reached.update({place: one.until_offset for place, one in new.items()})
        events = []
        if entries:
            self._decoding.begin()
            rows: Fields = {
                "messages": [message_fields(one, self._decoding) for one in entries],
                "decode": self._decode,
            }
            events.append(Fragment(event="messages", data=rows, template="message_rows.html"))
        rate = {"count": count, "shown": len(entries), "per_second": round(count / seconds)}
        return [*events, Fragment(event="rate", data=rate)]

    def _newest(self, new: dict[TopicPartition, OffsetRange]) -> list[Entry]:
        """The last messages of each partition, newest first."""
        each = max(1, TAIL_SHOWN // max(1, len(new)))
        entries = []
        for place, one in list(new.items())[:TAIL_SHOWN]:
            start = max(one.from_offset, one.until_offset - each)
            wanted = OffsetRange(from_offset=start, until_offset=one.until_offset)
            entries += [Entry(*place, record) for record in self._source.records(place, wanted)]
        return sorted(
            entries, key=lambda one: (one.record.timestamp_ms, one.record.offset), reverse=True
        )

    def close(self) -> None:
        self._opened.__exit__(GeneratorExit, GeneratorExit(), None)


class GroupStream:
    """Sends the state of a group every two seconds, and records its lag."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._is_first = True

    def step(self) -> list[Fragment] | None:
        if not self._is_first:
            self._ask.state.stopping.wait(GROUP_STEP_S)
        self._is_first = False
        now_ms = round(time.time() * 1000)
        data = group_fields(self._ask, self._ask.query.get("name", ""), now_ms)
        return [Fragment(event="group", data=data, template="group_live.html")]

    def close(self) -> None:
        """Nothing to close."""


STREAMS: dict[str, Stream] = {
    "/topics/{topic}/messages-stream": SearchStream,
    "/topics/{topic}/tail-stream": TailStream,
    "/group-stream": GroupStream,
}
