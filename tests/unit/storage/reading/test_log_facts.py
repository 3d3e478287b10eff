"""A log that changes while it is listed."""

import pytest

from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.files.filenames import log_file_name
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.testing import FakeFileSystem
from tests.support.logs import DIRECTORY, NOW_MS, TOPIC_ID, append


def test_a_last_segment_compacted_while_it_is_listed_leaves_the_end_where_it_was(
    disk: FakeFileSystem, broker: LogDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between two listings the broker rolls, and compaction finds nothing to keep below that."""
    log = broker.create_log("t", 0, TOPIC_ID)
    append(log, b"0")
    listed = disk.list

    def list_and_clean(directory: str) -> list[str]:
        names = listed(directory)
        if directory == log.directory and len(log.segments) == 1:
            log.writer.roll(now_ms=NOW_MS)
            with_nothing = disk.open(f"{directory}/{log_file_name(0)}", writable=True)
            with_nothing.truncate(0)
        return names

    reader = open_for_reading(DIRECTORY, disk)
    monkeypatch.setattr(disk, "list", list_and_clean)
    assert reader.partition("t", 0).log_end_offset == 1
