import pytest

from ottla.base.errors import CorruptionError
from ottla.storage.remote.log_check import FIRST_SIZE, check_first
from tests.support.tiers import uploaded

ONE = uploaded(100)


def test_a_log_that_begins_in_its_segment_is_its_own() -> None:
    check_first(ONE.metadata, ONE.log[:FIRST_SIZE], "path")


@pytest.mark.parametrize("start", [0, 84, 116, 500])
def test_a_log_that_begins_elsewhere_is_another_segments(start: int) -> None:
    with pytest.raises(CorruptionError, match=f"begins at offset {start}"):
        check_first(ONE.metadata, uploaded(start).log[:FIRST_SIZE], "path")


def test_a_log_with_later_timestamps_is_another_segments() -> None:
    late = bytearray(ONE.log[:FIRST_SIZE])
    late[35:43] = (ONE.metadata.max_timestamp_ms + 1).to_bytes(8, "big")
    with pytest.raises(CorruptionError, match="has the timestamp"):
        check_first(ONE.metadata, late, "path")


def test_bytes_that_are_no_batch_are_damage() -> None:
    for content in (b"", ONE.log[:10], bytes(61)[:16] + b"\x09" + bytes(44)):
        with pytest.raises(CorruptionError, match="path at byte 0"):
            check_first(ONE.metadata, content, "path")
