"""A log directory with a tier shows each partition as one log."""

import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, CorruptionError
from ottla.base.ids import Uuid, uuid_text
from ottla.storage.files.filenames import log_file_name
from ottla.storage.findings import Finding
from ottla.storage.reading.opening import open_directories
from ottla.storage.reading.tiered_files import TieredFiles
from ottla.storage.reading.time_search import first_offset_at
from ottla.storage.remote.opening import open_tier
from tests.support.tiered import TOPIC, TieredPlace, uploaded
from tests.support.tiers import NOW_MS


def test_uploads_come_before_local_segments_and_each_record_once(tmp_path: Path) -> None:
    uploads = [uploaded(1, 0, 9), uploaded(2, 10, 19), uploaded(3, 20, 29)]
    one = TieredPlace(tmp_path, uploads, (20, 35))  # the last upload is local too
    assert one.offsets() == [*range(36)]
    assert one.offsets(13) == [*range(13, 36)]
    assert [segment.base_offset for segment in one.log().segments] == [0, 10, 20]


def test_uploads_of_other_bounds_are_cut_where_others_begin(tmp_path: Path) -> None:
    """As after changes of leaders, whose segments begin elsewhere."""
    uploads = [uploaded(1, 0, 13), uploaded(2, 8, 19), uploaded(3, 18, 31)]
    one = TieredPlace(tmp_path, uploads, (26, 35))
    assert one.offsets() == [*range(36)]
    assert one.offsets(9) == [*range(9, 36)]
    assert first_offset_at(one.log(), timestamp_ms=NOW_MS + 17) == 17


def test_a_log_may_start_within_an_upload(tmp_path: Path) -> None:
    uploads = [uploaded(1, 0, 9), uploaded(2, 10, 19)]
    one = TieredPlace(tmp_path, uploads, (20, 25), log_start=15)
    assert one.log().log_start_offset == 15
    assert one.offsets() == [*range(15, 26)]
    with pytest.raises(ApiError) as refused:
        one.offsets(14)
    assert refused.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_an_upload_that_was_not_finished_is_not_read(tmp_path: Path) -> None:
    """Its range was copied again: half a log lies beside a whole one."""
    half = replace(uploaded(1, 0, 9), log=b"half")
    one = TieredPlace(tmp_path, [half, uploaded(2, 0, 9)], (10, 15))
    assert one.offsets() == [*range(16)]


def test_a_part_that_no_upload_has_is_an_error_and_not_the_end(tmp_path: Path) -> None:
    one = TieredPlace(tmp_path, [uploaded(1, 0, 9), uploaded(2, 20, 29)], (30, 35))
    with pytest.raises(CorruptionError, match="offsets 10 to 19"):
        one.offsets()
    assert one.offsets(20) == [*range(20, 36)]
    damage: list[Finding] = []
    (directory,) = open_directories([str(one.data)], on_damage=damage.append, tier=one.place)
    found = [record.offset for record in directory.partition("orders", 0).records.read(0)]
    assert found == [*range(10), *range(20, 36)]
    assert [one.offsets for one in damage] == ["offsets 10 to 19"]


def test_a_missing_object_is_named_with_its_offsets(tmp_path: Path) -> None:
    one = TieredPlace(tmp_path, [uploaded(1, 0, 9), uploaded(2, 10, 19)], (20, 25))
    (log,) = one.tier.rglob(f"{10:020}-*.log")
    log.unlink()
    with pytest.raises(CorruptionError, match="orders-0, offsets 10 to 19") as refused:
        one.offsets()
    assert log.name in str(refused.value)


def test_a_flipped_bit_in_an_upload_is_found(tmp_path: Path) -> None:
    one = TieredPlace(tmp_path, [uploaded(1, 0, 9), uploaded(2, 10, 19)], (20, 25))
    (log,) = one.tier.rglob(f"{10:020}-*.log")
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    with pytest.raises(CorruptionError):
        one.offsets()


def test_without_metadata_records_what_lies_in_the_tier_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = TieredPlace(tmp_path, [uploaded(1, 0, 9), uploaded(2, 10, 19)], (20, 25))
    for file in one.data.glob("__remote_log_metadata-0/*"):
        file.unlink()
    (one.data / "__remote_log_metadata-0").rmdir()
    with caplog.at_level(logging.WARNING):
        assert one.offsets() == [*range(26)]
    assert "metadata records of its uploads are missing" in caplog.text


