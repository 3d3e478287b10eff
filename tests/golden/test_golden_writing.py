"""What Ottla writes from the batches that Kafka was sent, beside what Kafka wrote."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ottla.base.files import OsFileSystem
from ottla.base.ids import Uuid
from ottla.config.setting import settings_of, with_values
from ottla.config.topic import TopicConfig
from ottla.record.batch import Batch, iter_batches
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.directory.open_options import OpenOptions
from ottla.storage.files.filenames import INTEGRITY
from tests.support import SHARED

NOW_MS = 1_700_000_000_000
ENDINGS = (".log", ".index", ".timeindex", ".txnindex", ".snapshot")
TOPIC_ID = Uuid(bytes(range(16, 32)))


@dataclass(frozen=True)
class Case:
    name: str
    directory: Path
    config: TopicConfig


def cases() -> list[Case]:
    """The partitions whose files a clean stop left, and whose log nothing but appends has touched.

    Left out: compacted and cut logs (their batches are not what was sent), copies of a broker that
    ran or was killed (indexes not trimmed). Old formats: `test_golden_old_formats`.
    """
    found = []
    for manifest in sorted(SHARED.glob("golden/*/manifest.json")) if SHARED else []:
        case = manifest.parent.name
        if case.startswith(("compaction", "kill9", "old-formats", "delete-records", "cluster")):
            continue
        for partition in json.loads(manifest.read_text())["partitions"]:
            directory = manifest.parent / partition["dir"]
            found.append(Case(f"{case}/{directory.name}", directory, config_of(partition)))
    return found


def config_of(partition: dict[str, Any]) -> TopicConfig:
    known = settings_of(TopicConfig)
    values = {name: str(text) for name, text in partition["config"].items() if name in known}
    return with_values(TopicConfig(), values)


def written_by_kafka(directory: Path) -> list[tuple[int, Batch]]:
    """Every batch with the base offset of the segment that Kafka put it into."""
    return [
        (int(path.stem), batch)
        for path in sorted(directory.glob("*.log"))
        for batch in iter_batches(path.read_bytes())
    ]


@pytest.mark.skipif(SHARED is None, reason="the directories written by Kafka are not here")
@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_every_file_has_the_bytes_of_kafkas(case: Case, tmp_path: Path) -> None:
    options = OpenOptions(
        now_ms=NOW_MS,
        node_id=1,
        cluster_id="AAAAAAAAAAAAAAAAAAAAAQ",
        new_id=lambda: TOPIC_ID,
        random_below=lambda bound: 0,
        topic_config=lambda topic: case.config,
    )
    opened = LogDirectory.open(str(tmp_path), OsFileSystem(), options)
    log = opened.create_log("t", 0, TOPIC_ID)
    for base_offset, batch in written_by_kafka(case.directory):
        if log.segments.active.base_offset != base_offset:
            # Kafka rolls by its own clock as well, which the files do not tell.
            log.writer.roll(NOW_MS, base_offset=base_offset)
        log.writer.append_as_follower(bytearray(batch.bytes_view()), now_ms=NOW_MS)
        log.writer.write_out()
        assert log.segments.active.base_offset == base_offset, "rolled where Kafka did not"
    opened.close()
    ours, kafkas = files_of(tmp_path / "t-0"), files_of(case.directory)
    assert len(kafkas) >= 5
    assert {name for name in kafkas if ours.get(name) != kafkas[name]} == set()
    assert ours.keys() == kafkas.keys()


def files_of(directory: Path) -> dict[str, bytes]:
    """The files that appends decide; `partition.metadata` holds a random id.

    The one file of Ottla's own, which Kafka removes, is left out.
    """
    return {
        path.name: path.read_bytes()
        for path in directory.iterdir()
        if path.name != INTEGRITY
        and (path.name.endswith(ENDINGS) or path.name == "leader-epoch-checkpoint")
    }
