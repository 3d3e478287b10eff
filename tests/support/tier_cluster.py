"""Brokers of a cluster in one process that share a tier. Broker 1 has the tier's metadata; the
others ask it, by the bytes of their requests.
"""

from collections import deque
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.base.partitions import TopicPartition
from ottla.broker.membership.metadata_requests import (
    MetadataAnswer,
    MetadataAppend,
    MetadataRequest,
)
from ottla.broker.tiering.remote_logs import RemoteLogs, open_remote_storage
from ottla.cluster import metadata_channels
from ottla.codec.schema import Message
from ottla.config.broker import BrokerConfig
from ottla.record.batch import iter_batches
from ottla.record.record import read_records
from ottla.storage.files.filenames import REMOTE_LOG_METADATA
from ottla.storage.log.offsets import Isolation
from ottla.storage.remote.metadata_records import SegmentUpdate, decode_event
from ottla.storage.remote.segment_index import SegmentIndex
from ottla.storage.remote.segment_metadata import SegmentState
from ottla.testing import FakeFileSystem
from tests.support.asking import Asker
from tests.support.brokers import id_of
from tests.support.replicated_brokers import (
    Asked,
    ClusterInProcess,
    PartitionOrders,
    Unasked,
    open_member,
)
from tests.support.tier_jobs import LOCAL_CLASS, Store, objects_of

PLACE = TopicPartition("t", 0)
SETTINGS = {
    "zookeeper_connect": "a:2181",
    "remote_log_storage_system_enable": "true",
    "remote_log_storage_manager_class_name": LOCAL_CLASS,
    "rsm_config_dir": "/tier",
    "rlmm_config_remote_log_metadata_topic_num_partitions": "1",
    "remote_log_manager_task_interval_ms": "1000",
    "log_retention_check_interval_ms": "1000",
    "log_initial_task_delay_ms": "0",
}
TIERED = {
    "remote.storage.enable": "true",
    "local.retention.bytes": "200",
    "file.delete.delay.ms": "0",
    "segment.bytes": "800",
}


class Member(Unasked):
    """Queues requests about the tier's metadata."""

    def __init__(self, queue: deque[tuple[int, MetadataRequest]], broker_id: int) -> None:
        self._queue = queue
        self._broker_id = broker_id

    def ask_about_metadata(self, request: MetadataRequest) -> None:
        self._queue.append((self._broker_id, request))


