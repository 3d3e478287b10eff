"""One upload is checked: each kind of damage to each object is named, with the offsets."""

import os
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.storage.findings import Finding, FindingKind
from ottla.storage.remote.opening import open_tier
from ottla.storage.remote.segment_metadata import RemoteLogSegmentMetadata
from ottla.storage.tiers.upload_check import Counts, check_upload
from tests.support.tiers import Uploaded, put, uploaded
from tests.unit.storage.remote.test_remote_storage import LAYOUTS, key_pair

ONE, OTHER = uploaded(100), uploaded(116, 7)

Damage = Callable[[Path], None]


def findings(
    place: Path, segment: RemoteLogSegmentMetadata, counts: Counts | None = None
) -> list[Finding]:
    keys = place.parent / "key.pem"
    keys.write_bytes(key_pair()[1])
    tier = open_tier(str(place), keys=str(keys))
    return list(check_upload(tier, segment, counts or Counts(), deep=True))


def put_all(place: Path, layout: str, *uploads: Uploaded) -> None:
    for one in uploads:
        put(place, LAYOUTS[layout](one))


def missing(path: Path) -> None:
    path.unlink()


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size - 5)


def flipped(path: Path) -> None:
    content = bytearray(path.read_bytes())
    # In a manifest a field of the chunk index, in a time index a timestamp.
    content[{".rsm-manifest": 60, ".timeindex": 7}.get(path.suffix, -1)] ^= 1
    path.write_bytes(content)


def swapped(path: Path) -> None:
    (other,) = path.parent.glob(f"{OTHER.metadata.start_offset:020}-*{path.suffix}")
    path.write_bytes(other.read_bytes())


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_sound_upload_has_no_findings(tmp_path: Path, layout: str) -> None:
    put_all(tmp_path / "tier", layout, ONE, OTHER)
    counts = Counts()
    for one in (ONE, OTHER):
        assert findings(tmp_path / "tier", one.metadata, counts) == []
    assert (counts.batches, counts.records) == (15, 30)


@pytest.mark.parametrize("damage", [missing, cut, flipped, swapped])
@pytest.mark.parametrize(
    ("layout", "suffix"),
    [
        ("local", ".log"),
        ("local", ".index"),
        ("local", ".timeindex"),
        ("local", ".leader_epoch_checkpoint"),
        ("local", ".snapshot"),
        ("plain", ".log"),
        ("plain", ".indexes"),
        ("plain", ".rsm-manifest"),
        ("compressed and encrypted", ".log"),
        ("compressed and encrypted", ".indexes"),
    ],
)
def test_each_damage_to_each_object_is_named(
    tmp_path: Path, layout: str, suffix: str, damage: Damage
) -> None:
    place = tmp_path / "tier"
    put_all(place, layout, ONE, OTHER)
    (path,) = place.rglob(f"{100:020}-*{suffix}")
    before = path.read_bytes()
    damage(path)
    assert not path.exists() or path.read_bytes() != before
    found = findings(place, ONE.metadata)
    assert found
    for one in found:
        assert one.kind is FindingKind.REMOTE_OBJECT
        assert "orders-0, offsets 100 to 115" in one.reason
        assert "put it back from a copy of the tier" in one.reason
    # A wrong manifest may show in another object, which it describes.
    assert suffix == ".rsm-manifest" or str(path) in {one.path for one in found}
    assert findings(place, OTHER.metadata) == []


def test_a_flipped_batch_is_named_with_its_offsets_and_the_rest_is_read(tmp_path: Path) -> None:
    put_all(tmp_path / "tier", "local", ONE)
    (log,) = (tmp_path / "tier").rglob("*.log")
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
    counts = Counts()
    (found,) = findings(tmp_path / "tier", ONE.metadata, counts)
    assert counts.batches == 7
    assert found.lost is not None
    assert found.lost.last == found.lost.first + 1
    assert found.position is not None


def test_a_batch_of_another_leader_epoch_is_named(tmp_path: Path) -> None:
    """No checksum covers a batch's epoch."""
    put_all(tmp_path / "tier", "local", ONE)
    (log,) = (tmp_path / "tier").rglob("*.log")
    content = bytearray(log.read_bytes())
    struct.pack_into(">i", content, 12, 2)
    log.write_bytes(content)
    (found,) = findings(tmp_path / "tier", ONE.metadata)
    assert "leader epoch 2 at offset 100" in found.reason


def test_an_index_that_is_in_order_but_not_of_its_log_is_named(tmp_path: Path) -> None:
    put_all(tmp_path / "tier", "local", ONE)
    (index,) = (tmp_path / "tier").rglob("*.index")
    content = bytearray(index.read_bytes())
    (position,) = struct.unpack_from(">i", content, 4)
    struct.pack_into(">i", content, 4, position + 1)
    index.write_bytes(content)
    (found,) = findings(tmp_path / "tier", ONE.metadata)
    assert found.path == str(index)
    assert f"no batch begins at position {position + 1}" in found.reason


def test_an_entry_of_no_abort_marker_is_named(tmp_path: Path) -> None:
    wrong = uploaded(100, with_aborts=True)  # Its log has no markers.
    put_all(tmp_path / "tier", "local", wrong)
    (found,) = findings(tmp_path / "tier", wrong.metadata)
    assert "where no abort marker is" in found.reason
