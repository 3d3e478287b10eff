"""Values by their Avro schemas, alone and as schema registries frame them."""

from typing import Any

import pytest

import ottla

pytest.importorskip("fastavro")

ORDER: dict[str, Any] = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "tea", "type": "int"}, {"name": "table", "type": ["null", "string"]}],
}
VALUE = {"tea": 2, "table": "by the window"}


def test_what_was_written_by_a_schema_is_read_by_it() -> None:
    data = ottla.AvroSerializer(ORDER)(VALUE)
    assert ottla.AvroDeserializer(ORDER)(data) == VALUE


def test_the_framing_of_registries_is_written_and_read() -> None:
    data = ottla.AvroSerializer(ORDER, schema_id=7)(VALUE)
    assert data[:5] == b"\x00\x00\x00\x00\x07"
    assert ottla.AvroDeserializer(ORDER, is_registered=True)(data) == VALUE


def test_schemas_are_asked_for_by_their_ids_once() -> None:
    asked = []

    def find(schema_id: int) -> dict[str, Any]:
        asked.append(schema_id)
        return ORDER

    deserialize = ottla.AvroDeserializer(find)
    data = ottla.AvroSerializer(ORDER, schema_id=7)(VALUE)
    assert [deserialize(data), deserialize(data)] == [VALUE, VALUE]
    assert asked == [7]


def test_bytes_without_the_framing_are_refused_with_their_offset() -> None:
    with ottla.open(":memory:") as log:
        log.create_topic("orders")
        log.append("orders", b"tea")
        deserialize = ottla.AvroDeserializer(ORDER, is_registered=True)
        refused = pytest.raises(ottla.UserError, match="offset 0 is not readable: it does not beg")
        with ottla.SimpleConsumer(log, value_deserializer=deserialize) as consumer, refused:
            consumer.fetch("orders")
