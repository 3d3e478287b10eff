"""Kafka's own directories through Spark: several of them at once, of every format and codec."""

from pathlib import Path

import pytest

from ottla.spark.session import LocalSession
from tests.golden.directories import CASES, copy_of
from tests.golden.test_golden_reader import decoded, manifest

TOGETHER = ("old-formats", "txn", "basic-zstd", "compaction-4-tombstones-removed")


@pytest.mark.skipif(not CASES, reason="no golden directories")
def test_rows_of_several_directories_are_what_a_consumer_read(
    local_session: LocalSession, tmp_path: Path
) -> None:
    paths = ",".join(str(copy_of(case, tmp_path / case)) for case in TOGETHER)
    reader = local_session.spark.read.format("ottla").option("subscribePattern", ".*")
    rows = reader.option("columns", "topic,partition,offset,key,value").load(paths)
    told = [one for case in TOGETHER for one in manifest(case)["partitions"]]
    public = [one for one in told if not one["topic"].startswith("__")]
    assert len({(one["topic"], one["partition"]) for one in public}) == len(public)
    found = {
        (row["topic"], row["partition"], row["offset"]): (row["key"], row["value"])
        for row in rows.toArrow().to_pylist()
    }
    assert rows.count() == len(found)
    assert found == {
        (one["topic"], one["partition"], record["offset"]): (
            decoded(record["key"]),
            decoded(record["value"]),
        )
        for one in public
        for record in one["records"]
        if record["offset"] in set(one["readCommittedOffsets"])
    }
