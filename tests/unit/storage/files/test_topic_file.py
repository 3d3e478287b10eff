"""The topic file: what goes in comes out, a crash leaves old or new, damage is named."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import CorruptionError
from ottla.base.files import join, replace_file
from ottla.base.ids import Uuid
from ottla.storage.files.topic_file import (
    TOPIC_FILE_NAME,
    TopicEntry,
    TopicFile,
    merge_topic_files,
    read_topic_file,
    write_topic_file,
)
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.summed import summed

entries = st.builds(
    TopicEntry,
    name=st.text(min_size=1),
    topic_id=st.binary(min_size=16, max_size=16).map(Uuid),
    partition_count=st.integers(1, 10_000),
    overrides=st.dictionaries(st.text(), st.text()),
    revision=st.integers(0, 1 << 40),
    is_deleted=st.booleans(),
)


def entry(name: str = "a", revision: int = 0, **overrides: str) -> TopicEntry:
    return TopicEntry(
        name=name,
        topic_id=Uuid(bytes(range(16))),
        partition_count=1,
        overrides=overrides,
        revision=revision,
    )


def disk() -> FakeFileSystem:
    file_system = FakeFileSystem()
    file_system.make_directory("/d")
    file_system.sync_directory("/")
    return file_system


topic_ids = st.binary(min_size=16, max_size=16).map(Uuid)


@pytest.mark.slow
@given(st.lists(entries, unique_by=lambda one: one.name, max_size=4), st.frozensets(topic_ids))
def test_entries_are_read_as_they_were_written(
    written: list[TopicEntry], gone: frozenset[Uuid]
) -> None:
    file_system = disk()
    write_topic_file(file_system, "/d", written, gone)
    expected = TopicFile(entries={one.name: one for one in written}, gone=gone)
    assert read_topic_file(file_system, "/d") == expected


def test_no_file_is_no_entry() -> None:
    assert read_topic_file(disk(), "/d") == TopicFile(entries={}, is_found=False)


def test_what_was_written_survives_a_crash() -> None:
    file_system = disk()
    write_topic_file(file_system, "/d", [entry(x="1")])
    after = file_system.crash(CrashMode.STRICT)
    assert read_topic_file(after, "/d").entries == {"a": entry(x="1")}


@given(st.binary())
def test_garbage_is_a_corruption_that_names_the_file(content: bytes) -> None:
    file_system = disk()
    replace_file(file_system, join("/d", TOPIC_FILE_NAME), content)
    with pytest.raises(CorruptionError, match=r"/d/ottla-topics\.json"):
        read_topic_file(file_system, "/d")


ENTRY: dict[str, Any] = {
    "name": "a",
    "topic_id": "AAECAwQFBgcICQoLDA0ODw",
    "partition_count": 1,
    "revision": 0,
    "is_deleted": False,
    "configs": {},
}


def test_an_entry_has_a_name_an_id_a_count_a_revision_and_settings() -> None:
    file_system = disk()
    replace_file(file_system, join("/d", TOPIC_FILE_NAME), summed(topics=[ENTRY]))
    assert read_topic_file(file_system, "/d").entries == {"a": entry()}


@pytest.mark.parametrize(
    "content",
    [
        b'{"version": 2, "topics": []}',
        b'{"version": 1}',
        summed(),
        summed(topics=[{}]),
        summed(topics=[ENTRY | {"topic_id": "short"}]),
        summed(topics=[ENTRY | {"partition_count": "1"}]),
        summed(topics=[ENTRY | {"configs": {"a": 1}}]),
        summed(topics=[ENTRY | {"configs": []}]),
    ],
)
def test_well_formed_nonsense_is_a_corruption_too(content: bytes) -> None:
    file_system = disk()
    replace_file(file_system, join("/d", TOPIC_FILE_NAME), content)
    with pytest.raises(CorruptionError):
        read_topic_file(file_system, "/d")


def merged(*files: dict[str, TopicEntry], gone: frozenset[Uuid] = frozenset()) -> object:
    return merge_topic_files(TopicFile(entries=one, gone=gone) for one in files).entries


def test_of_two_directories_the_highest_revision_counts() -> None:
    old, new = entry(revision=1), entry(revision=2, x="1")
    other = entry(name="b")
    assert merged({"a": old, "b": other}, {"a": new}) == {"a": new, "b": other}
    assert merged({"a": new}, {"a": old}) == {"a": new}


def test_a_topic_that_was_deleted_while_a_directory_was_away_stays_gone() -> None:
    old = entry(revision=9)
    new = dataclasses.replace(entry(revision=1), topic_id=Uuid(bytes(16)))
    assert merged({"a": old}, {"a": new}, gone=frozenset([old.topic_id])) == {"a": new}
