"""The layout of a table's rows, which the first load pins.

A table is raw or decoded, with or without directories by time. Later loads need not repeat the
options; different ones are an error, except that a schema may grow
(`values.schema.check_evolution`). Each schema is stored with the commit from which it was used.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from ottla.base.errors import UserError
from ottla.base.values import dataclass
from ottla.schema_registry.registry import RegistryLogin
from ottla.tables.columns.flat import check_flat, flat_schema
from ottla.tables.columns.identity import RowOrder, Upsert, row_order
from ottla.tables.columns.partitions import (
    Partitioning,
    parse_partitioning_fields,
    partitioning_fields,
    placed,
)
from ottla.tables.columns.rows import history_columns, row_columns
from ottla.tables.columns.statistics import is_named, leaf_paths
from ottla.tables.entries import DataFile, FileRole
from ottla.tables.values.decoder import Decoding, Envelope, ValueFormat
from ottla.tables.values.opening import check_decoding
from ottla.tables.values.projection import (
    Projection,
    continued,
    parse_projection,
    projection_fields,
)
from ottla.tables.values.record_decoder import RecordDecoder, RecordDecoding, decoded_types
from ottla.tables.values.schema import check_evolution, schema_text, type_text

UPSERT_KEY = "key"
"""Rows are updated by the record's key, as in Kafka's compaction."""


def table_schema(value: str = "binary", key: str = "binary", header: str = "") -> str:
    """The columns that a load writes, in Spark's notation: the record and its origin."""
    of_headers = f"header {header}, " if header else ""
    return (
        f"key {key}, value {value}, partition int, offset bigint, timestamp timestamp, "
        f"timestamp_type int, headers array<struct<key: string, value: binary>>, {of_headers}"
        f"topic string, commit_id bigint"
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedDecoding:
    """How values, keys and headers are decoded from a commit on."""

    since_commit: int
    record: RecordDecoding


@dataclass(frozen=True, slots=True, kw_only=True)
class TableLayout:
    """The layout of a table; without `decodings` keys and values are loaded as bytes."""

    decodings: tuple[PinnedDecoding, ...] = ()
    partitioning: Partitioning | None = None
    """Not placed yet while the schema is to be inferred."""
    upsert: Upsert | None = None
    """How rows replace each other; `None` in a table with a row for each record."""
    has_change_feed: bool = False
    """Whether commits say which rows they changed, in Delta's change data feed."""
    is_flat: bool = False
    """Whether the fields of values are columns (`columns.flat`)."""
    statistics: tuple[str, ...] = ()
    """The columns of which the table's log has bounds (`value.id`); empty: the first ones."""

    @property
    def decoding(self) -> Decoding | None:
        """The current decoding of values."""
        return self.record_decoding.value

    @property
    def is_latest(self) -> bool:
        """Whether rows are merged by key: the latest of each, or with `is_history` all."""
        return self.upsert is not None

    @property
    def order(self) -> RowOrder | None:
        """How rows are told apart and ordered; `None` in a table with a row for each record.

        Raises `UserError` for columns that the table lacks.
        """
        if self.upsert is None:
            return None
        return row_order(self.upsert, row_columns(self.decoded_types), is_flat=self.is_flat)

    @property
    def record_decoding(self) -> RecordDecoding:
        return self.decodings[-1].record if self.decodings else RecordDecoding()

    @property
    def is_inferred(self) -> bool:
        """Whether the schema must still be inferred from the first records."""
        return self.decoding is not None and not self.decoding.schema

    @property
    def decoded_types(self) -> Mapping[str, Any]:
        """The Arrow types of decoded columns, by name."""
        return decoded_types(self.record_decoding)

    @property
    def has_struct_keys(self) -> bool:
        import pyarrow.types as types

        return bool("key" in self.decoded_types and types.is_struct(self.decoded_types["key"]))

    @property
    def row_schema(self) -> str:
        """The columns of files in Spark's notation."""
        if self.is_flat or (self.upsert is not None and self.upsert.is_history):
            return schema_text(self.stored_columns)
        return table_schema(**{name: type_text(one) for name, one in self.decoded_types.items()})

    @property
    def stored_columns(self) -> Any:
        """The columns of files, as a schema of Arrow."""
        return flat_schema(self.columns) if self.is_flat else self.columns

    @property
    def columns(self) -> Any:
        """The columns of rows."""
        import pyarrow as pa

        rows, order = row_columns(self.decoded_types), self.order
        if order is None or order.history is None:
            return rows
        return pa.schema([*rows, *history_columns(order.history)])

    def record_decoding_of(self, commit_id: int) -> RecordDecoding:
        used = [one.record for one in self.decodings if one.since_commit <= commit_id]
        return used[-1] if used else RecordDecoding()


RAW = TableLayout()


@dataclass(frozen=True, slots=True, kw_only=True)
class LayoutOptions:
    """The layout that a load requests; `None` keeps the table's, or means none for a new table."""

    is_raw: bool = False
    decoding: Decoding | None = None
    """With an empty schema, JSON's is inferred from the first records, and later the table's is
    used.
    """
    key: Decoding | None = None
    header: str = ""
    """The columns of headers in Spark's notation; empty keeps the table's."""
    projection: Projection | None = None
    is_flat: bool | None = None
    partitioning: Partitioning | None = None
    has_transforms: bool = False
    """Whether the table's format has transforms of its own, and may change them."""
    upsert: Upsert | None = None
    has_change_feed: bool = False
    statistics: tuple[str, ...] | None = None
    is_growing: bool = False
    """Whether JSON fields that are not in the schema become columns."""
    login: RegistryLogin | None = None
    """The login for the schema registry; never stored."""


def first_layout(asked: LayoutOptions) -> TableLayout:
    """The layout of a new table; raises `UserError` for an impossible one."""
    decodings: tuple[PinnedDecoding, ...] = ()
    wanted = RecordDecoding(
        value=asked.decoding, key=asked.key, header=asked.header, projection=asked.projection
    )
    if not wanted.is_raw:
        decodings = (PinnedDecoding(since_commit=0, record=wanted),)
        for one in (asked.decoding, asked.key):
            if one is not None:
                check_decoding(one)
    if asked.upsert is not None and not asked.upsert.key and asked.key is not None:
        raise UserError(
            "--upsert-by key updates rows by the bytes of their keys: leave out --decode-key, or "
            "name fields: --upsert-by key.id"
        )
    layout = TableLayout(
        decodings=decodings,
        partitioning=_asked_partitioning(asked),
        upsert=asked.upsert,
        has_change_feed=asked.has_change_feed,
        is_flat=bool(asked.is_flat),
        statistics=asked.statistics or (),
    )
    if layout.is_inferred:
        return layout
    RecordDecoder(layout.record_decoding)
    return settled_layout(layout)


def next_layout(pinned: TableLayout, asked: LayoutOptions, commit_id: int) -> TableLayout:
    """The layout from a commit on; raises `UserError` for a change that is not allowed."""
    _check_upsert(pinned, asked)
    if asked.is_flat not in (None, pinned.is_flat):
        columns = "flat" if pinned.is_flat else "struct"
        raise UserError(
            f"the table was loaded with --columns {columns}, which cannot change (leave out "
            f"--columns, or load into another directory)"
        )
    if asked.is_raw and pinned.decoding is not None:
        raise UserError(
            f"the table's values are decoded as {pinned.decoding.format.value}; "
            f"load raw ones into another directory"
        )
    has = pinned.record_decoding
    if asked.statistics is not None:
        # They are no part of the rows, so they may change at any commit.
        pinned = replace(pinned, statistics=asked.statistics)
    now = RecordDecoding(
        value=_next_decoding(has.value, asked.decoding, "values"),
        key=_next_decoding(has.key, asked.key, "keys"),
        header=asked.header or has.header,
        projection=continued(has.projection, asked.projection),
    )
    if now == has:
        check_statistics(pinned)
        return _repartitioned(pinned, asked)
    before, after = decoded_types(has), decoded_types(now)
    for name in before:
        check_evolution(before[name], after[name], name)
    decodings = tuple(one for one in pinned.decodings if one.since_commit < commit_id)
    new = PinnedDecoding(since_commit=commit_id, record=now)
    found = replace(pinned, decodings=(*decodings, new))
    _check_flat(found)
    _check_directories(found)
    check_statistics(found)
    _check_order(found)
    return _repartitioned(found, asked)


def _check_upsert(pinned: TableLayout, asked: LayoutOptions) -> None:
    """Raises `UserError` if rows are to replace each other otherwise than they do."""
    if asked.has_change_feed and not pinned.has_change_feed:
        raise UserError(
            "the table has no change feed, as its first load asked for none: leave out "
            "--change-feed, or load into another directory"
        )
    if asked.upsert in (None, pinned.upsert):
        return
    has = "a row for each record"
    if pinned.upsert is not None:
        what = "all rows" if pinned.upsert.is_history else "the latest row"
        has = f"{what} of each key ({' '.join(upsert_words(pinned.upsert))})"
    raise UserError(
        f"the table has {has}, which cannot change (leave out --upsert-by, or load into another "
        f"directory)"
    )


def upsert_words(upsert: Upsert) -> list[str]:
    """The options of `ottla load` for it."""
    version = ["--version-by", upsert.version] if upsert.version else []
    deletes = ["--delete-when", repr(upsert.delete_when)] if upsert.delete_when else []
    history = ["--history"] if upsert.is_history else []
    return ["--upsert-by", ",".join(upsert.key) or UPSERT_KEY, *version, *deletes, *history]


def _check_order(layout: TableLayout) -> None:
    """Raises `UserError` if rows cannot be told apart, or ordered, by the columns named."""
    if not layout.is_inferred:
        layout.order  # noqa: B018


def _repartitioned(layout: TableLayout, asked: LayoutOptions) -> TableLayout:
    """The layout with the requested partitioning; raises `UserError` if it cannot change."""
    if asked.partitioning is None:
        return layout
    is_spec = layout.partitioning is not None and layout.partitioning.is_spec
    if _placed(asked.partitioning, layout, is_spec=is_spec) == layout.partitioning:
        return layout
    if not asked.has_transforms:
        has = layout.partitioning
        words = "not partitioned" if has is None else f"partitioned by {has.text}"
        raise UserError(
            f"the table's files are {words}, which cannot change (leave out --partition-by, or "
            f"load into another directory)"
        )
    return replace(layout, partitioning=_placed(asked.partitioning, layout, is_spec=True))


def _placed(asked: Partitioning, layout: TableLayout, *, is_spec: bool) -> Partitioning:
    rows = layout.columns
    return placed(asked, rows, is_spec=is_spec, names=layout.stored_columns.names)


def _next_decoding(has: Decoding | None, asked: Decoding | None, what: str) -> Decoding | None:
    """The decoding of a table's values or keys from now on; raises `UserError`."""
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
            f"the table's {what} are {words}, which cannot change; load into another directory for "
            f"{wanted.format.value}"
        )
    if wanted.envelope is not has.envelope:
        raise UserError(
            f"the table was loaded with --envelope {has.envelope.value}, which "
            f"cannot change; load into another directory for --envelope {wanted.envelope.value}"
        )
    check_decoding(wanted)
    return wanted


