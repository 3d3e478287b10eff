"""What is refused before it enters a log, with Kafka's code."""

from dataclasses import replace

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.codec.crc32c import crc32c
from ottla.record.batch import CONTROL_BIT, DELETE_HORIZON_BIT, LOG_APPEND_TIME_BIT
from ottla.record.layout import ATTRIBUTES_POSITION, CRC_POSITION
from ottla.record.legacy import build_message
from ottla.storage.log.append import check_batches
from ottla.storage.log.producer_state import CLIENT, REPLICATION
from tests.support.logs import SMALL, batch

IDEMPOTENT = {"producer_id": 4, "producer_epoch": 0, "base_sequence": 0}


def refusal(records: bytes | bytearray, **settings: object) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        check_batches(records, replace(SMALL, **settings), CLIENT)  # type: ignore[arg-type]
    return caught.value.code


def with_bits(bits: int) -> bytearray:
    """A batch whose CRC is right, as a client that says so would send it."""
    data = batch(b"v")
    data[ATTRIBUTES_POSITION + 1] |= bits
    crc = crc32c(bytes(data[CRC_POSITION + 4 :]))
    data[CRC_POSITION : CRC_POSITION + 4] = crc.to_bytes(4, "big")
    return data


def test_batches_are_taken_one_by_one() -> None:
    found = check_batches(batch(b"a") + batch(b"b", b"c"), SMALL, CLIENT)
    assert [one.record_count for one in found if one.magic == 2] == [1, 2]


@pytest.mark.parametrize(
    ("records", "code"),
    [
        (b"", ErrorCode.INVALID_RECORD),
        (batch(b"v")[:-1], ErrorCode.CORRUPT_MESSAGE),
        (batch(b"v")[:-1] + b"?", ErrorCode.CORRUPT_MESSAGE),
        (batch(b"v" * 500), ErrorCode.MESSAGE_TOO_LARGE),
        (with_bits(CONTROL_BIT), ErrorCode.INVALID_RECORD),
        (with_bits(DELETE_HORIZON_BIT), ErrorCode.INVALID_RECORD),
        (with_bits(LOG_APPEND_TIME_BIT), ErrorCode.INVALID_TIMESTAMP),
        (batch(b"v", base_offset=3), ErrorCode.INVALID_RECORD),
        (batch(b"v", producer_id=4, producer_epoch=0), ErrorCode.INVALID_RECORD),
        (batch(b"v", producer_id=4, base_sequence=0), ErrorCode.INVALID_PRODUCER_EPOCH),
        (batch(b"a", **IDEMPOTENT) + batch(b"b"), ErrorCode.INVALID_RECORD),
        (batch(b"a") + build_message(None, b"b", magic=1), ErrorCode.INVALID_RECORD),
    ],
)
def test_what_a_client_may_not_send_is_refused(records: bytearray, code: ErrorCode) -> None:
    assert refusal(records, max_message_bytes=400) is code


def test_an_old_format_has_no_place_for_a_producers_id() -> None:
    records = batch(b"v", **IDEMPOTENT)
    code = refusal(records, message_format_version="0.10.0", honours_format_version=True)
    assert code is ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT


def test_what_is_copied_from_another_log_is_taken_as_it_is() -> None:
    found = check_batches(with_bits(CONTROL_BIT), replace(SMALL, max_message_bytes=10), REPLICATION)
    assert [one.base_offset for one in found] == [0]
