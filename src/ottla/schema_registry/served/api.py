"""Confluent's API as a function of requests: from method, path, query and body to status and JSON.

Each request first reads new records of the log, so that several registries may share a topic, and
again after it has written.
"""

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from ottla.schema_registry.registry import AVRO
from ottla.schema_registry.served.compatibility import Schema
from ottla.schema_registry.served.faults import (
    RegistryError,
    invalid_schema,
    invalid_version,
    no_schema,
    no_subject,
    no_version,
    too_large,
)
from ottla.schema_registry.served.records import (
    Change,
    SchemaVersion,
    read_change,
    write_change,
)
from ottla.schema_registry.served.subjects import (
    KINDS,
    Subjects,
    Wanted,
    check_subject,
    guid_of,
    reference_place,
)

T = TypeVar("T")

LARGEST_RECORD = 1_000_000
"""In bytes: what a topic takes with Kafka's `message.max.bytes`."""
MOST_PARAMETERS = 100


class SchemaLog(Protocol):
    """The topic of schemas; methods raise `UserError` if it is unreachable."""

    def read_new(self) -> Sequence[tuple[bytes | None, bytes | None]]:
        """Keys and values that were not read yet, up to the topic's end."""

    def append(self, records: Sequence[tuple[bytes, bytes | None]]) -> None:
        """Appends records; returns once they are stored."""


Query = Mapping[str, str]
Handler = Callable[["Api", list[str], Query, Any], Any]


class Api:
    """Handles one request at a time."""

    def __init__(self, log: SchemaLog) -> None:
        self._log = log
        self._lock = threading.Lock()
        self.subjects = Subjects()

    def answer(self, method: str, target: str, body: bytes) -> tuple[int, Any]:
        """Returns the status and the JSON of the response; raises `UserError` without the topic."""
        path, query = _split(target)
        is_known = False
        try:
            for its_method, pattern, handle in ROUTES:
                found = pattern.fullmatch(path)
                is_known = is_known or found is not None
                if found is not None and its_method == method:
                    given = [_decoded(one) for one in found.groups()]
                    content = _content(body)
                    with self._lock:
                        self._catch_up()
                        return 200, handle(self, given, query, content)
            if is_known:
                raise RegistryError(405, "HTTP 405 Method Not Allowed")
            raise RegistryError(404, "HTTP 404 Not Found")
        except RegistryError as error:
            return error.status, {"error_code": error.code, "message": error.message}

    def write(self, changes: Sequence[Change]) -> None:
        records = [write_change(one) for one in changes]
        if any(len(value or b"") > LARGEST_RECORD for _, value in records):
            raise too_large(f"its record has more than {LARGEST_RECORD} bytes")
        if records:
            self._log.append(records)
            self._catch_up()

    def _catch_up(self) -> None:
        for key, value in self._log.read_new():
            change = read_change(key, value)
            if change is not None:
                self.subjects.apply(change)


def _split(target: str) -> tuple[str, Query]:
    """The path, still encoded, and the query; a target may have the whole address."""
    if not target.startswith("/"):
        parts = urlsplit(target)
        target = f"{parts.path}?{parts.query}"
    path, _, query = target.partition("#")[0].partition("?")
    try:
        named = parse_qs(query, max_num_fields=MOST_PARAMETERS)
    except ValueError:
        named = {}
    return path.rstrip("/") or "/", {name: values[-1] for name, values in named.items()}


def _decoded(part: str) -> str:
    try:
        return unquote(part, errors="strict")
    except UnicodeDecodeError as error:
        raise RegistryError(400, f"{part} is not UTF-8") from error