def layout_fields(layout: TableLayout) -> dict[str, Any]:
    """The layout as JSON fields, as in the ledger."""
    fields: dict[str, Any] = {
        "decodings": [_pinned_fields(one) for one in layout.decodings],
        "partitioning": None,
    }
    if layout.partitioning is not None:
        fields["partitioning"] = partitioning_fields(layout.partitioning)
    if layout.upsert is not None:
        fields |= _upsert_fields(layout.upsert)
    if layout.has_change_feed:
        fields["has_change_feed"] = True
    if layout.is_flat:
        fields["columns"] = "flat"
    if layout.statistics:
        fields["statistics"] = list(layout.statistics)
    return fields


def _upsert_fields(upsert: Upsert) -> dict[str, Any]:
    fields: dict[str, Any] = {"upsert_by": list(upsert.key) or UPSERT_KEY}
    if upsert.version:
        fields["version_by"] = upsert.version
    if upsert.delete_when:
        fields["delete_when"] = upsert.delete_when
    if upsert.is_history:
        fields["is_history"] = True
    return fields


def _parse_upsert(fields: Mapping[str, Any]) -> Upsert | None:
    by = fields.get("upsert_by")
    if by is None:
        return None
    return Upsert(
        key=() if by == UPSERT_KEY else tuple(map(str, by)),
        version=str(fields.get("version_by", "")),
        delete_when=str(fields.get("delete_when", "")),
        is_history=bool(fields.get("is_history", False)),
    )


