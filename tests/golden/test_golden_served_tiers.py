"""Logs whose head lies in a tier that Kafka filled, served by Ottla as Kafka served them.

Every fetch, ListOffsets and search of the manifests is asked of a broker on a copy of the
directory.
"""

import base64
import itertools
import json
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ottla.base.files import FileSystem, OsFileSystem
from ottla.base.ids import Uuid, parse_uuid
from ottla.broker.assemble import assemble
from ottla.broker.broker import Broker
from ottla.broker.startup.opening import BrokerOptions
from ottla.broker.topics.partition import Partition
from ottla.broker.topics.topics import Topic
from ottla.config.broker import BrokerConfig, broker_config
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    PartitionData,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.record.batch import iter_batches
from ottla.record.record import read_records
from ottla.runtime.tier_readers import TierReaders
from ottla.storage.remote.lineage import highest_remote_offset
from ottla.storage.remote.opening import open_tier
from ottla.storage.remote.remote_storage import RemoteStorage
from tests.golden.test_golden_remote_log_metadata import CASES, RECORDED
from tests.golden.test_golden_served import read
from tests.support.asking import Asker
from tests.support.brokers import NOW_MS, at
from tests.support.patience import PATIENCE_S
from tests.support.serving import serving

pytestmark = [
    pytest.mark.skipif(not CASES, reason="needs the recorded tiers"),
    pytest.mark.slow,
]

READ_COMMITTED = 1


def open_copy(case: str, source: Path, place: Path) -> Broker:
    """A broker on a copy of a case's directory, with the case's tier."""
    shutil.copytree(source, place, copy_function=shutil.copyfile)
    for path in (place, *place.iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    keys = RECORDED / case / "keys"

    def open_storage(config: BrokerConfig, disk: FileSystem) -> RemoteStorage:
        return open_tier(str(RECORDED / case / "tier"), keys=str(keys) if keys.is_dir() else None)

    numbers = itertools.count(1)
    options = BrokerOptions(
        now_ms=NOW_MS,
        new_id=lambda: Uuid(next(numbers).to_bytes(16, "big")),
        random_below=lambda _: 0,
        cluster_id="a-cluster-for-tests-01",
        open_remote_storage=open_storage,
    )
    settings = {
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": "as.the.test.opens.It",
    }
    broker = assemble([str(place)], OsFileSystem(), broker_config(settings), options)
    assert broker.remote_logs is not None
    while broker.remote_logs.metadata.advance(at(0)):
        pass
    for topic in broker.topics:
        for partition in topic.partitions.values():
            settle(broker, topic, partition)
    return broker


def settle(broker: Broker, topic: Topic, partition: Partition) -> None:
    """What jobs do soon after a start: they look for aborts, and for the end of the tier."""
    log = partition.log
    while log.abort_check is not None:
        log.maintenance.check_aborts()
    assert broker.remote_logs is not None
    index = broker.remote_logs.index_of(topic.topic_id, partition.index)
    if index is not None:
        ends = log.offsets.local_start_offset, log.log_end_offset
        last = highest_remote_offset(index, log.epochs.entries, *ends)
        log.offsets.highest_remote_offset = -1 if last is None else last.start_offset


@pytest.fixture(scope="module", params=CASES)
def served(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[tuple[dict[str, Any], Asker]]]:
    """The partitions of a case's manifest, each with a client of the broker that led it."""
    case = request.param
    rows = json.loads((RECORDED / case / "manifest.json").read_text())["partitions"]
    sources = sorted({RECORDED / case / Path(row["dir"]).parent for row in rows})
    brokers = {
        source: open_copy(case, source, tmp_path_factory.mktemp("served") / "data")
        for source in sources
    }
    yield [(row, Asker(brokers[RECORDED / case / Path(row["dir"]).parent])) for row in rows]
    for broker in brokers.values():
        broker.close()


def fetched(asker: Asker, row: dict[str, Any], offset: int, **fields: Any) -> PartitionData:
    wanted = FetchPartition(
        partition=row["partition"],
        fetch_offset=offset,
        partition_max_bytes=fields.pop("partition_max_bytes", 1 << 20),
    )
    topic = FetchTopic(topic_id=parse_uuid(row["topicId"]), partitions=[wanted])
    request = FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=50 << 20, topics=[topic], **fields)
    (answer,) = asker.ask(request, 16).responses
    (found,) = answer.partitions
    assert isinstance(found, PartitionData)
    return found


