"""The roll-up of batches: what it must not pass over."""

from ottla.record.batch import RecordBatch
from ottla.record.batch_roll_up import roll_up
from ottla.record.builder import RecordBatchBuilder


def batch(base_offset: int, value: bytes, leader_epoch: int = 4) -> RecordBatch:
    builder = RecordBatchBuilder()
    builder.append(b"key", value, 1_700_000_000_000)
    made = RecordBatch(bytearray(builder.build()))
    made.stamp(base_offset, leader_epoch)
    return made


def test_the_same_batches_come_to_the_same() -> None:
    found = roll_up([batch(0, b"one"), batch(1, b"two", leader_epoch=5)])
    assert found == roll_up([batch(0, b"one"), batch(1, b"two", leader_epoch=5)])
    assert (found.batch_count, found.leader_epoch) == (2, 5)


def test_order_offset_content_and_number_all_count() -> None:
    crcs = {
        roll_up(batches).crc
        for batches in (
            [],
            [batch(0, b"one")],
            [batch(0, b"two")],
            [batch(1, b"one")],
            [batch(0, b"one"), batch(1, b"two")],
            [batch(0, b"two"), batch(1, b"one")],
            [batch(1, b"two"), batch(0, b"one")],
        )
    }
    assert len(crcs) == 7


def test_no_batches_are_a_roll_up_too() -> None:
    found = roll_up([])
    assert (found.batch_count, found.crc, found.leader_epoch) == (0, 0, -1)