def _pinned_fields(pinned: PinnedDecoding) -> dict[str, Any]:
    return {
        "since_commit": pinned.since_commit,
        "value": _decoding_fields(pinned.record.value),
        "key": _decoding_fields(pinned.record.key),
        "header": pinned.record.header,
        "projection": projection_fields(pinned.record.projection),
    }


def _decoding_fields(decoding: Decoding | None) -> dict[str, Any] | None:
    if decoding is None:
        return None
    names = {"format": decoding.format.value, "envelope": decoding.envelope.value}
    return {**asdict(decoding), **names}


def parse_layout(fields: Mapping[str, Any]) -> TableLayout:
    """The inverse of `layout_fields`; raises `ValueError`, `TypeError` or `KeyError`."""
    parted = fields["partitioning"]
    return TableLayout(
        decodings=tuple(_parse_pinned(pinned) for pinned in fields["decodings"]),
        partitioning=None if parted is None else parse_partitioning_fields(parted),
        upsert=_parse_upsert(fields),
        has_change_feed=bool(fields.get("has_change_feed", False)),
        is_flat=fields.get("columns") == "flat",
        statistics=tuple(map(str, fields.get("statistics", ()))),
    )


def _parse_pinned(fields: Mapping[str, Any]) -> PinnedDecoding:
    record = RecordDecoding(
        value=_parse_decoding(fields["value"]),
        key=_parse_decoding(fields["key"]),
        header=str(fields["header"]),
        projection=parse_projection(fields.get("projection")),
    )
    return PinnedDecoding(since_commit=int(fields["since_commit"]), record=record)


