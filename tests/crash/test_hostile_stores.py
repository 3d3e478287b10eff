"""A broker whose tier is full, forbidden, cut off or slow while it copies, and whose objects are
swapped, cut, changed or missing while it serves.

Producing goes on, each answer to a fetch is the log's records or an error, what failed is named,
and once the store is sound again the whole log can be read. More seeds are tried by
`python -m tests.crash.test_hostile_stores FIRST LAST`.
"""

import errno
import logging
import os
import sys
from collections import Counter
from collections.abc import Callable
from itertools import count
from random import Random
from typing import TypeVar

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.files import FileSystem, read_file, replace_file
from ottla.broker.broker import Broker
from ottla.testing import FakeFileSystem
from ottla.testing.recording import IoCall, RecordingFileSystem
from tests.support.asking import Asker
from tests.support.brokers import disk
from tests.support.tier_jobs import (
    Moment,
    broker_with_tier,
    fill,
    remote_logs,
    tiered_topic,
    work,
)
from tests.support.tier_reading import fetch_of, offsets_in

T = TypeVar("T")

ROUND_MS = 40_000
"""Longer than any wait for a store that has failed."""

STEPS = 25
FAULTS = {
    "full": (errno.ENOSPC, 1.0),
    "forbidden": (errno.EACCES, 1.0),
    "broken": (errno.EIO, 1.0),
    "fails now and then": (errno.EIO, 0.2),
}
SETTINGS = {
    "rlmm_config_remote_log_metadata_topic_num_partitions": "1",
    "log_index_interval_bytes": "64",
}
AIVEN = {
    "remote_log_storage_manager_class_name": "io.aiven.kafka.tieredstorage.RemoteStorageManager",
    "rsm_config_storage_backend_class": (
        "io.aiven.kafka.tieredstorage.storage.filesystem.FileSystemStorage"
    ),
    "rsm_config_storage_root": "/tier",
    "rsm_config_chunk_size": "300",
    "rsm_config_compression_enabled": "true",
}
NAMED = (ErrorCode.CORRUPT_MESSAGE, ErrorCode.KAFKA_STORAGE_ERROR)


class HostileFileSystem(RecordingFileSystem):
    """Fails some of the calls that change what is below `/tier`, as `fault` says."""

    def __init__(self, inner: FileSystem, random: Random) -> None:
        super().__init__(inner)
        self.fault: str | None = None
        self._random = random

    def perform(
        self, call: IoCall, deed: Callable[[], T], fall_short: Callable[[], None] | None = None
    ) -> T:
        if self.fault is not None and call.path.startswith("/tier"):
            number, chance = FAULTS[self.fault]
            if self._random.random() < chance:
                raise OSError(number, os.strerror(number), call.path)
        return deed()


def files_below(file_system: FileSystem, path: str) -> list[str]:
    found: list[str] = []
    for name in sorted(file_system.list(path)):
        status = file_system.status(f"{path}/{name}")
        if status is not None and status.is_directory:
            found += files_below(file_system, f"{path}/{name}")
        else:
            found.append(f"{path}/{name}")
    return found


