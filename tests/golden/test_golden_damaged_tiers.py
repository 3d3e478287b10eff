"""Tiers that Kafka filled, after a loss: of a directory, or of objects in the tier."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.storage.findings import Finding
from ottla.storage.reading.opening import TierPlace, open_directories
from ottla.storage.reading.read_only_directory import ReadOnlyLogDirectory
from tests.golden.test_golden_remote_log_metadata import RECORDED, TieredLog, each_case, logs
from tests.golden.test_golden_remote_log_metadata import pytestmark as needs_recorded
from tests.golden.test_golden_tiers import text_of

pytestmark = [needs_recorded, pytest.mark.slow]

TRANSACTIONS = ["2-transactions", "aiven-compressed", "aiven-encrypted", "aiven-plain"]


def opened(
    case: str, directory: Path | str, tier: Path, told: Callable[[Finding], None] | None = None
) -> ReadOnlyLogDirectory:
    place = TierPlace(address=str(tier), keys=str(RECORDED / case / "keys"))
    (found,) = open_directories([str(directory)], on_damage=told, tier=place)
    return found


def contents(directory: ReadOnlyLogDirectory, row: dict[str, Any]) -> list[tuple[Any, ...]]:
    log = directory.partition(row["topic"], row["partition"])
    return [
        (one.offset, text_of(one.key), text_of(one.value))
        for one in log.records.read(log.log_start_offset)
    ]


@each_case
def test_what_is_left_of_a_lost_machine_is_read_from_the_tier_alone(
    case: str, tmp_path: Path
) -> None:
    directory = opened(case, tmp_path, RECORDED / case / "tier")
    there = directory.topics()
    assert there
    for one in logs(case):
        row = one.row
        if row["partition"] not in there.get(row["topic"], ()):
            assert list(one.chain().pieces) == []
            continue
        found = contents(directory, row)
        end = found[-1][0]
        assert end >= one.local_start - 1
        assert found == [
            (each["offset"], each["key"], each["value"])
            for each in row["records"]
            if each["offset"] <= end
        ]


@pytest.mark.parametrize("damage", ["lost", "flipped", "no transaction index"])
@pytest.mark.parametrize("case", TRANSACTIONS)
def test_damage_is_stepped_over_and_no_aborted_record_appears(
    case: str, damage: str, tmp_path: Path
) -> None:
    tier = shutil.copytree(RECORDED / case / "tier", tmp_path / "tier")
    rows = [one for one in logs(case) if "tx" in one.row["topic"]]
    for one in rows:
        harm(tier, one, damage)
    told: list[Finding] = []
    directory = opened(case, str(rows[0].directory.path), tier, told.append)
    for one in rows:
        row = one.row
        told.clear()
        read = {offset for offset, *_ in contents(directory, row)}
        lost = {
            offset
            for finding in told
            if finding.lost is not None
            for offset in range(finding.from_offset, finding.until_offset)
        }
        every = {each["offset"] for each in row["records"]}
        assert read == every - lost
        assert bool(lost) is (damage != "no transaction index")
        log = directory.partition(row["topic"], row["partition"])
        aborted = log.transactions.aborted(row["logStartOffset"], row["lastStableOffset"])
        assert {(each.producer_id, each.first_offset) for each in aborted} == {
            (each["producerId"], each["firstOffset"]) for each in row["abortedTransactions"]
        }


def harm(tier: Path, one: TieredLog, damage: str) -> None:
    """Harms the second upload of a partition; the layouts have folders of their own for each."""
    row = one.row
    folders = (f"{row['topic']}-{row['partition']}-{row['topicId']}",
               f"{row['topic']}-{row['topicId']}/{row['partition']}")  # fmt: skip
    files = sorted(path for folder in folders for path in tier.glob(f"**/*{folder}/*"))
    if damage == "no transaction index":
        for path in files:
            if path.suffix == ".txnindex":
                path.unlink()
        return
    log = [path for path in files if path.suffix == ".log"][1]
    if damage == "lost":
        log.unlink()
        return
    content = bytearray(log.read_bytes())
    content[len(content) // 2] ^= 1
    log.write_bytes(content)
