"""Arrow columns: the shapes, the edges of the range, and what is refused."""

import pyarrow as pa
import pytest

from ottla.record import columns, scan
from ottla.record.batch import InvalidBatchError, iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.record.legacy import build_message


def batch_of(*values: bytes | None, base_offset: int = 0) -> bytes:
    builder = RecordBatchBuilder(base_offset)
    for number, value in enumerate(values):
        builder.append(b"k%d" % number, value, 1000 + number, [("h", value)])
    return builder.build()


def test_no_batches_give_no_rows() -> None:
    found = columns.decode_columns(b"", ("offset", "headers"))
    assert found.num_rows == 0
    assert found.schema.names == ["offset", "headers"]
    assert list(columns.iter_columns(b"")) == []


def test_the_columns_have_the_types_that_are_listed() -> None:
    found = columns.decode_columns(batch_of(b"a", None))
    found.validate(full=True)
    assert [str(one.type) for one in found.schema][:5] == [
        "int64",
        "int64",
        "int32",
        "binary",
        "binary",
    ]
    assert found.schema.field("headers").type == pa.list_(
        pa.struct([pa.field("key", pa.string(), nullable=False), ("value", pa.binary())])
    )


def test_the_range_begins_and_ends_inside_batches() -> None:
    region = batch_of(b"a", b"b", b"c") + batch_of(b"d", b"e", b"f", base_offset=3)
    found = columns.decode_columns(region, ("offset", "value"), 2, 5)
    assert found.to_pydict() == {"offset": [2, 3, 4], "value": [b"c", b"d", b"e"]}
    assert columns.decode_columns(region, ("offset",), 6, 9).num_rows == 0
    assert columns.decode_columns(region, ("offset",), 4, 4).num_rows == 0


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_region_may_be_any_buffer(kind: type) -> None:
    found = columns.decode_columns(kind(batch_of(b"a")), ("value",))
    assert found.to_pydict() == {"value": [b"a"]}


def test_columns_do_not_hold_the_region() -> None:
    region = bytearray(batch_of(b"a"))
    found = columns.decode_columns(region)
    region.clear()
    assert found.column("value").to_pylist() == [b"a"]


def test_an_unknown_column_is_refused() -> None:
    with pytest.raises(ValueError, match="no such column: partition; there are offset"):
        columns.decode_columns(b"", ("partition",))


def test_a_header_name_that_is_no_text_is_read_as_java_reads_it() -> None:
    builder = RecordBatchBuilder()
    builder.append(None, None, 0, [("?", b"")])
    region = bytearray(builder.build().replace(b"?", b"\xff"))
    region[17:21] = columns.RecordBatch(region).compute_crc().to_bytes(4, "big")
    found = columns.decode_columns(region, ("headers",)).to_pylist()
    assert found == [{"headers": [{"key": "\N{REPLACEMENT CHARACTER}", "value": b""}]}]


def test_a_damaged_batch_is_refused() -> None:
    region = bytearray(batch_of(b"aaa"))
    region[-3] ^= 1
    with pytest.raises(InvalidBatchError, match="CRC"):
        columns.decode_columns(region)


def test_checked_batches_are_not_checked_again_and_may_leave_others_out_between_them() -> None:
    region = bytearray(b"".join(batch_of(b"%d" % one, base_offset=one) for one in range(3)))
    region[17] ^= 1  # the first one's checksum
    first, _, last = iter_batches(region)
    pieces = columns.columns_of([first, last], ("offset", "value"), 0, 3)
    found = [row for piece in pieces for row in piece.to_pylist()]
    assert found == [{"offset": 0, "value": b"0"}, {"offset": 2, "value": b"2"}]


def test_a_region_cut_short_is_refused() -> None:
    with pytest.raises(InvalidBatchError, match="cut short"):
        columns.decode_columns(batch_of(b"aaa")[:-1])


