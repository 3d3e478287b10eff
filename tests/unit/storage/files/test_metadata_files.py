"""The files of a metadata log as others have left them: whole, torn, cut, or of other voters."""

import json

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.files import join, read_file, replace_file
from ottla.metadata.deciding.topics import NewTopic
from ottla.metadata.records import NoOpRecord, RemoveTopicRecord
from ottla.storage.files.filenames import CLEAN_SHUTDOWN, CLUSTER_METADATA_DIRECTORY
from ottla.storage.files.metadata_files import (
    has_only_idled,
    metadata_file_sizes,
    metadata_folder,
    read_metadata_log,
    voters_of,
)
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.brokers import disk, open_broker
from tests.support.metadata import segment, topics_of, write_records

BOOT = "/d/ottla-boot"
QUORUM = join("/d", CLUSTER_METADATA_DIRECTORY, "quorum-state")


def killed() -> FakeFileSystem:
    files = disk("/d")
    broker = open_broker(files)
    for name in ("t", "u"):
        broker.admin.create_topic(NewTopic(name=name))
    return files.crash(CrashMode.KEEP)


def cut(files: FakeFileSystem, size: int) -> None:
    file = files.open(segment(), writable=True)
    file.truncate(file.size() - size)


def test_a_torn_last_batch_was_not_acknowledged() -> None:
    files = killed()
    cut(files, 5)
    files.remove(BOOT)
    found = read_metadata_log(files, "/d")
    assert found.damage is None
    assert set(found.image().topics) == {"t"}


def test_a_changed_last_batch_may_be_torn_too_but_none_before_it() -> None:
    files = killed()
    files.remove(BOOT)
    content = read_file(files, segment())
    replace_file(files, segment(), content[:-5] + b"xxxxx")
    assert set(read_metadata_log(files, "/d").image().topics) == {"t"}
    middle = len(content) * 2 // 3
    replace_file(files, segment(), content[:middle] + b"xxxxx" + content[middle + 5 :])
    assert read_metadata_log(files, "/d").damage is not None


@pytest.mark.parametrize("is_stopped", [False, True])
def test_what_was_noted_or_stopped_in_order_is_not_torn(is_stopped: bool) -> None:
    files = killed()
    if is_stopped:
        open_broker(files).close()
        files.remove(BOOT)
        assert files.status(join("/d", CLEAN_SHUTDOWN)) is not None
    cut(files, 5)
    found = read_metadata_log(files, "/d")
    assert found.damage is not None
    assert set(found.content.topics) == {"t"}
    with pytest.raises(CorruptionError):
        found.image()


def test_a_whole_batch_that_is_missing_is_noticed() -> None:
    files = killed()
    content = read_file(files, segment())
    length = int.from_bytes(content[8:12], "big") + 12
    replace_file(files, segment(), content[:length])
    assert "and had" in str(read_metadata_log(files, "/d").damage)


def test_sizes_change_with_the_log() -> None:
    files = disk("/d")
    broker = open_broker(files)
    broker.admin.create_topic(NewTopic(name="t"))
    before = metadata_file_sizes(files, "/d")
    broker.admin.create_topic(NewTopic(name="u"))
    assert metadata_file_sizes(files, "/d") != before
    assert metadata_folder("/d") == "/d/__cluster_metadata-0"


def test_the_voters_are_read_and_damage_of_their_file_is_named() -> None:
    files = killed()
    assert voters_of(files, "/d") == {1}
    state = json.loads(read_file(files, QUORUM))
    state["currentVoters"] = [{"voterId": 1}, {"voterId": 2}]
    replace_file(files, QUORUM, json.dumps(state).encode())
    assert voters_of(files, "/d") == {1, 2}
    for content in (
        b"",
        b"[]",
        b'{"currentVoters": [5]}',
        b'{"leaderId":-1,"leaderEpoch":1,"votedId":-1,"currentVoters":[5],"data_version":0}',
        b'{"currentVoters": [{"voterId": "x"}]}',
    ):
        replace_file(files, QUORUM, content)
        with pytest.raises(CorruptionError, match="quorum-state"):
            voters_of(files, "/d")
    files.remove(QUORUM)
    assert voters_of(files, "/d") == set()


def test_an_idle_leaders_records_are_told_from_all_else() -> None:
    files = disk("/d")
    broker = open_broker(files)
    broker.admin.create_topic(NewTopic(name="t"))
    broker.close()
    before = metadata_file_sizes(files, "/d")
    write_records(files, NoOpRecord())
    write_records(files, NoOpRecord())
    idle = metadata_file_sizes(files, "/d")
    assert has_only_idled(files, "/d", before, idle)
    assert not has_only_idled(files, "/d", before, before)
    assert not has_only_idled(files, "/d", (), idle)
    write_records(files, NoOpRecord(), RemoveTopicRecord(topic_id=topics_of(files)["t"].topic_id))
    changed = metadata_file_sizes(files, "/d")
    assert not has_only_idled(files, "/d", idle, changed)
    cut(files, 5)
    assert not has_only_idled(files, "/d", idle, metadata_file_sizes(files, "/d"))
