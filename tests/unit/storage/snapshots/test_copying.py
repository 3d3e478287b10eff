"""A directory copied where it can share nothing, and one that another process has."""

from pathlib import Path

import pytest

from ottla.base.errors import UserError
from ottla.base.files import OsFileSystem, join, read_file
from ottla.metadata.deciding.topics import NewTopic
from ottla.storage.snapshots.copying import UncleanStopError, check_clean, held
from ottla.storage.snapshots.snapshots import Snapshots
from ottla.testing import RecordingFileSystem
from tests.support.brokers import NOW_MS, batch, disk, open_broker
from tests.support.moving import SMALL_SEGMENTS, numbered

FIRST_LOG = "00000000000000000000.log"


def test_a_file_system_without_links_has_its_files_copied(tmp_path: Path) -> None:
    class WithoutLinks(RecordingFileSystem):
        def link(self, source: str, target: str) -> None:
            raise OSError(1, "Operation not permitted", source)

    files = WithoutLinks(OsFileSystem())
    broker = open_broker(files, str(tmp_path / "d"), **SMALL_SEGMENTS)
    broker.admin.create_topic(NewTopic(name="t"))
    for content in numbered(9):
        broker.appends.append(broker.topics.partition("t", 0), batch(content), now_ms=NOW_MS)
    broker.appends.write_out()
    broker.close()
    found = Snapshots(files, str(tmp_path / "d"))
    made = found.create("a", now_ms=NOW_MS, on_copied=lambda done, total: None)
    assert made.own_size == made.size
    log = join(str(tmp_path / "d"), "t-0", FIRST_LOG)
    assert read_file(files, join(made.paths[0], "t-0", FIRST_LOG)) == read_file(files, log)


def test_a_directory_is_held_by_one_and_clean_once_it_was_closed() -> None:
    files = disk("/d")
    with pytest.raises(UserError, match="is not a data directory"), held(files, "/d", "stop it"):
        pass
    broker = open_broker(files)
    with pytest.raises(UserError, match="in use"), held(files, "/d", "stop it"):
        pass
    with pytest.raises(UncleanStopError):
        check_clean(files, "/d")
    broker.close()
    with held(files, "/d", "stop it"):
        check_clean(files, "/d")
