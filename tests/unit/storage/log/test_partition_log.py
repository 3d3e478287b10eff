"""A partition's log over a fake disk: appends, reads, rolling, producers, refusals."""

import pytest

from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.producer_state import AppendOrigin
from ottla.testing import FakeFileSystem
from tests.support.logs import NOW_MS, append, open_log, read_all


@pytest.fixture
def log() -> PartitionLog:
    return open_log(FakeFileSystem())


def end_transaction(log: PartitionLog, producer_id: int, *, commit: bool) -> None:
    marker = build_end_transaction_marker(
        EndTransactionMarker(is_commit=commit, coordinator_epoch=0),
        producer_id=producer_id,
        producer_epoch=0,
        timestamp_ms=NOW_MS,
    )
    log.writer.append_as_leader(
        bytearray(marker), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
    )
    log.writer.write_out()


def test_an_open_transaction_holds_the_last_stable_offset(log: PartitionLog) -> None:
    append(log, b"before")
    append(log, b"a", producer_id=5, producer_epoch=0, base_sequence=0, is_transactional=True)
    append(log, b"after")
    assert (log.last_stable_offset, log.high_watermark) == (1, 3)
    assert [one.value for one in read_all(log, 0, Isolation.LAST_STABLE)] == [b"before"]
    end_transaction(log, 5, commit=True)
    assert log.last_stable_offset == 4
