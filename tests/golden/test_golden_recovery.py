"""Logs of a killed Kafka, damaged in known ways: recovered by Ottla and by Kafka, file by file."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.base.files import OsFileSystem
from ottla.base.ids import Uuid
from ottla.record.batch import iter_batches
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.directory.open_options import OpenOptions
from tests.golden.test_golden_writing import config_of, files_of
from tests.support import SHARED

pytestmark = pytest.mark.skipif(
    SHARED is None, reason="the directories written by Kafka are not here"
)


def last_log(directory: Path) -> Path:
    return sorted(directory.glob("*.log"))[-1]


def nothing(directory: Path) -> None:
    assert last_log(directory).exists()


def cut_the_last_batch(directory: Path) -> None:
    content = last_log(directory).read_bytes()
    last_log(directory).write_bytes(content[:-7])


def garble_the_last_batch(directory: Path) -> None:
    content = bytearray(last_log(directory).read_bytes())
    content[-1] ^= 0xFF
    last_log(directory).write_bytes(content)


def garble_the_batch_of_offset_65(directory: Path) -> None:
    content = bytearray(last_log(directory).read_bytes())
    batch = next(one for one in iter_batches(bytes(content)) if one.last_offset >= 65)
    content[batch.position + batch.size - 1] ^= 0xFF
    last_log(directory).write_bytes(content)


def append_zeros(directory: Path) -> None:
    with last_log(directory).open("ab") as log:
        log.write(bytes(1000))


def append_garbage(directory: Path) -> None:
    with last_log(directory).open("ab") as log:
        log.write(bytes(range(256)) * 3)


def remove_offset_indexes(directory: Path) -> None:
    for path in directory.glob("*.index"):
        path.unlink()


def remove_snapshots(directory: Path) -> None:
    for path in directory.glob("*.snapshot"):
        path.unlink()


@pytest.mark.parametrize(
    ("partition", "damage"),
    [
        ("k9-plain-0", nothing),
        ("k9-gzip-0", nothing),
        ("k9-txn-0", nothing),
        ("k9-torn-0", cut_the_last_batch),
        ("k9-lastbatchcrc-0", garble_the_last_batch),
        ("k9-corrupt-0", garble_the_batch_of_offset_65),
        ("k9-zeros-0", append_zeros),
        ("k9-garbage-0", append_garbage),
        ("k9-noindex-0", remove_offset_indexes),
        ("k9-nosnap-0", remove_snapshots),
    ],
)
def test_a_recovered_log_has_the_bytes_of_the_one_that_kafka_recovered(
    partition: str, damage: Callable[[Path], None], tmp_path: Path
) -> None:
    assert SHARED is not None
    before = SHARED / "golden" / "kill9-before-damage"
    recovered = SHARED / "golden" / "kill9-recovered" / "logdir" / partition
    manifest = json.loads((before / "manifest.json").read_text())
    (described,) = (one for one in manifest["partitions"] if one["dir"].endswith(partition))
    config = config_of(described)
    data = tmp_path / "data"
    shutil.copytree(before / "logdir" / partition, data / partition)
    for name in ("meta.properties", "recovery-point-offset-checkpoint"):
        shutil.copy(before / "logdir" / name, data / name)
    for path in data.rglob("*"):
        path.chmod(0o755)
    damage(data / partition)
    options = OpenOptions(
        now_ms=1_700_000_000_000,
        node_id=1,
        cluster_id="AAAAAAAAAAAAAAAAAAAAAQ",
        new_id=lambda: Uuid(bytes(range(16))),
        random_below=lambda bound: 0,
        topic_config=lambda topic: config,
    )
    LogDirectory.open(str(data), OsFileSystem(), options).close()
    ours, kafkas = files_of(data / partition), files_of(recovered)
    assert {name for name in kafkas if ours.get(name) != kafkas[name]} == set()
    assert ours.keys() == kafkas.keys()
