"""What a tier does with segments, whatever its layout: Kafka's `RemoteStorageManager`."""

from collections.abc import Iterator
from typing import Protocol

from ottla.base.errors import CorruptionError, UserError
from ottla.storage.remote.segment_files import SegmentFiles
from ottla.storage.remote.segment_metadata import IndexType, RemoteLogSegmentMetadata
from ottla.storage.remote.stored_upload import OnOther, StoredUpload


class TierError(UserError):
    """A tier does not answer, or refuses, or did not keep what it was given.

    `is_retriable`: the same request may succeed later by itself, as after a time-out (Kafka:
    `RetriableRemoteStorageException`). Otherwise it needs other settings or permissions
    (`RemoteStorageException`).
    """

    def __init__(self, text: str, *, is_retriable: bool) -> None:
        super().__init__(text)
        self.is_retriable = is_retriable


class MissingObjectError(CorruptionError):
    """An object of a segment does not exist: it is lost, or the segment has been deleted meanwhile
    (Kafka: `RemoteResourceNotFoundException`).
    """


class RemoteStorage(Protocol):
    """A tier. What is damaged in it raises `CorruptionError`, which names the object, and what is
    missing `MissingObjectError`; a store that does not answer, or refuses, raises `TierError`.

    Every call may wait for the store as long as its time-outs say, and lets other threads run.
    Several threads may use a tier at once.
    """

    @property
    def address(self) -> str:
        """The directory or URL, as people write it."""

    def log_size(self, segment: RemoteLogSegmentMetadata) -> int:
        """The bytes of the original `.log`: `segment.size`, since the tier has the whole log of
        this segment, or it is damaged.
        """

    def read_log(self, segment: RemoteLogSegmentMetadata, position: int, size: int) -> bytes:
        """Bytes of the original `.log`; fewer than `size` only at its end.

        Cheap in small steps that follow each other: a store is asked for more at once.
        """

    def forget(self, segment: RemoteLogSegmentMetadata) -> None:
        """Has the objects read again: what was read of them is damaged, and may be put back."""

    def read_index(self, segment: RemoteLogSegmentMetadata, kind: IndexType) -> bytes | None:
        """The original file; `None` if the segment has no transaction index."""

    def uploads(
        self,
        topic: str | None = None,
        partition: int | None = None,
        on_other: OnOther = lambda path: None,
    ) -> Iterator[StoredUpload]:
        """What lies in the tier by its names, each partition's together and by start offset;
        `on_other` gets the paths of objects beside them whose names are of no upload.
        """

    def examine(self, upload: StoredUpload) -> RemoteLogSegmentMetadata | None:
        """What the objects of an upload say of their segment; `None` if it has been deleted since
        it was listed. Raises `CorruptionError`.
        """

    def object_paths(self, segment: RemoteLogSegmentMetadata) -> dict[str, bool]:
        """The paths of a segment's objects, relative to the address, and whether each has to exist.
        Raises `CorruptionError` if its metadata names none.
        """

    def path_of(self, segment: RemoteLogSegmentMetadata, kind: IndexType | None) -> str:
        """The address of the object with a segment's index, or with its log. Raises
        `CorruptionError` as `object_paths` does.
        """

    def has(self, path: str) -> bool:
        """Whether there is an object of this path, relative to the address."""

    def segments(
        self, topic: str | None = None, partition: int | None = None
    ) -> Iterator[RemoteLogSegmentMetadata]:
        """What the tier itself says of its segments, for want of metadata records: those whose
        upload is complete, each partition's together and by start offset. Topics that had one name
        after each other differ by their ids.

        A layout whose names say less than records fills in what it reads from the objects.
        """

    def copy_segment(self, segment: RemoteLogSegmentMetadata, files: SegmentFiles) -> bytes | None:
        """Copies the files of a segment, of which the tier has nothing; returns custom metadata for
        the records, if the layout has any.

        When it returns, all objects are durable, and their sizes have been read back. After an
        error, or a crash, some of them may exist: `delete_segment` removes them, and the next
        attempt needs another id. `StorageError` and `CorruptionError` are of the local files.
        """

    def delete_segment(self, segment: RemoteLogSegmentMetadata) -> None:
        """Removes all objects of a segment, durably; those that do not exist are no error, so that
        it can be repeated, and used after an upload that failed.

        The metadata of an upload that failed has no custom metadata yet.
        """
