"""A compacted log that was cut, with checkpoints before, at and beyond its new end."""

import itertools
import random
from collections.abc import Iterator

import pytest

from ottla.base.files import remove_if_present
from ottla.storage.files.checkpoints import OffsetCheckpoint
from ottla.storage.files.filenames import (
    CHECKPOINT_CLEANER,
    CHECKPOINT_HIGH_WATERMARK,
    CHECKPOINT_LOG_START,
    CHECKPOINT_RECOVERY_POINT,
    CLEAN_SHUTDOWN,
)
from ottla.testing import FakeFileSystem
from tests.support.brokers import disk, open_broker
from tests.unit.broker.log_jobs.test_cleaner import broker_with, clean_until_done, log_of, write

COUNT = 120
FAR = 10**6
CUTS = ("in a batch", "the last segment", "in the segment before", "everything")
CHECKPOINTS = {
    CHECKPOINT_CLEANER: (None, 0, 30, 110, FAR),
    CHECKPOINT_RECOVERY_POINT: (None, 0, 30, COUNT, FAR),
    CHECKPOINT_LOG_START: (None, 30, COUNT - 1, FAR),
    CHECKPOINT_HIGH_WATERMARK: (None, 0, FAR),
}
"""`None` leaves the file as the broker wrote it."""
ALL = list(itertools.product(CUTS, itertools.product(*CHECKPOINTS.values()), (True, False)))


@pytest.fixture(scope="module")
def stopped() -> FakeFileSystem:
    """Half of the log is compacted."""
    file_system = disk("/d")
    broker = broker_with(file_system, t=COUNT // 2)
    clean_until_done(broker, file_system)
    write(broker, "t", COUNT // 2)
    broker.close()
    return file_system


def cut(file_system: FakeFileSystem, how: str) -> None:
    logs = [f"/d/t-0/{one}" for one in file_system.list("/d/t-0") if one.endswith(".log")]
    for path in reversed(logs if how == CUTS[3] else logs[-2:]):
        size = file_system.status(path).size  # type: ignore[union-attr]
        is_last = path == logs[-1]
        if is_last and how in CUTS[1:3]:
            file_system.remove(path)
        elif how == CUTS[3]:
            file_system.open(path, writable=True).truncate(0)
        elif is_last and how == CUTS[0]:
            file_system.open(path, writable=True).truncate(max(0, size - 7))
        elif not is_last and how == CUTS[2]:
            file_system.open(path, writable=True).truncate(size // 2)


def sampled(seconds: float) -> Iterator[tuple[str, tuple[int | None, ...], bool]]:
    chance = random.Random(35)
    yield from ALL if seconds else chance.sample(ALL, 24)


@pytest.mark.slow
def test_the_log_is_served_and_compacted_in_every_combination(
    stopped: FakeFileSystem, crash_seconds: float, caplog: pytest.LogCaptureFixture
) -> None:
    for how, offsets, is_clean in sampled(crash_seconds):
        combination = how, offsets, is_clean
        file_system = stopped.snapshot()
        cut(file_system, how)
        for name, offset in zip(CHECKPOINTS, offsets, strict=True):
            if offset is not None:
                OffsetCheckpoint(file_system, f"/d/{name}").write({("t", 0): offset})
        if not is_clean:
            remove_if_present(file_system, f"/d/{CLEAN_SHUTDOWN}")
        broker = open_broker(file_system, "/d")
        write(broker, "t", 30)
        caplog.clear()
        clean_until_done(broker, file_system)
        assert not broker.log_jobs.cleaner.trouble_of(("t", 0)).failure_count, combination
        # Only a segment that is cut may fail; it is set aside, and each cause is logged once.
        said = [one.getMessage() for one in caplog.records if "not be comp" in one.getMessage()]
        assert all(".log at byte" in one for one in said), combination
        assert len(set(said)) == len(said), combination
        end = log_of(broker, "t").log_end_offset
        broker.close()
        broker = open_broker(file_system, "/d")
        assert log_of(broker, "t").log_end_offset == end, combination
        assert broker.directories[0].checkpoints.cleaned.get(("t", 0), 0) <= end, combination
        broker.close()
