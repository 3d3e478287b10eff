"""Moving a partition between log directories in tests, a tenth of a second a round."""

import itertools
from collections.abc import Iterator

from ottla.base.files import FileSystem
from ottla.broker.broker import Broker
from ottla.broker.topics.partition import Partition
from ottla.testing import FakeFileSystem
from tests.support.brokers import NOW_MS, at, batch, open_broker

SMALL_SEGMENTS = {"log_segment_bytes": "300", "log_index_interval_bytes": "90"}

_rounds = itertools.count()


_ids = itertools.count(1_000_000)


def opened(file_system: FileSystem, *, ids: Iterator[int] = _ids, **settings: str) -> Broker:
    """On three directories, with segments of a few batches."""
    return open_broker(file_system, "/d", "/e", "/f", ids=ids, **SMALL_SEGMENTS, **settings)


def produce(broker: Broker, *contents: bytes) -> None:
    for content in contents:
        broker.appends.append(broker.topics.partition("t", 0), batch(content), now_ms=NOW_MS)
    broker.appends.write_out()


def numbered(count: int, first: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(first, first + count)]


def partition_of(broker: Broker) -> Partition:
    return broker.topics.partition("t", 0)


def place_of(broker: Broker) -> str:
    return partition_of(broker).directory.path


def pass_time(broker: Broker, count: int = 1) -> None:
    """Rounds of a server, a tenth of a second apart."""
    for _ in range(count):
        broker.scheduler.run_due(at(next(_rounds) * 100.0))


def finish_moves(broker: Broker) -> None:
    for _ in range(500):
        pass_time(broker)
        if not broker.log_jobs.moves:
            return
    raise AssertionError("a move does not end")


def move(broker: Broker, path: str = "/e") -> None:
    broker.log_jobs.moves.request("t", 0, path)
    finish_moves(broker)


def partition_names(file_system: FakeFileSystem, path: str) -> list[str]:
    return [name for name in file_system.list(path) if name.startswith("t-")]
