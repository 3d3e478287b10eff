"""The objects of one upload, by their names alone, as a listing of the tier shows them."""

from collections.abc import Callable, Collection, Iterable, Iterator
from re import Pattern

from ottla.base.files import base_name
from ottla.base.ids import Uuid, parse_uuid
from ottla.base.values import dataclass
from ottla.objects.store import StoredObject
from ottla.storage.remote.segment_metadata import TopicIdPartition

OnOther = Callable[[str], None]
"""Called with the path of an object that belongs to no upload."""


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


def stored_uploads(
    objects: Iterable[StoredObject],
    pattern: "Pattern[str]",
    place: TopicIdPartition,
    needed: Collection[str],
    on_other: OnOther,
) -> Iterator[StoredUpload]:
    """The uploads of a partition by the names of its objects, in their order.

    `pattern` matches a name: start offset, upload and suffix are its groups. `needed` are the
    suffixes that every upload has.
    """
    uploads: dict[tuple[str, str], dict[str, StoredObject]] = {}
    for one in objects:
        if found := pattern.fullmatch(base_name(one.path)):
            start, segment_id, suffix = found.groups()
            uploads.setdefault((start, segment_id), {})[suffix] = one
        else:
            on_other(one.path)
    for (start, segment_id), those in sorted(uploads.items()):
        yield StoredUpload(
            partition=place,
            segment_id=parse_uuid(segment_id),
            start_offset=int(start),
            objects=tuple(those.values()),
            is_complete=all(suffix in those for suffix in needed),
        )
