"""What lies in a tier: which uploads a log reads, and what the others are."""

import shutil
from dataclasses import replace
from pathlib import Path

from ottla.base.ids import Uuid, uuid_text
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.storage.remote.opening import open_tier
from ottla.storage.remote.segment_metadata import (
    RemoteLogSegmentMetadata,
    SegmentState,
    TopicIdPartition,
)
from ottla.storage.tiers.contents import Role, TierContents, TieredLog
from tests.support.tiered import TOPIC, TieredPlace, uploaded
from tests.support.tiers import Uploaded, local_objects, put


def contents(place: TieredPlace, *, with_directory: bool = True) -> TierContents:
    directories = [open_for_reading(str(place.data))] if with_directory else []
    return TierContents(open_tier(str(place.tier)), directories)


def only_log(place: TieredPlace, *, with_directory: bool = True) -> TieredLog:
    (log,) = contents(place, with_directory=with_directory).logs()
    return log


def roles(log: TieredLog) -> list[tuple[int, Role]]:
    return [(one.start_offset, one.role) for one in log.uploads()]


def test_uploads_are_read_or_also_local(tmp_path: Path) -> None:
    uploads = [uploaded(1, 0, 9), uploaded(2, 10, 19), uploaded(3, 20, 29)]
    log = only_log(TieredPlace(tmp_path, uploads, (20, 35)))
    assert roles(log) == [(0, Role.READ), (10, Role.READ), (20, Role.LOCAL)]
    assert (log.local_start, log.log_start, log.has_records) == (20, 0, True)
    assert all(one.stored is not None and one.stored.is_complete for one in log.uploads())


def test_a_second_upload_supersedes_the_first(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9), uploaded(2, 0, 9)], (10, 15))
    assert roles(only_log(place)) == [(0, Role.SUPERSEDED), (0, Role.READ)]


def test_uploads_of_another_history_are_told_apart(tmp_path: Path) -> None:
    uploads = [uploaded(1, 0, 9), uploaded(2, 10, 19, epoch=1), uploaded(3, 10, 19, epoch=2)]
    place = TieredPlace(tmp_path, uploads, (20, 25), epochs=((0, 0), (2, 10)))
    assert roles(only_log(place)) == [(0, Role.READ), (10, Role.OTHER_LINEAGE), (10, Role.READ)]


def test_an_upload_before_the_logs_start_waits_for_expiration(tmp_path: Path) -> None:
    uploads = [uploaded(1, 0, 9), uploaded(2, 10, 19)]
    place = TieredPlace(tmp_path, uploads, (20, 25), log_start=10)
    assert roles(only_log(place)) == [(0, Role.EXPIRED), (10, Role.READ)]


def test_what_no_record_names_is_an_orphan_whole_or_half(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9)], (10, 25))
    put(place.tier, local_objects(uploaded(7, 10, 19)))
    half = [one for one in local_objects(uploaded(8, 20, 25)) if one[0].endswith(".log")]
    put(place.tier, iter(half))
    log = only_log(place)
    assert roles(log) == [(0, Role.READ), (10, Role.ORPHAN), (20, Role.HALF)]
    assert log.needed.pieces[-1].last_offset == 9


def test_an_upload_that_was_begun_or_is_being_deleted_is_named(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9)], (10, 25))
    log = only_log(place)
    begun, deleted = uploaded(5, 10, 19).metadata, uploaded(6, 20, 25).metadata
    log.index.put(replace(begun, state=SegmentState.COPY_SEGMENT_STARTED))
    log.index.put(replace(deleted, state=SegmentState.DELETE_SEGMENT_STARTED))
    assert roles(log) == [(0, Role.READ), (10, Role.COPYING), (20, Role.DELETING)]


def test_without_a_directory_the_tier_says_where_the_log_starts(tmp_path: Path) -> None:
    uploads = [uploaded(1, 10, 19, epoch=3), uploaded(2, 20, 29, epoch=3)]
    place = TieredPlace(tmp_path, uploads, (30, 35), epochs=((3, 0),))
    log = only_log(place, with_directory=False)
    assert roles(log) == [(10, Role.READ), (20, Role.READ)]
    found = log.chain(None)
    assert (found.start_offset, found.findings, log.local) == (10, (), None)
    assert [one.epoch for one in log.epochs] == [3]


def test_a_partition_whose_directory_is_gone_keeps_its_records_and_its_start(
    tmp_path: Path,
) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9), uploaded(2, 10, 19)], (20, 25), log_start=4)
    shutil.rmtree(place.partition)
    log = only_log(place)
    assert (log.log_start, log.local, log.has_records) == (4, None, True)
    assert log.chain(None).pieces[0].first_offset == 4


def test_without_records_the_tier_is_taken_for_them(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9), uploaded(2, 10, 19)], (20, 25))
    shutil.rmtree(place.data / "__remote_log_metadata-0")
    log = only_log(place)
    assert not log.has_records
    assert roles(log) == [(0, Role.READ), (10, Role.READ)]


def test_an_upload_without_a_record_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9), uploaded(2, 10, 19)], (20, 25))
    (file,) = place.tier.rglob(f"{10:020}-*.index")
    file.write_bytes(b"123")
    log = only_log(place, with_directory=False)
    assert roles(log) == [(0, Role.READ), (10, Role.UNREADABLE)]
    assert [one.path for one in log.findings] == [str(file)]


def test_a_topic_that_was_created_again_is_another_log(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9)], (10, 15))
    old = uploaded(9, 0, 9)
    other = replace(TOPIC, topic_id=Uuid(bytes(15) + b"\1"))
    put(place.tier, local_objects(Uploaded(with_partition(old.metadata, other), old.log,
                                           old.indexes)))  # fmt: skip
    logs = contents(place).logs()
    assert [uuid_text(one.partition.topic_id) for one in logs] == [
        uuid_text(other.topic_id),
        uuid_text(TOPIC.topic_id),
    ]
    assert [one.local is None for one in logs] == [True, False]


def test_only_the_wanted_partitions_are_looked_at(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9)], (10, 15))
    tier = open_tier(str(place.tier))
    assert TierContents(tier, [], lambda topic, _: topic != "orders").logs() == []
    assert len(TierContents(tier, [], lambda _, partition: partition == 0).logs()) == 1


def with_partition(segment: RemoteLogSegmentMetadata, partition: TopicIdPartition) -> (
    RemoteLogSegmentMetadata
):  # fmt: skip
    return replace(segment, partition=partition)