def _content(body: bytes) -> Any:
    if not body:
        return {}
    try:
        found = json.loads(body)
        if b"\\u" in body:
            json.dumps(found, ensure_ascii=False).encode()
    except RecursionError as error:
        raise RegistryError(400, "the body is nested too deeply") from error
    except UnicodeError as error:
        raise RegistryError(400, "the body has text that is not UTF-8") from error
    except ValueError as error:
        raise RegistryError(400, f"the body is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise RegistryError(400, "the body is not a JSON object")
    return found


ROUTES: list[tuple[str, re.Pattern[str], Handler]] = []


def _route(method: str, path: str) -> Callable[[Handler], Handler]:
    """Registers a handler; `{}` stands for one part of the path."""
    pattern = re.compile(re.escape(path).replace(re.escape("{}"), "([^/]+)"))

    def added(handler: Handler) -> Handler:
        ROUTES.append((method, pattern, handler))
        return handler

    return added


# Schemas


@_route("GET", "/")
def _root(api: Api, given: list[str], query: Query, body: Any) -> Any:
    return {}


@_route("GET", "/schemas/types")
def _types(api: Api, given: list[str], query: Query, body: Any) -> Any:
    return list(KINDS)


@_route("GET", "/contexts")
def _contexts(api: Api, given: list[str], query: Query, body: Any) -> Any:
    return ["."]


@_route("GET", "/schemas")
def _schemas(api: Api, given: list[str], query: Query, body: Any) -> Any:
    first, with_deleted = -1 if _says(query, "latestOnly") else 0, _says(query, "deleted")
    found = [
        one
        for name in api.subjects.names(query.get("subjectPrefix", ""), with_deleted=with_deleted)
        for one in api.subjects.versions(name, with_deleted=with_deleted)[first:]
    ]
    return [_version_fields(one) for one in _page(found, query)]


@_route("GET", "/schemas/ids/{}")
def _by_id(api: Api, given: list[str], query: Query, body: Any) -> Any:
    found = _schema_fields(api.subjects.by_id(_number(given[0])))
    return found | ({"maxId": api.subjects.last_id} if _says(query, "fetchMaxId") else {})


@_route("GET", "/schemas/ids/{}/schema")
def _text_by_id(api: Api, given: list[str], query: Query, body: Any) -> Any:
    return _Text(api.subjects.by_id(_number(given[0])).text)


@_route("GET", "/schemas/ids/{}/subjects")
def _subjects_of_id(api: Api, given: list[str], query: Query, body: Any) -> Any:
    found = _uses(api, given, query)
    return _page(list(dict.fromkeys(one.subject for one in found)), query)


@_route("GET", "/schemas/ids/{}/versions")
def _versions_of_id(api: Api, given: list[str], query: Query, body: Any) -> Any:
    found = _page(_uses(api, given, query), query)
    return [{"subject": one.subject, "version": one.version} for one in found]


def _uses(api: Api, given: list[str], query: Query) -> list[SchemaVersion]:
    with_deleted, subject = _says(query, "deleted"), query.get("subject")
    found = api.subjects.uses_of_id(_number(given[0]), with_deleted=with_deleted)
    return [one for one in found if subject in (None, "", one.subject)]


@_route("GET", "/schemas/guids/{}")
def _by_guid(api: Api, given: list[str], query: Query, body: Any) -> Any:
    return _schema_fields(api.subjects.by_guid(given[0]))


# Subjects


@_route("GET", "/subjects")
def _names(api: Api, given: list[str], query: Query, body: Any) -> Any:
    found = api.subjects.names(
        query.get("subjectPrefix", ""),
        with_deleted=_says(query, "deleted"),
        only_deleted=_says(query, "deletedOnly"),
    )
    return _page(found, query)


@_route("POST", "/subjects/{}")
def _find(api: Api, given: list[str], query: Query, body: Any) -> Any:
    with_deleted = _says(query, "deleted")
    api.subjects.versions(given[0], with_deleted=with_deleted)
    schema, wanted = _brought(api, body)
    found = api.subjects.find(given[0], schema, wanted.references, with_deleted=with_deleted)
    return _version_fields(found)


@_route("DELETE", "/subjects/{}")
def _delete_subject(api: Api, given: list[str], query: Query, body: Any) -> Any:
    is_permanent = _says(query, "permanent")
    numbers, changes = api.subjects.delete_subject(given[0], is_permanent=is_permanent)
    api.write(changes)
    return numbers


@_route("GET", "/subjects/{}/versions")
def _versions(api: Api, given: list[str], query: Query, body: Any) -> Any:
    only_deleted = _says(query, "deletedOnly")
    with_deleted = only_deleted or _says(query, "deleted")
    found = api.subjects.versions(given[0], with_deleted=with_deleted)
    return _page([one.version for one in found if one.is_deleted or not only_deleted], query)


@_route("POST", "/subjects/{}/versions")
def _register(api: Api, given: list[str], query: Query, body: Any) -> Any:
    schema, wanted = _brought(api, body)
    new = api.subjects.register(given[0], schema, wanted)
    if not api.subjects.has(new):
        api.write([new])
    answer = _version_fields(new)
    del answer["subject"]
    return answer


@_route("GET", "/subjects/{}/versions/{}")
def _version(api: Api, given: list[str], query: Query, body: Any) -> Any:
    return _version_fields(_asked(api, given, query))


@_route("GET", "/subjects/{}/versions/{}/schema")
def _version_text(api: Api, given: list[str], query: Query, body: Any) -> Any:
    return _Text(_asked(api, given, query).text)


@_route("GET", "/subjects/{}/versions/{}/referencedby")
def _referenced_by(api: Api, given: list[str], query: Query, body: Any) -> Any:
    asked = _asked(api, given, {"deleted": "true"})
    place = (given[0], asked.version)
    return sorted(
        one.schema_id
        for name in api.subjects.names()
        for one in api.subjects.versions(name)
        if any((of.get("subject"), of.get("version")) == place for of in one.references)
    )


@_route("DELETE", "/subjects/{}/versions/{}")
def _delete_version(api: Api, given: list[str], query: Query, body: Any) -> Any:
    number, changes = api.subjects.delete_version(
        given[0], _version_number(given[1]), is_permanent=_says(query, "permanent")
    )
    api.write(changes)
    return number


# Compatibility


@_route("POST", "/compatibility/subjects/{}/versions/{}")
def _is_compatible(api: Api, given: list[str], query: Query, body: Any) -> Any:
    number = _version_number(given[1])
    others = api.subjects.live_versions(given[0])
    if number is not None:
        others = [one for one in others if one.version == number]
        if not others:
            raise no_version(number)
    return _compatibility(api, given[0], query, body, others[-1:])


@_route("POST", "/compatibility/subjects/{}/versions")
def _is_compatible_with_all(api: Api, given: list[str], query: Query, body: Any) -> Any:
    return _compatibility(api, given[0], query, body, api.subjects.live_versions(given[0]))


def _compatibility(
    api: Api, subject: str, query: Query, body: Any, others: list[SchemaVersion]
) -> Any:
    """A subject without versions takes any schema that is valid."""
    schema, _ = _brought(api, body)
    faults = api.subjects.faults(subject, schema, others)
    answer: dict[str, Any] = {"is_compatible": not faults}
    return answer | {"messages": faults} if _says(query, "verbose") else answer


# Settings


@_route("GET", "/config")
def _level(api: Api, given: list[str], query: Query, body: Any) -> Any:
    return {"compatibilityLevel": api.subjects.level(None)}


@_route("GET", "/config/{}")
def _level_of(api: Api, given: list[str], query: Query, body: Any) -> Any:
    is_default = _says(query, "defaultToGlobal")
    return {"compatibilityLevel": api.subjects.level(given[0], is_default=is_default)}


@_route("PUT", "/config")
@_route("PUT", "/config/{}")
def _set_level(api: Api, given: list[str], query: Query, body: Any) -> Any:
    wanted = body.get("compatibility", "")
    api.write(api.subjects.set_level(_settable(given), wanted))
    return {"compatibility": wanted}


@_route("DELETE", "/config")
@_route("DELETE", "/config/{}")
def _unset_level(api: Api, given: list[str], query: Query, body: Any) -> Any:
    subject = _with_own(api, "CONFIG", given)
    before = api.subjects.level(subject)
    api.write(api.subjects.set_level(subject, None))
    return {"compatibilityLevel": before}


def _with_own(api: Api, kind: str, given: list[str]) -> str | None:
    if given and not api.subjects.has_own(kind, given[0]):
        raise no_subject(given[0])
    return given[0] if given else None


@_route("GET", "/mode")
def _mode(api: Api, given: list[str], query: Query, body: Any) -> Any:
    return {"mode": api.subjects.mode()}


@_route("GET", "/mode/{}")
def _mode_of(api: Api, given: list[str], query: Query, body: Any) -> Any:
    is_default = _says(query, "defaultToGlobal")
    return {"mode": api.subjects.mode(given[0], is_default=is_default)}


@_route("PUT", "/mode")
@_route("PUT", "/mode/{}")
def _set_mode(api: Api, given: list[str], query: Query, body: Any) -> Any:
    mode, force = body.get("mode", ""), _says(query, "force")
    api.write(api.subjects.set_mode(_settable(given), mode, force=force))
    return {"mode": mode}


@_route("DELETE", "/mode")
@_route("DELETE", "/mode/{}")
def _unset_mode(api: Api, given: list[str], query: Query, body: Any) -> Any:
    subject = _with_own(api, "MODE", given)
    before = api.subjects.mode(subject, is_default=False)
    api.write(api.subjects.set_mode(subject, None))
    return {"mode": before}


def _settable(given: list[str]) -> str | None:
    for subject in given:
        check_subject(subject)
    return given[0] if given else None


# Helpers


class _Text(str):
    """A schema that is the whole response body, unchanged."""

    __slots__ = ()


def answer_text(answer: Any) -> str:
    """The body of a response."""
    return str(answer) if isinstance(answer, _Text) else json.dumps(answer)


def _brought(api: Api, body: Any) -> tuple[Schema, Wanted]:
    given = body.get("references") or []
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise invalid_schema("references is not a list of objects")
    places = map(reference_place, given)
    references = tuple(
        {"name": name, "subject": subject, "version": number} for name, subject, number in places
    )
    kind = body.get("schemaType") or AVRO
    schema = api.subjects.schema(body.get("schema"), kind, references)
    wanted = Wanted(
        references=references, schema_id=_given(body, "id", 0), version=_given(body, "version", 1)
    )
    return schema, wanted


def _given(body: Any, name: str, least: int) -> int | None:
    """A number that a client may leave out, or give as -1 (and a version as 0)."""
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not -1 <= value < 2**31:
        raise RegistryError(400, f"{name} is not a number below 2^31")
    return value if value >= least else None


def _page(found: list[T], query: Query) -> list[T]:
    """The part that `offset` and `limit` name; a negative limit is none."""
    first, count = _parameter(query, "offset", 0), _parameter(query, "limit", -1)
    first = max(first, 0)
    return found[first:] if count < 0 else found[first : first + count]


def _parameter(query: Query, name: str, default: int) -> int:
    text = query.get(name, str(default))
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or len(digits) > 10:
        raise RegistryError(404, "HTTP 404 Not Found")
    return int(text)


def _asked(api: Api, given: list[str], query: Query) -> SchemaVersion:
    number = _version_number(given[1])
    return api.subjects.version(given[0], number, with_deleted=_says(query, "deleted"))


def _schema_fields(version: SchemaVersion) -> dict[str, Any]:
    found: dict[str, Any] = {"schema": version.text, "guid": guid_of(version)}
    if version.kind != AVRO:
        found["schemaType"] = version.kind
    if version.references:
        found["references"] = list(version.references)
    return found


def _version_fields(version: SchemaVersion) -> dict[str, Any]:
    place = {"subject": version.subject, "version": version.version, "id": version.schema_id}
    return place | _schema_fields(version)


def _version_number(text: str) -> int | None:
    """The version's number; `None` for the latest."""
    if text in ("latest", "-1"):
        return None
    number = _digits(text)
    if number is None or not 0 < number < 2**31:
        raise invalid_version(text)
    return number


def _number(text: str) -> int:
    number = _digits(text)
    if number is None:
        raise no_schema(text)
    return number


def _digits(text: str) -> int | None:
    """A number of a length that can be an id; longer ones are slow to parse."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else None


def _says(query: Query, name: str) -> bool:
    return query.get(name, "").lower() == "true"
