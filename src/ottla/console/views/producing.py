"""A form to produce a message."""

import json
from collections.abc import Iterator

from ottla.base.errors import UserError
from ottla.base.partitions import MAX_PARTITION
from ottla.base.texts import size_text, whole_number
from ottla.client.producing.one_record import OneRecord, send_record
from ottla.console.changes import Change, propose
from ottla.console.commands import Command
from ottla.console.contents import counted, segment, visible
from ottla.console.decoding import SIDES
from ottla.console.pages import Ask, Page, Redirect
from ottla.console.views.view import View
from ottla.record.partitioner import partition_for_key
from ottla.search.encodings import text_field

FIELDS = ("partition", "key", "value", "headers", "null_value", "key_as", "value_as")


def produce(ask: Ask) -> Page | Redirect:
    """The form; then what would be sent; after sending, redirects to the message."""
    name = ask.path["topic"]
    if ask.form is None:
        return _form(ask, name)
    try:
        record, words = _record(ask, name)
    except UserError as error:
        return _form(ask, name, str(error))
    with ask.place.reading() as admin:
        partitions = admin.partitions([name])[name]
    return propose(
        ask,
        Change(
            title=f"Send one message to {name}",
            lines=(*_lines(record, len(partitions)), *words),
            command=_command(record),
            button="Send",
            back=f"/topics/{segment(name)}/produce",
            section="topics",
            topic=name,
            deed=lambda: _send(ask, record),
        ),
    )


def _form(ask: Ask, topic: str, problem: str = "") -> Page:
    """The form, as it was written."""
    decodings = ask.place.target.decodings
    encoders = {side: list(decodings.encoders(topic, side)) for side in SIDES}
    fields = {one: ask.fields.get(one, "") for one in FIELDS}
    for side in SIDES:
        fields[f"{side}_as"] = fields[f"{side}_as"] or encoders[side][0]
    return Page(
        template="produce.html",
        title=f"Produce to {topic}",
        section="topics",
        topic=topic,
        data={
            "topic": topic,
            "fields": fields,
            "encoders": encoders,
            "problem": visible(problem),
        },
        status=400 if problem else 200,
    )


def _record(ask: Ask, topic: str) -> tuple[OneRecord, list[str]]:
    """The message, and with what its key and value are encoded; raises `UserError`."""
    given = ask.fields
    texts = {
        "key": given.get("key") or None,
        "value": None if given.get("null_value") else _text(given.get("value", "")),
    }
    encoded: dict[str, bytes | None] = {}
    words = []
    for side, text in texts.items():
        choice = ask.choice(f"{side}_as", ask.place.target.decodings.encoders(topic, side))
        encoded[side] = None
        if text is not None:
            encoded[side], by = ask.place.target.decodings.encode(topic, side, choice, text)
            words += [f"The {side} is encoded with {by}."] if by else []
    record = OneRecord(
        topic=topic,
        partition=_partition(given.get("partition", "")),
        key=encoded["key"],
        value=encoded["value"],
        headers=tuple(_headers(given.get("headers", ""))),
        timestamp_ms=ask.now_ms,
    )
    return record, words


def _lines(record: OneRecord, partition_count: int) -> Iterator[str]:
    if record.partition is not None:
        yield f"The message goes to partition {record.partition}."
    elif record.key is not None:
        index = partition_for_key(record.key, partition_count)
        yield f"The key has {size_text(len(record.key))}: the message goes to partition {index}."
    else:
        yield "The message has no key, and goes to any partition."
    if record.value is None:
        yield "Its value is null: in a compacted topic it deletes the key."
    else:
        yield f"Its value has {size_text(len(record.value))}."
    if record.headers:
        yield f"It has {counted(len(record.headers), 'header')}."


def _command(record: OneRecord) -> Command:
    """The message as a line of JSON, which can hold every text."""
    line = json.dumps(
        {
            **_json_field("key", record.key),
            **_json_field("value", record.value),
            "headers": [
                {"key": name, "value": None if value is None else value.decode()}
                for name, value in record.headers
            ],
        }
    )
    partition = () if record.partition is None else ("-p", str(record.partition))
    return Command(
        verb=("produce",),
        options=("--json", *partition),
        arguments=(record.topic,),
        input=line,
    )


def _json_field(name: str, data: bytes | None) -> dict[str, str | None]:
    """A member of the line: bytes that are not text are base64, under a name that says so."""
    return {name: None} if data is None else dict([text_field(name, data)])


def _send(ask: Ask, record: OneRecord) -> Redirect:
    with ask.place.changing() as cluster:
        place, offset = send_record(cluster, record)
    path = f"/topics/{segment(place.topic)}/messages/{place.partition}/{offset}"
    return Redirect(path, f"sent to {place.topic}-{place.partition}")


def _partition(text: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    number = whole_number(text, MAX_PARTITION)
    if number is None:
        raise UserError(f"partition {text}: write a number, or leave it empty")
    return number


def _text(text: str) -> str:
    """The text with LF line ends; browsers always send CRLF."""
    return text.replace("\r\n", "\n")


def _headers(text: str) -> list[tuple[str, bytes | None]]:
    """Parses lines of NAME=VALUE, or NAME alone for null."""
    found: list[tuple[str, bytes | None]] = []
    for line in filter(str.strip, _text(text).split("\n")):
        name, equals, value = line.partition("=")
        if not name.strip():
            raise UserError(f"header {line}: a line is NAME=VALUE")
        found.append((name.strip(), value.encode() if equals else None))
    return found


VIEWS = {"/topics/{topic}/produce": View(produce, takes_forms=True)}
