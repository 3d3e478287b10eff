"""A form to produce a message."""

from ottla.base.errors import UserError
from ottla.base.partitions import MAX_PARTITION
from ottla.base.texts import whole_number
from ottla.client.producing.one_record import OneRecord, send_record
from ottla.console.pages import Ask, Fields, Page, Redirect
from ottla.console.views.view import View, check_writes

FIELDS = ("partition", "key", "value", "headers", "null_value")


def produce(ask: Ask) -> Page | Redirect:
    """The form; after sending redirects to the message."""
    name = ask.path["topic"]
    given = ask.form if ask.form is not None else ask.query
    data: Fields = {"topic": name, "fields": {one: given.get(one, "") for one in FIELDS}}
    if ask.form is not None:
        check_writes(ask)
        record = OneRecord(
            topic=name,
            partition=_partition(given.get("partition", "")),
            key=given["key"].encode() if given.get("key") else None,
            value=None if given.get("null_value") else _text(given.get("value", "")).encode(),
            headers=tuple(_headers(given.get("headers", ""))),
            timestamp_ms=ask.now_ms,
        )
        with ask.place.changing() as cluster:
            place, offset = send_record(cluster, record)
        return Redirect(
            f"/topics/{name}/messages/{place.partition}/{offset}", f"sent to {name}-{place[1]}"
        )
    return Page(
        template="produce.html",
        title=f"Produce to {name}",
        section="topics",
        topic=name,
        data=data,
    )


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
