"""A partition is rebuilt from its tier, and takes its place only if it is whole and sound."""

import itertools
import os
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import CorruptionError, RefusalError, UserError
from ottla.base.files import OsFileSystem
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.files.partition_metadata import read_topic_id
from ottla.storage.findings import Finding, FindingKind
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.storage.reading.read_only_log import ReadOnlyLog
from ottla.storage.remote.opening import open_tier
from ottla.storage.tiers.contents import TierContents
from ottla.storage.tiers.restoring import Restored, RestorePlan, Restoring, plan_restore
from tests.support.tiered import TOPIC, TieredPlace, uploaded

OFFSETS = [*range(20)]


def two(tmp_path: Path) -> TieredPlace:
    return TieredPlace(tmp_path, [uploaded(1, 0, 9), uploaded(2, 10, 19)], (20, 25))


def plans(place: TieredPlace, from_offset: int | None = None) -> list[RestorePlan]:
    contents = TierContents(open_tier(str(place.tier)), [])
    found = (plan_restore(one, from_offset) for one in contents.logs())
    return [one for one in found if one is not None]


def restoring(place: TieredPlace, target: Path) -> Restoring:
    numbers = itertools.count(1)
    return Restoring(
        OsFileSystem(),
        str(target),
        open_tier(str(place.tier)),
        lambda: Uuid(next(numbers).to_bytes(16, "big")),
    )


def restored(place: TieredPlace, target: Path, from_offset: int | None = None) -> list[Restored]:
    found = plans(place, from_offset)
    return list(restoring(place, target).run(found, lambda done, total: None))


def log_at(target: Path) -> ReadOnlyLog:
    return open_for_reading(str(target)).partition("orders", 0)


def damage_in(target: Path) -> list[Finding]:
    """What a check finds, but that no broker has had the directory yet."""
    findings = check(OsFileSystem(), str(target), deep=True).findings
    mine = (one for one in findings if one.kind is not FindingKind.META_PROPERTIES)
    return [one for one in mine if not one.is_note]


def offsets(log: ReadOnlyLog) -> list[int]:
    found = list(log.records.read(log.log_start_offset))
    assert [one.value for one in found] == [b"%d" % one.offset for one in found]
    return [one.offset for one in found]


def test_a_restored_partition_has_the_records_and_all_files_of_its_segments(
    tmp_path: Path,
) -> None:
    target = tmp_path / "new" / "restored"
    (one,) = restored(two(tmp_path), target)
    log = log_at(target)
    assert offsets(log) == OFFSETS
    assert (log.log_start_offset, log.log_end_offset, log.topic_id) == (0, 20, TOPIC.topic_id)
    assert (one.path, one.report.record_count) == (str(target / "orders-0"), 20)
    assert damage_in(target) == []
    names = {path.name for path in (target / "orders-0").iterdir()}
    stems = ("0" * 20, f"{10:020}")
    expected = {f"{stem}.{kind}" for stem in stems for kind in ("log", "index", "timeindex")}
    expected |= {f"{10:020}.snapshot", f"{20:020}.snapshot", f"{20:020}.log"}
    assert names == expected | {"leader-epoch-checkpoint", "partition.metadata"}


def test_checkpoints_keep_what_other_partitions_have(tmp_path: Path) -> None:
    target = tmp_path / "restored"
    target.mkdir()
    (target / "log-start-offset-checkpoint").write_text("0\n1\nothers 3 7\n")
    restored(two(tmp_path), target, from_offset=13)
    directory = open_for_reading(str(target))
    for name, offset in (
        ("log-start-offset-checkpoint", 13),
        ("replication-offset-checkpoint", 20),
        ("recovery-point-offset-checkpoint", 20),
    ):
        found = directory.checkpointed(name)
        assert found.pop(TopicPartition("orders", 0)) == offset
        assert found == ({TopicPartition("others", 3): 7} if "start" in name else {})
    assert offsets(log_at(target)) == [*range(13, 20)]


def test_uploads_of_other_bounds_become_segments_with_indexes_of_their_own(
    tmp_path: Path,
) -> None:
    uploads = [uploaded(1, 0, 13), uploaded(2, 8, 19), uploaded(3, 18, 31)]
    place = TieredPlace(tmp_path, uploads, (26, 35))
    restored(place, tmp_path / "restored")
    log = log_at(tmp_path / "restored")
    assert offsets(log) == [*range(32)]
    assert damage_in(tmp_path / "restored") == []


