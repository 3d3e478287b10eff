"""Brokers with a tier in a directory, whose work on it is done step by step, in one thread."""

from collections.abc import Iterator
from itertools import count
from typing import Any

from ottla.base.files import FileSystem
from ottla.base.timestamps import Timestamps
from ottla.broker.assemble import assemble
from ottla.broker.broker import Broker
from ottla.broker.startup.opening import BrokerOptions
from ottla.broker.tiering.remote_logs import RemoteLogs, open_remote_storage
from ottla.broker.tiering.tier_jobs import Job
from ottla.broker.topics.partition import Partition
from ottla.config.broker import broker_config
from ottla.metadata.deciding.topics import NewTopic
from ottla.storage.log.offsets import Isolation
from ottla.storage.remote.remote_storage import RemoteStorage
from ottla.storage.remote.segment_files import SegmentFiles
from ottla.storage.remote.segment_index import SegmentIndex
from ottla.storage.remote.segment_metadata import RemoteLogSegmentMetadata
from tests.support.brokers import NOW_MS, batch, id_of

LOCAL_CLASS = "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
TIER = {
    "remote_log_storage_system_enable": "true",
    "remote_log_storage_manager_class_name": LOCAL_CLASS,
    "rsm_config_dir": "/tier",
    "rlmm_config_remote_log_metadata_topic_num_partitions": "3",
    "remote_log_manager_task_interval_ms": "1000",
    "log_retention_check_interval_ms": "1000",
    "log_initial_task_delay_ms": "0",
}
TIERED = {"remote.storage.enable": "true"}


class Moment:
    """The time of a broker in a test."""

    def __init__(self, now_ms: int = NOW_MS, monotonic_ms: float = 0.0) -> None:
        self.now_ms, self.monotonic_ms = now_ms, monotonic_ms

    def __call__(self) -> Timestamps:
        return Timestamps(now_ms=self.now_ms, monotonic_ms=self.monotonic_ms)

    def pass_ms(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        self.monotonic_ms += duration_ms


class Store:
    """A tier in a directory that may fail: `fault` is raised by the calls that `fails` names.

    `custom` is what a copy returns.
    """

    def __init__(self, storage: RemoteStorage) -> None:
        self._storage = storage
        self.fault: Exception | None = None
        self.fails = frozenset({"copy", "delete"})
        self.custom: bytes | None = None
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def copy_segment(self, segment: RemoteLogSegmentMetadata, files: SegmentFiles) -> bytes | None:
        self._called("copy")
        self._storage.copy_segment(segment, files)
        return self.custom

    def delete_segment(self, segment: RemoteLogSegmentMetadata) -> None:
        self._called("delete")
        self._storage.delete_segment(segment)

    def _called(self, name: str) -> None:
        self.calls.append(name)
        if self.fault is not None and name in self.fails:
            raise self.fault


_ids = count(1)


def broker_with_tier(
    file_system: FileSystem,
    *paths: str,
    ids: Iterator[int] = _ids,
    **settings: str,
) -> Broker:
    """On `/d`, or other paths. Settings are Kafka's names with `_` for `.`."""
    values = {one.replace("_", "."): text for one, text in {**TIER, **settings}.items()}
    if "remote_log_storage_manager_class_name" in settings:
        del values["rsm.config.dir"]  # which only the other class has
    values.setdefault("log.index.size.max.bytes", str(1 << 16))
    options = BrokerOptions(
        now_ms=NOW_MS,
        new_id=lambda: id_of(next(ids)),
        random_below=lambda bound: bound // 2,
        cluster_id="a-cluster-for-tests-01",
        open_remote_storage=lambda config, disk: Store(open_remote_storage(config, disk)),
    )
    return assemble(paths or ["/d"], file_system, broker_config(values), options)


def store_of(broker: Broker) -> Store:
    found = remote_logs(broker).storage
    assert isinstance(found, Store)
    return found


def index_of(broker: Broker, topic: str = "orders", partition: int = 0) -> SegmentIndex:
    found = remote_logs(broker).index_of(broker.topics.get(topic).topic_id, partition)
    assert found is not None
    return found


def states(broker: Broker, topic: str = "orders") -> list[tuple[int, int, str]]:
    """First and last offsets of the uploads, with their states."""
    return [
        (one.start_offset, one.end_offset, one.state.name)
        for one in index_of(broker, topic).segments()
    ]


def objects_of(file_system: FileSystem) -> list[str]:
    """The names of all objects in the tier."""
    root = "/tier/kafka-tiered-storage"
    if file_system.status(root) is None:
        return []
    folders = [f"{root}/{one}" for one in file_system.list(root)]
    return sorted(f"{one}/{name}" for one in folders for name in file_system.list(one))


def remote_logs(broker: Broker) -> RemoteLogs:
    assert broker.remote_logs is not None
    return broker.remote_logs


def tiered_topic(
    broker: Broker, name: str = "orders", count: int = 1, **settings: str
) -> Partition:
    overrides = {**TIERED, **{one.replace("_", "."): text for one, text in settings.items()}}
    new = NewTopic(name=name, partition_count=count, overrides=overrides)
    return broker.admin.create_topic(new).partition(0)


def fill(
    broker: Broker, partition: Partition, count: int, *, moment: Moment, roll_every: int = 10
) -> None:
    """Appends records of one batch each, and rolls the log after every few."""
    for _ in range(count):
        end = partition.log.log_end_offset
        if end and end % roll_every == 0:
            partition.log.writer.roll(moment.now_ms)
        value = b"%d" % end
        now_ms = moment.now_ms
        broker.appends.append(partition, batch(value, timestamp_ms=now_ms), now_ms=now_ms)
        broker.appends.write_out()


def steps_of(broker: Broker, moment: Moment) -> Iterator[Job]:
    """Does all work that is due, and yields each job before its deed is carried out."""
    jobs = remote_logs(broker).jobs
    jobs.look_again()
    while True:
        ready = jobs.begin(moment())
        for job in ready:
            while True:
                yield job
                job.carry_out()
                if not jobs.resume(job, moment()):
                    break
        if not ready and jobs.next_due_ms > moment.monotonic_ms:
            return


def work(broker: Broker, moment: Moment) -> int:
    """Does all work that is due now; returns the number of deeds."""
    return sum(1 for _ in steps_of(broker, moment))


def local_values(partition: Partition) -> list[bytes]:
    """The values that the local segments have."""
    from ottla.record.batch import iter_batches
    from ottla.record.record import read_records

    found: list[bytes] = []
    log = partition.log
    offset = log.offsets.local_start_offset
    while offset < log.log_end_offset:
        data = log.reader.read(offset, 1 << 20, Isolation.LOG_END)
        assert data.records is not None
        for one in iter_batches(data.records.read(), allow_torn_tail=True):
            for record in read_records(one):
                if record.offset >= offset:
                    found.append(record.value or b"")
            offset = one.last_offset + 1
    return found
