"""The fields of a declared message: one function per Kafka type, called with a field's versions.

A declaration reads like Kafka's own JSON: `rack_id: str = string("11+")`. The versions are written
"3+", "0-12" or "7". Each function returns a `Field`, which the metaclass in `schema` collects; to a
type checker it looks like the field's default value, so that every field of a message is optional
in its constructor.
"""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from ottla.base.ids import ZERO_UUID
from ottla.base.values import dataclass

NO_LAST_VERSION = 0x7FFF


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Versions from `first` to `last`, both included; empty if `last` is less than `first`."""

    first: int
    last: int

    def __contains__(self, version: int) -> bool:
        return self.first <= version <= self.last

    def __str__(self) -> str:
        return f"{self.first}-{self.last}" if self.first != self.last else str(self.first)


NO_VERSIONS = VersionRange(0, -1)


@lru_cache(maxsize=256)
def parse_versions(text: str | None) -> VersionRange:
    """Parses "3+", "0-12" or "7"; `None` means no version."""
    if text is None:
        return NO_VERSIONS
    first, dash, last = text.partition("-")
    if dash:
        return VersionRange(int(first), int(last))
    if text.endswith("+"):
        return VersionRange(int(text[:-1]), NO_LAST_VERSION)
    return VersionRange(int(text), int(text))


class Field:
    """One declared field. Version texts are parsed when a version is compiled."""

    __slots__ = (
        "default",
        "element",
        "ignorable",
        "kind",
        "name",
        "nullable",
        "struct",
        "tag",
        "versions",
    )

    def __init__(self, kind: str, versions: str, default: object) -> None:
        self.name = ""
        self.kind = kind
        self.versions = versions
        self.default = default
        self.nullable: str | None = None
        self.tag: int | None = None
        self.ignorable = False
        self.struct: Any = None
        """The class of a nested struct, or of the elements of an array of structs."""
        self.element: Field | None = None
        """The element of an array of a primitive type."""

    def is_in(self, version: int) -> bool:
        return version in parse_versions(self.versions)

    def is_nullable_in(self, version: int) -> bool:
        return version in parse_versions(self.nullable)

    def with_options(self, tag: int | None, ignorable: bool, nullable: str | None = None) -> Any:
        self.tag = tag
        self.ignorable = ignorable
        self.nullable = nullable
        return self


def _number(kind: str) -> Callable[..., Any]:
    def declare(
        versions: str, *, default: int = 0, tag: int | None = None, ignorable: bool = False
    ) -> Any:
        return Field(kind, versions, default).with_options(tag, ignorable)

    declare.__name__ = kind
    return declare


int8 = _number("int8")
int16 = _number("int16")
uint16 = _number("uint16")
int32 = _number("int32")
int64 = _number("int64")


def float64(
    versions: str, *, default: float = 0.0, tag: int | None = None, ignorable: bool = False
) -> Any:
    return Field("float64", versions, default).with_options(tag, ignorable)


def boolean(
    versions: str, *, default: bool = False, tag: int | None = None, ignorable: bool = False
) -> Any:
    return Field("boolean", versions, default).with_options(tag, ignorable)


def uuid(versions: str, *, tag: int | None = None, ignorable: bool = False) -> Any:
    return Field("uuid", versions, ZERO_UUID).with_options(tag, ignorable)


def string(
    versions: str,
    *,
    default: str | None = "",
    nullable: str | None = None,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    return Field("string", versions, default).with_options(tag, ignorable, nullable)


def binary(
    versions: str,
    *,
    default: bytes | None = b"",
    nullable: str | None = None,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Kafka's `bytes`."""
    return Field("binary", versions, default).with_options(tag, ignorable, nullable)


def records(versions: str, *, default: bytes | None = None, nullable: str | None = None) -> Any:
    """Record batches, or what is as large: read as a `memoryview` of the frame, written from
    `Records`.
    """
    return Field("records", versions, default).with_options(None, False, nullable)


def nested(
    struct: type[Any],
    versions: str,
    *,
    nullable: str | None = None,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """A nested struct; the default of a tagged or nullable one is `None`."""
    # Kafka's classes have a struct of defaults instead. On the wire both are absent, and `None`
    # need not be built for each of thousands of responses.
    is_absent_by_default = tag is not None or nullable is not None
    field = Field("nested", versions, None if is_absent_by_default else ())
    field.struct = struct
    return field.with_options(tag, ignorable, nullable)


def array(
    element: type[Any] | Callable[..., Any],
    versions: str,
    *,
    default: tuple[()] | None = (),
    nullable: str | None = None,
    tag: int | None = None,
    ignorable: bool = False,
) -> Any:
    """A list of structs, or of a primitive type named by its function: `array(int32, "0+")`."""
    field = Field("array", versions, default)
    if isinstance(element, type):
        field.struct = element
    else:
        field.element = element(versions)
    return field.with_options(tag, ignorable, nullable)
