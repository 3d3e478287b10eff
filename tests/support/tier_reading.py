"""Brokers whose logs have their first segments in a tier only, and reads that wait for a test."""

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from typing import Any

from ottla.base.files import FileSystem
from ottla.broker.broker import Broker
from ottla.broker.records.tier_reads import TierReads, TierWork
from ottla.broker.topics.partition import Partition
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.record.batch import iter_batches
from ottla.record.record import read_records
from ottla.storage.files.filenames import INTEGRITY, parse_file_name
from ottla.testing import FakeFileSystem
from tests.support.asking import Asker
from tests.support.brokers import NOW_MS, at, disk
from tests.support.tier_jobs import (
    Moment,
    broker_with_tier,
    fill,
    remote_logs,
    tiered_topic,
    work,
)

END, LOCAL_START, ROLLED = 95, 60, 90
"""Of a topic's partition: what is below the second is in the tier only, what is below the third in
both places. Each record is a batch; its value is its offset, and its time that many milliseconds
after `NOW_MS`.
"""


class HeldThreads:
    """Threads whose reads are carried out when the test says so; at most `limit` wait."""

    def __init__(self, reads: TierReads, limit: int = 100) -> None:
        self.reads = reads
        self.limit = limit
        self.waiting: list[TierWork] = []
        reads.threads = self

    def submit(self, work: TierWork) -> bool:
        if len(self.waiting) >= self.limit:
            return False
        self.waiting.append(work)
        return True

    def run(self, count: int = 1 << 30) -> None:
        """Carries out the first reads that wait."""
        for one in self.waiting[:count]:
            one.carry_out(nullcontext)
            self.reads.done(one)
        del self.waiting[:count]


class TieredBroker:
    """A broker with topics that have a tier, all alike, and a client of it."""

    def __init__(
        self,
        *topics: str,
        append: Callable[[Broker, Partition, Moment], None] | None = None,
        **settings: str,
    ) -> None:
        self.disk: FakeFileSystem = disk("/d")
        self.settings = {"log_index_interval_bytes": "64", **settings}
        moment = Moment()
        broker = broker_with_tier(self.disk, **self.settings)
        for name in topics or ("orders",):
            partition = tiered_topic(broker, name)
            (append or _fill)(broker, partition, moment)
        work(broker, moment)
        broker.close()
        for name in topics or ("orders",):
            remove_segments(self.disk, f"/d/{name}-0", LOCAL_START)
        self.open()

    def open(self) -> None:
        self.broker = broker_with_tier(self.disk, **self.settings)
        while remote_logs(self.broker).metadata.advance(at(0)):
            pass
        self.client = Asker(self.broker)
        reads = self.broker.fetches.tier
        assert reads is not None
        self.reads = reads

    def partition(self, topic: str = "orders") -> Partition:
        return self.broker.topics.get(topic).partition(0)

    def objects(self, ending: str, start: int) -> list[str]:
        """The paths of objects in the tier of the segment that starts at an offset."""
        root = "/tier/kafka-tiered-storage"
        return [
            f"{root}/{folder}/{name}"
            for folder in self.disk.list(root)
            for name in self.disk.list(f"{root}/{folder}")
            if name.startswith(f"{start:020}-") and name.endswith(ending)
        ]

    def answered(self, monotonic_ms: float = 0.0) -> int:
        """How many waiting requests the broker has answers for."""
        self.client.pass_to(monotonic_ms)
        return len(self.broker.answers.take_answered(monotonic_ms))


def _fill(broker: Broker, partition: Partition, moment: Moment) -> None:
    for _ in range(END):
        fill(broker, partition, 1, moment=Moment(NOW_MS + partition.log.log_end_offset))


def remove_segments(file_system: FileSystem, directory: str, below: int) -> None:
    """Removes local segments, as local retention does."""
    for name in file_system.list(directory):
        parsed = parse_file_name(name)
        if name == INTEGRITY or (parsed is not None and parsed.offset < below):
            file_system.remove(f"{directory}/{name}")


def fetch_of(*wanted: tuple[str, int], version: int = 12, **fields: Any) -> FetchRequest:
    """A fetch of partitions 0, by topic and offset."""
    own = {"partition_max_bytes": fields.pop("partition_max_bytes", 1 << 20)}
    topics = [
        FetchTopic(
            topic=topic, partitions=[FetchPartition(partition=0, fetch_offset=offset, **own)]
        )
        for topic, offset in wanted
    ]
    given = {"max_wait_ms": 500, "min_bytes": 1, "max_bytes": 50 << 20, **fields}
    return FetchRequest(topics=topics, **given)


def offsets_in(answer: Any) -> list[list[int] | int]:
    """By partition, the offsets of an answer to a fetch, or its error code."""
    return [
        one.error_code or offsets_of(one.records)
        for topic in answer.responses
        for one in topic.partitions
    ]


def offsets_of(records: bytes) -> list[int]:
    found = []
    for batch in iter_batches(records, allow_torn_tail=True):
        for record in read_records(batch):
            assert batch.is_control or record.value == b"%d" % record.offset
            found.append(record.offset)
    return found


def list_offsets_of(
    timestamps: Iterable[int], topic: str = "orders", **fields: Any
) -> ListOffsetsRequest:
    wanted = [ListOffsetsPartition(partition_index=0, timestamp=one) for one in timestamps]
    return ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=wanted)], **fields
    )
