"""Statistics of columns as Iceberg's manifests have them: counts and bounds by field id."""

from collections.abc import Iterator, Sequence
from typing import Any

from pyiceberg.conversions import from_bytes, to_bytes
from pyiceberg.manifest import DataFile as IcebergFile
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, NestedField, PrimitiveType, StructType

from ottla.tables.columns.statistics import LeafStatistics, Path, shortened, shortened_bytes
from ottla.tables.entries import DataFile
from ottla.tables.formats.transaction_log import column_statistics

TEXT_SIZE = 16
"""The characters or bytes of the bounds of a text, as in Iceberg's writers."""


def metrics(schema: Schema, parts: Sequence[DataFile]) -> dict[str, Any]:
    """Bounds and counts of columns, by field id."""
    row_count = sum(one.row_count for one in parts)
    known = {
        field: one
        for path, one in column_statistics(parts).items()
        if isinstance((field := _field_at(schema, path)).field_type, PrimitiveType)
    }
    bounds = {
        field: found
        for field, one in known.items()
        if one.bounds and (found := _short_bounds(one.bounds)) is not None
    }
    return {
        "value_counts": {field.field_id: row_count for field in known},
        "null_value_counts": {field.field_id: one.null_count for field, one in known.items()},
        "nan_value_counts": {
            field.field_id: 0
            for field, one in known.items()
            if isinstance(field.field_type, FloatType | DoubleType) and not one.has_nan
        },
        "lower_bounds": {
            field.field_id: to_bytes(primitive(field), low) for field, (low, _) in bounds.items()
        },
        "upper_bounds": {
            field.field_id: to_bytes(primitive(field), up) for field, (_, up) in bounds.items()
        },
    }


def leaves_of(path: Path, fields: Sequence[NestedField]) -> Iterator[tuple[Path, NestedField]]:
    for field in fields:
        if isinstance(field.field_type, StructType):
            yield from leaves_of((*path, field.name), field.field_type.fields)
        elif isinstance(field.field_type, PrimitiveType):
            yield (*path, field.name), field


def parsed_statistics(
    file: IcebergFile, leaves: Sequence[tuple[Path, NestedField]]
) -> dict[Path, LeafStatistics]:
    """The statistics of a file, of any writer."""
    nulls = file.null_value_counts or {}
    lows, ups = file.lower_bounds or {}, file.upper_bounds or {}
    return {
        path: LeafStatistics(
            null_count=nulls[field.field_id],
            bounds=(
                from_bytes(primitive(field), lows[field.field_id]),
                from_bytes(primitive(field), ups[field.field_id]),
            )
            if field.field_id in lows and field.field_id in ups
            else None,
        )
        for path, field in leaves
        if field.field_id in nulls
    }


def _short_bounds(bounds: tuple[Any, Any]) -> tuple[Any, Any] | None:
    if isinstance(bounds[0], str):
        return shortened(bounds, TEXT_SIZE)
    return shortened_bytes(bounds, TEXT_SIZE) if isinstance(bounds[0], bytes) else bounds


def _field_at(schema: Schema, path: Path) -> NestedField:
    """The field of a leaf column, whose names may have dots."""
    fields = schema.fields
    for name in path:
        field = next(one for one in fields if one.name == name)
        fields = getattr(field.field_type, "fields", ())
    return field


def primitive(field: NestedField) -> PrimitiveType:
    assert isinstance(field.field_type, PrimitiveType)
    return field.field_type
