"""The leader epochs of a log whose own file is lost, by the newest of its uploads."""

from ottla.storage.log.leader_epochs import EpochEntry, parse_epoch_entries
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.storage.remote.segment_index import SegmentIndex
from ottla.storage.remote.segment_metadata import (
    IndexType,
    RemoteLogSegmentMetadata,
    SegmentState,
)


def newest_upload(index: SegmentIndex) -> RemoteLogSegmentMetadata | None:
    """The finished upload that the last leader wrote last: its epoch is the highest, and of those
    it reaches furthest.
    """
    finished = [one for one in index.segments() if one.state is SegmentState.COPY_SEGMENT_FINISHED]
    return max(finished, key=lambda one: (one.leader_epochs[-1][0], one.end_offset), default=None)


def newest_epochs(tier: RemoteStorage, index: SegmentIndex) -> tuple[EpochEntry, ...]:
    """The epochs in the checkpoint that was uploaded with the newest segment: all from the log's
    earliest on. None without an upload; raises `CorruptionError`.
    """
    newest = newest_upload(index)
    if newest is None:
        return ()
    content = tier.read_index(newest, IndexType.LEADER_EPOCH)
    path = tier.path_of(newest, IndexType.LEADER_EPOCH)
    return tuple(parse_epoch_entries(path, content or b""))
