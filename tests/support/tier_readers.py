"""Reads the objects of one segment of a tier, in both layouts.

Written from the layouts' description, and not from the code that writes or reads them: it shares
nothing with `ottla.storage.remote` but the values that name a segment and its files.
"""

import base64
import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cramjam

from ottla.storage.remote.segment_metadata import IndexType, RemoteLogSegmentMetadata
from tests.support.tiers import AIVEN_INDEXES, LOCAL_ENDINGS, text_of


@dataclass(frozen=True)
class Found:
    """The files of a segment, as they were on the broker's disk."""

    log: bytes
    indexes: Mapping[IndexType, bytes]
    manifest: Any = None


def files_below(path: Path) -> dict[str, bytes]:
    """All files of a tier, by their paths in it."""
    return {
        str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file()
    }


def read_local(objects: Mapping[str, bytes], segment: RemoteLogSegmentMetadata) -> Found:
    place = segment.partition
    stem = (
        f"kafka-tiered-storage/{place.topic}-{place.partition}-{text_of(place.topic_id)}/"
        f"{segment.start_offset:020}-{text_of(segment.segment_id)}"
    )
    endings = {kind: objects.get(f"{stem}.{ending}") for kind, ending in LOCAL_ENDINGS.items()}
    return Found(
        objects[f"{stem}.log"],
        {kind: content for kind, content in endings.items() if content is not None},
    )


def read_aiven(
    objects: Mapping[str, bytes],
    segment: RemoteLogSegmentMetadata,
    prefix: str = "",
    key: Any = None,
) -> Found:
    """`key` is the private key of an encrypted segment."""
    place = segment.partition
    stem = (
        f"{prefix}{place.topic}-{text_of(place.topic_id)}/{place.partition}/"
        f"{segment.start_offset:020}-{text_of(segment.segment_id)}"
    )
    manifest = json.loads(objects[f"{stem}.rsm-manifest"])
    assert manifest["version"] == "1"
    opened = opening(manifest, key)
    chunks = []
    position = 0
    for size in stored_sizes(manifest["chunkIndex"]):
        chunk = opened(objects[f"{stem}.log"][position : position + size])
        if manifest["compression"]:
            # The plug-in asks the frame for its size, before it decompresses.
            assert chunk[4] >> 6 or chunk[4] & 0x20
            chunk = bytes(cramjam.zstd.decompress(chunk))
        chunks.append(chunk)
        position += size
    assert position == len(objects[f"{stem}.log"])
    size = manifest["chunkIndex"]["originalChunkSize"]
    assert {len(chunk) for chunk in chunks[:-1]} <= {size}
    log = b"".join(chunks)
    assert len(log) == manifest["chunkIndex"]["originalFileSize"]
    indexes = {}
    end = 0
    for name, kind in AIVEN_INDEXES.items():
        where = manifest["segmentIndexes"][name]
        if where is not None:
            assert where["position"] == end
            end += where["size"]
            content = objects[f"{stem}.indexes"][where["position"] : end]
            indexes[kind] = opened(content) if content else b""
    assert end == len(objects[f"{stem}.indexes"])
    return Found(log, indexes, manifest)


def stored_sizes(index: Any) -> list[int]:
    count = -(-index["originalFileSize"] // index["originalChunkSize"])
    if index["type"] == "fixed":
        return [index["transformedChunkSize"]] * (count - 1) + [index["finalTransformedChunkSize"]]
    assert index["type"] == "variable"
    packed = bytes(cramjam.zstd.decompress(base64.b64decode(index["transformedChunks"])))
    (found,) = struct.unpack_from(">i", packed)
    assert found == count
    if count == 1:
        return list(struct.unpack(">i", packed[4:]))
    base, width = struct.unpack_from(">ib", packed, 4)
    values = packed[9 : 9 + width * (count - 1)]
    sizes = [
        base + int.from_bytes(values[at : at + width], "big") for at in range(0, len(values), width)
    ]
    return [*sizes, *struct.unpack(">i", packed[9 + len(values) :])]


def opening(manifest: Any, key: Any) -> Any:
    """What opens a chunk."""
    if "encryption" not in manifest:
        return lambda chunk: chunk
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    _, _, sealed = manifest["encryption"]["dataKey"].partition(":")
    data_key, _ = oaep_opened(base64.b64decode(sealed), key)
    aad = base64.b64decode(manifest["encryption"]["aad"])
    assert len(aad) == 32
    return lambda chunk: AESGCM(data_key).decrypt(chunk[:12], chunk[12:], aad)


def oaep_opened(sealed: bytes, key: Any) -> tuple[bytes, bytes]:
    """The message and the seed (RFC 8017, 7.1.2), with SHA3-512 for the label and the masks."""

    def masked(data: bytes, seed: bytes) -> bytes:
        stream, counter = b"", 0
        while len(stream) < len(data):
            stream += hashlib.sha3_512(seed + struct.pack(">I", counter)).digest()
            counter += 1
        return bytes(one ^ other for one, other in zip(data, stream, strict=False))

    numbers = key.private_numbers()
    modulus = numbers.public_numbers.n
    size = (modulus.bit_length() + 7) // 8
    block = pow(int.from_bytes(sealed, "big"), numbers.d, modulus).to_bytes(size, "big")
    assert len(sealed) == size
    assert block[0] == 0
    seed = masked(block[1:65], block[65:])
    data = masked(block[65:], seed)
    assert data[:64] == hashlib.sha3_512(b"").digest()
    padding, _, message = data[64:].partition(b"\x01")
    assert not any(padding)
    return message, seed
