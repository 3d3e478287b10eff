"""What batches are appended to: the limits that the settings of a topic set."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.config.topic import TopicConfig
from ottla.record.batch import RecordBatch, iter_batches
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.log.append_target import (
    check_total,
    is_writable,
    records_of,
    too_large,
    unpacked_limit,
)


def batch() -> RecordBatch:
    builder = RecordBatchBuilder()
    builder.append(b"key", b"value", 1)
    (built,) = iter_batches(builder.build())
    assert isinstance(built, RecordBatch)
    return built


def test_records_larger_than_a_segment_are_refused() -> None:
    config = TopicConfig(segment_bytes=1024 * 1024)
    check_total(config.segment_bytes, config)
    with pytest.raises(ApiError, match=r"segment\.bytes") as caught:
        check_total(config.segment_bytes + 1, config)
    assert caught.value.code is ErrorCode.RECORD_LIST_TOO_LARGE


def test_a_batch_that_is_too_large_is_named_with_its_limit() -> None:
    error = too_large(batch(), TopicConfig(max_message_bytes=7))
    assert error.code is ErrorCode.MESSAGE_TOO_LARGE
    assert "max.message.bytes=7" in error.message


def test_only_bytes_that_may_change_are_writable() -> None:
    assert is_writable(bytearray(1))
    assert is_writable(memoryview(bytearray(1)))
    assert not is_writable(b"a")
    assert not is_writable(memoryview(b"a"))


def test_records_of_a_batch_are_read_within_the_limit_of_their_topic() -> None:
    config = TopicConfig()
    (record,) = records_of(batch(), config)
    assert (record.key, record.value) == (b"key", b"value")
    assert unpacked_limit(batch(), config) >= batch().size
