"""What a broker notes of its tier: it comes with a failure, and goes with the next success."""

import threading
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import CorruptionError
from ottla.base.files import FileSystem, write_file
from ottla.broker.broker import Broker
from ottla.broker.tiering.tier_troubles import (
    MOST,
    TIER_TROUBLES,
    TierTrouble,
    read_tier_troubles,
    write_tier_troubles,
)
from ottla.runtime.tier_worker import TierWorker
from ottla.storage.remote.remote_storage import TierError
from tests.support.brokers import disk
from tests.support.tier_jobs import Moment, broker_with_tier, fill, store_of, tiered_topic

REASON = "s3://bucket: 403 Forbidden; let this user write"


class Working:
    """A broker whose work on the tier is done when the test says so."""

    def __init__(self, file_system: FileSystem) -> None:
        self.disk = file_system
        self.moment = Moment()
        self.broker: Broker = broker_with_tier(file_system)
        self.worker = TierWorker(self.broker, clock=self, lock=threading.RLock())

    def now_ms(self) -> int:
        return self.moment.now_ms

    def monotonic_ms(self) -> float:
        return self.moment.monotonic_ms

    def work(self) -> None:
        self.moment.pass_ms(40_000)
        self.worker.work_off()

    @property
    def told(self) -> list[TierTrouble]:
        found = read_tier_troubles(self.disk, "/d")
        if found is None:
            return []
        assert found.address == store_of(self.broker).address
        return list(found.troubles)


def test_a_store_that_fails_is_noted_with_the_time_and_the_error_until_it_answers() -> None:
    one = Working(disk("/d"))
    with closing(one.broker):
        fill(one.broker, tiered_topic(one.broker), 15, moment=one.moment)
        store_of(one.broker).fault = TierError(REASON, is_retriable=False)
        one.work()
        since_ms = one.now_ms()
        one.work()
        (found,) = one.told
        assert (found.of_store, found.since_ms, found.reason) == (True, since_ms, REASON)
        assert found.what.startswith("copying orders-0")
        store_of(one.broker).fault = None
        one.work()
        assert one.told == []
        assert one.disk.status(f"/d/{TIER_TROUBLES}") is None


def test_work_that_is_given_up_is_noted_too() -> None:
    one = Working(disk("/d"))
    with closing(one.broker):
        fill(one.broker, tiered_topic(one.broker), 15, moment=one.moment)
        store_of(one.broker).custom = bytes(129)
        one.work()
        (found,) = one.told
        assert (found.of_store, found.is_over, found.since_ms) == (False, True, one.now_ms())
        assert "custom.metadata.max.bytes" in found.reason


def test_a_start_removes_what_the_last_process_noted() -> None:
    place = disk("/d")
    broker_with_tier(place).close()
    trouble = TierTrouble(what="copying t-0", since_ms=1, reason=REASON, of_store=True)
    write_tier_troubles(place, "/d", "/tier", [trouble])
    one = Working(place)
    with closing(one.broker):
        assert len(one.told) == 1
        one.work()
        assert one.told == []


def test_a_disk_that_refuses_the_note_ends_no_work(caplog: pytest.LogCaptureFixture) -> None:
    one = Working(disk("/d"))
    with closing(one.broker):
        partition = tiered_topic(one.broker)
        fill(one.broker, partition, 15, moment=one.moment)
        one.disk.make_directory(f"/d/{TIER_TROUBLES}")
        one.work()
        assert "what the tier fails cannot be noted" in caplog.text
        assert partition.log.offsets.highest_remote_offset == 9


def test_the_longest_troubles_are_kept_of_very_many() -> None:
    place = disk("/d")
    every = [
        TierTrouble(what=f"copying t-{one}", since_ms=one, reason="no") for one in range(MOST + 9)
    ]
    write_tier_troubles(place, "/d", "/tier", every[::-1])
    found = read_tier_troubles(place, "/d")
    assert found is not None
    assert list(found.troubles) == every[:MOST]


@given(st.binary() | st.just(b'{"version": 1, "address": "/t", "troubles": [{"what": 1}]}'))
def test_a_note_that_was_damaged_is_our_error(content: bytes) -> None:
    place = disk("/d")
    write_file(place, f"/d/{TIER_TROUBLES}", [content])
    with pytest.raises(CorruptionError):
        read_tier_troubles(place, "/d")
