"""Regions of a log made at random by Hypothesis: every format, codec and kind of batch."""

from typing import Any

from hypothesis import strategies as st

from ottla.codec.compression import Compression, compress, with_old_lz4_checksum
from ottla.record.builder import RecordBatchBuilder
from ottla.record.legacy import build_message

BYTES = st.none() | st.binary(max_size=12) | st.binary(min_size=60, max_size=140)
HEADERS = st.lists(st.tuples(st.text(max_size=4), BYTES), max_size=3)
TIMES = st.integers(-1, 2**41)
LEGACY_CODECS = st.sampled_from([Compression.GZIP, Compression.SNAPPY, Compression.LZ4])


@st.composite
def batches(draw: st.DrawFn, base_offset: int) -> tuple[bytes, int]:
    """A v2 batch, with gaps in its offsets as compaction leaves them, and the offset behind it."""
    builder = RecordBatchBuilder(
        base_offset,
        compression=draw(st.sampled_from(Compression)),
        leader_epoch=draw(st.integers(-1, 5)),
        append_time_ms=draw(st.none() | TIMES),
        delete_horizon_ms=draw(st.none() | TIMES),
        is_control=draw(st.sampled_from([False] * 9 + [True])),
    )
    offset = base_offset
    for key, value, timestamp_ms, headers, gap in draw(
        st.lists(st.tuples(BYTES, BYTES, TIMES, HEADERS, st.integers(0, 2)), max_size=8)
    ):
        offset += gap
        builder.append_at(offset, key, value, timestamp_ms, headers)
        offset += 1
    last_offset = offset + draw(st.integers(0, 2))
    return builder.build(last_offset=last_offset), last_offset + 1


@st.composite
def entries(draw: st.DrawFn, base_offset: int) -> tuple[bytes, int]:
    """A message of format v0 or v1, or a wrapper of some, and the offset behind it."""
    magic = draw(st.integers(0, 1))
    messages = draw(st.lists(st.tuples(BYTES, BYTES, TIMES), min_size=1, max_size=4))
    attributes = draw(st.sampled_from([0, 8])) if magic else 0
    last_offset = base_offset + len(messages) - 1
    if len(messages) == 1:
        key, value, time_ms = messages[0]
        options: dict[str, Any] = {"magic": magic, "offset": base_offset, "attributes": attributes}
        return build_message(key, value, timestamp_ms=time_ms, **options), base_offset + 1
    inner = b"".join(
        build_message(
            key, value, magic=magic, offset=index if magic else base_offset + index, timestamp_ms=ms
        )
        for index, (key, value, ms) in enumerate(messages)
    )
    codec = draw(LEGACY_CODECS)
    packed = compress(codec, inner)
    if codec is Compression.LZ4 and magic == 0:
        packed = with_old_lz4_checksum(packed)
    wrapper = build_message(
        None,
        bytes(packed),
        magic=magic,
        offset=last_offset,
        timestamp_ms=max(one[2] for one in messages),
        attributes=attributes | codec,
    )
    return wrapper, last_offset + 1


@st.composite
def regions(draw: st.DrawFn, base_offset: int = 100) -> tuple[bytes, int]:
    """Several of both, one behind the other, and the offset behind them."""
    region = b""
    offset = base_offset
    for is_old in draw(st.lists(st.booleans(), max_size=6)):
        piece, offset = draw(entries(offset) if is_old else batches(offset))
        region += piece
    return region, offset
