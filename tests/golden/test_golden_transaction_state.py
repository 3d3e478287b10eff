"""Kafka's own log of its transactions: the machine comes to the same states by the same records."""

from pathlib import Path

import pytest

from ottla.base.moment import Moment
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
from ottla.record.record import Record
from tests.golden.test_golden_coordinator_records import (
    TRANSACTION_LOGS,
    coordinator_records,
    name_of,
)


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
    at = Moment(now_ms=after.update_ms, monotonic_ms=0)
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
    machine = TransactionMachine(TransactionConfig(), lambda: ids.pop())
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
    machine = TransactionMachine(TransactionConfig(), lambda: 0)
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
