"""Metadata logs of Kafka: read as its own tool reads them, and written back the same."""

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.base.ids import parse_uuid
from ottla.codec.api_messages import encode_record
from ottla.codec.fields import Field
from ottla.codec.schema import Message, Struct
from ottla.metadata.control import (
    CONTROL_RECORDS,
    control_key,
    decode_control_record,
    encode_control_record,
)
from ottla.metadata.records import decode_record
from ottla.record.batch import RecordBatch, iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import control_type
from ottla.record.record import Record, read_records
from tests.golden.directories import GOLDEN
from tests.support import SHARED

RECORDED = SHARED / "recorded" / "kraft-metadata" if SHARED else Path("no recorded directory")
FILES = sorted(
    path
    for folder in (RECORDED / "logdir", GOLDEN / "cluster-metadata" / "logdir")
    for pattern in (
        "__cluster_metadata-0/*.log",
        "__cluster_metadata-0/*.checkpoint",
        "*.checkpoint",
    )
    for path in folder.glob(pattern)
)

each_file = pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
pytestmark = pytest.mark.skipif(not FILES, reason="needs the shared metadata logs")


def test_there_are_logs_a_snapshot_and_bootstrap_records() -> None:
    assert {path.suffix for path in FILES} == {".log", ".checkpoint"}
    assert len(FILES) == 5


@each_file
def test_every_batch_is_written_back_byte_by_byte(path: Path) -> None:
    content = path.read_bytes()
    again = b"".join(rebuilt(batch) for batch in iter_batches(content))
    assert again == content


def rebuilt(batch: Any) -> bytes:
    """The batch rebuilt from what its records say."""
    assert isinstance(batch, RecordBatch)
    builder = RecordBatchBuilder(
        batch.base_offset,
        is_control=batch.is_control,
        leader_epoch=batch.partition_leader_epoch,
        compression=batch.compression,
    )
    for record in read_records(batch):
        key, value = reencoded(record, is_control=batch.is_control)
        builder.append_at(record.offset, key, value, record.timestamp_ms, record.headers)
    return builder.build()


def reencoded(record: Record, *, is_control: bool) -> tuple[bytes | None, bytes]:
    assert record.value is not None
    if not is_control:
        assert record.key is None
        return None, encode_record(*decode_record(record.value))
    kind = control_type(record.key)
    assert kind in CONTROL_RECORDS
    control = decode_control_record(kind, record.value)
    return control_key(control), encode_control_record(control)


def test_records_say_what_kafkas_dump_tool_says() -> None:
    told = re.findall(r"payload: (\{.*\})", (RECORDED / "metadata-dump.txt").read_text())
    files = {path.name: path for path in FILES if RECORDED in path.parents}
    order = ["00000000000000000000.log", "00000000000000000123-0000000001.checkpoint"]
    order.append("bootstrap.checkpoint")
    mine = [one for name in order for one in metadata_records(files[name])]
    assert len(mine) == len(told)
    for (record, version), line in zip(mine, told, strict=True):
        payload = json.loads(line)
        assert payload["type"] == screaming(type(record).__name__)
        assert payload["version"] == version
        check_struct(record, payload["data"])


def metadata_records(path: Path) -> Iterator[tuple[Message, int]]:
    for batch in iter_batches(path.read_bytes()):
        if not batch.is_control:
            for record in read_records(batch):
                assert record.value is not None
                yield decode_record(record.value)


def screaming(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()


def check_struct(struct: Struct, data: dict[str, Any]) -> None:
    """Every field as in Kafka's JSON, which leaves out tagged fields of the default value."""
    names = {camel(field.name): field for field in struct.FIELDS}
    assert set(data) <= set(names)
    for name, field in names.items():
        value = getattr(struct, field.name)
        if name in data:
            check_value(field, value, data[name])
        else:
            assert value == (list(field.default) if field.default == () else field.default)


def check_value(field: Field, value: Any, told: Any) -> None:
    if field.kind == "nested":
        check_struct(value, told)
    elif field.struct is not None:
        for one, data in zip(value, told, strict=True):
            check_struct(one, data)
    elif value is not None and "uuid" in (field.kind, field.element and field.element.kind):
        texts = told if isinstance(value, list) else [told]
        assert (value if isinstance(value, list) else [value]) == list(map(parse_uuid, texts))
    elif field.kind == "binary" and told is not None:
        assert value == base64.b64decode(told)
    else:
        assert value == told


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
