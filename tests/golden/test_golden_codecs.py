"""What Kafka's clients have compressed comes out of our codecs as the same bytes."""

from pathlib import Path

import pytest

from ottla.codec.compression import Compression, compress, decompress
from ottla.codec.frames import with_old_lz4_checksum
from ottla.record.batch import iter_batches
from ottla.record.legacy import LegacyBatch
from tests.support import SHARED

LOGS = sorted(SHARED.glob("golden/*/logdir/*/*.log")) if SHARED else []


def payloads(path: Path, codec: Compression) -> list[tuple[int, bytes]]:
    """The compressed bytes of a segment's batches, with their magic."""
    found = []
    for batch in iter_batches(path.read_bytes(), allow_torn_tail=True):
        if batch.compression is not codec:
            continue
        if isinstance(batch, LegacyBatch):
            found.append((batch.magic, batch.key_and_value()[1] or b""))
        else:
            found.append((batch.magic, bytes(batch.payload)))
    return found


def is_of_java(codec: Compression, frame: bytes) -> bool:
    """Whether a frame has the marks of the Java client rather than of librdkafka and others."""
    match codec:
        case Compression.GZIP:
            return frame.startswith(bytes.fromhex("1f8b08000000000000ff"))
        case Compression.LZ4:
            return frame.startswith(bytes.fromhex("04224d186040"))
        case _:
            return frame.startswith(b"\x28\xb5\x2f\xfd\0\x58") and frame.endswith(b"\1\0\0")


@pytest.mark.skipif(not LOGS, reason="the directories written by Kafka are not here")
@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD])
def test_frames_of_the_java_client_are_written_byte_by_byte(codec: Compression) -> None:
    frames = [
        (magic, frame)
        for path in LOGS
        for magic, frame in payloads(path, codec)
        if is_of_java(codec, frame)
    ]
    assert len(frames) > 5
    for magic, frame in frames:
        again = compress(codec, decompress(codec, frame, is_v0=magic == 0))
        if codec is Compression.LZ4 and magic == 0:
            again = with_old_lz4_checksum(again)
        assert bytes(again) == frame
