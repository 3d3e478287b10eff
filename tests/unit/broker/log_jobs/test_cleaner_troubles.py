"""The file that tells what keeps the cleaner from its work."""

import pytest

from ottla.base.errors import CorruptionError
from ottla.broker.log_jobs.cleaner_troubles import (
    TROUBLES_FILE_NAME,
    DamagedSegment,
    Trouble,
    read_troubles,
    write_troubles,
)
from tests.support.brokers import disk

TROUBLE = Trouble(
    failure_count=2,
    reason="the disk said no",
    failed_ms=17,
    damaged=(DamagedSegment(base_offset=40, reason="a bad CRC", size=900, modified_ms=5),),
)


def test_what_is_written_is_read_back() -> None:
    file_system = disk("/d")
    write_troubles(file_system, "/d", {("t", 3): TROUBLE, ("u", 0): Trouble()})
    assert read_troubles(file_system, "/d") == {("t", 3): TROUBLE}


def test_without_troubles_there_is_no_file() -> None:
    file_system = disk("/d")
    assert read_troubles(file_system, "/d") == {}
    write_troubles(file_system, "/d", {("t", 3): TROUBLE})
    write_troubles(file_system, "/d", {("t", 3): Trouble()})
    assert file_system.list("/d") == []


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b'{"troubles": [1]}', b'{"troubles": [{"topic": 1}]}', b"\xff"]
)
def test_another_content_is_named(content: bytes) -> None:
    file_system = disk("/d")
    file = file_system.open(f"/d/{TROUBLES_FILE_NAME}", create=True)
    file.pwrite(content, 0)
    file.close()
    with pytest.raises(CorruptionError, match=TROUBLES_FILE_NAME):
        read_troubles(file_system, "/d")