def listed(asker: Asker, row: dict[str, Any], timestamp: int) -> ListOffsetsPartitionResponse:
    wanted = ListOffsetsPartition(partition_index=row["partition"], timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=row["topic"], partitions=[wanted])]
    )
    (topic,) = asker.ask(request, 11).topics
    (found,) = topic.partitions
    assert isinstance(found, ListOffsetsPartitionResponse)
    return found


Served = list[tuple[dict[str, Any], Asker]]


def test_every_fetch_is_answered_as_by_kafka(served: Served) -> None:
    for row, asker in served:
        for one in row["fetches"]:
            is_committed = one["isolation"] == "read_committed"
            found = fetched(
                asker,
                row,
                one["offset"],
                partition_max_bytes=one["partitionMaxBytes"],
                isolation_level=READ_COMMITTED if is_committed else 0,
            )
            what = row["topic"], row["partition"], one["offset"], one["isolation"]
            assert found.error_code == one["errorCode"], what
            assert found.high_watermark == one["highWatermark"], what
            assert found.last_stable_offset == one["lastStableOffset"], what
            assert found.log_start_offset == one["logStartOffset"], what
            assert len(found.records) == one["recordsBytes"], what
            whole = iter_batches(found.records, allow_torn_tail=True)
            assert [[b.base_offset, b.last_offset] for b in whole] == one["batches"], what
            expected = one["abortedTransactions"]
            assert told(found) == (None if expected is None else in_order(expected)), what


def told(found: PartitionData) -> list[Any] | None:
    if found.aborted_transactions is None:
        return None
    return in_order(
        {"producerId": one.producer_id, "firstOffset": one.first_offset}
        for one in found.aborted_transactions
    )


def in_order(transactions: Iterable[Any]) -> list[Any]:
    """Of what comes from a tier, Kafka's order is that of a hash set."""
    return sorted(transactions, key=lambda one: one["firstOffset"])


def text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def test_the_records_are_those_that_kafkas_consumer_got(served: Served) -> None:
    for row, asker in served:
        offset, received = row["logStartOffset"], []
        while offset < row["highWatermark"]:
            found = fetched(asker, row, offset)
            assert not found.error_code
            for batch in iter_batches(found.records, allow_torn_tail=True):
                if not batch.is_control:
                    received += [one for one in read_records(batch) if one.offset >= offset]
                offset = batch.last_offset + 1
        for ours, theirs in zip(received, row["records"], strict=True):
            assert ours.offset == theirs["offset"]
            assert ours.timestamp_ms == theirs["timestamp"]
            assert (text(ours.key), text(ours.value)) == (theirs["key"], theirs["value"])
            assert [[name, text(one)] for name, one in ours.headers] == theirs["headers"]


def test_times_are_found_on_both_sides_of_the_border(served: Served) -> None:
    for row, asker in served:
        for timestamp_ms, offset, *rest in row["offsetsForTimes"]:
            found = listed(asker, row, timestamp_ms)
            assert not found.error_code
            expected = [offset, *(rest or [-1, -1])]
            what = row["topic"], timestamp_ms
            assert [found.offset, found.timestamp, found.leader_epoch] == expected, what


SENTINELS = {
    "earliest(-2)": -2,
    "earliestLocal(-4)": -4,
    "latestTiered(-5)": -5,
    "maxTimestamp(-3)": -3,
    "latest(-1)": -1,
}
OTHERWISE = {("rall", -5): -1}
"""Kafka says what was once copied, also when nothing of it is left."""

LATER = ("killed", "killedtx")
"""The manifest says what Kafka had copied, and deleted, some time after the directory was taken."""


def test_the_ends_of_both_parts_are_those_that_kafka_told(served: Served) -> None:
    for row, asker in served:
        for name, timestamp in SENTINELS.items():
            found, expected = listed(asker, row, timestamp), row["listOffsets"][name]
            if row["topic"] in LATER and timestamp in (-4, -5):
                continue
            if (row["topic"], timestamp) in OTHERWISE:
                expected = {"offset": OTHERWISE[row["topic"], timestamp]}
            assert found.offset == expected["offset"], (row["topic"], name)
            assert found.timestamp == expected.get("timestamp", -1), (row["topic"], name)


