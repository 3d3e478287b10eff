"""The manifest of a segment in Aiven's layout: a segment is complete when it has one.

Format page: docs/format/tier-objects.md.
"""

import base64
import binascii
import json
import struct
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, Final

from ottla.base.errors import CorruptionError
from ottla.base.ids import Uuid, parse_uuid, uuid_text
from ottla.base.values import dataclass
from ottla.codec.compression import Compression, compress_zstd, decompress
from ottla.codec.frames import CompressionError
from ottla.storage.remote.segment_metadata import (
    IndexType,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)

VERSION: Final = "1"

INDEX_NAMES: Final = {
    "offset": IndexType.OFFSET,
    "timestamp": IndexType.TIMESTAMP,
    "producerSnapshot": IndexType.PRODUCER_SNAPSHOT,
    "leaderEpoch": IndexType.LEADER_EPOCH,
    "transaction": IndexType.TRANSACTION,
}

CHUNK_SIZES_LIMIT: Final = 64 << 20
"""The largest list of chunks' sizes, in bytes: a segment has 2 GiB, and chunks some KiB."""

CHUNK_COUNT_LIMIT: Final = 1 << 22

_UNREADABLE = (
    AttributeError,
    CompressionError,
    KeyError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)
"""What reading a text raises that is not a manifest."""

SIZE = struct.Struct(">i")
BASE_AND_WIDTH = struct.Struct(">ib")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunks:
    """How a log was cut: chunks of `original_size` bytes, the last may be shorter, and where each
    lies in the object: `starts`, to which the object's size is added as the last.
    """

    original_chunk_size: int
    original_size: int
    starts: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.starts) - 1

    @property
    def stored_size(self) -> int:
        """The size of the object."""
        return self.starts[-1]

    def size_of(self, number: int) -> int:
        """The original size of a chunk."""
        return min(self.original_chunk_size, self.original_size - number * self.original_chunk_size)


@dataclass(frozen=True, slots=True, kw_only=True)
class Encryption:
    """The data key as it was sealed with the key pair of an id, and what is authenticated with each
    chunk."""

    key_pair_id: str
    sealed_key: bytes
    associated_data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """`indexes` are positions and sizes in the object `.indexes`."""

    chunks: Chunks
    indexes: Mapping[IndexType, tuple[int, int]]
    is_compressed: bool
    encryption: Encryption | None
    segment: RemoteLogSegmentMetadata

    @property
    def indexes_size(self) -> int:
        return sum(size for _, size in self.indexes.values())


def manifest_bytes(manifest: Manifest) -> bytes:
    """The inverse of `parse_manifest`, as Aiven's plug-in writes it."""
    segment, indexes, encryption = manifest.segment, manifest.indexes, manifest.encryption
    place = segment.partition
    members: dict[str, object] = {
        "version": VERSION,
        "chunkIndex": _chunk_index(manifest),
        "segmentIndexes": {
            name: None
            if kind not in indexes
            else dict(zip(("position", "size"), indexes[kind], strict=True))
            for name, kind in INDEX_NAMES.items()
        },
        "compression": manifest.is_compressed,
    }
    if encryption is not None:
        members["encryption"] = {
            "dataKey": f"{encryption.key_pair_id}:{_encoded(encryption.sealed_key)}",
            "aad": _encoded(encryption.associated_data),
        }
    members["remoteLogSegmentMetadata"] = {
        "remoteLogSegmentId": {
            "topicIdPartition": {
                "topicId": uuid_text(place.topic_id),
                "topicPartition": {"topic": place.topic, "partition": place.partition},
            },
            "id": uuid_text(segment.segment_id),
        },
        "startOffset": segment.start_offset,
        "endOffset": segment.end_offset,
        "maxTimestampMs": segment.max_timestamp_ms,
        "brokerId": segment.broker_id,
        "eventTimestampMs": segment.event_timestamp_ms,
        "segmentLeaderEpochs": {str(epoch): start for epoch, start in segment.leader_epochs},
    }
    return json.dumps(members, separators=(",", ":"), ensure_ascii=False).encode()


