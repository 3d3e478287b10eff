"""Kafka's own log of its transactions: the machine comes to the same states by the same records."""

import shutil
from pathlib import Path

import pytest

from ottla.base.timers import Timers
from ottla.base.timestamps import Timestamps
from ottla.broker.membership.marker_requests import Marker
from ottla.config.transaction import TransactionConfig
from ottla.coordinator.decision import Decision
from ottla.coordinator.transaction.machine import TransactionMachine
from ottla.coordinator.transaction.records import (
    TransactionLogKey,
    TransactionLogValue,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)
from ottla.coordinator.transaction.requests import InitRequest, ProducerClaim
from ottla.coordinator.transaction.state import TransactionState
from ottla.coordinator.transaction.transaction import Transaction
from ottla.metadata.deciding.topics import NewTopic
from ottla.record.batch import iter_batches
from ottla.record.control import parse_end_transaction_marker
from ottla.record.record import Record
from tests.golden.test_golden_coordinator_records import (
    TRANSACTION_LOGS,
    coordinator_records,
    name_of,
)
from tests.support import SHARED
from tests.support.brokers import disk, open_broker
from tests.support.serving import open_broker as serving_broker

STOPPED_MS = 1_795_232_060_000
TIMEOUT_MS = 900_000


def read(record: Record) -> tuple[TransactionLogKey, TransactionLogValue]:
    assert record.key is not None
    assert record.value is not None
    key = decode_key(record.key)
    assert key is not None
    return key, decode_value(record.value)


def ask(machine: TransactionMachine, key: str, wanted: TransactionLogValue) -> Decision[object]:
    """The request that made Kafka write a record."""
    after = Transaction(transactional_id=key)
    after.take(wanted)
    at = Timestamps(now_ms=after.update_ms, monotonic_ms=0)
    claim = ProducerClaim(transactional_id=key, producer_id=after.producer_id, epoch=after.epoch)
    match after.state:
        case TransactionState.EMPTY:
            request = InitRequest(transactional_id=key, timeout_ms=after.timeout_ms)
            return machine.init_producer(request, at)
        case TransactionState.ONGOING:
            return machine.add_partitions(claim, after.partitions, at)
        case TransactionState.PREPARE_COMMIT | TransactionState.PREPARE_ABORT:
            is_commit = after.state is TransactionState.PREPARE_COMMIT
            return machine.end(claim, at, is_commit=is_commit)
        case _:
            return machine.complete(key, at)


@pytest.mark.parametrize("path", TRANSACTION_LOGS, ids=name_of)
def test_the_same_history_leaves_the_same_records(path: Path) -> None:
    ids: list[int] = []
    machine = TransactionMachine(TransactionConfig(), lambda: ids.pop(), Timers())
    for record in coordinator_records(path):
        key, wanted = read(record)
        ids[:] = [wanted.producer_id]
        (made,) = ask(machine, key.transactional_id, wanted).records
        assert isinstance(made.key, TransactionLogKey)
        assert isinstance(made.value, TransactionLogValue)
        assert encode_key(made.key) == record.key
        assert encode_value(made.value) == record.value
        machine.replay(made.key, made.value)


@pytest.mark.parametrize("path", TRANSACTION_LOGS, ids=name_of)
def test_kafkas_log_replays_to_what_kafka_had(path: Path) -> None:
    machine = TransactionMachine(TransactionConfig(), lambda: 0, Timers())
    last: dict[str, TransactionLogValue] = {}
    for record in coordinator_records(path):
        key, value = read(record)
        machine.replay(key, value)
        last[key.transactional_id] = value
    assert set(machine.transactions) == set(last)
    for transactional_id, value in last.items():
        known = machine.transactions[transactional_id]
        assert known.state.value == value.transaction_status
        assert (known.producer_id, known.epoch) == (value.producer_id, value.producer_epoch)
    assert not machine.prepared


@pytest.mark.skipif(SHARED is None, reason="the directories written by Kafka are not here")
def test_a_broker_ends_what_kafka_left_open_when_its_time_is_up(tmp_path: Path) -> None:
    assert SHARED is not None
    data = tmp_path / "data"
    shutil.copytree(SHARED / "golden/transaction-state/logdir", data)
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        (data / name).unlink()  # names partitions that were not recorded
    broker = serving_broker(data)
    broker.transactions.load(Timestamps(now_ms=STOPPED_MS, monotonic_ms=0))
    states = {key: known.state for key, known in broker.transactions.known[0].transactions.items()}
    open_ids = [key for key, state in states.items() if state is TransactionState.ONGOING]
    assert len(states) == 4
    assert open_ids == ["tx-E"]
    broker.scheduler.run_due(Timestamps(now_ms=STOPPED_MS + TIMEOUT_MS, monotonic_ms=TIMEOUT_MS))
    broker.appends.write_out()
    (ended,) = (broker.transactions.known[0].transactions[key] for key in open_ids)
    assert ended.state is TransactionState.COMPLETE_ABORT
    broker.close()


def golden_partitions() -> list[Path]:
    return sorted(SHARED.glob("golden/txn/logdir/txn-*")) if SHARED else []


@pytest.mark.parametrize("directory", golden_partitions(), ids=lambda path: path.name)
def test_markers_make_of_the_same_batches_the_same_log(directory: Path) -> None:
    """What producers sent is sent again, and each marker written again."""
    broker = open_broker(disk("/d"), log_index_size_max_bytes="120")
    broker.admin.create_topic(NewTopic(name="txn", partition_count=1))
    content = b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))
    aborted: list[int] = []
    for batch in iter_batches(content):
        marker = parse_end_transaction_marker(batch) if batch.is_control else None
        now_ms = batch.max_timestamp_ms
        if marker is None:
            sent = bytes(8) + bytes(batch.bytes_view()[8:])
            broker.appends.append(broker.topics.partition("txn", 0), bytearray(sent), now_ms=now_ms)
            continue
        aborted += [batch.base_offset] * (not marker.is_commit)
        broker.transactions.markers.write(
            Marker(
                producer_id=batch.producer_id,
                epoch=batch.producer_epoch,
                is_commit=marker.is_commit,
                coordinator_epoch=marker.coordinator_epoch,
            ),
            "txn",
            0,
            now_ms=now_ms,
        )
    broker.appends.write_out()
    log = broker.topics.partition("txn", 0).log
    assert b"".join(bytes(one.log.map()) for one in log.segments.values) == content
    assert log.last_stable_offset == log.log_end_offset
    ends = [one.last_offset for one in log.reader.aborted_transactions(0, log.log_end_offset)]
    assert ends == aborted
