import struct
from dataclasses import replace

import pytest

from ottla.base.errors import CorruptionError
from ottla.storage.remote.index_check import check_index
from ottla.storage.remote.segment_metadata import IndexType
from tests.support.tiers import NOW_MS, uploaded

ONE = uploaded(100, with_aborts=True)


@pytest.mark.parametrize("kind", IndexType)
def test_the_files_of_a_segment_are_its_own(kind: IndexType) -> None:
    check_index(ONE.metadata, kind, ONE.indexes[kind], "path")


@pytest.mark.parametrize("kind", IndexType)
def test_a_file_that_was_cut_is_found(kind: IndexType) -> None:
    with pytest.raises(CorruptionError, match="path at byte"):
        check_index(ONE.metadata, kind, ONE.indexes[kind][:-2], "path")


def flipped(content: bytes, position: int) -> bytes:
    return content[:position] + bytes([content[position] ^ 0x80]) + content[position + 1 :]


@pytest.mark.parametrize("kind", [IndexType.OFFSET, IndexType.TRANSACTION])
def test_a_flipped_sign_of_any_number_is_found(kind: IndexType) -> None:
    content = ONE.indexes[kind]
    step = {IndexType.OFFSET: 4, IndexType.TRANSACTION: 8}[kind]
    for position in range(10 if kind is IndexType.TRANSACTION else 0, len(content), step):
        with pytest.raises(CorruptionError):
            check_index(ONE.metadata, kind, flipped(content, position), "path")


@pytest.mark.parametrize(
    "kind", [IndexType.OFFSET, IndexType.TRANSACTION, IndexType.PRODUCER_SNAPSHOT]
)
def test_a_file_of_a_longer_segment_is_found(kind: IndexType) -> None:
    longer = uploaded(100, 20, with_aborts=True)
    with pytest.raises(CorruptionError, match=r"another segment|after the segment"):
        check_index(ONE.metadata, kind, longer.indexes[kind], "path")


def test_leader_epochs_of_another_segment_are_found() -> None:
    for other in (uploaded(60), uploaded(100, 20), uploaded(200)):
        with pytest.raises(CorruptionError, match=r"leader epoch|after the segment"):
            check_index(
                ONE.metadata, IndexType.LEADER_EPOCH, other.indexes[IndexType.LEADER_EPOCH], "path"
            )


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ([(NOW_MS, 1), (NOW_MS, 2)], "out of order"),
        ([(NOW_MS, 2), (NOW_MS + 1, 1)], "out of order"),
        ([(NOW_MS, -1)], "offsets of another segment"),
        ([(NOW_MS, 16)], "offsets of another segment"),
        ([(NOW_MS + 1000, 1)], "timestamps of another segment"),
    ],
)
def test_times_out_of_order_or_of_another_segment_are_found(
    entries: list[tuple[int, int]], words: str
) -> None:
    content = b"".join(struct.pack(">qi", *one) for one in entries)
    with pytest.raises(CorruptionError, match=words):
        check_index(ONE.metadata, IndexType.TIMESTAMP, content, "path")


def test_positions_outside_the_log_are_found() -> None:
    shorter = replace(ONE.metadata, size=500)
    with pytest.raises(CorruptionError, match="positions outside"):
        check_index(shorter, IndexType.OFFSET, ONE.indexes[IndexType.OFFSET], "path")


def test_empty_indexes_are_sound() -> None:
    for kind in (IndexType.OFFSET, IndexType.TIMESTAMP, IndexType.TRANSACTION):
        check_index(ONE.metadata, kind, b"", "path")
