"""From what Kafka's cleaner was given, Ottla's makes what Kafka's made, byte for byte."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.base.files import OsFileSystem
from ottla.base.ids import Uuid
from ottla.config.topic import TopicConfig
from ottla.record.batch import RecordBatch, iter_batches
from ottla.record.record import read_records
from ottla.storage.compaction.cleanable import cleanable, log_to_clean
from ottla.storage.compaction.compaction import Surroundings, compact
from ottla.storage.compaction.key_filter import KeyFilter
from ottla.storage.compaction.planning import MapMemory, plan_compaction
from ottla.storage.compaction.replacement import replace_segments
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.directory.open_options import OpenOptions
from ottla.storage.log.partition_log import PartitionLog
from tests.golden.test_golden_writing import config_of
from tests.support import SHARED
from tests.support.compacting import KEY_FILTERS

pytestmark = pytest.mark.skipif(
    SHARED is None, reason="the directories written by Kafka are not here"
)
FILES = OsFileSystem()
MEMORY = MapMemory(size=1 << 20, load_factor=0.9)
GOLDEN = SHARED / "golden" if SHARED else Path("no golden directories")
LAST_TIME_ENTRY = 12
NewKeyFilter = Callable[[int, float], KeyFilter]


def partitions_of(case: str) -> list[dict[str, Any]]:
    manifest = GOLDEN / case / "manifest.json"
    return json.loads(manifest.read_text())["partitions"] if manifest.exists() else []


def open_copy(case: str, data: Path, config: Any) -> LogDirectory:
    shutil.copytree(GOLDEN / case / "logdir", data)
    for path in data.rglob("*"):
        path.chmod(0o755)
    return LogDirectory.open(str(data), FILES, options_of(config))


def options_of(config: TopicConfig) -> OpenOptions:
    return OpenOptions(
        now_ms=1_700_000_000_000,
        node_id=1,
        cluster_id="AAAAAAAAAAAAAAAAAAAAAQ",
        new_id=lambda: Uuid(bytes(range(16))),
        random_below=lambda bound: 0,
        topic_config=lambda topic: config,
    )


def clean(
    log: PartitionLog, *, cleaned_until: int | None, now_ms: int, key_filter: KeyFilter
) -> int:
    """One pass; returns the new first dirty offset."""
    log.writer.flush()
    range_ = cleanable(log_to_clean(log, cleaned_until), log.config, now_ms)
    plan = plan_compaction(log, range_, FILES, MEMORY, now_ms=now_ms)
    result = compact(plan, key_filter, Surroundings(file_system=FILES))
    replace_segments(log, result.groups, FILES, now_ms)
    return result.end_offset


def horizons(directory: Path) -> list[int]:
    return [
        batch.base_timestamp_ms
        for path in sorted(directory.glob("*.log"))
        for batch in iter_batches(path.read_bytes())
        if isinstance(batch, RecordBatch) and batch.has_delete_horizon
    ]


def contents(directory: Path, until: int) -> dict[str, bytes]:
    """Of the time index the last entry only: Kafka's cleaner makes one for each buffer it writes,
    ours as an append does, so that lookups in compacted segments are as quick."""
    found = {}
    for path in sorted(directory.iterdir()):
        if not path.stem.isdigit() or int(path.stem) >= until:
            continue
        if path.suffix in (".log", ".txnindex"):
            found[path.name] = path.read_bytes()
        elif path.suffix == ".timeindex":
            found[path.name] = path.read_bytes()[-LAST_TIME_ENTRY:]
    return found


@pytest.mark.parametrize("new_key_filter", KEY_FILTERS)
@pytest.mark.parametrize(
    "partition",
    partitions_of("compaction-0-before"),
    ids=lambda one: f"{one['topic']}-{one['partition']}",
)
def test_the_first_pass_makes_the_bytes_that_kafka_made(
    partition: dict[str, Any], new_key_filter: NewKeyFilter, tmp_path: Path
) -> None:
    key = partition["topic"], partition["partition"]
    name = f"{key[0]}-{key[1]}"
    after = GOLDEN / "compaction-1-after" / "logdir"
    (described,) = (
        one
        for one in partitions_of("compaction-1-after")
        if (one["topic"], one["partition"]) == key
    )
    config = config_of(described)
    directory = open_copy("compaction-0-before", tmp_path / "data", config)
    made_at = next((at - config.delete_retention_ms for at in horizons(after / name)), 10**13)
    end = clean(
        directory.logs[key],
        cleaned_until=None,
        now_ms=made_at,
        key_filter=new_key_filter(1 << 20, 0.9),
    )
    checkpoint = (after / "cleaner-offset-checkpoint").read_text()
    assert f"{key[0]} {key[1]} {end}\n" in checkpoint
    assert contents(tmp_path / "data" / name, end) == contents(after / name, end)


@pytest.mark.parametrize("new_key_filter", KEY_FILTERS)
@pytest.mark.parametrize(
    "partition",
    partitions_of("compaction-3-horizon-set"),
    ids=lambda one: f"{one['topic']}-{one['partition']}",
)
def test_after_the_horizon_the_records_that_kafka_kept_are_kept(
    partition: dict[str, Any], new_key_filter: NewKeyFilter, tmp_path: Path
) -> None:
    """From the stage before, with what Kafka has taken in since; it cleaned several times."""
    key = partition["topic"], partition["partition"]
    name = f"{key[0]}-{key[1]}"
    config = config_of(partition)
    last = GOLDEN / "compaction-4-tombstones-removed" / "logdir"
    directory = open_copy("compaction-3-horizon-set", tmp_path / "data", config)
    log = directory.logs[key]
    first_end = log.log_end_offset
    added = [
        batch
        for path in sorted((last / name).glob("*.log"))
        for batch in iter_batches(path.read_bytes())
        if batch.base_offset >= first_end
    ]
    assert added
    for batch in added:
        log.writer.append_as_follower(bytearray(batch.bytes_view()), now_ms=1_700_000_000_000)
        log.writer.write_out()
    log.writer.roll(1_700_000_000_000)
    now_ms = max(horizons(tmp_path / "data" / name)) + 1
    cleaned_until = None
    for _ in range(2):
        cleaned_until = clean(
            log, cleaned_until=cleaned_until, now_ms=now_ms, key_filter=new_key_filter(1 << 20, 0.9)
        )
    kept = kept_records(tmp_path / "data" / name, first_end)
    assert kept == kept_records(last / name, first_end)


def kept_records(directory: Path, until: int) -> list[tuple[int, bytes | None, bytes | None]]:
    return [
        (record.offset, record.key, record.value)
        for path in sorted(directory.glob("*.log"))
        for batch in iter_batches(path.read_bytes())
        for record in read_records(batch)
        if record.offset < until
    ]


@pytest.mark.parametrize(
    "case", ["compaction-1-after", "compaction-3-horizon-set", "compaction-4-tombstones-removed"]
)
@pytest.mark.parametrize("was_clean_stop", [True, False])
def test_what_compaction_left_is_no_damage_where_the_policy_is_not_known(
    case: str, was_clean_stop: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The cleaner's checkpoint says that there was a cleaner, whatever the settings say by now."""
    caplog.set_level("WARNING")
    data = tmp_path / "data"
    open_copy(case, data, TopicConfig()).close()
    if not was_clean_stop:
        (data / ".kafka_cleanshutdown").unlink()
    LogDirectory.open(str(data), FILES, options_of(TopicConfig())).close()
    told = [line for line in caplog.messages if "has no batch" in line or "are missing" in line]
    assert told == []


@pytest.mark.parametrize("case", ["compaction-3-horizon-set", "compaction-4-tombstones-removed"])
def test_a_check_takes_no_gap_for_a_lost_file_where_the_cleaner_was(case: str) -> None:
    report = check(FILES, str(GOLDEN / case / "logdir"), deep=False)
    gaps = [gap for one in report.partitions for gap in one.gaps]
    reasons = [found.reason for one in report.partitions for found in one.findings]
    assert gaps
    assert not [reason for reason in reasons if "in no segment" in reason]
