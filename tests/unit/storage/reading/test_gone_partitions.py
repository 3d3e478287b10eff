"""Partitions without a folder are read from their tier alone."""

import logging
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import ottla
from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import OsFileSystem
from ottla.base.ids import Uuid
from ottla.storage.findings import Finding
from ottla.storage.log.leader_epochs import EpochEntry, parse_epoch_entries
from ottla.storage.reading.gone_partitions import GonePartition, find_gone
from ottla.storage.reading.metadata_reader import read_remote_log_metadata
from ottla.storage.reading.opening import open_directories
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.storage.remote.opening import open_tier
from tests.support.tiered import TOPIC, TieredPlace, uploaded
from tests.support.tiers import local_objects, put


def two(tmp_path: Path, log_start: int = 0) -> TieredPlace:
    uploads = [uploaded(1, 0, 9), uploaded(2, 10, 19)]
    place = TieredPlace(tmp_path, uploads, (20, 25), log_start=log_start)
    shutil.rmtree(place.partition)
    return place


def gone(place: TieredPlace) -> dict[str, GonePartition]:
    metadata = read_remote_log_metadata([open_for_reading(str(place.data))])
    return find_gone(OsFileSystem(), [str(place.data)], metadata, open_tier(str(place.tier)))


def test_a_partition_that_a_checkpoint_names_is_read_up_to_what_is_lost(tmp_path: Path) -> None:
    """Its tail was only local: the tier's end must not seem to be the log's."""
    place = two(tmp_path)
    directory = place.directory()
    assert directory.topics()["orders"] == [0]
    log = directory.partition("orders", 0)
    assert (log.log_start_offset, log.log_end_offset) == (0, 26)
    assert log.topic_id == TOPIC.topic_id
    read = log.records.read(0)
    assert [next(read).offset for _ in range(20)] == [*range(20)]
    with pytest.raises(CorruptionError, match="20"):
        next(read)
    damage: list[Finding] = []
    (again,) = open_directories([str(place.data)], on_damage=damage.append, tier=place.place)
    read = again.partition("orders", 0).records.read(0)
    assert [one.offset for one in read] == [*range(20)]
    assert [one.from_offset for one in damage] == [20]


@pytest.mark.parametrize("with_slash", [True, False])
def test_an_empty_directory_has_all_that_lies_in_the_tier(
    tmp_path: Path, with_slash: bool, caplog: pytest.LogCaptureFixture
) -> None:
    place, empty = two(tmp_path), tmp_path / "empty"
    empty.mkdir()
    path = f"{empty}/" if with_slash else str(empty)
    with (
        caplog.at_level(logging.WARNING),
        ottla.open(path, read_only=True, tier=str(place.tier)) as log,
    ):
        assert [one.offset for one in log.read("orders")] == [*range(20)]
        assert log.offsets("orders") == {0: (0, 20)}
    assert "read from" in caplog.text
    assert list(empty.iterdir()) == []


def test_the_log_starts_where_the_checkpoint_says(tmp_path: Path) -> None:
    place = two(tmp_path, log_start=4)
    assert place.log().log_start_offset == 4


def test_a_topic_that_was_deleted_is_not_gone(tmp_path: Path) -> None:
    """The metadata log of the directory does not have it."""
    place = two(tmp_path)
    records = place.data / "__remote_log_metadata-0"
    place.data = tmp_path / "own"
    with ottla.open(place.data) as log:
        log.create_topic("others")
    shutil.rmtree(place.data / "others-0")
    shutil.copytree(records, place.data / records.name)
    assert gone(place) == {}
    (found,) = [*gone(two(tmp_path / "kept")).values()]
    assert found.partition == TOPIC


def test_a_partition_of_another_broker_is_not_gone(tmp_path: Path) -> None:
    place = TieredPlace(tmp_path, [uploaded(1, 0, 9)], (10, 15))
    other = replace(TOPIC, topic="elsewhere", topic_id=Uuid(bytes(15) + b"\1"))
    place.write_metadata([replace(uploaded(3, 0, 9).metadata, partition=other)])
    assert gone(place) == {}
    with pytest.raises(UserError):
        place.directory().partition("elsewhere", 0)


def test_of_two_topics_of_one_name_the_later_is_read(tmp_path: Path) -> None:
    place = two(tmp_path)
    older = replace(TOPIC, topic_id=Uuid(bytes(15) + b"\1"))
    one = uploaded(9, 0, 9)
    old = replace(one.metadata, partition=older, event_timestamp_ms=5)
    put(place.tier, local_objects(replace(one, metadata=old)))
    new = [uploaded(1, 0, 9).metadata, uploaded(2, 10, 19).metadata]
    for order in ([old, *new], [*new, old]):
        place.write_metadata(order)
        (found,) = gone(place).values()
        assert found.partition == TOPIC


def test_the_files_of_its_folder_are_as_a_broker_writes_them() -> None:
    made = GonePartition(partition=TOPIC, log_start=None).files([EpochEntry(3, 7)], 20)
    assert made["partition.metadata"] == b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAABw"
    assert parse_epoch_entries("", made["leader-epoch-checkpoint"]) == [EpochEntry(3, 7)]
    assert made["00000000000000000020.log"] == b""
