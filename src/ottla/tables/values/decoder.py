"""The interface of decoders of values, and the decoding pinned in a table's layout.

A decoder converts a column of values to a column of structs, and returns a fault for each value
that it cannot decode. Values are decoded independently, whatever is wrong with others. A null value
(a tombstone) is a null struct, not a fault.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Any, Protocol

from ottla.base.errors import UserError
from ottla.base.values import dataclass


class ValueFormat(Enum):
    """The format of values."""

    JSON = "json"
    AVRO = "avro"
    PROTOBUF = "protobuf"
    TEXT = "text"


class Envelope(Enum):
    """The envelope around rows in values."""

    NONE = "none"
    DEBEZIUM = "debezium"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How a table's values are decoded.

    `schema` is in Spark's notation (`values.schema`) for JSON, in Avro's JSON for Avro, and a
    base64 descriptor set for Protobuf, whose message is `message`; a schema from a subject is in
    Spark's notation for Protobuf too. With `confluent` the five-byte prefix of schema registry
    serializers is removed; `schema_id` is then the only id allowed in it. With `registry` (an http
    address, or a directory) each value is read with the schema with which it was written,
    identified by its id or GUID, and converted to `schema`, the table's own. With `subject`,
    `schema` combines the versions registered under it, and no field of a value is dropped. With an
    `envelope` a JSON schema is that of the rows within.
    """

    format: ValueFormat
    schema: str
    confluent: bool = False
    schema_id: int | None = None
    registry: str = ""
    subject: str = ""
    message: str = ""
    """The name of the Protobuf message; empty: the schema's only one."""
    envelope: Envelope = Envelope.NONE
    is_rescuing: bool = False
    """Whether JSON fields outside of the schema are kept in an additional column `_rescued`."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """`rows` has one struct for each value, null for the indices in `faults`, which give the
    reason.
    """

    rows: Any
    faults: Mapping[int, str]
    truncations: frozenset[int] = frozenset()
    """Indices of values that report a truncation of the source: neither row nor fault."""


class ValueDecoder(Protocol):
    """A decoder; see the module."""

    @property
    def type(self) -> Any:
        """The Arrow struct type of the rows."""

    def decode(self, values: Any, headers: Any = None) -> Decoded:
        """Decodes a column of `binary` with nulls; `headers` is the column of record headers, which
        may name the schema.
        """


def merged(count: int, rows: Any, places: list[int], kind: Any) -> Any:
    """A column of `count` structs: `rows` at `places` (ascending), null elsewhere."""
    import numpy as np
    import pyarrow as pa

    if len(places) == count:
        return rows
    indices = np.zeros(count, dtype=np.int64)
    is_null = np.ones(count, dtype=bool)
    indices[places] = np.arange(len(places))
    is_null[places] = False
    if not places:
        return pa.nulls(count, kind)
    return rows.take(pa.array(indices, mask=is_null))


def require(holds: bool, words: str) -> None:
    """Raises `UserError` with the words if `holds` is false."""
    if not holds:
        raise UserError(words)
