"""Messages: search, one message, download, and tail."""

from dataclasses import asdict
from urllib.parse import urlencode

from starlette.responses import Response

from ottla.base.errors import UnknownNameError, UnreachableError, UserError
from ottla.base.partitions import OffsetRange, TopicPartition
from ottla.base.texts import whole_number
from ottla.client.refusals import RefusedError
from ottla.console.contents import WHOLE_SIZE, message_fields
from ottla.console.decoding import SIDES, RecordDecoding
from ottla.console.pages import Ask, Fields, Page, QueryError
from ottla.console.searching import (
    NEWEST,
    OLDEST,
    Search,
    SearchQuery,
    cursor_text,
    parse_cursor,
    parse_partitions,
)
from ottla.console.views.view import View
from ottla.search.fields import Entry

FETCH_SIZE = 1 << 20
ONE_RECORD = 1
PLAIN_SECONDS = 2.0
"""How long a page without scripts searches; a link continues the search."""
MOST_SHOWN = 500
ISOLATIONS = ("read_committed", "read_uncommitted")


def query_of(ask: Ask) -> SearchQuery:
    """The query of the form's fields; raises `UserError`."""
    fields = ask.query
    return SearchQuery(
        topic=ask.path["topic"],
        partitions=parse_partitions(fields.get("partition", "")),
        order=ask.choice("order", (NEWEST, OLDEST)),
        start=fields.get("from", ""),
        until=fields.get("until", ""),
        key=fields.get("key", ""),
        text=fields.get("text", ""),
        header=fields.get("header", ""),
        where=fields.get("where", "").strip(),
        limit=ask.number("limit", 50, least=1, most=MOST_SHOWN),
    )


def decoding_of(ask: Ask) -> RecordDecoding:
    """How this page decodes its topic, as the query chooses; raises `QueryError`."""
    topic, decodings = ask.path["topic"], ask.place.target.decodings
    key, value = (ask.choice(f"{side}_as", decodings.choices(topic, side)) for side in SIDES)
    return decodings.of(topic, key, value)


def decoding_fields(ask: Ask, decoding: RecordDecoding) -> Fields:
    """What can be chosen, and what is, in the page's form and in its links."""
    topic, decodings = ask.path["topic"], ask.place.target.decodings
    return {
        "encodings": {side: list(decodings.choices(topic, side)) for side in SIDES},
        "decoding": {f"{side}_as": decoding.choice(side) for side in SIDES},
        "decode": f"?{urlencode(decoding.choices)}" if decoding.choices else "",
    }


def open_search(ask: Ask) -> Search:
    """Opens the search of a request; raises `UserError`."""
    isolation = ask.choice("isolation", ISOLATIONS)
    return Search(
        ask.place.records(read_committed=isolation == ISOLATIONS[0], fetch_size=FETCH_SIZE),
        query_of(ask),
        ask.now_ms,
        cursor=parse_cursor(ask.query.get("after", "")),
        decoding=decoding_of(ask),
    )


def messages(ask: Ask) -> Page:
    """The messages found within a moment.

    A script receives the same search as a stream of events (`streams.py`), which continues to the
    end.
    """
    name = ask.path["topic"]
    data: Fields = {
        "topic": name,
        "fields": {
            one: ask.query.get(one, "")
            for one in ("partition", "order", "from", "until", "key", "text", "header", "where",
                        "limit", "isolation")
        },
        "messages": [],
        "progress": None,
        "after": "",
        "problem": "",
        "parameter": "",
        "is_waiting": False,
    }  # fmt: skip
    data |= decoding_fields(ask, ask.place.target.decodings.of(name))
    try:
        data |= decoding_fields(ask, decoding_of(ask))
        query = query_of(ask)
        data["has_filter"] = query.has_filter
        if ask.flag("stream") and query.has_filter:
            # The page's script opens the stream, so do not search twice.
            data["is_waiting"] = True
        else:
            _search(ask, data)
    except (UnknownNameError, UnreachableError, RefusedError):
        raise  # The form's fields are not at fault.
    except UserError as error:
        data.setdefault("has_filter", True)
        data["problem"] = str(error).replace("--where ", "condition ")
        data["parameter"] = error.name if isinstance(error, QueryError) else "where"
    return Page(
        template="messages.html",
        title=f"Messages of {name}",
        section="topics",
        topic=name,
        data=data,
        status=400 if data["problem"] else 200,
    )