def test_messages_of_format_v0_have_no_kind_of_time() -> None:
    region = build_message(b"k", b"v", magic=0, offset=7) + batch_of(b"n", base_offset=8)
    found = columns.decode_columns(region, ("timestamp_type", "timestamp_ms", "key"))
    assert found.to_pylist() == [
        {"timestamp_type": -1, "timestamp_ms": -1, "key": b"k"},
        {"timestamp_type": 0, "timestamp_ms": 1000, "key": b"k0"},
    ]


def test_more_than_an_arrow_column_holds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "MAX_SCAN_SIZE", 100)
    assert columns.decode_columns(batch_of(b"a"), ("value",)).num_rows == 1
    with pytest.raises(ValueError, match="too many for one Arrow column"):
        columns.decode_columns(batch_of(b"a" * 100), ("value",))


@pytest.mark.parametrize("wanted", [(0, 100), (12, 27), (25, 26), (40, 50)])
def test_offsets_alone_are_those_of_the_records_with_gaps_and_without(
    wanted: tuple[int, int],
) -> None:
    """By the header, where each offset has a record, and by the records, where some have none."""
    dense = batch_of(*[b"v"] * 10, base_offset=10) + batch_of(*[b"v"] * 5, base_offset=20)
    builder = RecordBatchBuilder(25)
    for offset in (26, 30, 31):
        builder.append_at(offset, b"k", b"v", 1000)
    sparse = builder.build(last_offset=40)
    for content in (dense, dense + sparse, sparse, batch_of(b"v", base_offset=45) + dense):
        alone = columns.decode_columns(content, ("offset",), *wanted)
        beside = columns.decode_columns(content, ("offset", "key"), *wanted)
        assert alone.column("offset") == beside.column("offset")


@pytest.mark.parametrize("few_bytes", [-1, 100_000])
def test_fields_are_the_same_however_they_are_copied(
    monkeypatch: pytest.MonkeyPatch, few_bytes: int
) -> None:
    monkeypatch.setattr(columns, "_ARROW_FUNCTIONS", "imported by nobody")
    monkeypatch.setattr(columns, "_FEW_BYTES", few_bytes)
    builder = RecordBatchBuilder()
    rows: list[tuple[bytes | None, bytes | None]] = [
        (None, b"v"), (b"", b""), (b"key" * 9, None), (b"k", b"x" * 300)
    ]  # fmt: skip
    for key, value in rows:
        builder.append(key, value, 1000, [("h", None), ("i", b"y")])
    found = columns.decode_columns(builder.build()).to_pylist()
    assert [(one["key"], one["value"]) for one in found] == rows
    headers = [{"key": "h", "value": None}, {"key": "i", "value": b"y"}]
    assert all(one["headers"] == headers for one in found)


def test_what_is_scanned_at_once_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    region = b"".join(batch_of(b"a", b"b", base_offset=2 * i) for i in range(6))

    def sizes(rows: int, size: int, max_rows: int = columns.MAX_ROWS) -> list[int]:
        monkeypatch.setattr(columns, "SCAN_ROWS", rows)
        monkeypatch.setattr(columns, "SCAN_SIZE", size)
        return [one.num_rows for one in columns.iter_columns(region, max_rows=max_rows)]

    assert sizes(5, 10_000) == [4, 4, 4]
    assert sizes(5, 10_000, max_rows=1) == [1] * 12
    assert sizes(1, 10_000) == [2] * 6
    assert sizes(5, 1) == [2] * 6


@pytest.mark.parametrize("name", columns.COLUMNS)
def test_a_column_alone_is_what_it_is_beside_the_others(name: str) -> None:
    """In bytes, of which the batches are a part, and in memory that may be written."""
    region = batch_of(b"a", None, b"c" * 9000) + batch_of(b"d")
    expected = columns.decode_columns(region).column(name).to_pylist()
    assert len(expected) == 4
    inside = memoryview(b"before" + bytes(region) + b"after")[6:-5]
    for buffer in (bytes(region), inside, bytearray(region)):
        assert columns.decode_columns(buffer, (name,)).column(0).to_pylist() == expected
