"""How the console decodes keys and values: as asked, by a topic's schema file, or by their bytes.

The encodings are those of `ottla consume`. What does not decode has a reason beside its bytes: no
value, and no registry that fails, keeps a page from being shown. Values, schemas and ids come from
others, so each costs a bounded time.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ottla.base.errors import UserError
from ottla.base.texts import size_text
from ottla.base.values import dataclass
from ottla.schema_registry.administration import open_admin
from ottla.schema_registry.framing import KEY_HEADER, VALUE_HEADER, framed
from ottla.schema_registry.http import HttpRegistry
from ottla.schema_registry.registry import RegisteredSchema, SchemaRegistry, UnknownSchemaError
from ottla.search.encodings import Encoding, FilePath, encoding_of, json_bytes, kind_of_schema
from ottla.search.fields import Decoder, FieldReader, with_header
from ottla.search.registered import encoded

if TYPE_CHECKING:
    from ottla.record.record import Record

AUTO, REGISTRY, TEXT, JSON, HEX, BASE64 = "auto", "registry", "text", "json", "hex", "base64"
SIDES = ("key", "value")

LARGEST_VALUE = 1 << 20
LARGEST_SCHEMA = 256 << 10
PAGE_S = 2.0
"""How long the values of a page, or of a step of a stream, are decoded; the rest are bytes."""
FRESH_S = 60.0
"""How long a schema that was not found, or was invalid, is not asked for again."""
REST_S = 10.0
"""How long a registry that failed is not asked."""
MOST_UNKNOWN = 50
"""Of schemas, within `FRESH_S`: data that is not framed may begin like it, and name any number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaFile:
    """A file with the schema of a topic's keys or values; `message` is a type of Protobuf."""

    path: FilePath
    message: str = ""

    @property
    def encoding(self) -> str:
        return kind_of_schema(self.path)


@dataclass(frozen=True, slots=True)
class Decoded:
    """A key or a value: `found` as decoded with `name`, or the reason why it was not."""

    name: str = ""
    found: Any = None
    fault: str = ""


class _RegistryFailedError(UserError):
    """The registry does not answer, which may be over soon."""


class _BoundedRegistry:
    """See `SchemaRegistry`; it rests after a failure, and knows only so many unknown ids."""

    def __init__(self, registry: SchemaRegistry, clock: Callable[[], float]) -> None:
        self._registry = registry
        self._clock = clock
        self._unknown = 0
        self._failure = ""
        self._rests_until = 0.0

    def schema(self, schema_id: int) -> RegisteredSchema:
        return self._asked(lambda: self._registry.schema(schema_id), f"schema id {schema_id}")

    def schema_of_guid(self, guid: str) -> RegisteredSchema:
        return self._asked(lambda: self._registry.schema_of_guid(guid), f"schema {guid}")

    def versions(self, subject: str) -> list[RegisteredSchema]:
        return self._registry.versions(subject)

    def _asked(self, ask: Callable[[], RegisteredSchema], what: str) -> RegisteredSchema:
        if self._clock() < self._rests_until:
            raise _RegistryFailedError(self._failure)
        if self._unknown >= MOST_UNKNOWN:
            raise UnknownSchemaError(f"{what} was not asked for: too many ids are unknown")
        try:
            found = ask()
        except UnknownSchemaError:
            self._unknown += 1
            raise
        except UserError as error:
            self._failure, self._rests_until = str(error), self._clock() + REST_S
            raise _RegistryFailedError(self._failure) from error
        size = len(found.text) + sum(map(len, found.references.values()))
        if size > LARGEST_SCHEMA:
            self._unknown += 1
            raise UnknownSchemaError(
                f"{what} has {size_text(size)}; the console decodes with schemas of at most "
                f"{size_text(LARGEST_SCHEMA)}"
            )
        return found


