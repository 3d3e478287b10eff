"""Recovery's phases one by one, over the disk that a killed or stopped broker left."""

from dataclasses import replace
from typing import Any

from ottla.base.files import FileSystem
from ottla.storage.files.filenames import INTEGRITY
from ottla.storage.files.integrity import read_integrity
from ottla.storage.recovery.leftovers import finish_leftovers
from ottla.storage.recovery.opened_log import LoadRequest, OpenedLog
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.logs import NOW_MS, SMALL, TOPIC_ID, append, batch, open_log

PARTITION = "data/t-0"
COUNT = 20
"""Records in `killed`: one a batch, of two leader epochs, in several segments."""


def killed() -> FakeFileSystem:
    """As `kill -9` leaves it: nothing was flushed, the operating system lives."""
    disk = FakeFileSystem()
    log = open_log(disk)
    append(log, b"0", producer_id=7, producer_epoch=0, base_sequence=0)
    for number in range(1, COUNT):
        log.writer.append_as_leader(
            batch(b"%d" % number), leader_epoch=int(number >= COUNT // 2), now_ms=NOW_MS + number
        )
        log.writer.write_out()
    return disk.crash(CrashMode.KEEP)


def opened(disk: FileSystem, **known: Any) -> OpenedLog:
    """`known` as in `LoadRequest`: by default that of a log of which no checkpoint speaks."""
    request = LoadRequest(
        file_system=disk,
        directory=PARTITION,
        config=SMALL,
        now_ms=NOW_MS,
        was_clean_stop=False,
        recovery_point=0,
        log_start_offset=0,
        topic_id=TOPIC_ID,
        integrity=read_integrity(disk, PARTITION),
    )
    finish_leftovers(disk, PARTITION)
    return OpenedLog(replace(request, **known))


def live(disk: FileSystem, ending: str) -> list[str]:
    """The paths of a partition's files of one kind, ascending."""
    names = (name for name in disk.list(PARTITION) if name.endswith(ending) and name != INTEGRITY)
    return [f"{PARTITION}/{name}" for name in names]


def damage(disk: FileSystem, path: str, position: int) -> None:
    """Changes one byte; counted from the end where it is negative."""
    file = disk.open(path, writable=True)
    place = position % file.size()
    (byte,) = file.pread(1, place)
    file.pwrite(bytes([byte ^ 0xFF]), place)
    file.close()
