"""Segments as Kafka uploads them, and a writer of both layouts of objects.

Written from the layouts' description, and not from the code that reads them: it shares nothing with
`ottla.storage.remote` but the value that names a segment.
"""

import base64
import hashlib
import json
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from random import Random

import cramjam

from ottla.base.ids import Uuid
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.index.producer_snapshot import ProducerSnapshotEntry, format_snapshot
from ottla.storage.remote.segment_metadata import (
    IndexType,
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)

NOW_MS = 1_700_000_000_000


def text_of(uuid: bytes) -> str:
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


@dataclass(frozen=True, slots=True)
class Uploaded:
    """What a broker would upload: the metadata, and the files by their Kafka names' endings."""

    metadata: RemoteLogSegmentMetadata
    log: bytes
    indexes: Mapping[IndexType, bytes]


def uploaded(
    start: int = 0,
    batches: int = 8,
    *,
    topic: str = "orders",
    partition: int = 0,
    with_aborts: bool = False,
    seed: int = 1,
) -> Uploaded:
    """A segment of batches of two records, the second half of them in leader epoch 3."""
    random = Random(f"{seed}/{topic}/{partition}/{start}")
    log, offsets, times = bytearray(), bytearray(), bytearray()
    changes_at = start + batches // 2 * 2
    for number in range(batches):
        first = start + 2 * number
        builder = RecordBatchBuilder(first, leader_epoch=3 if first >= changes_at else 1)
        for offset in (first, first + 1):
            builder.append(b"k", random.randbytes(200 + batches % 3), NOW_MS + offset)
        if number % 2:
            offsets += struct.pack(">ii", first + 1 - start, len(log))
            times += struct.pack(">qi", NOW_MS + first + 1, first + 1 - start)
        log += builder.build()
    end = start + 2 * batches - 1
    if batches % 2:
        times += struct.pack(">qi", NOW_MS + end, end - start)
    indexes = {
        IndexType.OFFSET: bytes(offsets),
        IndexType.TIMESTAMP: bytes(times),
        IndexType.PRODUCER_SNAPSHOT: format_snapshot([_producer(end)]),
        IndexType.LEADER_EPOCH: f"0\n2\n1 {max(start - 5, 0)}\n3 {changes_at}\n".encode(),
    }
    if with_aborts:
        indexes[IndexType.TRANSACTION] = struct.pack(">hqqqq", 0, 7, start, end, end + 1)
    epochs = ((1, start), (3, changes_at)) if batches > 1 else ((3, start),)
    metadata = RemoteLogSegmentMetadata(
        partition=TopicIdPartition(
            topic, Uuid(hashlib.md5(f"{topic}{seed}".encode()).digest()), partition
        ),
        segment_id=Uuid(random.randbytes(16)),
        start_offset=start,
        end_offset=end,
        broker_id=1,
        max_timestamp_ms=NOW_MS + end,
        event_timestamp_ms=NOW_MS + end + 5,
        leader_epochs=epochs,
        size=len(log),
        state=SegmentState.COPY_SEGMENT_FINISHED,
    )
    return Uploaded(metadata, bytes(log), indexes)


def _producer(last_offset: int) -> ProducerSnapshotEntry:
    return ProducerSnapshotEntry(
        producer_id=7,
        epoch=0,
        last_sequence=1,
        last_offset=last_offset,
        offset_delta=1,
        timestamp_ms=NOW_MS,
        coordinator_epoch=-1,
        transaction_first_offset=None,
    )


LOCAL_ENDINGS = {
    IndexType.OFFSET: "index",
    IndexType.TIMESTAMP: "timeindex",
    IndexType.TRANSACTION: "txnindex",
    IndexType.LEADER_EPOCH: "leader_epoch_checkpoint",
    IndexType.PRODUCER_SNAPSHOT: "snapshot",
}


def local_objects(one: Uploaded) -> Iterator[tuple[str, bytes]]:
    """The objects of a segment as `LocalTieredStorage` names them."""
    meta = one.metadata
    place = meta.partition
    stem = (
        f"kafka-tiered-storage/{place.topic}-{place.partition}-{text_of(place.topic_id)}/"
        f"{meta.start_offset:020}-{text_of(meta.segment_id)}"
    )
    yield f"{stem}.log", one.log
    for kind, content in one.indexes.items():
        yield f"{stem}.{LOCAL_ENDINGS[kind]}", content


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """The settings of Aiven's plug-in that show in the objects."""

    chunk_size: int = 1000
    is_compressed: bool = False
    public_key: tuple[int, int] | None = None
    """Modulus and exponent of the key pair that seals the data key."""
    key_pair: str = "key-1"
    prefix: str = ""
    seed: int = 1


AIVEN_INDEXES = {
    "offset": IndexType.OFFSET,
    "timestamp": IndexType.TIMESTAMP,
    "producerSnapshot": IndexType.PRODUCER_SNAPSHOT,
    "leaderEpoch": IndexType.LEADER_EPOCH,
    "transaction": IndexType.TRANSACTION,
}


def aiven_key(one: Uploaded, prefix: str = "") -> str:
    meta = one.metadata
    place = meta.partition
    return (
        f"{prefix}{place.topic}-{text_of(place.topic_id)}/{place.partition}/"
        f"{meta.start_offset:020}-{text_of(meta.segment_id)}"
    )


