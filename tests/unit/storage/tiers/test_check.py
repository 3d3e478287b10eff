"""A whole tier is checked: gaps, what is left over, and what damage means for the log."""

import shutil
from pathlib import Path

import pytest

from ottla.storage.findings import FindingKind
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.storage.remote.opening import open_tier
from ottla.storage.tiers.check import TierReport, check_tier, missing_objects
from ottla.storage.tiers.contents import TierContents
from tests.support.tiered import TieredPlace, uploaded
from tests.support.tiers import local_objects, put


def contents(place: TieredPlace, *, with_directory: bool = True) -> TierContents:
    directories = [open_for_reading(str(place.data))] if with_directory else []
    return TierContents(open_tier(str(place.tier)), directories)


def checked(place: TieredPlace, *, with_directory: bool = True) -> TierReport:
    return check_tier(contents(place, with_directory=with_directory))


def two(tmp_path: Path) -> TieredPlace:
    return TieredPlace(tmp_path, [uploaded(1, 0, 9), uploaded(2, 10, 19)], (20, 25))


@pytest.mark.parametrize("with_directory", [True, False])
def test_a_whole_tier_is_sound(tmp_path: Path, with_directory: bool) -> None:
    steps: list[tuple[int, int]] = []
    found = contents(two(tmp_path), with_directory=with_directory)
    report = check_tier(found, deep=True, on_bytes=lambda done, total: steps.append((done, total)))
    assert (report.findings, report.is_sound) == ([], True)
    assert (report.partition_count, report.upload_count, report.counts.records) == (1, 2, 20)
    assert steps == [(0, report.size), (uploaded(1, 0, 9).metadata.size, report.size)]


def test_a_record_without_objects_is_damage(tmp_path: Path) -> None:
    place = two(tmp_path)
    for path in place.tier.rglob(f"{10:020}-*"):
        path.unlink()
    report = checked(place)
    assert not report.is_sound
    assert "is missing (orders-0, offsets 10 to 19)" in report.findings[0].reason
    # A listing alone shows it too, without a byte that is read.
    (log,) = contents(place).logs()
    missing = [one for upload in log.uploads() for one in missing_objects(upload, contents(place))]
    assert len(missing) == 5  # All but the transaction index, which need not be there.
    assert all(one.kind is FindingKind.REMOTE_OBJECT for one in missing)


def test_a_gap_between_uploads_is_damage(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9), uploaded(2, 20, 29)], (30, 35))
    for with_directory in (True, False):
        (found,) = checked(place, with_directory=with_directory).findings
        assert found.kind is FindingKind.LOST_OFFSETS
        assert "no upload in the tier has offsets 10 to 19" in found.reason
        assert "--before 20" in found.reason


def test_a_gap_before_the_first_local_segment_is_damage(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9)], (20, 25))
    (found,) = checked(place).findings
    assert "offsets 10 to 19" in found.reason


def test_orphans_halves_and_strangers_are_notes(tmp_path: Path) -> None:
    place = two(tmp_path)
    put(place.tier, local_objects(uploaded(7, 0, 9)))
    half = [one for one in local_objects(uploaded(8, 20, 25)) if one[0].endswith(".log")]
    put(place.tier, iter(half))
    (folder,) = (place.tier / "kafka-tiered-storage").iterdir()
    (folder / "notes.txt").write_text("mine")
    report = checked(place)
    assert report.is_sound
    assert [one.kind for one in report.findings] == [
        FindingKind.REMOTE_ORPHAN,
        FindingKind.REMOTE_ORPHAN,
        FindingKind.STRANGER,
    ]
    assert "no record names this upload" in report.findings[0].reason
    assert "half of an upload" in report.findings[1].reason


@pytest.mark.parametrize(
    ("place_of", "consequence"),
    [
        (
            lambda path: TieredPlace(path, [uploaded(1, 0, 9), uploaded(2, 10, 19)], (10, 25)),
            "nothing is lost yet",
        ),
        (
            lambda path: TieredPlace(
                path, [uploaded(2, 10, 19), uploaded(1, 0, 9), uploaded(3, 10, 19)], (20, 25)
            ),
            "another upload has these offsets",
        ),
        (
            lambda path: TieredPlace(
                path, [uploaded(1, 0, 9), uploaded(2, 10, 19)], (20, 25), log_start=20
            ),
            "before the log's start",
        ),
        (
            lambda path: TieredPlace(
                path,
                [uploaded(1, 0, 9), uploaded(2, 10, 19, epoch=1), uploaded(3, 10, 19, epoch=2)],
                (20, 25),
                epochs=((0, 0), (2, 10)),
            ),
            "the log does not have these records",
        ),
    ],
    ids=["also-local", "superseded", "expired", "other-lineage"],
)
def test_damage_says_what_it_means_for_the_log(
    tmp_path: Path, place_of: object, consequence: str
) -> None:
    place: TieredPlace = place_of(tmp_path)  # type: ignore[operator]
    upload = f"{2:016x}"
    assert upload
    path = next(
        one
        for one in sorted(place.tier.rglob(f"{10:020}-*.log"))
        if one.read_bytes() == uploaded(2, 10, 19).log
        or one.read_bytes() == uploaded(2, 10, 19, epoch=1).log
    )
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    found = checked(place).findings
    assert any(consequence in one.reason for one in found), found


def test_a_damaged_metadata_record_is_named_and_the_tier_taken_for_it(tmp_path: Path) -> None:
    place = two(tmp_path)
    (log,) = (place.data / "__remote_log_metadata-0").glob("*.log")
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    report = checked(place)
    assert not report.is_sound
    first, last = report.findings
    assert first.path == str(log)
    assert "records about uploads may be lost" in first.reason
    assert f"ottla log repair {place.data}" in first.reason
    assert last.kind is FindingKind.STATE
    assert report.upload_count == 2


def test_missing_metadata_is_told(tmp_path: Path) -> None:
    place = two(tmp_path)
    shutil.rmtree(place.data / "__remote_log_metadata-0")
    report = checked(place)
    assert report.is_sound
    assert "what lies in the tier is taken" in report.findings[0].reason