class Decodings:
    """How the records of a target are decoded, with what was asked of its registry."""

    def __init__(
        self,
        registry: SchemaRegistry | None = None,
        files: Mapping[tuple[str, str], SchemaFile] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`files` by topic and side. Raises `UserError` for a file without a valid schema."""
        self.registry = registry
        self._clock = clock
        self._lock = threading.Lock()
        self._files = dict(files or {})
        self._encodings = {
            place: encoding_of(place[1], one.encoding, one.path, message=one.message or None)
            for place, one in self._files.items()
        }
        self._registered: dict[str, _Registered] = {}

    def choices(self, topic: str, side: str) -> tuple[str, ...]:
        """What can be asked for of a topic's keys or values; automatic is the first."""
        file = self._files.get((topic, side))
        return (
            AUTO,
            *([file.encoding] if file is not None else ()),
            *([REGISTRY] if self.registry is not None else ()),
            JSON,
            TEXT,
            HEX,
            BASE64,
        )

    def encoders(self, topic: str, side: str) -> tuple[str, ...]:
        """How a topic's keys or values can be written; the first is the usual one."""
        file = self._files.get((topic, side))
        return (
            *([file.encoding] if file is not None else ()),
            TEXT,
            JSON,
            *([REGISTRY] if isinstance(self.registry, HttpRegistry) else ()),
            HEX,
            BASE64,
        )

    def encode(self, topic: str, side: str, choice: str, text: str) -> tuple[bytes, str]:
        """The bytes of a text, and what they were encoded with; raises `UserError`."""
        data, file = text.encode(), self._encodings.get((topic, side))
        try:
            if choice == REGISTRY:
                return self._encode(f"{topic}-{side}", data)
            if file is not None and choice == file.name:
                return file.parse(data), f"the {choice} schema of the topic"
            encoding = encoding_of(side, choice, None)
            return encoding.parse(data), "" if choice == TEXT else choice
        except (ValueError, RecursionError) as error:
            raise UserError(f"the {side} cannot be encoded ({choice}): {error}") from error

    def _encode(self, subject: str, data: bytes) -> tuple[bytes, str]:
        """With the latest version of a subject in the registry."""
        assert self.registry is not None
        admin = open_admin(self.registry)
        latest = admin.version(subject, admin.versions(subject)[-1])
        assert latest.schema_id is not None
        found = encoded(data, self.registry.schema(latest.schema_id), latest.schema_id)
        return found, f"version {latest.version} of subject {subject}"

    def of(self, topic: str, key: str = AUTO, value: str = AUTO) -> "RecordDecoding":
        """The decoding of a topic's records, as chosen; for one page, or one stream."""
        sides = {
            side: SideDecoding(
                choice=choice,
                file=self._encodings.get((topic, side)),
                registered=self._by_registry(side),
                header=_HEADERS[side],
            )
            for side, choice in zip(SIDES, (key, value), strict=True)
        }
        return RecordDecoding(sides, self._clock)

    def _by_registry(self, side: str) -> "_Registered | None":
        """The decoder by the registry; made anew after a while, since schemas are registered."""
        if self.registry is None:
            return None
        with self._lock:
            found = self._registered.get(side)
            if found is None or self._clock() - found.made_at > FRESH_S:
                bounded = _BoundedRegistry(self.registry, self._clock)
                encoding = encoding_of(side, REGISTRY, None, bounded)
                found = _Registered(encoding=encoding, made_at=self._clock())
                self._registered[side] = found
            return found


_HEADERS = {"key": KEY_HEADER, "value": VALUE_HEADER}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Registered:
    """Decodes by a registry; `faults` are of schemas, by id or GUID."""

    encoding: Encoding
    made_at: float
    faults: dict[int | str, str] = field(default_factory=dict)

    def decode(self, data: bytes) -> Any:
        """Raises `ValueError`, also for a registry that fails and for an invalid schema."""
        found = framed(data)
        schema = None if found is None else found.schema
        if schema is not None and schema in self.faults:
            raise ValueError(self.faults[schema])
        try:
            return self.encoding.decode(data)
        except UserError as error:
            if schema is not None and not isinstance(error, _RegistryFailedError):
                self.faults[schema] = str(error)
            raise ValueError(str(error)) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class SideDecoding:
    """How keys or values are decoded."""

    choice: str
    file: Encoding | None
    registered: _Registered | None
    header: str

    @property
    def may_decode(self) -> bool:
        """Whether any bytes are shown otherwise than as they are."""
        is_by_file = self.file is not None and self.choice in (AUTO, self.file.name)
        return is_by_file or (self.registered is not None and self.choice in (AUTO, REGISTRY))

    def decoders(self, data: bytes) -> list[tuple[str, Decoder]]:
        """The names and functions that may decode these bytes; none if they are shown as they are.

        The data begins with the header that names its schema, if it has one. Data of a schema file
        may by chance begin as if it named a schema in the registry.
        """
        found: list[tuple[str, Decoder]] = []
        if self.registered is not None:
            is_framed = self.choice == AUTO and framed(data) is not None
            if self.choice == REGISTRY or is_framed:
                found.append((_named(data), self.registered.decode))
        if self.file is not None and self.choice in (AUTO, self.file.name):
            found.append((self.file.name, self.file.decode))
        return found

    def read(self, data: bytes) -> Decoded | None:
        """See `RecordDecoding.decoded`."""
        faults = []
        for name, decode in self.decoders(data):
            try:
                return Decoded(name=name, found=decode(data))
            except (ValueError, RecursionError) as error:
                faults.append(str(error) or type(error).__name__)
        return Decoded(fault=faults[0]) if faults else None

    def value(self, data: bytes) -> Any:
        """What paths of a condition lead into; raises `ValueError`."""
        found = self.read(data)
        if found is None:
            return json.loads(data)
        if found.fault:
            raise ValueError(found.fault)
        return found.found


class RecordDecoding:
    """Decodes records for one page or one stream, which calls `begin` before each step."""

    def __init__(self, sides: Mapping[str, SideDecoding], clock: Callable[[], float]) -> None:
        self._sides = sides
        self._clock = clock
        self.begin()

    def begin(self) -> None:
        self._end = self._clock() + PAGE_S

    @property
    def choices(self) -> dict[str, str]:
        """What was asked for, by the names of the query's parameters; without what is automatic."""
        return {f"{side}_as": one.choice for side, one in self._sides.items() if one.choice != AUTO}

    def choice(self, side: str) -> str:
        return self._sides[side].choice

    @property
    def is_plain(self) -> bool:
        """Whether keys and values are what their bytes are, so that words can be looked for."""
        return not any(one.may_decode for one in self._sides.values())

    def text(self, side: str, record: "Record") -> bytes | None:
        """A key or value as decoded, in compact JSON; `None` if it is not."""
        found = self._read(side, record)
        return None if found is None or found.fault else json_bytes(found.found)

    def reader(self) -> FieldReader:
        """For the paths of conditions, as in `ottla consume --where`."""
        key, value = (self._sides[side] for side in SIDES)
        headers = {
            side: one.header for side, one in self._sides.items() if one.registered is not None
        }
        return FieldReader(key.value, value.value, headers)

    def decoded(self, side: str, record: "Record") -> Decoded | None:
        """A record's key or value as decoded, or why not; `None` if it is shown as it is."""
        if not self._sides[side].may_decode:
            return None
        if self._clock() > self._end:
            return Decoded(fault=f"the values before it took {PAGE_S:g} s to decode")
        return self._read(side, record)

    def hint(self, side: str, record: "Record") -> str:
        """What would decode a key or a value that names a schema, if there is no registry."""
        data: bytes | None = record.key if side == "key" else record.value
        one = self._sides[side]
        if data is None or one.choice != AUTO or one.may_decode:
            return ""
        found = framed(with_header(data, record.headers, one.header))
        if found is None:
            return ""
        return (
            f"It names schema {found.schema} of a registry: ottla console --registry URL decodes it"
        )

    def _read(self, side: str, record: "Record") -> Decoded | None:
        data: bytes | None = record.key if side == "key" else record.value
        one = self._sides[side]
        if data is None or not one.may_decode:
            return None
        if len(data) > LARGEST_VALUE:
            return Decoded(fault=f"more than the {size_text(LARGEST_VALUE)} that are decoded here")
        if one.registered is not None:
            data = with_header(data, record.headers, one.header)
        return one.read(data)


def _named(data: bytes) -> str:
    found = framed(data)
    return REGISTRY if found is None else f"schema {found.schema}"
