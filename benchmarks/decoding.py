"""Values of a topic as columns: processor time of a record in each format that a load decodes."""

import json
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa

from benchmarks.measuring import Scale
from benchmarks.report import Report, add_figure, figures_report
from ottla.schema_registry.framing import PREFIX
from ottla.schema_registry.protobuf_schemas import MessageTypes, compiled, message_class
from ottla.tables.values.decoder import Decoding, ValueDecoder, ValueFormat
from ottla.tables.values.opening import open_decoder
from ottla.tables.values.protobuf_values import schema_of

RECORDS = 20_000
"""Of a batch, about as many as a task decodes at once."""

COLUMNS = "id bigint, price double, name string, ok boolean, tags array<string>, who struct<x: int>"
WITH_MAP = f"{COLUMNS}, more map<string, bigint>"
AVRO = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "price", "type": "double"},
            {"name": "name", "type": "string"},
            {"name": "ok", "type": "boolean"},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {
                "name": "who",
                "type": {"type": "record", "name": "Who", "fields": [{"name": "x", "type": "int"}]},
            },
        ],
    }
)
PROTOBUF = """syntax = "proto3";
message Order {
  int64 id = 1; double price = 2; string name = 3; bool ok = 4; repeated string tags = 5;
  Who who = 6;
  message Who { int32 x = 1; }
}
"""


def run(scale: Scale) -> Iterator[Report]:
    orders = [_order(number) for number in range(scale.of(RECORDS, 50))]
    with tempfile.TemporaryDirectory(prefix="ottla-bench-", dir=scale.directory) as directory:
        (Path(directory) / "1.avsc").write_text(AVRO)
        (Path(directory) / "2.proto").write_text(PROTOBUF)
        contestants = _contestants(orders, directory)
        report = figures_report(f"{len(orders):,} orders of six fields, as columns")
        for name, samples in scale.sampled(contestants).items():
            add_figure(report, name, samples, "us a record")
    yield report


def _order(number: int) -> dict[str, Any]:
    return {
        "id": number,
        "price": number / 7,
        "name": f"order {number}",
        "ok": bool(number % 2),
        "tags": ["green", "hot"],
        "who": {"x": number % 100},
    }


def _contestants(orders: list[dict[str, Any]], registry: str) -> dict[str, Callable[[], float]]:
    as_json = [json.dumps(one).encode() for one in orders]
    with_more = [json.dumps({**one, "note": "x", "more": {"a": 1}}).encode() for one in orders]
    avro = [_avro(one) for one in orders]
    descriptors = compiled(PROTOBUF, {})
    make = message_class(MessageTypes(descriptors).named("Order"))
    protobuf = [make(**one).SerializeToString() for one in orders]
    named = schema_of(descriptors)

    def decoding(value_format: ValueFormat, schema: str, **more: Any) -> ValueDecoder:
        return open_decoder(Decoding(format=value_format, schema=schema, **more))

    json_of = partial(decoding, ValueFormat.JSON)
    avro_of = partial(decoding, ValueFormat.AVRO, AVRO)
    protobuf_of = partial(decoding, ValueFormat.PROTOBUF, named, message="Order")
    pairs: dict[str, tuple[ValueDecoder, list[bytes]]] = {
        "JSON": (json_of(COLUMNS), as_json),
        "JSON, unknown fields kept, but there are none": (
            json_of(COLUMNS, is_rescuing=True),
            as_json,
        ),
        "JSON, two unknown fields in each record, which are kept": (
            json_of(COLUMNS, is_rescuing=True),
            with_more,
        ),
        "JSON with a map": (json_of(WITH_MAP), with_more),
        "Avro": (avro_of(), avro),
        "Avro, schema id in each record": (
            avro_of(registry=registry),
            [PREFIX.pack(0, 1) + one for one in avro],
        ),
        "Protobuf": (protobuf_of(), protobuf),
        "Protobuf, schema id in each record": (
            protobuf_of(registry=registry),
            [PREFIX.pack(0, 2) + b"\0" + one for one in protobuf],
        ),
    }
    return {
        name: partial(_microseconds, decoder, pa.array(values, pa.binary()))
        for name, (decoder, values) in pairs.items()
    }


def _avro(order: dict[str, Any]) -> bytes:
    stream = BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(AVRO)), order)
    return stream.getvalue()


def _microseconds(decoder: ValueDecoder, values: Any) -> float:
    """Processor time of one value, of all threads."""
    started = time.process_time()
    found = decoder.decode(values)
    taken = time.process_time() - started
    assert not found.faults
    return taken / len(values) * 1e6