def test_uploads_of_which_another_broker_has_the_records_are_found_in_the_tier(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    one = TieredPlace(tmp_path, [uploaded(1, 0, 9), uploaded(2, 10, 19)], (20, 25))
    other = replace(TOPIC, topic="others", topic_id=Uuid(bytes(15) + b"\1"))
    one.write_metadata([replace(uploaded(3, 0, 9).metadata, partition=other)])
    with caplog.at_level(logging.WARNING):
        assert one.offsets() == [*range(26)]
    assert "metadata records of its uploads are missing" in caplog.text


def test_segments_that_a_broker_moves_to_the_tier_meanwhile_stay_readable(tmp_path: Path) -> None:
    one = TieredPlace(tmp_path, [uploaded(1, 0, 9)], (10, 19), (20, 25))
    directory = one.directory()
    log = directory.partition("orders", 0)
    read = log.records.read(0)
    assert next(read).offset == 0
    TieredPlace(tmp_path / "later", [uploaded(1, 0, 9), uploaded(2, 10, 19)], (20, 25))
    for name in ("data/__remote_log_metadata-0", "tier"):
        for file in (tmp_path / "later" / name).rglob("*"):
            if file.is_file():
                target = tmp_path / file.relative_to(tmp_path / "later")
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(file, target)
    (one.partition / log_file_name(10)).unlink()
    assert [record.offset for record in read] == [*range(1, 26)]
    assert one.offsets() == [*range(26)]


def test_a_topic_without_uploads_is_read_from_its_files(tmp_path: Path) -> None:
    one = TieredPlace(tmp_path, [uploaded(1, 0, 9)], (10, 15))
    folder = one.data / "plain-0"
    folder.mkdir()
    (folder / log_file_name(10)).write_bytes((one.partition / log_file_name(10)).read_bytes())
    directory = one.directory()
    assert directory.topics()["plain"] == [0]
    log = directory.partition("plain", 0)
    assert [record.offset for record in log.records.read(10)] == [*range(10, 16)]


def test_a_partition_without_uploads_is_looked_up_once(tmp_path: Path) -> None:
    """Without metadata records the store is listed for it."""
    one = TieredPlace(tmp_path, [uploaded(1, 0, 9)], (10, 15))
    shutil.rmtree(one.data / "__remote_log_metadata-0")
    (one.partition / "partition.metadata").write_text(
        f"version: 0\ntopic_id: {uuid_text(Uuid(bytes(15) + bytes([9])))}\n"
    )
    listed: list[str] = []
    tier = open_tier(str(one.tier))
    plain = tier.segments

    def segments(topic: str | None = None, partition: int | None = None) -> Iterator[Any]:
        listed.append(str(topic))
        return plain(topic, partition)

    tier.segments = segments  # type: ignore[method-assign]
    files = TieredFiles(tier, [str(one.data)])
    for _ in range(3):
        assert files.list(str(one.partition)) == sorted(os.listdir(one.partition))
        assert files.status(str(one.partition / log_file_name(3))) is None
    assert listed == ["orders"]


def test_nothing_is_changed_through_it(tmp_path: Path) -> None:
    files = TieredPlace(tmp_path, [uploaded(1, 0, 9)], (10, 15)).directory().file_system
    path = str(tmp_path / "data")
    for deed in (
        lambda: files.remove(path),
        lambda: files.rename(path, path),
        lambda: files.make_directory(path),
        lambda: files.sync_directory(path),
        lambda: files.lock(path),
        lambda: files.restrict(path),
        lambda: files.link(path, path),
        lambda: files.exchange(path, path),
        lambda: files.remove_directory(path),
        lambda: files.set_modified_ms(path, 1),
    ):
        with pytest.raises(OSError, match="only read"):
            deed()


@pytest.mark.parametrize("suffix", ["log", "index", "timeindex"])
def test_a_damaged_object_is_stepped_over_and_named(tmp_path: Path, suffix: str) -> None:
    one = TieredPlace(tmp_path, [uploaded(1, 0, 9), uploaded(2, 10, 19)], (20, 25))
    (path,) = one.tier.rglob(f"{10:020}-*.{suffix}")
    path.unlink()
    damage: list[Finding] = []
    (directory,) = open_directories([str(one.data)], on_damage=damage.append, tier=one.place)
    found = [record.offset for record in directory.partition("orders", 0).records.read(0)]
    is_lost = suffix == "log"
    assert found == [offset for offset in range(26) if not (is_lost and 10 <= offset < 20)]
    # A reader that steps over damage reads logs alone, and so no index.
    assert {finding.path for finding in damage} >= ({str(path)} if is_lost else set())
    lost = [finding.offsets for finding in damage if finding.lost is not None]
    assert lost == (["offsets 10 to 19"] if is_lost else [])


def test_sound_batches_of_a_damaged_object_are_read(tmp_path: Path) -> None:
    one = TieredPlace(tmp_path, [uploaded(1, 0, 9), uploaded(2, 10, 19)], (20, 25))
    (path,) = one.tier.rglob(f"{10:020}-*.log")
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    damage: list[Finding] = []
    (directory,) = open_directories([str(one.data)], on_damage=damage.append, tier=one.place)
    found = [record.offset for record in directory.partition("orders", 0).records.read(0)]
    assert found == [*range(18), *range(20, 26)]
    assert [finding.offsets for finding in damage] == ["offsets 18 to 19"]
