"""The objects of one upload, by their names alone, as a listing of the tier shows them."""

from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.objects.store import StoredObject
from ottla.storage.remote.segment_metadata import TopicIdPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredUpload:
    """An upload that was finished, or of which a crash or a deletion has left a part."""

    partition: TopicIdPartition
    segment_id: Uuid
    start_offset: int
    objects: tuple[StoredObject, ...]
    """By path, relative to the tier's address."""
    is_complete: bool
    """Whether all objects are there that every upload has."""

    @property
    def size(self) -> int:
        return sum(one.size for one in self.objects)
