"""A tier lists what lies in it: whole uploads, halves, and what belongs to none."""

from pathlib import Path

import pytest

from ottla.storage.remote.opening import open_tier
from tests.support.tiers import Uploaded, put, uploaded
from tests.unit.storage.remote.test_remote_storage import LAYOUTS

ONE, OTHER = uploaded(100, with_aborts=True), uploaded(116, 7)
ELSEWHERE = uploaded(0, topic="pay-ments", partition=12, seed=2)

each_layout = pytest.mark.parametrize("layout", ["local", "plain"])


def put_all(place: Path, layout: str, *uploads: Uploaded) -> list[Path]:
    """The files of these uploads, in the order of their names."""
    for one in uploads:
        put(place, LAYOUTS[layout](one))
    return sorted(path for path in place.rglob("*") if path.is_file())


@each_layout
def test_every_upload_is_listed_with_its_objects(tmp_path: Path, layout: str) -> None:
    files = put_all(tmp_path, layout, ONE, OTHER, ELSEWHERE)
    tier = open_tier(str(tmp_path))
    found = {one.segment_id: one for one in tier.uploads()}
    for one in (ONE, OTHER, ELSEWHERE):
        upload = found[one.metadata.segment_id]
        assert (upload.partition, upload.start_offset) == (
            one.metadata.partition,
            one.metadata.start_offset,
        )
        assert upload.is_complete
        paths = {item.path for item in upload.objects}
        expected = tier.object_paths(one.metadata)
        assert paths <= expected.keys()
        assert {path for path, has_to_exist in expected.items() if has_to_exist} <= paths
        assert upload.size == sum((tmp_path / path).stat().st_size for path in paths)
    listed = {str(tmp_path / item.path) for one in found.values() for item in one.objects}
    assert listed == set(map(str, files))
    assert [one.start_offset for one in tier.uploads("orders", 0)] == [100, 116]
    assert list(tier.uploads("orders", 1)) == []


@each_layout
def test_what_an_upload_says_of_itself_is_what_was_uploaded(tmp_path: Path, layout: str) -> None:
    put_all(tmp_path, layout, ONE)
    tier = open_tier(str(tmp_path))
    (upload,) = tier.uploads()
    found = tier.examine(upload)
    assert found is not None
    assert (found.end_offset, found.size, found.leader_epochs) == (
        ONE.metadata.end_offset,
        ONE.metadata.size,
        ONE.metadata.leader_epochs,
    )
    for path in list(tmp_path.rglob("*")):
        if path.is_file():
            path.unlink()
    assert tier.examine(upload) is None  # deleted meanwhile


@each_layout
def test_a_half_upload_is_not_complete_and_other_files_are_told(
    tmp_path: Path, layout: str
) -> None:
    """Its last object was not written: a producer snapshot, or a manifest."""
    files = put_all(tmp_path, layout, ONE, OTHER)
    last = (
        files[-1] if layout == "plain" else next(one for one in files if one.suffix == ".snapshot")
    )
    last.unlink()
    (last.parent / "notes.txt").write_text("mine")
    tier, others = open_tier(str(tmp_path)), list[str]()
    found = list(tier.uploads(on_other=others.append))
    assert [one.is_complete for one in found] in ([True, False], [False, True])
    assert [Path(one).name for one in others] == ["notes.txt"]
    assert len(list(tier.segments())) == 1
