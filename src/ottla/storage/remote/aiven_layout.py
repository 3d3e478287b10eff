"""The layout of Aiven's `RemoteStorageManager`: three objects for each segment.

The log is cut into chunks, each perhaps compressed, then perhaps encrypted; the indexes are joined;
the manifest says how to take both apart. Format page: docs/format/tier-objects.md.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Final

from ottla.base.errors import CorruptionError
from ottla.base.files import Buffer, join
from ottla.base.ids import Uuid, parse_uuid, uuid_text
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.codec.compression import decompress_zstd
from ottla.codec.frames import CompressionError
from ottla.storage.remote.aiven_custom_metadata import (
    CustomMetadata,
    custom_metadata_bytes,
    read_custom_metadata,
)
from ottla.storage.remote.aiven_encryption import OVERHEAD, ChunkCipher, TierKeys
from ottla.storage.remote.aiven_manifest import Manifest, parse_manifest
from ottla.storage.remote.aiven_writing import INDEXES, LOG, MANIFEST, AivenFormat, write_segment
from ottla.storage.remote.block_cache import BlockCache, Load, slice_of
from ottla.storage.remote.index_check import check_index
from ottla.storage.remote.log_check import FIRST_SIZE, check_first, check_last_entry
from ottla.storage.remote.segment_files import SegmentFiles
from ottla.storage.remote.segment_metadata import (
    IndexType,
    RemoteLogSegmentMetadata,
    TopicIdPartition,
)
from ottla.storage.remote.stored_upload import OnOther, StoredUpload, stored_uploads
from ottla.storage.remote.tier_objects import TierObjects

SUFFIXES: Final = {LOG, INDEXES, MANIFEST}

TOPIC = lazy_pattern(r"([a-zA-Z0-9._-]{1,249})-([a-zA-Z0-9_-]{22})")
OBJECT = lazy_pattern(r"([0-9]{20})-([a-zA-Z0-9_-]{22})(\.log|\.indexes|\.rsm-manifest)")

MANIFEST_COUNT: Final = 1000
"""How many manifests are remembered: as many as Aiven's plug-in remembers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Opened:
    """A segment whose manifest was found to agree with its metadata. `key` is the path
    of its objects in the store, without a suffix.
    """

    metadata: RemoteLogSegmentMetadata
    key: str
    manifest: Manifest
    cipher: ChunkCipher | None


