"""Declared messages: a class declares a message in all versions, a compiler creates its functions.

    class OffsetCommitKey(Message, versions="0-1"):
        group: str = string("0+")
        partition: int = int32("0+")

`reader(OffsetCommitKey, 1)` and `writer(OffsetCommitKey, 1)` are plain functions for that version,
compiled on first use and cached. docs/format/wire.md shows one.

Kafka's counterpart: the message generator and its JSON files (KIP-482 for flexible versions).
"""

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar, dataclass_transform

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.codec.fields import NO_VERSIONS, Field, VersionRange, parse_versions
from ottla.codec.primitives import Output
from ottla.codec.schema_reader import compile_reader
from ottla.codec.schema_writer import compile_writer

_UNSET: Any = ()
"""The default of lists and structs in a constructor, which creates a new one for it."""


@dataclass_transform(kw_only_default=True)
class StructType(type):
    """Collects the fields of a class and adds slots, in one pass and without `exec`.

    There are hundreds of such classes, so the constructor is only compiled on its first call.
    """

    FIELDS: tuple[Field, ...]

    def __new__(
        metaclass,
        name: str,
        bases: tuple[type, ...],
        namespace: dict[str, Any],
        **options: Any,
    ) -> "StructType":
        fields = {key: value for key, value in namespace.items() if isinstance(value, Field)}
        for key, field in fields.items():
            field.name = key
            del namespace[key]
        namespace["__slots__"] = tuple(fields)
        namespace["FIELDS"] = tuple(fields.values())
        return super().__new__(metaclass, name, bases, namespace, **options)


class Struct(metaclass=StructType):
    """A part of a message: mutable, slotted, compared by value."""

    FIELDS: ClassVar[tuple[Field, ...]]

    def __init__(self, **values: Any) -> None:
        constructor = _compile_constructor(type(self))
        type(self).__init__ = constructor  # type: ignore[method-assign]
        constructor(self, **values)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        names = [field.name for field in self.FIELDS]
        return all(getattr(self, name) == getattr(other, name) for name in names)

    def __repr__(self) -> str:
        values = ", ".join(f"{one.name}={getattr(self, one.name)!r}" for one in self.FIELDS)
        return f"{type(self).__name__}({values})"


class Message(Struct):
    """A top-level struct: a request, a response, or a record of an internal topic."""

    API_KEY: ClassVar[int | None] = None
    VERSIONS: ClassVar[VersionRange] = NO_VERSIONS
    FLEXIBLE: ClassVar[VersionRange] = NO_VERSIONS
    """The versions with compact types and tagged fields."""

    READERS: ClassVar[dict[int, Any]] = {}
    WRITERS: ClassVar[dict[int, Any]] = {}

    def __init_subclass__(
        cls, *, versions: str, flexible: str | None = None, api_key: int | None = None
    ) -> None:
        cls.VERSIONS = parse_versions(versions)
        cls.FLEXIBLE = parse_versions(flexible)
        cls.API_KEY = api_key
        cls.READERS = {}
        cls.WRITERS = {}


M = TypeVar("M", bound=Message)


def reader(message: type[M], version: int) -> Callable[..., tuple[M, int]]:
    """The function that reads a message at a position, and returns it and the position after it.

    The function raises `ProtocolError` for an invalid message, and ignores bytes after the message.
    Raises `ApiError` (UNSUPPORTED_VERSION) for an unknown version.
    """
    function = message.READERS.get(version)
    if function is None:
        _check_version(message, version)
        function = compile_reader(message, version, version in message.FLEXIBLE)
        message.READERS[version] = function
    return function


def writer(message: type[M], version: int) -> Callable[[M, Output], None]:
    """The function that appends a message to an `Output`.

    It skips a field that the version lacks if the field has its default or is ignorable; otherwise
    it raises `ApiError` (UNSUPPORTED_VERSION), as in Kafka. Raises the same for an unknown version.
    """
    function = message.WRITERS.get(version)
    if function is None:
        _check_version(message, version)
        function = compile_writer(message, version, version in message.FLEXIBLE)
        message.WRITERS[version] = function
    return function


def _check_version(message: type[Message], version: int) -> None:
    if version not in message.VERSIONS:
        raise ApiError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"{message.__name__} has versions {message.VERSIONS}, not {version}",
        )


def _compile_constructor(struct: type[Struct]) -> Callable[..., None]:
    """Compiles `__init__` with one keyword argument per field, as `dataclasses` does."""
    names: dict[str, Any] = {"unset": _UNSET}
    parameters = []
    lines = []
    for field in struct.FIELDS:
        names[f"default_{field.name}"] = field.default
        parameters.append(f"{field.name}=default_{field.name}")
        value = field.name
        if field.default == ():
            fresh = "[]"
            if field.kind == "nested":
                fresh = f"make_{field.name}()"
                names[f"make_{field.name}"] = field.struct
            value = f"{fresh} if {field.name} is unset else {field.name}"
        lines.append(f"    self.{field.name} = {value}\n")
    keywords = f", *, {', '.join(parameters)}" if parameters else ""
    exec(f"def __init__(self{keywords}):\n{''.join(lines) or '    pass'}", names)
    return names["__init__"]  # type: ignore[no-any-return]