def test_old_consumers_come_past_the_markers_of_transactions(served: Served) -> None:
    """They continue by the offsets of the records that they get, and get no markers."""
    transactional = [one for one in served if one[0]["topic"] in ("tx", "atx", "killedtx")]
    if not transactional:
        pytest.skip("no transactions in this case")
    for row, asker in transactional:
        offset, received = row["logStartOffset"], []
        while offset <= row["records"][-1]["offset"]:
            wanted = FetchPartition(
                partition=row["partition"], fetch_offset=offset, partition_max_bytes=1 << 20
            )
            topic = FetchTopic(topic=row["topic"], partitions=[wanted])
            request = FetchRequest(max_wait_ms=0, min_bytes=1, topics=[topic])
            (found,) = asker.ask(request, 3).responses[0].partitions
            assert not found.error_code
            some = [
                one.offset
                for batch in iter_batches(found.records, allow_torn_tail=True)
                for one in read_records(batch)
                if one.offset >= offset
            ]
            assert some, (row["topic"], offset)
            received += some
            offset = some[-1] + 1
        assert received == [one["offset"] for one in row["records"]]


# Over a socket, with the threads that read the tier


@pytest.fixture(scope="module")
def addressed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[tuple[dict[str, Any], str]]]:
    """The partitions of a case's manifest, each with the address of the broker that led it."""
    case = request.param
    rows = json.loads((RECORDED / case / "manifest.json").read_text())["partitions"]
    addresses: dict[Path, str] = {}
    with ExitStack() as stack:
        for source in sorted({RECORDED / case / Path(row["dir"]).parent for row in rows}):
            broker = open_copy(case, source, tmp_path_factory.mktemp("served") / "data")
            reads, lock = broker.fetches.tier, threading.RLock()
            assert reads is not None
            server = stack.enter_context(serving(broker, lock=lock))
            readers = TierReaders(broker, reads, lock=lock, on_done=server.wake)
            stack.callback(readers.stop)
            addresses[source] = "{}:{}".format(*server.address)
        yield [(row, addresses[RECORDED / case / Path(row["dir"]).parent]) for row in rows]


Addressed = list[tuple[dict[str, Any], str]]


@pytest.mark.parametrize(
    "addressed", ["1-basic", "2-transactions", "5-leader-changes"], indirect=True
)
def test_librdkafka_reads_across_the_border(addressed: Addressed) -> None:
    for row, address in addressed:
        received = read(address, row, "read_uncommitted")
        for ours, theirs in zip(received, row["records"], strict=True):
            assert ours == {name: theirs[name] for name in ours}
        committed = [one["offset"] for one in read(address, row, "read_committed")]
        # The transaction that was open at the stop has timed out since.
        known = [one for one in committed if one < row["lastStableOffset"]]
        assert known == row["readCommittedOffsets"]


KAFKA_PYTHON = """
import json, sys
from kafka import KafkaConsumer, TopicPartition
address, topic, partition, start, count, isolation = json.loads(sys.argv[1])
consumer = KafkaConsumer(
    bootstrap_servers=address, enable_auto_commit=False, isolation_level=isolation,
    fetch_max_wait_ms=10,
)
place = TopicPartition(topic, partition)
consumer.assign([place])
consumer.seek(place, start)
received = []
while len(received) < count:
    received += [one.offset for found in consumer.poll(1000).values() for one in found]
print(json.dumps(received[:count]))
"""
"""In a process of its own, since it leaves sockets open."""


@pytest.mark.parametrize("addressed", ["1-basic"], indirect=True)
def test_kafka_python_reads_across_the_border(addressed: Addressed) -> None:
    # The other topics are compressed, and it has no codecs by itself.
    for row, address in [one for one in addressed if one[0]["topic"] == "plain"]:
        for isolation, expected in (
            ("read_uncommitted", [one["offset"] for one in row["records"]]),
            ("read_committed", row["readCommittedOffsets"]),
        ):
            wanted = [address, row["topic"], row["partition"], row["logStartOffset"]]
            given = json.dumps([*wanted, len(expected), isolation])
            command = [sys.executable, "-c", KAFKA_PYTHON, given]
            done = subprocess.run(command, capture_output=True, timeout=PATIENCE_S, check=False)
            assert not done.returncode, done.stderr
            assert json.loads(done.stdout) == expected
