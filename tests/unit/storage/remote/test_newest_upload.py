"""The leader epochs of a log that has no file of its own are those of its newest upload."""

from dataclasses import replace
from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError
from ottla.storage.log.leader_epochs import EpochEntry
from ottla.storage.remote.newest_upload import newest_epochs, newest_upload
from ottla.storage.remote.opening import open_tier
from ottla.storage.remote.segment_index import SegmentIndex
from ottla.storage.remote.segment_metadata import SegmentState
from tests.support.tiered import TOPIC, uploaded
from tests.support.tiers import local_objects, put


def index_of(*segments: object) -> SegmentIndex:
    index = SegmentIndex(TOPIC)
    for one in segments:
        assert index.put(one) is None  # type: ignore[arg-type]
    return index


def test_the_last_leader_counts_before_the_furthest_offset() -> None:
    """A deposed leader may have uploaded more than the next one has written by now."""
    old, new = uploaded(1, 0, 99, epoch=2).metadata, uploaded(2, 0, 9, epoch=3).metadata
    assert newest_upload(index_of(old, new)) == new
    further = uploaded(3, 10, 19, epoch=3).metadata
    assert newest_upload(index_of(further, old, new)) == further


def test_an_unfinished_upload_does_not_count(tmp_path: Path) -> None:
    begun = replace(uploaded(1, 0, 9).metadata, state=SegmentState.COPY_SEGMENT_STARTED)
    assert newest_upload(index_of(begun)) is None
    put(tmp_path, local_objects(uploaded(2, 0, 9)))
    assert newest_epochs(open_tier(str(tmp_path)), index_of(begun)) == ()


def test_its_file_is_read_and_its_damage_named(tmp_path: Path) -> None:
    one = uploaded(1, 0, 9, epoch=4)
    put(tmp_path, local_objects(one))
    tier = open_tier(str(tmp_path))
    assert newest_epochs(tier, index_of(one.metadata)) == (EpochEntry(4, 0),)
    (file,) = tmp_path.rglob("*.leader_epoch_checkpoint")
    file.write_text("0\n1\nnone\n")
    with pytest.raises(CorruptionError, match="orders-0, offsets 0 to 9"):
        newest_epochs(tier, index_of(one.metadata))
