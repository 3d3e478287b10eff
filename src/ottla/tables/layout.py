"""The layout of a table's rows: pinned in its marker by the first load, and unchanged since.

A table is raw or decoded, and its files lie in directories by time or do not. Later loads need not
say so again; one that says otherwise is refused, except that a schema may grow
(`values.schema.check_evolution`). Each schema is kept with the commit from which it was used.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum
from typing import Any

from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.schema_registry.registry import RegistryLogin
from ottla.tables.values.decoder import Decoding, Envelope, ValueFormat
from ottla.tables.values.opening import check_decoding, open_decoder
from ottla.tables.values.record_decoder import RecordDecoder, RecordDecoding
from ottla.tables.values.schema import check_evolution, type_text

TIMESTAMP_COLUMN = "timestamp"
UPSERT_KEY = "key"
"""By what rows are updated, where they are: by the record's key, as Kafka compacts."""


def table_schema(value: str = "binary", key: str = "binary", header: str = "") -> str:
    """What a load writes, in Spark's words: the record, and where it comes from."""
    of_headers = f"header {header}, " if header else ""
    return (
        f"key {key}, value {value}, partition int, offset bigint, timestamp timestamp, "
        f"timestamp_type int, headers array<struct<key: string, value: binary>>, {of_headers}"
        f"topic string, commit_id bigint"
    )