def _search(ask: Ask, data: Fields) -> None:
    search = open_search(ask)
    try:
        found = search.step(PLAIN_SECONDS)
        search.decoding.begin()
        data["messages"] = [message_fields(one, search.decoding) for one in found.entries]
        data["progress"] = asdict(found.progress)
        if search.has_more or not found.is_done:
            data["after"] = cursor_text(search.cursor)
    finally:
        search.close()


def message(ask: Ask) -> Page | Response:
    """One complete message."""
    name = ask.path["topic"]
    index, offset = _number(ask.path["partition"]), _number(ask.path["offset"])
    place = TopicPartition(name, index)
    entry = _read_one(ask, place, offset)
    part = ask.choice("download", ("", "key", "value"))
    if part:
        content: bytes | None = getattr(entry.record, part)
        return Response(
            content or b"",
            media_type="application/octet-stream",
            headers={
                "content-disposition": f'attachment; filename="{part}-{index}-{offset}.bin"',
            },
        )
    with ask.place.records(read_committed=False, fetch_size=ONE_RECORD) as source:
        bound = source.bounds([place])[place]
    decoding = decoding_of(ask)
    data = message_fields(entry, decoding, size=WHOLE_SIZE, is_pretty=True)
    data |= decoding_fields(ask, decoding) | {
        "hints": {side: decoding.hint(side, entry.record) for side in SIDES},
        "start_offset": bound.from_offset,
        "end_offset": bound.until_offset,
        "asked_offset": offset,
    }
    return Page(
        template="message.html",
        title=f"{name}-{index} at {entry.record.offset}",
        section="topics",
        topic=name,
        data=data,
    )


def _read_one(ask: Ask, place: TopicPartition, offset: int) -> Entry:
    """The message at an offset, or the next one: compaction and markers leave gaps."""
    with ask.place.records(read_committed=False, fetch_size=ONE_RECORD) as source:
        if place.partition not in source.partitions(place.topic):
            raise UnknownNameError("partition", f"{place.topic}-{place.partition}", ())
        bound = source.bounds([place])[place]
        offset = max(offset, bound.from_offset)
        wanted = OffsetRange(from_offset=offset, until_offset=bound.until_offset)
        found = source.records(place, wanted)
        record = next(found, None) if not wanted.is_empty else None
    if record is None:
        raise UnknownNameError("message", f"{place.topic}-{place.partition} at offset {offset}", ())
    return Entry(*place, record)


def _number(text: str) -> int:
    number = whole_number(text)
    if number is None:
        raise UnknownNameError("message", text, ())
    return number


def tail(ask: Ask) -> Page:
    """New messages as they arrive; without scripts the newest ones, reloaded every few seconds."""
    name = ask.path["topic"]
    decoding = decoding_of(ask)
    data: Fields = {"topic": name, "partition": ask.query.get("partition", ""), "messages": []}
    data |= decoding_fields(ask, decoding)
    search = Search(
        ask.place.records(read_committed=True, fetch_size=FETCH_SIZE),
        SearchQuery(
            topic=name, partitions=parse_partitions(data["partition"]), order=NEWEST, limit=20
        ),
        ask.now_ms,
    )
    try:
        found = search.step(PLAIN_SECONDS).entries
        decoding.begin()
        data["messages"] = [message_fields(one, decoding) for one in found]
    finally:
        search.close()
    return Page(
        template="tail.html",
        title=f"Tail of {name}",
        section="topics",
        topic=name,
        data=data,
        refresh_s=5,
    )


VIEWS = {
    "/topics/{topic}/messages": View(messages),
    "/topics/{topic}/messages/{partition}/{offset}": View(message),
    "/topics/{topic}/tail": View(tail),
}
