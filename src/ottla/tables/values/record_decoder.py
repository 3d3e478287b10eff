"""Decodes the parts of records: values, keys, and headers as columns."""

from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ottla.base.values import dataclass
from ottla.schema_registry.registry import RegistryLogin
from ottla.tables.values.decoder import Decoding, ValueDecoder
from ottla.tables.values.opening import open_decoder, open_key_decoder
from ottla.tables.values.projection import ProjectedDecoder, Projection
from ottla.tables.values.schema import check_levels
from ottla.tables.values.text_values import HeaderDecoder

if TYPE_CHECKING:
    import pyarrow as pa

VALUE, KEY, HEADER = "value", "key", "header"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordDecoding:
    """How each part is decoded; `None`, or no columns of headers: not decoded."""

    value: Decoding | None = None
    key: Decoding | None = None
    header: str = ""
    """The columns of headers in Spark's notation."""
    projection: Projection | None = None
    """Which fields of values there are, and how they are named; `None`: all, as they are."""

    @property
    def is_raw(self) -> bool:
        return self == _RAW


_RAW = RecordDecoding()

_KEPT_TYPES = 16
"""Tables whose types are kept: a load asks for those of its table ten times."""


@dataclass(frozen=True, slots=True)
class DecodedRecords:
    """`columns` by name, which replace the bytes; `faults` by index, each naming the part."""

    columns: Mapping[str, Any]
    faults: Mapping[int, str]
    truncations: frozenset[int] = frozenset()


class RecordDecoder:
    """Decodes batches of records in the columns of `record.columns`."""

    def __init__(self, decoding: RecordDecoding, login: RegistryLogin | None = None) -> None:
        """Raises `UserError` if a schema is unsuitable."""
        self._decoders: dict[str, ValueDecoder] = {}
        if decoding.value is not None:
            self._decoders[VALUE] = open_decoder(decoding.value, login)
            if decoding.projection is not None:
                inner = self._decoders[VALUE]
                self._decoders[VALUE] = ProjectedDecoder(inner, decoding.projection)
        if decoding.key is not None:
            self._decoders[KEY] = open_key_decoder(decoding.key, login)
        if decoding.header:
            self._decoders[HEADER] = HeaderDecoder(decoding.header)
        for one in self._decoders.values():
            check_levels(one.type)

    @property
    def types(self) -> Mapping[str, Any]:
        """The Arrow types of decoded columns, by name."""
        return {name: one.type for name, one in self._decoders.items()}

    def decode(self, records: "pa.RecordBatch") -> DecodedRecords:
        columns: dict[str, Any] = {}
        faults: dict[int, str] = {}
        truncations: frozenset[int] = frozenset()
        headers = records.column("headers")
        for name, decoder in self._decoders.items():
            found = decoder.decode(None if name == HEADER else records.column(name), headers)
            columns[name] = found.rows
            truncations |= found.truncations
            prefix = "its key: " if name == KEY else ""
            for index, fault in found.faults.items():
                faults.setdefault(index, f"{prefix}{fault}")
        return DecodedRecords(columns, faults, truncations)


@lru_cache(_KEPT_TYPES)
def decoded_types(decoding: RecordDecoding) -> Mapping[str, Any]:
    """The Arrow types of decoded columns, by name; raises `UserError` as `RecordDecoder` does."""
    return RecordDecoder(decoding).types
