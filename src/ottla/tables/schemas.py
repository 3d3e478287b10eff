"""The schemas of a table's values and keys: given, of a registry, or of the first records."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.base.errors import UserError
from ottla.schema_registry.framing import PREFIX
from ottla.schema_registry.opening import open_registry
from ottla.schema_registry.registry import JSON, RegisteredSchema, RegistryLogin
from ottla.tables.layout import (
    LayoutOptions,
    TableLayout,
    first_layout,
    next_layout,
    settled_layout,
)
from ottla.tables.ledger.ledger import TableState
from ottla.tables.values.debezium import bare_row
from ottla.tables.values.decoder import Decoding, Envelope, ValueFormat
from ottla.tables.values.inference import infer_schema, with_inferred_fields
from ottla.tables.values.json_schema import is_json_schema, json_schema_type
from ottla.tables.values.schema import parse_schema, schema_text

if TYPE_CHECKING:
    import pyarrow as pa


def given_schema(given: str, value_format: ValueFormat, read: Callable[[str], str]) -> str:
    """A schema in the form that tables use. It is given as text, or by the path of a file; `read`
    returns the text in both cases. Raises `UserError`.
    """
    if value_format is ValueFormat.PROTOBUF:
        from ottla.schema_registry.protobuf_schemas import descriptor_set
        from ottla.tables.values.protobuf_values import schema_of

        return schema_of(descriptor_set(Path(given)))
    schema = read(given)
    if value_format is ValueFormat.AVRO:
        from ottla.schema_registry.avro_schemas import avro_schema, parsed

        parsed(avro_schema(RegisteredSchema(text=schema)))
    if value_format is not ValueFormat.JSON:
        return schema
    if is_json_schema(schema):
        return schema_text(json_schema_type(RegisteredSchema(text=schema, kind=JSON)))
    return schema_text(parse_schema(schema))


def header_columns(given: str) -> str:
    """The columns of headers in the form that tables use; raises `UserError`."""
    return schema_text(parse_schema(given))


def requested_layout(state: TableState, asked: LayoutOptions, topic: str) -> TableLayout:
    """The layout from the next commit on; a schema is still empty if it is to be inferred.

    Raises `UserError` for an impossible layout, or a change that is not allowed.
    """
    asked = with_registered_schema(asked, state.layout, topic)
    if state.commit_count:
        if asked.is_growing:
            # It may name fields that the first records have: see `_grown`.
            asked = replace(asked, projection=None)
        return next_layout(state.layout, asked, state.commit_count)
    return first_layout(asked)


def with_registered_schema(asked: LayoutOptions, pinned: TableLayout, topic: str) -> LayoutOptions:
    """The requested layout with the registry's schema, unless a schema was given: the union of all
    registered versions, for values that carry schema ids.

    A table with a registry's schema grows with it at each load. Raises `UserError`.
    """
    values = None if asked.is_raw else pinned.decoding
    return replace(
        asked,
        decoding=_of_subject(asked.decoding, values, f"{topic}-value", asked.login),
        key=_of_subject(asked.key, pinned.record_decoding.key, f"{topic}-key", asked.login),
    )


def _of_subject(
    asked: Decoding | None, has: Decoding | None, subject: str, login: RegistryLogin | None
) -> Decoding | None:
    decoding = asked
    if decoding is None and has is not None and has.subject:
        decoding = replace(has, schema="")
    if decoding is None or not decoding.registry or decoding.schema:
        return decoding
    from ottla.tables.values.registered import with_schema_of_subject

    named = replace(decoding, subject=decoding.subject or subject)
    return with_schema_of_subject(named, open_registry(decoding.registry, login))


def needs_sample(layout: TableLayout, asked: LayoutOptions) -> bool:
    """Whether `sampled_layout` depends on the sample."""
    return layout.is_inferred or asked.is_growing


def sampled_layout(
    layout: TableLayout, asked: LayoutOptions, sample: "pa.Table", commit_id: int
) -> TableLayout:
    """The layout with what the first records say: a schema, if it is to be inferred, and new fields
    of JSON, if it is to grow. `sample` is in columns of `record.columns`.

    Raises `UserError` if no schema can be inferred from them, or the table cannot grow.
    """
    if layout.is_inferred:
        return _inferred(layout, sample)
    return _grown(layout, asked, sample, commit_id) if asked.is_growing else layout


def _inferred(layout: TableLayout, sample: "pa.Table") -> TableLayout:
    (pinned,) = layout.decodings
    assert layout.decoding is not None
    values = _bare(sample["value"].to_pylist(), layout.decoding)
    decoding = replace(layout.decoding, schema=schema_text(infer_schema(values)))
    record = replace(pinned.record, value=decoding)
    found = replace(layout, decodings=(replace(pinned, record=record),))
    return settled_layout(found)


def _grown(
    layout: TableLayout, asked: LayoutOptions, sample: "pa.Table", commit_id: int
) -> TableLayout:
    decoding = layout.decoding
    if decoding is None or decoding.format is not ValueFormat.JSON or decoding.registry:
        raise UserError(
            "--grow is for JSON without a registry: with one, columns follow the subject; a given "
            "schema grows when another one is given"
        )
    values = _bare(sample["value"].to_pylist(), decoding)
    kind = with_inferred_fields(parse_schema(decoding.schema), values)
    wanted = replace(decoding, schema=schema_text(kind))
    grown = LayoutOptions(decoding=wanted, projection=asked.projection)
    return next_layout(layout, grown, commit_id)


def _bare(values: list[bytes | None], decoding: Decoding) -> Iterable[bytes | None]:
    if decoding.confluent:
        values = [None if value is None else value[PREFIX.size :] for value in values]
    if decoding.envelope is Envelope.DEBEZIUM:
        values = [bare_row(value) for value in values]
    return values