class TierCluster(ClusterInProcess):
    """`replicas` are those of partition t-0, which has a tier."""

    def __init__(self, replicas: tuple[int, ...] = (1, 2), **settings: str) -> None:
        self.tier = FakeFileSystem()
        self.topic_settings = dict(TIERED)
        self.stores: dict[int, Store] = {}
        self._asks: deque[tuple[int, MetadataRequest]] = deque()
        self.metadata = PartitionOrders(
            TopicPartition(REMOTE_LOG_METADATA, 0), (1,), topic_id=id_of(78)
        )
        super().__init__(PLACE, replicas, **{**SETTINGS, **settings})
        self.topic_ids[REMOTE_LOG_METADATA] = self.metadata.topic_id

    def start(self, broker_id: int) -> None:
        broker = open_member(
            broker_id,
            self.disks[broker_id],
            membership=Member(self._asks, broker_id),  # type: ignore[arg-type]
            open_remote_storage=lambda config, _: self._store_of(broker_id, config),
            **self._settings,
        )
        self.brokers[broker_id] = broker
        self.askers[broker_id] = Asker(broker)

    def _store_of(self, broker_id: int, config: BrokerConfig) -> Store:
        self.stores[broker_id] = Store(open_remote_storage(config, self.tier))
        return self.stores[broker_id]

    def lead(self, leader: int, isr: tuple[int, ...] | None = None) -> None:
        super().lead(leader, isr)
        if 1 in self.brokers:
            self.metadata.lead(1, self.brokers)
        for one in self.brokers.values():
            topic = one.topics.find("t")
            if topic is not None and topic.overrides != self.topic_settings:
                one.unconfirmed.forget("t")
                one.admin.follow_topic("t", self.topic_settings, "a test")

    def remote_logs(self, broker_id: int) -> RemoteLogs:
        found = self.brokers[broker_id].remote_logs
        assert found is not None
        return found

    def index(self, broker_id: int) -> SegmentIndex:
        found = self.remote_logs(broker_id).index_of(self.orders.topic_id, 0)
        assert found is not None
        return found

    def fill(self, leader: int, count: int) -> None:
        """Appends records that tell their offsets, and replicates them."""
        for _ in range(count):
            end = self.log(leader).log_end_offset
            self.produce(leader, b"%04d by %d" % (end, leader), acks=1)
        self.replicate()

    @property
    def objects(self) -> list[str]:
        """What lies in the tier."""
        return objects_of(self.tier)

    def work(self, rounds: int = 4) -> None:
        """Has all brokers work on the tier, for some seconds."""
        for _ in range(rounds):
            for broker_id in self.brokers:
                self.log(broker_id).writer.flush()  # retention keeps what is not durable
            self.work_without_logs()

    def work_until_sent(self, state: SegmentState) -> None:
        """Has all brokers work until one has sent a record of an upload in this state."""
        for _ in range(100):
            for broker_id in self.brokers:
                self._work_of(broker_id)
            _, request = self._asks[-1] if self._asks else (0, None)
            if isinstance(request, MetadataAppend):
                event = decode_event(request.value)
                if isinstance(event, SegmentUpdate) and event.state is state:
                    return
            self.answer_asks(len(self._asks))
            self.let_pass(20)
        raise AssertionError(f"no upload is {state.name}")

    def work_without_logs(self, rounds: int = 1) -> None:
        """As `work`, where brokers have no log of the partition any more."""
        for _ in range(rounds):
            self.let_pass(1000)
            for _ in range(30):
                self.replicate(1)
                if not self._work_once():
                    break
                self.let_pass(20)
        self.replicate()

    def answer_asks(self, count: int) -> None:
        """Answers some requests about the metadata, the oldest first."""
        for _ in range(min(count, len(self._asks))):
            self._answer_one(*self._asks.popleft())

    def _work_once(self) -> bool:
        is_busy = False
        for broker_id in list(self.brokers):
            is_busy = self._work_of(broker_id) or is_busy
        while self._asks:
            is_busy = True
            self._answer_one(*self._asks.popleft())
        return is_busy

    def _work_of(self, broker_id: int) -> bool:
        """Returns whether there is, or was, anything to do."""
        jobs = self.remote_logs(broker_id).jobs
        begun = jobs.begin(self.orders.at)
        for job in begun:
            job.carry_out()
            while jobs.resume(job, self.orders.at):
                job.carry_out()
        self.brokers[broker_id].appends.write_out()
        return bool(begun) or len(jobs) > 0

    def _answer_one(self, asking: int, request: MetadataRequest) -> None:
        if asking not in self.brokers:
            return
        answer = MetadataAnswer(error=ErrorCode.NETWORK_EXCEPTION)
        if request.broker in self.brokers:
            peer = _Peer(self, request.broker)
            answer = metadata_channels._ask(request, peer, None)  # type: ignore[arg-type]
        self.remote_logs(asking).metadata.answered(request, answer, self.orders.at)

    def values(self, broker_id: int) -> list[bytes]:
        """All values of the log as a reader sees them: from the tier, and from the segments."""
        log, found = self.log(broker_id), []
        offset = log.log_start_offset
        while offset < log.local_start_offset:
            epoch = log.epochs.epoch_for_offset(offset)
            segment = self.index(broker_id).look_up(-1 if epoch is None else epoch, offset)
            assert segment is not None, f"no upload has offset {offset} of epoch {epoch}"
            data = self.remote_logs(broker_id).storage.read_log(segment, 0, segment.size)
            _, _, epoch_end = log.epochs.range_of(offset)
            until = min(segment.end_offset + 1, log.local_start_offset, epoch_end)
            found += _values(data, offset, until)
            offset = until
        return found + _values(self.local_records(broker_id), offset, log.high_watermark)

    def local_records(self, broker_id: int) -> bytes:
        log, found = self.log(broker_id), b""
        offset = log.local_start_offset
        while offset < log.high_watermark:
            data = log.reader.read(offset, 1 << 20, Isolation.HIGH_WATERMARK)
            assert data.records is not None
            found += data.records.read()
            offset = list(iter_batches(found))[-1].last_offset + 1
        return found


class _Peer:
    def __init__(self, cluster: TierCluster, broker_id: int) -> None:
        self._cluster = cluster
        self._broker_id = broker_id

    def ask(self, _: object, request: Message, version: int) -> Any:
        asked = Asked(self._cluster, self._broker_id, request, version)
        assert asked.response is not None, "no other replica has to have the record"
        return asked.response


def _values(data: bytes, first: int, until: int) -> list[bytes]:
    return [
        record.value or b""
        for batch in iter_batches(data)
        for record in read_records(batch)
        if first <= record.offset < until
    ]
