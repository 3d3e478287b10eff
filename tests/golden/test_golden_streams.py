"""Streams over Kafka's directories: the gaps of markers, aborts and compaction are no loss."""

import pytest

from tests.golden.directories import CASES, GOLDEN
from tests.golden.test_golden_reader import manifest

pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

from tests.unit.spark.test_stream import Query


@pytest.mark.slow
@pytest.mark.parametrize("case", [one for one in CASES if one.startswith(("txn", "compaction-4"))])
def test_limited_batches_hold_each_committed_record_once(case: str) -> None:
    told = manifest(case)["partitions"]
    assigned = {one["topic"]: [] for one in told}
    for one in told:
        assigned[one["topic"]].append(one["partition"])
    query = Query(
        str(GOLDEN / case / "logdir"),
        assign=str(assigned).replace("'", '"'),
        maxOffsetsPerTrigger="40",
    )
    found = sorted(row for rows in query.drain() for row in rows)
    assert found == sorted(
        (one["topic"], one["partition"], offset)
        for one in told
        for offset in one["readCommittedOffsets"]
    )
