"""What the rows of a table look like: pinned in its marker by the first load, and kept since.

A table is raw or decoded, and its files lie in directories by time or do not. Later loads need not
say so again; one that says otherwise is refused, except that a schema may grow
(`values.schema.check_evolution`). Each schema is kept with the commit from which it was used.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

from ottla.base.errors import UserError
from ottla.schema_registry.registry import RegistryLogin
from ottla.tables.values.decoder import (
    Decoding,
    Envelope,
    ValueFormat,
    check_decoding,
    open_decoder,
)
from ottla.tables.values.schema import check_evolution, type_text

TIMESTAMP_COLUMN = "timestamp"
UPSERT_KEY = "key"
"""By what rows are updated, where they are: by the record's key, as Kafka compacts."""


def table_schema(value_type: str = "binary") -> str:
    """What a load writes, in Spark's words: the record, and where it comes from."""
    return (
        f"key binary, value {value_type}, partition int, offset bigint, timestamp timestamp, "
        f"timestamp_type int, headers array<struct<key: string, value: binary>>, "
        f"topic string, commit_id bigint"
    )


class PartitionUnit(Enum):
    """Into what the files of a table are parted."""

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
    """How values are decoded from a commit on."""

    since_commit: int
    decoding: Decoding


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """No decodings: values are loaded as the bytes that they are."""

    decodings: tuple[PinnedDecoding, ...] = ()
    partitioning: Partitioning | None = None
    is_latest: bool = False
    """Whether the table has the latest row of each key, instead of a row for each record."""

    @property
    def decoding(self) -> Decoding | None:
        """The one in use."""
        return self.decodings[-1].decoding if self.decodings else None

    @property
    def is_inferred(self) -> bool:
        """Whether the schema is still to be found, from the first records."""
        return self.decoding is not None and not self.decoding.schema

    @property
    def value_type(self) -> str:
        """The type of the column `value`, in Spark's words."""
        decoding = self.decoding
        return "binary" if decoding is None else type_text(open_decoder(decoding).type)

    def decoding_of(self, commit_id: int) -> Decoding | None:
        """How that commit decoded its values."""
        used = [one.decoding for one in self.decodings if one.since_commit <= commit_id]
        return used[-1] if used else None


RAW = TableLayout()


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutOptions:
    """What a load asks for; `None`: what the table has, or for a new table nothing."""

    is_raw: bool = False
    decoding: Decoding | None = None
    """A schema that is empty: JSON's, from the first records, and later the table's own."""
    partitioning: Partitioning | None = None
    is_latest: bool = False
    login: RegistryLogin | None = None
    """For the registry of the schemas; it is kept nowhere."""


def first_layout(asked: LayoutOptions) -> TableLayout:
    """The layout of a new table; raises `UserError` when it cannot be had."""
    decodings: tuple[PinnedDecoding, ...] = ()
    if asked.decoding is not None:
        decodings = (PinnedDecoding(since_commit=0, decoding=asked.decoding),)
        check_decoding(asked.decoding)
    layout = TableLayout(
        decodings=decodings, partitioning=asked.partitioning, is_latest=asked.is_latest
    )
    if not layout.is_inferred:
        check_partitioning(layout)
    return layout


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
    wanted = asked.decoding
    if wanted is None or wanted == pinned.decoding:
        if pinned.decoding is not None:
            check_decoding(pinned.decoding)
        return pinned
    if not wanted.schema and pinned.decoding is not None:
        return next_layout(pinned, replace(asked, decoding=_named(wanted, pinned)), commit_id)
    if pinned.decoding is None or pinned.decoding.format is not wanted.format:
        has = "raw" if pinned.decoding is None else f"decoded as {pinned.decoding.format.value}"
        raise UserError(
            f"the table's values are {has}, and stay so; load into another directory to have "
            f"{wanted.format.value}"
        )
    if wanted.envelope is not pinned.decoding.envelope:
        raise UserError(
            f"the table was loaded with --envelope {pinned.decoding.envelope.value}, and that "
            f"stays so; load into another directory to have --envelope {wanted.envelope.value}"
        )
    check_decoding(wanted)
    check_evolution(open_decoder(pinned.decoding).type, open_decoder(wanted).type)
    before = tuple(one for one in pinned.decodings if one.since_commit < commit_id)
    now = PinnedDecoding(since_commit=commit_id, decoding=wanted)
    return replace(pinned, decodings=(*before, now))


def _named(wanted: Decoding, pinned: TableLayout) -> Decoding:
    assert pinned.decoding is not None
    return replace(wanted, schema=pinned.decoding.schema, message=pinned.decoding.message)


def layout_fields(layout: TableLayout) -> dict[str, Any]:
    """As the marker has it."""
    fields: dict[str, Any] = {
        "decodings": [
            {
                "since_commit": one.since_commit,
                "format": one.decoding.format.value,
                "schema": one.decoding.schema,
                "confluent": one.decoding.confluent,
                "schema_id": one.decoding.schema_id,
                "registry": one.decoding.registry,
                "subject": one.decoding.subject,
                "message": one.decoding.message,
                "envelope": one.decoding.envelope.value,
                "is_rescuing": one.decoding.is_rescuing,
            }
            for one in layout.decodings
        ],
        "partitioning": partitioning_fields(layout.partitioning),
    }
    if layout.is_latest:
        fields["upsert_by"] = UPSERT_KEY
    return fields


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
    schema_id = fields["schema_id"]
    return PinnedDecoding(
        since_commit=int(fields["since_commit"]),
        decoding=Decoding(
            format=ValueFormat(fields["format"]),
            schema=str(fields["schema"]),
            confluent=bool(fields["confluent"]),
            schema_id=None if schema_id is None else int(schema_id),
            registry=str(fields.get("registry", "")),
            subject=str(fields.get("subject", "")),
            message=str(fields.get("message", "")),
            envelope=Envelope(fields.get("envelope", Envelope.NONE.value)),
            is_rescuing=bool(fields.get("is_rescuing", False)),
        ),
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