class AivenTier:
    """Implements `RemoteStorage`. `prefix` is `key.prefix` as it is in the store; `form` is how
    segments are written.
    """

    def __init__(
        self,
        objects: TierObjects,
        prefix: str,
        cache: BlockCache,
        keys: TierKeys,
        form: AivenFormat | None = None,
    ) -> None:
        self._form = form
        self._objects = objects
        self._prefix = prefix
        self._cache = cache
        self._keys = keys
        self._opened: dict[bytes, _Opened] = {}
        self._sound: set[bytes] = set()
        """Those of the opened segments whose logs were compared with their manifests."""

    @property
    def address(self) -> str:
        return self._objects.address

    def log_size(self, segment: RemoteLogSegmentMetadata) -> int:
        return self._open_log(segment).manifest.chunks.original_size

    def read_log(self, segment: RemoteLogSegmentMetadata, position: int, size: int) -> bytes:
        return self._read(self._open_log(segment), position, size)

    def forget(self, segment: RemoteLogSegmentMetadata) -> None:
        self._opened.pop(segment.segment_id, None)
        self._cache.forget(segment.segment_id)

    def read_index(self, segment: RemoteLogSegmentMetadata, kind: IndexType) -> bytes | None:
        opened = self._open(segment)
        where = opened.manifest.indexes.get(kind)
        if where is None:
            return None
        path = opened.key + INDEXES
        self._check_size(segment, path, opened.manifest.indexes_size)
        content = self._objects.get(path, *where, segment)
        # Of an empty file nothing is written, not even what encryption adds.
        if opened.cipher is not None and content:
            plain = opened.cipher.open(content)
            if plain is None:
                reason = f"its {kind.name.lower()} index is not what was encrypted"
                raise self._objects.damage(segment, path, reason, where[0])
            content = plain
        with self._objects.about(segment, path):
            check_index(segment, kind, content, path)
            if kind is IndexType.OFFSET and opened.cipher is None:
                check_last_entry(segment, content, partial(self.read_log, segment), path)
        return content

    def segments(
        self, topic: str | None = None, partition: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """Those with a manifest, which is uploaded last. Asks for each of them."""
        for upload in self.uploads(topic, partition):
            found = self.examine(upload) if _has_manifest(upload) else None
            if found is not None:
                yield found

    def uploads(
        self,
        topic: str | None = None,
        partition: int | None = None,
        on_other: OnOther = lambda path: None,
    ) -> Iterator[StoredUpload]:
        for name, topic_id, folder in self._topic_folders(topic):
            for number in self._objects.folders(folder):
                if number.isdecimal() and partition in (None, int(number)):
                    place = TopicIdPartition(name, topic_id, int(number))
                    objects = self._objects.find_all(join(folder, number))
                    yield from stored_uploads(objects, OBJECT, place, SUFFIXES, on_other)

    def copy_segment(self, segment: RemoteLogSegmentMetadata, files: SegmentFiles) -> bytes | None:
        assert self._form is not None, "a tier that is found by what lies there is only read"
        place = self._prefix, main_key(segment)
        self._objects.checked(segment, "".join(place))
        return write_segment(self._objects, place, segment, files, self._form)

    def delete_segment(self, segment: RemoteLogSegmentMetadata) -> None:
        key = self._key(segment)
        # The manifest by itself and first: without it what is left is no segment.
        self._objects.delete_all([key + MANIFEST])
        self._objects.delete_all([key + LOG, key + INDEXES])
        self.forget(segment)

    def object_paths(self, segment: RemoteLogSegmentMetadata) -> dict[str, bool]:
        key = self._key(segment)
        return {key + suffix: True for suffix in (LOG, INDEXES, MANIFEST)}

    def has(self, path: str) -> bool:
        return self._objects.has(path)

    def path_of(self, segment: RemoteLogSegmentMetadata, kind: IndexType | None) -> str:
        suffix = LOG if kind is None else INDEXES
        return self._objects.full_path(self._key(segment) + suffix)

    def _topic_folders(self, topic: str | None) -> Iterator[tuple[str, Uuid, str]]:
        """The name and the id of each topic, with its folder."""
        directory, _, start = self._prefix.rpartition("/")
        for name in self._objects.folders(directory):
            found = TOPIC.fullmatch(name, len(start)) if name.startswith(start) else None
            if found is not None and topic in (None, found[1]):
                yield found[1], parse_uuid(found[2]), join(directory, name)

    def examine(self, upload: StoredUpload) -> RemoteLogSegmentMetadata | None:
        key = upload.objects[0].path.rpartition(".")[0]
        path = key + MANIFEST
        content = self._objects.find(path)
        if content is None:
            return None
        segment = parse_manifest(content, self._objects.full_path(path)).segment
        if not key.endswith(main_key(segment)):
            raise self._objects.damage(segment, path, "it is the manifest of another segment")
        prefix = key.removesuffix(main_key(segment))
        if prefix != self._prefix:
            custom = custom_metadata_bytes(CustomMetadata(object_prefix=prefix))
            segment = replace(segment, custom_metadata=custom)
        return segment

    def _read(self, opened: _Opened, position: int, size: int) -> bytes:
        chunks, segment_id = opened.manifest.chunks, opened.metadata.segment_id
        size = min(size, chunks.original_size - position)
        if size <= 0:
            return b""
        first = position // chunks.original_chunk_size
        last = (position + size - 1) // chunks.original_chunk_size
        blocks = self._cache.read(segment_id, first, last, self._loading(opened))
        return slice_of(blocks, position % chunks.original_chunk_size, size)

    def _open(self, segment: RemoteLogSegmentMetadata) -> _Opened:
        found = self._opened.pop(segment.segment_id, None)
        if found is None or found.metadata != segment:
            found = self._examined(segment)
            self._sound.discard(segment.segment_id)
        self._opened[segment.segment_id] = found
        for one in list(self._opened)[:-MANIFEST_COUNT]:
            self._opened.pop(one, None)
            self._sound.discard(one)
        return found

    def _open_log(self, segment: RemoteLogSegmentMetadata) -> _Opened:
        """Compares a segment's log with its manifest, before the first read. Without a log its
        indexes can be read still: they say which transactions were aborted.
        """
        opened = self._open(segment)
        if segment.segment_id in self._sound:
            return opened
        path = opened.key + LOG
        self._check_size(segment, path, opened.manifest.chunks.stored_size)
        if opened.cipher is None:
            # An encrypted one that is another segment's is not opened by this one's key.
            head = self._read(opened, 0, FIRST_SIZE)
            with self._objects.about(segment, path):
                check_first(segment, head, path)
        self._sound.add(segment.segment_id)
        return opened

    def _examined(self, segment: RemoteLogSegmentMetadata) -> _Opened:
        key = self._key(segment)
        path = key + MANIFEST
        content = self._objects.read(path, segment)
        with self._objects.about(segment, path):
            manifest = parse_manifest(content, path)
            _check_manifest(manifest, segment, path)
            cipher = None
            if manifest.encryption is not None:
                cipher = self._keys.cipher(manifest.encryption, self._objects.full_path(path))
        return _Opened(metadata=segment, key=key, manifest=manifest, cipher=cipher)

    def _check_size(self, segment: RemoteLogSegmentMetadata, path: str, expected: int) -> None:
        size = self._objects.size(path, segment)
        if size != expected:
            reason = f"has {size} bytes instead of {expected}"
            raise self._objects.damage(segment, path, reason, min(size, expected))

    def _key(self, segment: RemoteLogSegmentMetadata) -> str:
        custom = CustomMetadata()
        if segment.custom_metadata:
            try:
                custom = read_custom_metadata(segment.custom_metadata)
            except ValueError as error:
                raise self._objects.damage(
                    segment, "", f"the custom metadata of a segment is {error}"
                ) from error
        key = main_key(segment) if custom.object_key is None else custom.object_key
        prefix = self._prefix_in_store(custom.object_prefix, key)
        return self._objects.checked(segment, prefix + key)

    def _prefix_in_store(self, prefix: str | None, key: str) -> str:
        """Where the objects with a prefix are: the store may be a folder of the bucket, so that the
        prefix, or its beginning, is in the address.
        """
        if prefix is None or prefix == self._prefix:
            return self._prefix
        parts = prefix.split("/")
        for count in range(1, len(parts)):
            if self.address.endswith("/" + "/".join(parts[:count])):
                rest = "/".join(parts[count:])
                if rest == self._prefix or not self._objects.has(prefix + key + MANIFEST):
                    return rest
        return prefix

    def _loading(self, opened: _Opened) -> Load:
        """Loads chunks of a log: by one request for all that follow each other."""
        starts = opened.manifest.chunks.starts
        ahead = self._objects.read_ahead

        def load(first: int, last: int, is_sequential: bool) -> list[Buffer]:
            if first + 1 >= len(starts):
                return []
            until = starts[first] + ahead
            while is_sequential and last + 2 < len(starts) and starts[last + 2] <= until:
                last += 1
            size = starts[last + 1] - starts[first]
            stored = self._objects.get(opened.key + LOG, starts[first], size, opened.metadata)
            view, base = memoryview(stored), starts[first]
            return [
                self._plain(opened, number, view[starts[number] - base : starts[number + 1] - base])
                for number in range(first, last + 1)
            ]

        return load

    def _plain(self, opened: _Opened, number: int, chunk: Buffer) -> Buffer:
        """A chunk of the log as it was."""
        chunks = opened.manifest.chunks
        path, position = opened.key + LOG, chunks.starts[number]
        expected = chunks.size_of(number)
        if opened.cipher is not None:
            plain = opened.cipher.open(chunk)
            if plain is None:
                reason = f"its chunk {number} is not what was encrypted"
                raise self._objects.damage(opened.metadata, path, reason, position)
            chunk = plain
        if opened.manifest.is_compressed:
            try:
                chunk = decompress_zstd(chunk, expected)
            except CompressionError as error:
                reason = f"its chunk {number} cannot be decompressed: {error}"
                raise self._objects.damage(opened.metadata, path, reason, position) from error
        if len(chunk) != expected:
            reason = f"its chunk {number} has {len(chunk)} bytes instead of {expected}"
            raise self._objects.damage(opened.metadata, path, reason, position)
        return chunk


def main_key(segment: RemoteLogSegmentMetadata) -> str:
    """The name of a segment's objects, without prefix and suffix."""
    one = segment.partition
    return (
        f"{one.topic}-{uuid_text(one.topic_id)}/{one.partition}/"
        f"{segment.start_offset:020d}-{uuid_text(segment.segment_id)}"
    )


def _has_manifest(upload: StoredUpload) -> bool:
    return any(one.path.endswith(MANIFEST) for one in upload.objects)


def _check_manifest(manifest: Manifest, segment: RemoteLogSegmentMetadata, path: str) -> None:
    """Raises `CorruptionError` if a manifest contradicts the metadata of its segment, or itself."""
    stated, chunks = manifest.segment, manifest.chunks
    if (stated.partition, stated.segment_id) != (segment.partition, segment.segment_id):
        raise CorruptionError(path, 0, "it is the manifest of another segment")
    for name in ("start_offset", "end_offset", "max_timestamp_ms", "leader_epochs", "size"):
        one, other = getattr(stated, name), getattr(segment, name)
        if one != other:
            text = name.replace("_", " ")
            raise CorruptionError(path, 0, f"its {text} is {one}, and {other} in the metadata")
    overhead = 0 if manifest.encryption is None else OVERHEAD
    grown = chunks.original_size + chunks.count * overhead
    if not manifest.is_compressed and chunks.stored_size != grown:
        raise CorruptionError(path, 0, "its chunks do not make the log")
