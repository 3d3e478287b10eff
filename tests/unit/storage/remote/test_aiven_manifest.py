import base64
import json
from contextlib import suppress
from random import Random
from typing import Any

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import CorruptionError
from ottla.storage.remote.aiven_manifest import Chunks, chunk_sizes, parse_manifest
from ottla.storage.remote.segment_metadata import IndexType
from tests.support.tiers import Style, aiven_objects, packed_sizes, uploaded

ONE = uploaded(100, with_aborts=True)
RECORDED = (
    b'{"version":"1","chunkIndex":{"type":"variable","originalChunkSize":4096,"originalFileSize":'
    b'16247,"transformedChunks":"KLUv/SAQgQAAAAAABAAAC/kBIgAbAAALyw=="},"segmentIndexes":{"offset"'
    b':{"position":0,"size":52},"timestamp":{"position":52,"size":64},"producerSnapshot":{"position'
    b'":116,"size":84},"leaderEpoch":{"position":200,"size":36},"transaction":{"position":236,"size'
    b'":62}},"compression":true,"encryption":{"dataKey":"key-1:PQ4rpVQ+","aad":"DxphB8c="},'
    b'"remoteLogSegmentMetadata":{"remoteLogSegmentId":{"topicIdPartition":{"topicId":'
    b'"dRYD70HnTY2uYYJg_yFHMw","topicPartition":{"topic":"atx","partition":0}},"id":'
    b'"n-3tYmKbSuS9NL5QkJkpCA"},"startOffset":60,"endOffset":200,"maxTimestampMs":1795897418582,'
    b'"brokerId":1,"eventTimestampMs":1795897419153,"segmentLeaderEpochs":{"0":60}}}'
)
"""As Aiven's plug-in wrote it, its data key shortened."""


def manifest_of(style: Style) -> dict[str, Any]:
    *_, (_, content) = aiven_objects(ONE, style)
    found: dict[str, Any] = json.loads(content)
    return found


def test_what_the_plug_in_wrote_is_read() -> None:
    found = parse_manifest(RECORDED, "path")
    assert (found.chunks.count, found.chunks.stored_size, found.indexes_size) == (4, 12275, 298)
    assert found.chunks.size_of(3) == 16247 - 3 * 4096
    assert found.encryption is not None
    assert (found.encryption.key_pair_id, len(found.encryption.sealed_key)) == ("key-1", 6)
    assert found.segment.leader_epochs == ((0, 60),)
    assert found.indexes[IndexType.TRANSACTION] == (236, 62)


@pytest.mark.parametrize("is_compressed", [True, False])
@pytest.mark.parametrize("chunk_size", [1, 7, 999, 100_000])
def test_chunks_are_where_they_were_written(chunk_size: int, is_compressed: bool) -> None:
    style = Style(chunk_size=chunk_size, is_compressed=is_compressed)
    (_, log), _, (_, content) = aiven_objects(ONE, style)
    found = parse_manifest(content, "path")
    assert isinstance(found.chunks, Chunks)
    assert found.chunks.stored_size == len(log)
    assert sum(map(found.chunks.size_of, range(found.chunks.count))) == len(ONE.log)
    assert found.segment == ONE.metadata


@settings(max_examples=30)
@given(st.lists(st.integers(1, 2**31 - 1), max_size=20))
def test_packed_sizes_of_chunks_are_read_back(sizes: list[int]) -> None:
    assert chunk_sizes(bytes(cramjam.zstd.compress(packed_sizes(sizes)))) == sizes


@settings(max_examples=30)
@given(st.lists(st.integers(1, 5000), max_size=6), st.integers(0, 40))
def test_packed_sizes_that_were_cut_are_refused(sizes: list[int], cut: int) -> None:
    content = packed_sizes(sizes)
    packed = bytes(cramjam.zstd.compress(content[:cut]))
    if cut >= len(content):
        assert chunk_sizes(packed) == sizes
        return
    with pytest.raises(ValueError, match="cut short"):
        chunk_sizes(packed)


WRONG: list[tuple[tuple[str, ...], object]] = [
    (("version",), "2"),
    (("compression",), "false"),
    (("chunkIndex", "type"), "other"),
    (("chunkIndex", "originalChunkSize"), 0),
    (("chunkIndex", "originalChunkSize"), 1e3),
    (("chunkIndex", "originalFileSize"), 2**31 * 10**6),
    (("chunkIndex", "finalTransformedChunkSize"), -1),
    (("segmentIndexes", "offset"), None),
    (("segmentIndexes", "timestamp", "position"), 3),
    (("segmentIndexes", "producerSnapshot", "size"), -1),
    (("remoteLogSegmentMetadata", "startOffset"), 200),
    (("remoteLogSegmentMetadata", "segmentLeaderEpochs"), {}),
    (("remoteLogSegmentMetadata", "segmentLeaderEpochs"), {"3": 100, "1": 105}),
    (("remoteLogSegmentMetadata", "segmentLeaderEpochs"), {"one": 100}),
    (("remoteLogSegmentMetadata", "remoteLogSegmentId", "id"), "short"),
    (("remoteLogSegmentMetadata", "remoteLogSegmentId"), None),
    (("encryption",), {"dataKey": "no id", "aad": ""}),
    (("encryption",), {"dataKey": "key:not base64", "aad": ""}),
    (("encryption",), {"dataKey": 1, "aad": ""}),
    (("chunkIndex",), {"type": "variable", "originalChunkSize": 9, "originalFileSize": 9}),
]


@pytest.mark.parametrize(("path", "value"), WRONG)
def test_a_manifest_with_an_impossible_value_is_refused(path: tuple[str, ...], value: Any) -> None:
    members = manifest_of(Style())
    inner = members
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = value
    with pytest.raises(CorruptionError, match="path at byte 0: it is not a segment's manifest: "):
        parse_manifest(json.dumps(members).encode(), "path")


def test_a_manifest_without_any_of_its_members_is_refused() -> None:
    for name in manifest_of(Style()):
        members = manifest_of(Style())
        del members[name]
        with pytest.raises(CorruptionError, match=f"no member '{name}'"):
            parse_manifest(json.dumps(members).encode(), "path")


def test_garbage_and_cut_manifests_are_refused() -> None:
    content = json.dumps(manifest_of(Style())).encode()
    for text in (b"", b"[]", b'"text"', b"[" * 100_000, b"\xff", content[:-1], content[5:]):
        with pytest.raises(CorruptionError, match="it is not a segment's manifest"):
            parse_manifest(text, "path")


def test_flipped_bits_raise_nothing_but_what_is_said() -> None:
    random = Random(1)
    for style in (Style(), Style(is_compressed=True)):
        content = bytearray(json.dumps(manifest_of(style)).encode())
        for position in range(len(content)):
            content[position] ^= (bit := 1 << random.randrange(8))
            with suppress(CorruptionError):
                parse_manifest(bytes(content), "path")
            content[position] ^= bit


def test_sizes_that_are_no_zstd_are_refused() -> None:
    members = manifest_of(Style(is_compressed=True))
    members["chunkIndex"]["transformedChunks"] = base64.b64encode(b"no zstd").decode()
    with pytest.raises(CorruptionError, match="it is not a segment's manifest"):
        parse_manifest(json.dumps(members).encode(), "path")
