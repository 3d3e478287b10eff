"""The records of `__transaction_state`."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.errors import ProtocolError
from ottla.coordinator.transaction.records import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionTopic,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
)

VALUE = TransactionLogValue(
    producer_id=7,
    producer_epoch=1,
    transaction_timeout_ms=60_000,
    transaction_status=1,
    transaction_partitions=[TransactionTopic(topic="t", partition_ids=[0, 3])],
    transaction_last_update_timestamp_ms=20,
    transaction_start_timestamp_ms=10,
)


def test_the_key_is_the_transactional_id() -> None:
    key = TransactionLogKey(transactional_id="tx")
    assert encode_key(key) == b"\0\0\0\2tx"
    assert decode_key(encode_key(key)) == key


@pytest.mark.parametrize("version", [0, 1])
def test_both_versions_of_a_value_read_back(version: int) -> None:
    assert decode_value(encode_value(VALUE, version)) == VALUE


def test_kafkas_version_is_written_unless_asked_otherwise() -> None:
    assert encode_value(VALUE) == encode_value(VALUE, 0)


def test_an_idle_id_has_no_partitions() -> None:
    idle = TransactionLogValue(producer_id=7, transaction_partitions=None)
    assert decode_value(encode_value(idle)) == idle


def test_fields_of_later_kafkas_are_skipped() -> None:
    data = encode_value(VALUE, 1)
    later = data[:-1] + b"\1\x09\x08" + bytes(8)
    assert decode_value(later) == VALUE


def test_an_unknown_kind_of_record_is_none_of_our_business() -> None:
    assert decode_key(b"\0\1anything") is None


@given(st.binary(max_size=60))
def test_garbage_is_read_or_refused_with_our_error(data: bytes) -> None:
    for decode in (decode_key, decode_value):
        try:
            decode(data)
        except ProtocolError:
            continue
