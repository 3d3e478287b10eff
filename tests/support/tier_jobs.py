"""Brokers with a tier in a directory, whose work on it is done step by step, in one thread."""

from collections.abc import Iterator

from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.tiering.remote_logs import RemoteLogs
from ottla.broker.tiering.tier_jobs import Job
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.topics import NewTopic
from ottla.storage.log.offsets import Isolation
from ottla.testing import FakeFileSystem
from tests.support.brokers import NOW_MS, batch, open_broker

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


def broker_with_tier(file_system: FakeFileSystem, **settings: str) -> Broker:
    return open_broker(file_system, **{**TIER, **settings})


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