@pytest.mark.parametrize("suffix", ["log", "index", "timeindex", "snapshot"])
def test_a_damaged_object_leaves_nothing(tmp_path: Path, suffix: str) -> None:
    place, target = two(tmp_path), tmp_path / "restored"
    (path,) = place.tier.rglob(f"{10:020}-*.{suffix}")
    content = bytearray(path.read_bytes())
    content[7] ^= 1  # In an index the position of an entry, or its timestamp.
    path.write_bytes(content)
    with pytest.raises((RefusalError, CorruptionError), match="orders-0"):
        # Whether listing or writing finds it: a tier alone is asked what its uploads are.
        restored(place, target)
    names = os.listdir(target) if target.exists() else []
    assert [one for one in names if one.startswith("orders")] == []


def test_a_missing_upload_is_refused_and_what_follows_can_be_restored(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9), uploaded(2, 20, 29)], (30, 35))
    with pytest.raises(RefusalError, match=r"offsets 10 to 19.*--from 20"):
        plans(place)
    restored(place, tmp_path / "restored", from_offset=20)
    log = log_at(tmp_path / "restored")
    assert (offsets(log), log.log_start_offset) == ([*range(20, 30)], 20)


def test_no_partition_is_replaced(tmp_path: Path) -> None:
    place, target = two(tmp_path), tmp_path / "restored"
    (target / "orders-0").mkdir(parents=True)
    with pytest.raises(RefusalError, match="is there already"):
        restored(place, target)
    assert os.listdir(target / "orders-0") == []


def test_a_topic_of_the_same_name_is_not_joined(tmp_path: Path) -> None:
    place, target = two(tmp_path), tmp_path / "restored"
    (target / "orders-1").mkdir(parents=True)
    (target / "orders-1" / "partition.metadata").write_text(
        "version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw"
    )
    with pytest.raises(RefusalError, match="AAECAwQFBgcICQoLDA0ODw"):
        restored(place, target)
    shutil.rmtree(target / "orders-1")
    restored(place, target)
    assert read_topic_id(OsFileSystem(), str(target / "orders-0" / "partition.metadata"))


def test_two_topics_of_one_name_are_for_the_user_to_choose(tmp_path: Path) -> None:
    place = two(tmp_path)
    found = plans(place)
    with pytest.raises(UserError, match="--topic-id"):
        restoring(place, tmp_path / "restored").check([*found, *plans(place)])


def test_a_directory_in_use_is_refused(tmp_path: Path) -> None:
    place, target = two(tmp_path), tmp_path / "restored"
    target.mkdir()
    lock = OsFileSystem().lock(str(target / ".lock"))
    assert lock is not None
    with pytest.raises(UserError):
        restored(place, target)
    lock.release()
    assert len(restored(place, target)) == 1


def test_what_an_interrupted_restore_has_left_is_removed(tmp_path: Path) -> None:
    place, target = two(tmp_path), tmp_path / "restored"
    left = target / f"orders-0.{7:032x}-delete"
    left.mkdir(parents=True)
    (left / f"{0:020}.log").write_bytes(b"half")
    restored(place, target)
    assert not left.exists()
    assert offsets(log_at(target)) == OFFSETS


def test_a_tier_without_the_partition_has_nothing_to_restore(tmp_path: Path) -> None:
    place = two(tmp_path)
    contents = TierContents(open_tier(str(place.tier)), [], lambda topic, _: topic == "none")
    assert [plan_restore(one) for one in contents.logs()] == []
    assert plans(place, from_offset=20) == []


@pytest.mark.slow
@given(
    sizes=st.lists(st.integers(2, 5), min_size=1, max_size=5),
    reaches=st.lists(st.integers(0, 4), min_size=5, max_size=5),
    start=st.integers(0, 9),
)
def test_a_restored_log_is_what_is_read_of_the_tier(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], reaches: list[int], start: int
) -> None:
    """However uploads overlap, as after changes of leaders, and wherever the log starts."""
    place_at, uploads, first = tmp_path_factory.mktemp("any"), [], 0
    for number, (size, reach) in enumerate(zip(sizes, reaches, strict=False)):
        begin = max(0, first - 2 * reach)
        first += 2 * size
        uploads.append(uploaded(number, begin, first - 1))
    start = min(start, first - 1)
    place = TieredPlace(place_at, uploads, (first, first + 3), log_start=start)
    contents = TierContents(open_tier(str(place.tier)), [open_for_reading(str(place.data))])
    (log,) = contents.logs()
    plan = plan_restore(log)
    assert plan is not None
    list(restoring(place, place_at / "new").run([plan], lambda done, total: None))
    assert offsets(log_at(place_at / "new")) == [one for one in place.offsets() if one < first]
