"""Confluent's API as a function of requests: from method, path, query and body to status and JSON.

Each request first reads new records of the log, so that several registries may share a topic, and
again after it has written.
"""

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import parse_qs, unquote, urlsplit

from ottla.schema_registry.registry import AVRO
from ottla.schema_registry.served.compatibility import Schema
from ottla.schema_registry.served.faults import RegistryError, invalid_schema, invalid_version
from ottla.schema_registry.served.records import (
    Change,
    SchemaVersion,
    read_change,
    write_change,
)
from ottla.schema_registry.served.subjects import KINDS, References, Subjects, guid_of


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
        address = urlsplit(target)
        query = {name: values[-1] for name, values in parse_qs(address.query).items()}
        path = address.path.rstrip("/") or "/"
        is_known = False
        try:
            for its_method, pattern, handle in ROUTES:
                found = pattern.fullmatch(path)
                is_known = is_known or found is not None
                if found is not None and its_method == method:
                    given = [unquote(one) for one in found.groups()]
                    with self._lock:
                        self._catch_up()
                        return 200, handle(self, given, query, _content(body))
            if is_known:
                raise RegistryError(405, "HTTP 405 Method Not Allowed")
            raise RegistryError(404, "HTTP 404 Not Found")
        except RegistryError as error:
            return error.status, {"error_code": error.code, "message": error.message}

    def write(self, changes: Sequence[Change]) -> None:
        if changes:
            self._log.append([write_change(one) for one in changes])
            self._catch_up()

    def _catch_up(self) -> None:
        for key, value in self._log.read_new():
            change = read_change(key, value)
            if change is not None:
                self.subjects.apply(change)


def _content(body: bytes) -> Any:
    if not body:
        return {}
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
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


@_route("GET", "/schemas/ids/{}")
def _by_id(api: Api, given: list[str], query: Query, body: Any) -> Any:
    return _schema_fields(api.subjects.by_id(_number(given[0], 40403)))


@_route("GET", "/schemas/ids/{}/schema")
def _text_by_id(api: Api, given: list[str], query: Query, body: Any) -> Any:
    return _Text(api.subjects.by_id(_number(given[0], 40403)).text)


@_route("GET", "/schemas/ids/{}/subjects")
def _subjects_of_id(api: Api, given: list[str], query: Query, body: Any) -> Any:
    found = api.subjects.uses_of_id(_number(given[0], 40403), with_deleted=_says(query, "deleted"))
    return list(dict.fromkeys(one.subject for one in found))


@_route("GET", "/schemas/ids/{}/versions")
def _versions_of_id(api: Api, given: list[str], query: Query, body: Any) -> Any:
    found = api.subjects.uses_of_id(_number(given[0], 40403), with_deleted=_says(query, "deleted"))
    return [{"subject": one.subject, "version": one.version} for one in found]


@_route("GET", "/schemas/guids/{}")
def _by_guid(api: Api, given: list[str], query: Query, body: Any) -> Any:
    return _schema_fields(api.subjects.by_guid(given[0]))


# Subjects


@_route("GET", "/subjects")
def _names(api: Api, given: list[str], query: Query, body: Any) -> Any:
    prefix = query.get("subjectPrefix", "")
    return api.subjects.names(prefix, with_deleted=_says(query, "deleted"))


@_route("POST", "/subjects/{}")
def _find(api: Api, given: list[str], query: Query, body: Any) -> Any:
    schema, references = _brought(api, body)
    with_deleted = _says(query, "deleted")
    found = api.subjects.find(given[0], schema, references, with_deleted=with_deleted)
    return _version_fields(found)


@_route("DELETE", "/subjects/{}")
def _delete_subject(api: Api, given: list[str], query: Query, body: Any) -> Any:
    is_permanent = _says(query, "permanent")
    numbers, changes = api.subjects.delete_subject(given[0], is_permanent=is_permanent)
    api.write(changes)
    return numbers


@_route("GET", "/subjects/{}/versions")
def _versions(api: Api, given: list[str], query: Query, body: Any) -> Any:
    found = api.subjects.versions(given[0], with_deleted=_says(query, "deleted"))
    return [one.version for one in found]


@_route("POST", "/subjects/{}/versions")
def _register(api: Api, given: list[str], query: Query, body: Any) -> Any:
    schema, references = _brought(api, body)
    api.write(api.subjects.register(given[0], schema, references))
    answer = _version_fields(api.subjects.find(given[0], schema, references))
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
    place = (given[0], _asked(api, given, query).version)
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
    version = api.subjects.version(given[0], _version_number(given[1]))
    return _compatibility(api, given[0], query, body, [version])


@_route("POST", "/compatibility/subjects/{}/versions")
def _is_compatible_with_all(api: Api, given: list[str], query: Query, body: Any) -> Any:
    return _compatibility(api, given[0], query, body, api.subjects.versions(given[0]))


def _compatibility(
    api: Api, subject: str, query: Query, body: Any, others: list[SchemaVersion]
) -> Any:
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
    api.write(api.subjects.set_level(given[0] if given else None, wanted))
    return {"compatibility": wanted}


@_route("DELETE", "/config")
@_route("DELETE", "/config/{}")
def _unset_level(api: Api, given: list[str], query: Query, body: Any) -> Any:
    subject = given[0] if given else None
    before = api.subjects.level(subject, is_default=False)
    api.write(api.subjects.set_level(subject, None))
    return {"compatibilityLevel": before}


@_route("GET", "/mode")
@_route("GET", "/mode/{}")
def _mode(api: Api, given: list[str], query: Query, body: Any) -> Any:
    return {"mode": api.subjects.mode(given[0] if given else None)}


@_route("PUT", "/mode")
@_route("PUT", "/mode/{}")
def _set_mode(api: Api, given: list[str], query: Query, body: Any) -> Any:
    mode = body.get("mode", "")
    api.write(api.subjects.set_mode(given[0] if given else None, mode))
    return {"mode": mode}


@_route("DELETE", "/mode/{}")
def _unset_mode(api: Api, given: list[str], query: Query, body: Any) -> Any:
    before = api.subjects.mode(given[0])
    api.write(api.subjects.set_mode(given[0], None))
    return {"mode": before}


# Helpers


class _Text(str):
    """A schema that is the whole response body, unchanged."""

    __slots__ = ()


def answer_text(answer: Any) -> str:
    """The body of a response."""
    return str(answer) if isinstance(answer, _Text) else json.dumps(answer)


def _brought(api: Api, body: Any) -> tuple[Schema, References]:
    given = body.get("references") or []
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise invalid_schema("references is not a list of objects")
    references = tuple(given)
    kind = body.get("schemaType") or AVRO
    return api.subjects.schema(body.get("schema"), kind, references), references


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
    if not text.isascii() or not text.isdigit() or not 0 < int(text) < 2**31:
        raise invalid_version(text)
    return int(text)


def _number(text: str, code: int) -> int:
    if not text.isascii() or not text.isdigit():
        raise RegistryError(code, f"Schema {text} not found.")
    return int(text)


def _says(query: Query, name: str) -> bool:
    return query.get(name, "").lower() == "true"
