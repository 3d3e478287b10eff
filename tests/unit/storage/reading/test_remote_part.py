"""What the records about a tier say of a log, without the tier."""

import shutil
from pathlib import Path

from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.storage.reading.remote_part import RemotePart, RemoteRecords
from tests.support.tiered import TieredPlace, uploaded


def part(place: TieredPlace) -> RemotePart:
    directory = open_for_reading(str(place.data))
    return RemoteRecords([directory]).part_of(directory.partition("orders", 0))


def test_uploads_before_the_first_local_segment_are_its_part(tmp_path: Path) -> None:
    uploads = [uploaded(1, 0, 9), uploaded(2, 10, 19), uploaded(3, 20, 29)]
    place = TieredPlace(tmp_path, uploads, (20, 29), (30, 35))
    shutil.rmtree(place.tier)
    found = part(place)
    assert [one.first_offset for one in found.pieces] == [0, 10]
    assert (found.start_offset, found.highest_offset, found.gaps) == (0, 29, ())
    assert found.size == sum(one.metadata.size for one in uploads[:2])
    assert found.tier_size == sum(one.metadata.size for one in uploads)


def test_offsets_that_are_nowhere_are_gaps(tmp_path: Path) -> None:
    found = part(TieredPlace(tmp_path, [uploaded(1, 0, 9)], (20, 25)))
    assert [(one.from_offset, one.until_offset) for one in found.gaps] == [(10, 20)]
    assert found.highest_offset == 9


def test_a_log_without_records_has_nothing_in_a_tier(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9)], (10, 15))
    shutil.rmtree(place.data / "__remote_log_metadata-0")
    assert part(place) == RemotePart(start_offset=10)


def test_damaged_records_are_told(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9)], (10, 15))
    (log,) = (place.data / "__remote_log_metadata-0").glob("*.log")
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    records = RemoteRecords([open_for_reading(str(place.data))])
    assert [one.path for one in records.findings] == [str(log)]
