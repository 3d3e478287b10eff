"""The decision about a batch before its records are read."""

from ottla.storage.compaction.transactions import CleanedTransactions
from ottla.storage.compaction.verdict import BatchJudge, LastRecord
from tests.unit.storage.compaction.test_transactions import ABORTED, data, marker


def judge(**last_records: int | None) -> BatchJudge:
    last = {
        int(key.removeprefix("producer_")): LastRecord(data_offset=offset, epoch=0)
        for key, offset in last_records.items()
    }
    return BatchJudge(CleanedTransactions([ABORTED]), last, end_offset=100, now_ms=1000)


def test_aborted_data_drops_its_records_and_other_data_is_looked_at() -> None:
    batches = judge()
    assert batches.judge(data(12)).drops_records
    assert not batches.judge(data(13, producer_id=2)).drops_records


def test_the_header_stays_that_has_a_producers_last_sequence_number() -> None:
    batches = judge(producer_1=12)
    assert not batches.judge(data(11)).keeps_empty
    assert batches.judge(data(12)).keeps_empty


def test_of_a_producer_that_wrote_only_markers_since_the_marker_stays() -> None:
    batches = judge(producer_1=None)
    assert not batches.judge(data(12)).keeps_empty
    assert batches.judge(marker(20, is_commit=False)).keeps_empty


def test_the_header_at_the_end_of_what_is_compacted_stays() -> None:
    assert judge().judge(data(99)).keeps_empty
    assert not judge().judge(data(98)).keeps_empty


def test_an_obsolete_marker_waits_for_its_time() -> None:
    verdict = judge().judge(marker(20, is_commit=False))
    assert verdict.starts_horizon
    assert not verdict.drops_records
