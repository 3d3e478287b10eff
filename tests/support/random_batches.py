"""Regions of a log made at random by Hypothesis: every format, codec and kind of batch."""

from hypothesis import strategies as st

from ottla.codec.compression import Compression
from ottla.record.builder import RecordBatchBuilder
from ottla.record.legacy import build_message
from tests.support.old_messages import build_wrapper

BYTES = st.none() | st.binary(max_size=12) | st.binary(min_size=60, max_size=140)
HEADERS = st.lists(st.tuples(st.text(max_size=4), BYTES), max_size=3)
TIMES = st.integers(-1, 2**41)
LEGACY_CODECS = st.sampled_from([one for one in Compression if one is not Compression.ZSTD])


@st.composite
def batches(draw: st.DrawFn, base_offset: int) -> tuple[bytes, int]:
    """A v2 batch, with gaps in its offsets as compaction leaves them, and the offset after it."""
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
    """A message of format v0 or v1, or a wrapper of some, and the offset after it."""
    magic = draw(st.integers(0, 1))
    messages = draw(st.lists(st.tuples(BYTES, BYTES, TIMES), min_size=1, max_size=4))
    is_append_time = magic == 1 and draw(st.booleans())
    codec = draw(LEGACY_CODECS)
    if codec is Compression.NONE:
        entry = build_message(
            *messages[0][:2],
            magic=magic,
            offset=base_offset,
            timestamp_ms=messages[0][2],
            attributes=8 if is_append_time else 0,
        )
        return entry, base_offset + 1
    first_inner = 0 if magic else base_offset
    inner = [
        build_message(key, value, magic=magic, offset=first_inner + index, timestamp_ms=time_ms)
        for index, (key, value, time_ms) in enumerate(messages)
    ]
    wrapper = build_wrapper(
        inner,
        magic=magic,
        compression=codec,
        offset=base_offset + len(messages) - 1,
        timestamp_ms=max(one[2] for one in messages),
        is_append_time=is_append_time,
    )
    return wrapper, base_offset + len(messages)


@st.composite
def regions(draw: st.DrawFn, base_offset: int = 100) -> tuple[bytes, int]:
    """Several of both, one after the other, and the offset after them."""
    region = b""
    offset = base_offset
    for is_old in draw(st.lists(st.booleans(), max_size=6)):
        piece, offset = draw(entries(offset) if is_old else batches(offset))
        region += piece
    return region, offset