def aiven_objects(one: Uploaded, style: Style) -> Iterator[tuple[str, bytes]]:
    """The three objects of a segment as Aiven's plug-in writes them."""
    random = Random(style.seed)
    data_key, aad = random.randbytes(32), random.randbytes(32)

    def sealed(chunk: bytes) -> bytes:
        if style.public_key is None or not chunk:
            return chunk
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        iv = random.randbytes(12)
        return iv + AESGCM(data_key).encrypt(iv, chunk, aad)

    size = style.chunk_size
    pieces = [one.log[at : at + size] for at in range(0, len(one.log), size)]
    if style.is_compressed:
        pieces = [bytes(cramjam.zstd.compress(piece, 3)) for piece in pieces]
    chunks = [sealed(piece) for piece in pieces]
    indexes, where = b"", {}
    for name, kind in AIVEN_INDEXES.items():
        content = one.indexes.get(kind)
        where[name] = None
        if content is not None:
            stored = sealed(content)
            where[name] = {"position": len(indexes), "size": len(stored)}
            indexes += stored
    manifest = {
        "version": "1",
        "chunkIndex": _chunk_index(one, style, list(map(len, chunks))),
        "segmentIndexes": where,
        "compression": style.is_compressed,
        "remoteLogSegmentMetadata": _manifest_metadata(one.metadata),
    }
    if style.public_key is not None:
        wrapped = base64.b64encode(oaep(data_key, *style.public_key, random)).decode()
        manifest["encryption"] = {
            "dataKey": f"{style.key_pair}:{wrapped}",
            "aad": base64.b64encode(aad).decode(),
        }
    key = aiven_key(one, style.prefix)
    yield f"{key}.log", b"".join(chunks)
    yield f"{key}.indexes", indexes
    yield f"{key}.rsm-manifest", json.dumps(manifest).encode()


def _chunk_index(one: Uploaded, style: Style, sizes: list[int]) -> dict[str, object]:
    common = {"originalChunkSize": style.chunk_size, "originalFileSize": len(one.log)}
    if not style.is_compressed:
        return {
            "type": "fixed",
            **common,
            "transformedChunkSize": sizes[0] if len(sizes) > 1 else style.chunk_size,
            "finalTransformedChunkSize": sizes[-1],
        }
    packed = bytes(cramjam.zstd.compress(packed_sizes(sizes)))
    return {"type": "variable", **common, "transformedChunks": base64.b64encode(packed).decode()}


def packed_sizes(sizes: list[int]) -> bytes:
    head = struct.pack(">i", len(sizes))
    if len(sizes) == 0:
        return head
    if len(sizes) == 1:
        return head + struct.pack(">i", sizes[0])
    base = min(sizes[:-1])
    rest = [size - base for size in sizes[:-1]]
    width = max(1, (max(rest).bit_length() + 7) // 8)
    body = b"".join(size.to_bytes(width, "big") for size in rest)
    return head + struct.pack(">ib", base, width) + body + struct.pack(">i", sizes[-1])


def _manifest_metadata(meta: RemoteLogSegmentMetadata) -> dict[str, object]:
    place = meta.partition
    return {
        "remoteLogSegmentId": {
            "topicIdPartition": {
                "topicId": text_of(place.topic_id),
                "topicPartition": {"topic": place.topic, "partition": place.partition},
            },
            "id": text_of(meta.segment_id),
        },
        "startOffset": meta.start_offset,
        "endOffset": meta.end_offset,
        "maxTimestampMs": meta.max_timestamp_ms,
        "brokerId": meta.broker_id,
        "eventTimestampMs": meta.event_timestamp_ms,
        "segmentLeaderEpochs": {str(epoch): start for epoch, start in meta.leader_epochs},
    }


def oaep(message: bytes, modulus: int, exponent: int, random: Random) -> bytes:
    """RFC 8017, 7.1.1: an empty label, SHA3-512 for it and for the masks."""

    def masked(data: bytes, seed: bytes) -> bytes:
        stream, counter = b"", 0
        while len(stream) < len(data):
            stream += hashlib.sha3_512(seed + struct.pack(">I", counter)).digest()
            counter += 1
        return bytes(one ^ other for one, other in zip(data, stream, strict=False))

    size = (modulus.bit_length() + 7) // 8
    padding = bytes(size - len(message) - 2 * 64 - 2)
    data = hashlib.sha3_512(b"").digest() + padding + b"\x01" + message
    seed = random.randbytes(64)
    data = masked(data, seed)
    block = b"\0" + masked(seed, data) + data
    return pow(int.from_bytes(block, "big"), exponent, modulus).to_bytes(size, "big")


def tagged_metadata(*fields: tuple[int, bytes]) -> bytes:
    """Custom metadata: a flexible message without fields of its own."""
    assert all(len(content) < 128 for _, content in fields)
    parts = (bytes((tag, len(content))) + content for tag, content in fields)
    return bytes((len(fields),)) + b"".join(parts)


def compact_string(text: str) -> bytes:
    return bytes((len(text) + 1,)) + text.encode()


def put(directory: Path, objects: Iterator[tuple[str, bytes]]) -> None:
    """Writes objects as files."""
    for path, content in objects:
        place = directory / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
