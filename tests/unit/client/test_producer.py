"""Our own producer against a broker: what is sent is there once, whatever is sent again."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("numpy")
pa = pytest.importorskip("pyarrow")

import numpy as np  # noqa: E402

import ottla  # noqa: E402
from ottla.base.addresses import Address, parse_address  # noqa: E402
from ottla.base.errors import UnreachableError, UserError  # noqa: E402
from ottla.client.administration.group_offsets import (  # noqa: E402
    Committed,
    GroupMetadata,
    commit_from_outside,
    committed_by,
)
from ottla.client.bulk.producer import Producer  # noqa: E402
from ottla.client.bulk.producer_identity import init_producer  # noqa: E402
from ottla.client.bulk.transactions import commit_offsets, end_transaction  # noqa: E402
from ottla.client.connecting.cluster import ClientSettings, Cluster, CoordinatorKind  # noqa: E402
from ottla.client.refusals import RefusedError  # noqa: E402
from ottla.codec.compression import Compression  # noqa: E402
from ottla.embedded.log import Log  # noqa: E402
from ottla.record.packing import PackedRecords, RecordColumns, pack_records  # noqa: E402
from ottla.storage.reading.read_only_directory import open_for_reading  # noqa: E402

TIMEOUT_MS = 60_000


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "d"


@pytest.fixture
def log(data: Path) -> Iterator[Log]:
    settings = {
        "transaction.state.log.num.partitions": 1,
        "offsets.topic.num.partitions": 1,
    }
    with ottla.open(data, settings) as log:
        log.create_topic("t", partitions=2)
        yield log


@pytest.fixture
def cluster(log: Log) -> Iterator[Cluster]:
    address = parse_address(log.listen("127.0.0.1:0").address)
    with opened(address) as cluster:
        yield cluster


def opened(address: Address) -> Cluster:
    settings = ClientSettings(first_pause_s=0.01, last_pause_s=0.1, patience_s=2.0)
    return Cluster([address], settings, sleep=time.sleep, topics=())


def committed(cluster: Cluster, group: str) -> list[Committed]:
    return cluster.ask_coordinator(
        CoordinatorKind.GROUP, group, lambda broker: list(committed_by(broker, group))
    )


def packed(count: int, partition: int = 0, *, max_size: int = 1 << 20) -> list[PackedRecords]:
    values = pa.array([b"%d" % number for number in range(count)], pa.binary())
    columns = RecordColumns(key=None, value=values)
    return pack_records(columns, np.full(count, partition), max_size)


def values(data: Path, partition: int = 0) -> list[bytes | None]:
    partition_log = open_for_reading(str(data)).partition("t", partition)
    return [one.value for one in partition_log.records.read(0, read_committed=True)]


def numbers(count: int) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("compression", list(Compression))
def test_what_is_flushed_is_in_the_log_in_order(
    data: Path, cluster: Cluster, compression: Compression
) -> None:
    producer = Producer(cluster, init_producer(cluster, "", TIMEOUT_MS), compression)
    producer.send("t", packed(1000, max_size=500))
    producer.send("t", packed(10, 1))
    producer.flush()
    assert values(data) == numbers(1000)
    assert values(data, 1) == numbers(10)


def test_batches_sent_again_over_a_new_connection_are_there_once(
    data: Path, cluster: Cluster
) -> None:
    producer = Producer(cluster, init_producer(cluster, "", TIMEOUT_MS))
    producer.send("t", packed(10))
    delivery: Any = producer._delivery
    delivery._answers[0]()  # the broker has it, and the answer is lost
    cluster.disconnect()
    producer.flush()
    producer.send("t", packed(20))
    producer.flush()
    assert values(data) == numbers(10) + numbers(20)


def test_a_transaction_is_seen_when_another_client_has_ended_it(
    data: Path, cluster: Cluster
) -> None:
    who = init_producer(cluster, "x", TIMEOUT_MS)
    producer = Producer(cluster, who)
    producer.send("t", packed(5))
    producer.flush()
    told = Committed(group="g", topic="t", partition=1, offset=7, metadata="told")
    commit_offsets(cluster, who, GroupMetadata(group="g"), [told])
    assert values(data) == []
    with opened(cluster._bootstrap[0]) as other:
        assert end_transaction(other, who, is_commit=True)
        assert end_transaction(other, who, is_commit=True), "and may be asked again"
        assert not end_transaction(other, who, is_commit=False)
    assert values(data) == numbers(5)
    assert committed(cluster, "g") == [told]


def test_a_new_epoch_aborts_what_the_old_one_left_and_shuts_it_out(
    data: Path, cluster: Cluster
) -> None:
    old = init_producer(cluster, "x", TIMEOUT_MS)
    producer = Producer(cluster, old)
    producer.send("t", packed(5))
    producer.flush()
    init_producer(cluster, "x", TIMEOUT_MS)
    assert not end_transaction(cluster, old, is_commit=True)
    with pytest.raises(RefusedError, match="another attempt has taken over"):
        Producer(cluster, old).send("t", packed(1, 1))
    assert values(data) == []


def test_offsets_are_committed_from_outside_a_group(cluster: Cluster) -> None:
    offsets = [
        Committed(group="g", topic="t", partition=n, offset=3, metadata=f"m{n}") for n in (0, 1)
    ]
    cluster.ask_coordinator(
        CoordinatorKind.GROUP, "g", lambda broker: commit_from_outside(broker, offsets)
    )
    assert sorted(committed(cluster, "g"), key=lambda one: one.partition) == offsets
    assert committed(cluster, "nobody") == []


def test_what_a_broker_refuses_is_reported_with_the_fix(log: Log, cluster: Cluster) -> None:
    log.create_topic("small", partitions=1, config={"max.message.bytes": 200})
    producer = Producer(cluster, init_producer(cluster, "", TIMEOUT_MS))
    producer.send("small", packed(500))
    with pytest.raises(RefusedError, match=r"small-0: MESSAGE_TOO_LARGE.*lower batch\.size"):
        producer.flush()
    with pytest.raises(UserError, match="there is no topic nowhere; create it"):
        cluster.topic("nowhere")
    with pytest.raises(RefusedError, match=r"producer x: .*transaction\.max\.timeout\.ms"):
        init_producer(cluster, "x", 2**31 - 1)


def test_a_client_gives_up_when_its_patience_is_over(log: Log, cluster: Cluster) -> None:
    assert sorted(cluster.topic("t").leaders) == [0, 1]
    log.close()
    pauses: list[float] = []
    cluster.sleep = pauses.append
    with pytest.raises(UnreachableError):
        init_producer(cluster, "x", TIMEOUT_MS)
    assert sum(pauses) == pytest.approx(cluster.settings.patience_s)
    assert pauses[:3] == [0.01, 0.02, 0.04]
    assert max(pauses) == 0.1
