"""What decodes the values of a table's records, as the table's marker has it pinned.

A decoder takes a column of values and gives a column of structs, together with the values that it
cannot decode and why: each is decoded apart from its neighbours, whatever is broken in it.
A null value (a tombstone) is a null struct, not a fault.
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
    """The envelope of rows in values."""

    NONE = "none"
    DEBEZIUM = "debezium"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoding:
    """How a table's values are decoded.

    `schema` is in Spark's words (`values.schema`) for JSON, Avro's own JSON for Avro, and a
    descriptor set in base64 for Protobuf, which `message` is in; made of a subject, that is in
    Spark's words too. With
    `confluent` the five bytes that serializers of a schema registry put in front are taken off;
    `schema_id` is then the only id that may stand in them. With `registry` (an http address, or a
    directory) each value is read with the schema that it was written with, whose id or GUID it
    has, and shown by `schema`, the table's own. With `subject`, `schema` is made of the versions
    that are registered under it, and no field of a value is left out. With an `envelope` the
    schema of JSON is that of the rows within.
    """

    format: ValueFormat
    schema: str
    confluent: bool = False
    schema_id: int | None = None
    registry: str = ""
    subject: str = ""
    message: str = ""
    """The name of Protobuf's message; empty: the schema's only one."""
    envelope: Envelope = Envelope.NONE
    is_rescuing: bool = False
    """Whether what the schema of JSON does not name is kept, in one more column `_rescued`."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """`rows` has one struct for each value, null where `faults` (by index) says why."""

    rows: Any
    faults: Mapping[int, str]
    truncations: frozenset[int] = frozenset()
    """Indices of values that say that the source was emptied: no row, and no fault."""


class ValueDecoder(Protocol):
    """See the module."""

    @property
    def type(self) -> Any:
        """The Arrow struct type of the rows."""

    def decode(self, values: Any, headers: Any = None) -> Decoded:
        """A column of `binary`, of which any may be null, and the column of their headers, where a
        header may name the schema."""


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
    """Raises `UserError` with the words if it does not hold."""
    if not holds:
        raise UserError(words)