class PartitionUnit(Enum):
    """The unit by which a table's files are partitioned."""

    DAY = "day"
    HOUR = "hour"

    @property
    def columns(self) -> Mapping[str, str]:
        """Directories' names, outermost first, and the pattern (of strftime) of their values."""
        if self is PartitionUnit.DAY:
            return {"day": "%Y-%m-%d"}
        return {"day": "%Y-%m-%d", "hour": "%H"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitioning:
    """By which time, in UTC: that of the record, or a timestamp in its value (`value.at`)."""

    unit: PartitionUnit
    column: str = TIMESTAMP_COLUMN


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedDecoding:
    """How values, keys and headers are decoded from a commit on."""

    since_commit: int
    decoding: Decoding | None
    key: Decoding | None = None
    header: str = ""

    @property
    def record(self) -> RecordDecoding:
        return RecordDecoding(value=self.decoding, key=self.key, header=self.header)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """No decodings: keys and values are loaded as the bytes that they are."""

    decodings: tuple[PinnedDecoding, ...] = ()
    partitioning: Partitioning | None = None
    is_latest: bool = False
    """Whether the table has the latest row of each key, instead of a row for each record."""

    @property
    def decoding(self) -> Decoding | None:
        """That of values which is in use."""
        return self.record_decoding.value

    @property
    def record_decoding(self) -> RecordDecoding:
        return self.decodings[-1].record if self.decodings else RecordDecoding()

    @property
    def is_inferred(self) -> bool:
        """Whether the schema is still to be found, from the first records."""
        return self.decoding is not None and not self.decoding.schema

    @property
    def decoded_types(self) -> Mapping[str, Any]:
        """The Arrow types of the columns that are decoded, by their names."""
        return RecordDecoder(self.record_decoding).types

    @property
    def has_struct_keys(self) -> bool:
        import pyarrow.types as types

        return bool("key" in self.decoded_types and types.is_struct(self.decoded_types["key"]))

    @property
    def row_schema(self) -> str:
        """The columns, in Spark's words."""
        return table_schema(**{name: type_text(one) for name, one in self.decoded_types.items()})

    @property
    def value_type(self) -> str:
        """The type of the column `value`, in Spark's words."""
        decoding = self.decoding
        return "binary" if decoding is None else type_text(open_decoder(decoding).type)

    def decoding_of(self, commit_id: int) -> Decoding | None:
        """How that commit decoded its values."""
        return self.record_decoding_of(commit_id).value

    def record_decoding_of(self, commit_id: int) -> RecordDecoding:
        used = [one.record for one in self.decodings if one.since_commit <= commit_id]
        return used[-1] if used else RecordDecoding()


RAW = TableLayout()


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutOptions:
    """The layout that a load asks for; `None`: the table's, or for a new table none."""

    is_raw: bool = False
    decoding: Decoding | None = None
    """A schema that is empty: JSON's, from the first records, and later the table's own."""
    key: Decoding | None = None
    header: str = ""
    """Columns of headers, in Spark's words; empty: what the table has."""
    partitioning: Partitioning | None = None
    is_latest: bool = False
    is_growing: bool = False
    """Whether fields of JSON that the schema does not name become columns."""
    login: RegistryLogin | None = None
    """For the registry of the schemas; it is kept nowhere."""


def first_layout(asked: LayoutOptions) -> TableLayout:
    """The layout of a new table; raises `UserError` when it cannot be had."""
    decodings: tuple[PinnedDecoding, ...] = ()
    wanted = RecordDecoding(value=asked.decoding, key=asked.key, header=asked.header)
    if not wanted.is_raw:
        decodings = (_pinned(0, wanted),)
        for one in (asked.decoding, asked.key):
            if one is not None:
                check_decoding(one)
    if asked.is_latest and asked.key is not None:
        raise UserError("rows are updated by the bytes of their keys: leave --decode-key out")
    layout = TableLayout(
        decodings=decodings, partitioning=asked.partitioning, is_latest=asked.is_latest
    )
    if not layout.is_inferred:
        check_partitioning(layout)
        RecordDecoder(layout.record_decoding)
    return layout


def _pinned(commit_id: int, decoding: RecordDecoding) -> PinnedDecoding:
    return PinnedDecoding(
        since_commit=commit_id,
        decoding=decoding.value,
        key=decoding.key,
        header=decoding.header,
    )


def next_layout(pinned: TableLayout, asked: LayoutOptions, commit_id: int) -> TableLayout:
    """The layout that a table has from a commit on; raises `UserError` when it may not."""
    if asked.partitioning not in (None, pinned.partitioning):
        raise UserError(
            f"the table's files are parted {_partitioning_text(pinned.partitioning)}; that stays "
            f"as the first load had it (leave --partition-by out, or load into another directory)"
        )
    if asked.is_latest and not pinned.is_latest:
        raise UserError(
            "the table has a row for each record, and stays so (leave --upsert-by out, or load "
            "into another directory)"
        )
    if asked.is_raw and pinned.decoding is not None:
        raise UserError(
            f"the table's values are decoded as {pinned.decoding.format.value}; "
            f"load raw ones into another directory"
        )
    has = pinned.record_decoding
    now = RecordDecoding(
        value=_next_decoding(has.value, asked.decoding, "values"),
        key=_next_decoding(has.key, asked.key, "keys"),
        header=asked.header or has.header,
    )
    if now == has:
        return pinned
    before, after = RecordDecoder(has).types, RecordDecoder(now).types
    for name in before:
        check_evolution(before[name], after[name], name)
    decodings = tuple(one for one in pinned.decodings if one.since_commit < commit_id)
    return replace(pinned, decodings=(*decodings, _pinned(commit_id, now)))


def _next_decoding(has: Decoding | None, asked: Decoding | None, what: str) -> Decoding | None:
    """What a table's values or keys are decoded as from now on; raises `UserError`."""
    wanted = asked
    if wanted is not None and has is not None and not wanted.schema:
        wanted = replace(wanted, schema=has.schema, message=has.message)
    if wanted is None or wanted == has:
        if has is not None:
            check_decoding(has)
        return has
    if has is None or has.format is not wanted.format:
        words = "raw" if has is None else f"decoded as {has.format.value}"
        raise UserError(
            f"the table's {what} are {words}, and stay so; load into another directory to have "
            f"{wanted.format.value}"
        )
    if wanted.envelope is not has.envelope:
        raise UserError(
            f"the table was loaded with --envelope {has.envelope.value}, and that "
            f"stays so; load into another directory to have --envelope {wanted.envelope.value}"
        )
    check_decoding(wanted)
    return wanted


def layout_fields(layout: TableLayout) -> dict[str, Any]:
    """As the marker has it."""
    fields: dict[str, Any] = {
        "decodings": [_pinned_fields(one) for one in layout.decodings],
        "partitioning": partitioning_fields(layout.partitioning),
    }
    if layout.is_latest:
        fields["upsert_by"] = UPSERT_KEY
    return fields


def _pinned_fields(pinned: PinnedDecoding) -> dict[str, Any]:
    """Those of values stand beside the commit, as they did before keys were decoded."""
    values = {"format": None} if pinned.decoding is None else _decoding_fields(pinned.decoding)
    fields: dict[str, Any] = {"since_commit": pinned.since_commit, **values}
    if pinned.key is not None:
        fields["key"] = _decoding_fields(pinned.key)
    if pinned.header:
        fields["header"] = pinned.header
    return fields


def _decoding_fields(decoding: Decoding) -> dict[str, Any]:
    return {
        "format": decoding.format.value,
        "schema": decoding.schema,
        "confluent": decoding.confluent,
        "schema_id": decoding.schema_id,
        "registry": decoding.registry,
        "subject": decoding.subject,
        "message": decoding.message,
        "envelope": decoding.envelope.value,
        "is_rescuing": decoding.is_rescuing,
    }


def partitioning_fields(partitioning: Partitioning | None) -> dict[str, str] | None:
    if partitioning is None:
        return None
    return {"unit": partitioning.unit.value, "column": partitioning.column}


def parse_partitioning(fields: Mapping[str, Any] | None) -> Partitioning | None:
    """The inverse; raises as `parse_layout` does."""
    if fields is None:
        return None
    return Partitioning(unit=PartitionUnit(fields["unit"]), column=str(fields["column"]))


def parse_layout(fields: Mapping[str, Any]) -> TableLayout:
    """The inverse; raises `ValueError`, `TypeError` or `KeyError` for anything else."""
    return TableLayout(
        decodings=tuple(_parse_pinned(one) for one in fields["decodings"]),
        partitioning=parse_partitioning(fields["partitioning"]),
        is_latest=fields.get("upsert_by") == UPSERT_KEY,
    )


def _parse_pinned(fields: Mapping[str, Any]) -> PinnedDecoding:
    key = fields.get("key")
    return PinnedDecoding(
        since_commit=int(fields["since_commit"]),
        decoding=None if fields["format"] is None else _parse_decoding(fields),
        key=None if key is None else _parse_decoding(key),
        header=str(fields.get("header", "")),
    )


def _parse_decoding(fields: Mapping[str, Any]) -> Decoding:
    schema_id = fields["schema_id"]
    return Decoding(
        format=ValueFormat(fields["format"]),
        schema=str(fields["schema"]),
        confluent=bool(fields["confluent"]),
        schema_id=None if schema_id is None else int(schema_id),
        registry=str(fields.get("registry", "")),
        subject=str(fields.get("subject", "")),
        message=str(fields.get("message", "")),
        envelope=Envelope(fields.get("envelope", Envelope.NONE.value)),
        is_rescuing=bool(fields.get("is_rescuing", False)),
    )


def check_partitioning(layout: TableLayout) -> None:
    """Raises `UserError` unless the column is the record's time, or a timestamp in its value."""
    import pyarrow.types as types

    if layout.partitioning is None or layout.partitioning.column == TIMESTAMP_COLUMN:
        return
    kind = None if layout.decoding is None else open_decoder(layout.decoding).type
    kind = _field_type(kind, layout.partitioning.column)
    if kind is None or not types.is_timestamp(kind):
        raise UserError(
            f"--partition-field {layout.partitioning.column}: that is no timestamp of the rows; "
            f"there is timestamp, the record's, and what the values' schema calls so (value.at)"
        )


def _field_type(value: Any, path: str) -> Any:
    """The type of `value.at` in a struct `value`; `None` where there is no such field."""
    import pyarrow.types as types

    first, *names = path.split(".")
    kind = value if first == "value" else None
    for name in names:
        if kind is None or not types.is_struct(kind) or kind.get_field_index(name) < 0:
            return None
        kind = kind.field(name).type
    return kind


def _partitioning_text(partitioning: Partitioning | None) -> str:
    if partitioning is None:
        return "into no directories by time"
    return f"by {partitioning.unit.value} of {partitioning.column}"