def _parse_decoding(fields: Mapping[str, Any] | None) -> Decoding | None:
    if fields is None:
        return None
    schema_id = fields["schema_id"]
    return Decoding(
        format=ValueFormat(fields["format"]),
        schema=str(fields["schema"]),
        confluent=bool(fields["confluent"]),
        schema_id=None if schema_id is None else int(schema_id),
        registry=str(fields["registry"]),
        subject=str(fields["subject"]),
        message=str(fields["message"]),
        envelope=Envelope(fields["envelope"]),
        is_rescuing=bool(fields["is_rescuing"]),
    )


def _asked_partitioning(asked: LayoutOptions) -> Partitioning | None:
    if asked.partitioning is None:
        return None
    return replace(asked.partitioning, is_spec=asked.has_transforms)


def settled_layout(layout: TableLayout) -> TableLayout:
    """The layout of a new table, whose columns are known; raises `UserError` if they cannot be
    flat, partitioned or described so.
    """
    _check_flat(layout)
    check_statistics(layout)
    _check_order(layout)
    asked = layout.partitioning
    if asked is None:
        return layout
    return replace(layout, partitioning=_placed(asked, layout, is_spec=asked.is_spec))


def _check_flat(layout: TableLayout) -> None:
    if layout.is_flat:
        by = layout.partitioning
        taken = [] if by is None or by.is_spec else by.names
        check_flat(layout.decoded_types.get("value"), taken)
    elif layout.record_decoding.projection is not None and layout.decoding is None:
        raise UserError("--select, --rename and --cast are for decoded values: add --decode json")


def _check_directories(layout: TableLayout) -> None:
    """Raises `UserError` if a new column has the name of one that is in directories' names."""
    by = layout.partitioning
    if by is None or by.is_spec:
        return
    clash = next((name for name in layout.stored_columns.names if name in by.names), None)
    if clash is not None:
        raise UserError(
            f"a new column {clash} would have the name of the directories of --partition-by "
            f"{by.text}; load into another table"
        )


def is_placed(file: DataFile, partitioning: Partitioning | None) -> bool:
    """Whether a file is partitioned so, and not by an earlier layout of the table."""
    names = [] if partitioning is None else partitioning.names
    return file.role is not FileRole.ROWS or set(file.values) == set(names)


def check_statistics(layout: TableLayout) -> None:
    """Raises `UserError` if a column that is to have statistics is none of the rows."""
    if not layout.statistics or layout.is_inferred:
        return
    leaves = list(leaf_paths(layout.stored_columns))
    for name in layout.statistics:
        if not any(is_named(path, [name]) for path in leaves):
            raise UserError(
                f"--statistics {name}: the table has no such column outside of lists and maps; "
                f"name columns and fields such as timestamp, value.id or value.customer"
            )
