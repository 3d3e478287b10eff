"""Kafka's transaction indexes and producer snapshots: read, and written again byte by byte."""

import re

import pytest

from ottla.base.files import read_file
from ottla.storage.index.producer_snapshot import (
    ProducerSnapshotEntry,
    read_snapshot,
    write_snapshot,
)
from ottla.storage.index.transaction_index import AbortedTransaction, TransactionIndex
from ottla.testing import FakeFileSystem
from tests.golden.directories import CASES, FILES, golden_files

TRANSACTION_LINE = (
    r"version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
)
PRODUCER_LINE = re.compile(
    r"producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: (-?\d+) "
    r"currentTxnFirstOffset: OptionalLong(?:\.empty|\[(\d+)\]) lastTimestamp: (-?\d+)"
    r"(?: firstSequence: (-?\d+) lastSequence: (-?\d+) lastOffset: (-?\d+) "
    r"offsetDelta: (-?\d+) timestamp: (-?\d+))?\s*"
)


@pytest.mark.parametrize("case", CASES)
def test_transaction_indexes_hold_what_kafka_says(case: str) -> None:
    for golden in golden_files(case, "*.txnindex"):
        index = TransactionIndex(
            FILES, str(golden.path), base_offset=golden.base_offset, writable=False
        )
        expected = [
            AbortedTransaction(
                producer_id=fields[0],
                first_offset=fields[1],
                last_offset=fields[2],
                last_stable_offset=fields[3],
            )
            for fields in golden.dumped(TRANSACTION_LINE)
        ]
        assert index.entries == expected
        index.sanity_check()
        index.close()
        disk = FakeFileSystem()
        copy = TransactionIndex(disk, "copy", base_offset=golden.base_offset)
        for transaction in expected:
            copy.append(transaction)
        if expected:
            assert read_file(disk, "copy") == golden.content


def dumped_producers(dump: str) -> list[ProducerSnapshotEntry]:
    entries = []
    for line in dump.splitlines():
        match = PRODUCER_LINE.fullmatch(line.strip())
        if match is None:
            assert not line or line.startswith("Dumping"), line
            continue
        fields = [None if group is None else int(group) for group in match.groups()]
        timestamp_ms = fields[4]
        assert timestamp_ms is not None
        entries.append(
            ProducerSnapshotEntry(
                producer_id=fields[0] or 0,
                epoch=fields[1] or 0,
                coordinator_epoch=fields[2] or 0,
                transaction_first_offset=fields[3],
                last_sequence=-1 if fields[6] is None else fields[6],
                last_offset=-1 if fields[7] is None else fields[7],
                offset_delta=0 if fields[8] is None else fields[8],
                timestamp_ms=timestamp_ms,
            )
        )
    return entries


@pytest.mark.parametrize("case", CASES)
def test_producer_snapshots_hold_what_kafka_says(case: str) -> None:
    for golden in golden_files(case, "*.snapshot"):
        if golden.path.parent.name.startswith("__cluster_metadata"):
            continue
        entries, _ = read_snapshot(FILES, str(golden.path))
        disk = FakeFileSystem()
        write_snapshot(disk, "copy", entries)
        assert read_file(disk, "copy") == golden.content
        if golden.dump is not None:
            assert entries == dumped_producers(golden.dump)
