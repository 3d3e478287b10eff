"""Writes a segment as Aiven's `RemoteStorageManager` does: log, indexes, manifest.

A segment is complete with its manifest, so that a crash before it leaves objects that nobody reads.
Format page: docs/format/tier-objects.md.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate
from typing import Any, Final

from ottla.base.values import dataclass
from ottla.codec.compression import Compression, compress_zstd
from ottla.record.batch import InvalidBatchError, batch_at
from ottla.storage.remote.aiven_custom_metadata import CustomMetadata, custom_metadata_bytes
from ottla.storage.remote.aiven_encryption import (
    DATA_KEY_SIZE,
    HASH_SIZE,
    IV_SIZE,
    ChunkCipher,
    sealed,
)
from ottla.storage.remote.aiven_manifest import (
    INDEX_NAMES,
    Chunks,
    Encryption,
    Manifest,
    manifest_bytes,
)
from ottla.storage.remote.log_check import FIRST_SIZE
from ottla.storage.remote.segment_files import SegmentFiles
from ottla.storage.remote.segment_metadata import IndexType, RemoteLogSegmentMetadata
from ottla.storage.remote.tier_objects import TierObjects

LOG: Final = ".log"
INDEXES: Final = ".indexes"
MANIFEST: Final = ".rsm-manifest"

REMOTE_SIZE: Final = "REMOTE_SIZE"
OBJECT_PREFIX: Final = "OBJECT_PREFIX"
OBJECT_KEY: Final = "OBJECT_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class AivenFormat:
    """How segments are written: the settings of the plug-in that show in objects.

    With `spares_compressed` a log whose first batch is compressed is not compressed again
    (`compression.heuristic.enabled`). `key_pair` is the id and the public key of the active pair.
    `pace` is called with the count of bytes before they are written. `custom_fields` are the names
    of what custom metadata has.
    """

    chunk_size: int
    compresses: bool = False
    spares_compressed: bool = False
    key_pair: tuple[str, Any] | None = None
    custom_fields: tuple[str, ...] = ()
    random_bytes: Callable[[int], bytes]
    pace: Callable[[int], None] = lambda size: None


class _Sealing:
    """What one segment is encrypted with, if it is."""

    def __init__(self, form: AivenFormat) -> None:
        self._random_bytes = form.random_bytes
        self.encryption: Encryption | None = None
        self._cipher: ChunkCipher | None = None
        if form.key_pair is not None:
            key_pair_id, public = form.key_pair
            data_key, associated = form.random_bytes(DATA_KEY_SIZE), form.random_bytes(32)
            self._cipher = ChunkCipher(data_key, associated)
            self.encryption = Encryption(
                key_pair_id=key_pair_id,
                sealed_key=sealed(public, data_key, form.random_bytes(HASH_SIZE)),
                associated_data=associated,
            )

    def sealed(self, content: bytes) -> bytes:
        """Of an empty file nothing is written, not even what encryption adds."""
        if self._cipher is None or not content:
            return content
        return self._cipher.seal(content, self._random_bytes(IV_SIZE))


def write_segment(
    objects: TierObjects,
    place: tuple[str, str],
    segment: RemoteLogSegmentMetadata,
    files: SegmentFiles,
    form: AivenFormat,
) -> bytes | None:
    """Writes the three objects; `place` is their prefix and their name without a suffix. Returns
    custom metadata.
    """
    key = "".join(place)
    sealing = _Sealing(form)
    compresses = form.compresses and not (form.spares_compressed and _is_compressed(files))
    sizes: list[int] = []
    parts = _chunks(files, form, compresses, sealing)
    size = objects.put(key + LOG, _measured(parts, sizes))
    indexes, where = _joined(files, sealing)
    form.pace(len(indexes))
    size += objects.put(key + INDEXES, [indexes])
    manifest = Manifest(
        chunks=Chunks(
            original_chunk_size=form.chunk_size,
            original_size=files.log.size,
            starts=tuple(accumulate(sizes, initial=0)),
        ),
        indexes=where,
        is_compressed=compresses,
        encryption=sealing.encryption,
        segment=segment,
    )
    size += objects.put(key + MANIFEST, [manifest_bytes(manifest)])
    if not form.custom_fields:
        return None
    prefix, name = place
    return custom_metadata_bytes(
        CustomMetadata(
            remote_size=size if REMOTE_SIZE in form.custom_fields else None,
            object_prefix=prefix if OBJECT_PREFIX in form.custom_fields else None,
            object_key=name if OBJECT_KEY in form.custom_fields else None,
        )
    )


def _chunks(
    files: SegmentFiles, form: AivenFormat, compresses: bool, sealing: _Sealing
) -> Iterator[bytes]:
    """The log as it is stored, chunk by chunk."""
    for chunk in files.log_parts(form.chunk_size):
        form.pace(len(chunk))
        yield sealing.sealed(compress_zstd(chunk) if compresses else chunk)


def _measured(parts: Iterable[bytes], sizes: list[int]) -> Iterator[bytes]:
    for part in parts:
        sizes.append(len(part))
        yield part


def _joined(
    files: SegmentFiles, sealing: _Sealing
) -> tuple[bytes, dict[IndexType, tuple[int, int]]]:
    """The indexes, and the position and the size of each."""
    joined, where = b"", {}
    for kind in INDEX_NAMES.values():
        content = files.indexes.get(kind)
        if content is not None:
            stored = sealing.sealed(content)
            where[kind] = len(joined), len(stored)
            joined += stored
    return joined, where


def _is_compressed(files: SegmentFiles) -> bool:
    """Whether the first batch is; if there is none, compressing it again would not help either."""
    try:
        first = batch_at(next(files.log_parts(FIRST_SIZE), b""))
    except InvalidBatchError:
        return True
    return first.compression is not Compression.NONE