def _chunk_index(manifest: Manifest) -> dict[str, object]:
    chunks = manifest.chunks
    sizes = [end - start for start, end in pairwise(chunks.starts)]
    if manifest.is_compressed:
        packed = compress_zstd(packed_sizes(sizes))
        kind: dict[str, object] = {"transformedChunks": _encoded(packed)}
    else:
        grown = sizes[-1] - chunks.size_of(chunks.count - 1)
        kind = {
            "transformedChunkSize": chunks.original_chunk_size + grown,
            "finalTransformedChunkSize": sizes[-1],
        }
    return {
        "type": "variable" if manifest.is_compressed else "fixed",
        "originalChunkSize": chunks.original_chunk_size,
        "originalFileSize": chunks.original_size,
        **kind,
    }


def parse_manifest(content: bytes, path: str) -> Manifest:
    """Raises `CorruptionError` for a manifest that is not one, or contradicts itself."""
    try:
        return _manifest(json.loads(content))
    except _UNREADABLE as error:
        text = f"no member {error}" if isinstance(error, KeyError) else error
        raise CorruptionError(path, 0, f"it is not a segment's manifest: {text}") from error


def _manifest(members: Any) -> Manifest:
    if members["version"] != VERSION:
        raise ValueError(f"version {members['version']!r} instead of {VERSION!r}")
    is_compressed = members["compression"]
    if not isinstance(is_compressed, bool):
        raise ValueError(f"compression is {is_compressed!r}")
    sealing = members.get("encryption")
    encryption = None if sealing is None else _encryption(sealing)
    chunks = _chunks(members["chunkIndex"])
    indexes = _indexes(members["segmentIndexes"])
    return Manifest(
        chunks=chunks,
        indexes=indexes,
        is_compressed=is_compressed,
        encryption=encryption,
        segment=_segment(members["remoteLogSegmentMetadata"], chunks.original_size, indexes),
    )