class HostileStore:
    """One seed: a broker and what was done to its tier."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.settings = {**SETTINGS, **(AIVEN if seed % 2 else {})}
        self.plain: FakeFileSystem = disk("/d", "/tier")
        self.disk = HostileFileSystem(self.plain, self.random)
        self.moment = Moment()
        self.ids = count(1)
        self.damaged: dict[str, bytes] = {}
        """What objects were before they were damaged."""
        self.seen: Counter[str] = Counter()
        self._open()
        tiered_topic(self.broker, local_retention_bytes="300", file_delete_delay_ms="0")

    def _open(self) -> None:
        self.broker: Broker = broker_with_tier(self.disk, ids=self.ids, **self.settings)
        self.client = Asker(self.broker)

    @property
    def log_end(self) -> int:
        return self.broker.topics.partition("orders", 0).log.log_end_offset

    def run(self) -> None:
        self.produce()
        for _ in range(STEPS):
            self.random.choices(
                [self.produce, self.pass_round, self.fetch, self.damage, self.strike, self.restart],
                weights=[3, 4, 8, 4, 2, 1],
            )[0]()
        self.heal()
        self.check_all_is_there()

    def produce(self) -> None:
        before, more = self.log_end, self.random.randrange(1, 30)
        partition = self.broker.topics.partition("orders", 0)
        fill(self.broker, partition, more, moment=self.moment)
        assert self.log_end == before + more

    def pass_round(self) -> None:
        self.moment.pass_ms(ROUND_MS)
        self.broker.topics.partition("orders", 0).log.writer.flush()
        self.broker.scheduler.run_due(self.moment())
        logs = remote_logs(self.broker)
        errors = logs.counts.of("orders").copy_errors
        work(self.broker, self.moment)
        if logs.counts.of("orders").copy_errors > errors and len(logs.jobs._failing):
            # The store says since when it fails, and why.
            assert logs.counts.failing_since_ms is not None
            assert logs.counts.failing_since_ms <= self.moment.now_ms
            assert "/tier" in logs.counts.failure

    def fetch(self) -> None:
        log = self.broker.topics.partition("orders", 0).log
        offset = self.random.randrange(log.local_start_offset or log.log_end_offset)
        isolation = self.random.randrange(2)
        wanted = fetch_of(("orders", offset), max_wait_ms=0, isolation_level=isolation)
        (found,) = offsets_in(self.client.ask(wanted, 12))
        self.seen[type(found).__name__ if isinstance(found, list) else ErrorCode(found).name] += 1
        if isinstance(found, int):
            assert ErrorCode(found) in NAMED, f"offset {offset}: {ErrorCode(found).name}"
            assert self.damaged or self.disk.fault, f"offset {offset} is sound, and cannot be read"
        else:
            assert found, f"nothing at offset {offset} of {self.log_end}"
            first = found[0]
            assert first <= offset <= found[-1]
            assert found == [*range(first, first + len(found))]

    def damage(self) -> None:
        names = files_below(self.plain, "/tier")
        if not names:
            return
        name = self.random.choice(names)
        content = read_file(self.plain, name)
        self.damaged.setdefault(name, content)
        match self.random.randrange(4):
            case 0:
                self.plain.remove(name)
            case 1:
                replace_file(self.plain, name, content[: self.random.randrange(len(content) + 1)])
            case 2 if content:
                changed = bytearray(content)
                changed[self.random.randrange(len(content))] ^= 1 << self.random.randrange(8)
                replace_file(self.plain, name, bytes(changed))
            case _:
                other = self.random.choice(names)
                if self.plain.status(other) is not None:
                    replace_file(self.plain, name, read_file(self.plain, other))

    def strike(self) -> None:
        """The store begins to fail, or ends."""
        self.disk.fault = self.random.choice([None, *FAULTS])

    def restart(self) -> None:
        self.broker.close()
        self._open()
        self.pass_round()  # which reads what uploads there are

    def heal(self) -> None:
        """Everything is as it was, but for objects that were deleted meanwhile."""
        self.disk.fault = None
        for name, content in self.damaged.items():
            replace_file(self.plain, name, content)
        self.damaged.clear()
        for _ in range(3):
            self.pass_round()

    def check_all_is_there(self) -> None:
        logs, partition = remote_logs(self.broker), self.broker.topics.partition("orders", 0)
        assert logs.counts.failing_since_ms is None
        assert partition.log.log_start_offset == 0
        offset = 0
        while offset < self.log_end:
            (found,) = offsets_in(self.client.ask(fetch_of(("orders", offset), max_wait_ms=0), 12))
            assert isinstance(found, list), f"offset {offset}: {ErrorCode(found).name}"
            assert found, f"offset {offset} of {self.log_end} is nowhere"
            assert offset in found
            offset = found[-1] + 1
        self.broker.close()


@pytest.mark.parametrize("seed", [*range(4), 125, 197])
def test_no_record_is_lost_or_wrong_whatever_the_store_does(seed: int) -> None:
    HostileStore(seed).run()


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    failed, seen = 0, Counter[str]()
    for number in range(int(sys.argv[1]), int(sys.argv[2]) + 1):
        try:
            store = HostileStore(number)
            store.run()
            seen += store.seen
        except Exception as error:
            failed += 1
            print(f"seed {number}: {type(error).__name__}: {str(error)[:300]}", flush=True)
    print(f"{failed} failed; fetches: {dict(seen)}")