def _chunks(members: Any) -> Chunks:
    chunk_size, size = _number(members, "originalChunkSize"), _number(members, "originalFileSize")
    if chunk_size < 1 or size < 1:
        raise ValueError(f"chunks of {chunk_size} bytes of a log of {size}")
    count = -(-size // chunk_size)
    if count > CHUNK_COUNT_LIMIT:
        raise ValueError(f"chunks of {chunk_size} bytes of a log of {size}")
    match members["type"]:
        case "fixed":
            sizes = [_number(members, "transformedChunkSize")] * (count - 1)
            sizes.append(_number(members, "finalTransformedChunkSize"))
        case "variable":
            sizes = chunk_sizes(_decoded(members["transformedChunks"]))
        case other:
            raise ValueError(f"a chunk index of type {other!r}")
    if len(sizes) != count or min(sizes) < 1:
        raise ValueError(f"{len(sizes)} chunks instead of {count}, or one without bytes")
    return Chunks(
        original_chunk_size=chunk_size,
        original_size=size,
        starts=tuple(accumulate(sizes, initial=0)),
    )


def chunk_sizes(packed: bytes) -> list[int]:
    """The sizes in a variable chunk index, which is compressed; raises `ValueError`.

    Their count; unless there is one at most, the smallest of all but the last, and how many bytes
    the difference of each of these takes; the last.
    """
    content = bytes(decompress(Compression.ZSTD, packed, CHUNK_SIZES_LIMIT))
    try:
        (count,) = SIZE.unpack_from(content)
        if count == 0:
            sizes, end = [], SIZE.size
        elif count == 1:
            sizes, end = [*SIZE.unpack_from(content, SIZE.size)], 2 * SIZE.size
        else:
            base, width = BASE_AND_WIDTH.unpack_from(content, SIZE.size)
            start = SIZE.size + BASE_AND_WIDTH.size
            at_last = start + (count - 1) * width
            last = SIZE.unpack_from(content, at_last)  # Before a count that is too large is used.
            places = range(start, at_last, width)
            sizes = [base + int.from_bytes(content[at : at + width], "big") for at in places]
            sizes += last
            end = at_last + SIZE.size
    except struct.error as error:
        raise ValueError("the chunks' sizes are cut short") from error
    if len(sizes) != count or len(content) != end:
        raise ValueError("the chunks' sizes are cut short")
    return sizes


def packed_sizes(sizes: Sequence[int]) -> bytes:
    """The inverse of `chunk_sizes`, not yet compressed."""
    head = SIZE.pack(len(sizes))
    if len(sizes) < 2:
        return head + b"".join(map(SIZE.pack, sizes))
    base = min(sizes[:-1])
    rest = [size - base for size in sizes[:-1]]
    width = max(1, (max(rest).bit_length() + 7) // 8)
    values = b"".join(size.to_bytes(width, "big") for size in rest)
    return head + BASE_AND_WIDTH.pack(base, width) + values + SIZE.pack(sizes[-1])


def _indexes(members: Any) -> dict[IndexType, tuple[int, int]]:
    found, end = {}, 0
    for name, kind in INDEX_NAMES.items():
        part = members.get(name) if kind is IndexType.TRANSACTION else members[name]
        if part is None:
            continue
        position, size = _number(part, "position"), _number(part, "size")
        if position != end or size < 0:
            raise ValueError(f"the index {name} is at {position} instead of {end}")
        found[kind] = position, size
        end += size
    return found


def _encryption(members: Any) -> Encryption:
    key_pair_id, separator, sealed = members["dataKey"].partition(":")
    if not separator:
        raise ValueError("the data key has no id of a key pair")
    return Encryption(
        key_pair_id=key_pair_id,
        sealed_key=_decoded(sealed),
        associated_data=_decoded(members["aad"]),
    )


def _segment(
    members: Any, size: int, indexes: Mapping[IndexType, object]
) -> RemoteLogSegmentMetadata:
    segment_id = members["remoteLogSegmentId"]
    place = segment_id["topicIdPartition"]
    topic = place["topicPartition"]["topic"]
    if not isinstance(topic, str):
        raise ValueError(f"the topic is {topic!r}")
    start, end = _number(members, "startOffset"), _number(members, "endOffset")
    if not 0 <= start <= end:
        raise ValueError(f"offsets {start} to {end}")
    return RemoteLogSegmentMetadata(
        partition=TopicIdPartition(
            topic, _uuid(place, "topicId"), _number(place["topicPartition"], "partition")
        ),
        segment_id=_uuid(segment_id, "id"),
        start_offset=start,
        end_offset=end,
        broker_id=_number(members, "brokerId"),
        max_timestamp_ms=_number(members, "maxTimestampMs"),
        event_timestamp_ms=_number(members, "eventTimestampMs"),
        leader_epochs=_leader_epochs(members["segmentLeaderEpochs"], start, end),
        size=size,
        state=SegmentState.COPY_SEGMENT_FINISHED,
        has_no_transactions=IndexType.TRANSACTION not in indexes,
    )


def _leader_epochs(members: Any, start: int, end: int) -> tuple[tuple[int, int], ...]:
    epochs = tuple(sorted((int(epoch), _number(members, epoch)) for epoch in members))
    offsets = [offset for _, offset in epochs]
    is_sorted = offsets == sorted(offsets)
    if not epochs or not is_sorted or not start <= offsets[0] <= offsets[-1] <= end:
        raise ValueError(f"leader epochs {members!r} of offsets {start} to {end}")
    return epochs


def _number(members: Any, name: str) -> int:
    value = members[name]
    if type(value) is not int:
        raise ValueError(f"{name} is {value!r}")
    return value


def _uuid(members: Any, name: str) -> Uuid:
    return parse_uuid(members[name])


def _encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ValueError(f"{text[:20]!r} is not base64: {error}") from error
