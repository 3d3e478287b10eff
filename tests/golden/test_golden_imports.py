"""Directories of another Kafka keep what its settings said they keep, however late it is."""

import json
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import OsFileSystem
from ottla.base.ids import uuid_text
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration, ConfigChange
from ottla.broker.security.scram import ScramServer
from ottla.client.connecting.scram import ScramClient
from ottla.metadata.deciding.topics import NewTopic
from ottla.mirror.directory_source import DirectorySource
from ottla.mirror.source import Selection
from ottla.record.batch import iter_batches
from ottla.record.record import read_records
from ottla.storage.log.offsets import Isolation
from ottla.storage.reading.read_only_directory import open_for_reading
from tests.golden.test_golden_metadata import RECORDED
from tests.golden.test_golden_metadata_image import told
from tests.support.serving import open_broker

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not RECORDED.exists(), reason="needs the shared directory"),
]

YEAR_MS = 365 * 24 * 3600 * 1000
DELETING = {"plain", "small-segments", "zipped", "big-messages", "append_time.v1", "again", "grown"}
METADATA = "__cluster_metadata-0"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A copy of what Kafka left, which may be written to."""
    copy = tmp_path / "logdir"
    shutil.copytree(RECORDED / "logdir", copy)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    return copy


def wait_a_year(broker: Broker) -> None:
    """Runs what is due, again and again, with the clock far ahead."""
    late = broker_now() + 10 * YEAR_MS
    monotonic_ms = 1.0
    for _ in range(12):
        monotonic_ms += 400_000.0
        broker.scheduler.run_due(
            Timestamps(now_ms=late + int(monotonic_ms), monotonic_ms=monotonic_ms)
        )


def broker_now() -> int:
    return 1_795_361_000_000


def offsets(broker: Broker) -> dict[str, tuple[int, int]]:
    return {
        f"{topic.name}-{index}": (one.log.log_start_offset, one.log.log_end_offset)
        for topic in broker.topics
        for index, one in topic.partitions.items()
    }


def values(broker: Broker, topic: str, index: int) -> list[bytes | None]:
    log = broker.topics.partition(topic, index).log
    found: list[bytes | None] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        data = log.reader.read(offset, 1 << 20, Isolation.LOG_END)
        assert data.records is not None
        for batch in batches(data.records.read()):
            found += [record.value for record in read_records(batch) if not batch.is_control]
            offset = batch.next_offset
    return found


def configure(broker: Broker, topic: str, **values: str) -> None:
    """Gives a topic these settings and no others."""
    changes = [ConfigChange(name=name, value=value) for name, value in values.items()]
    broker.admin.alter_topic(topic, Alteration(changes=changes, is_whole=True))


def batches(region: bytes) -> Iterator[Any]:
    return iter_batches(region, allow_torn_tail=True)


def test_each_topic_has_the_id_and_the_settings_that_kafka_reported(directory: Path) -> None:
    broker = open_broker(directory)
    mine = {one.name: (uuid_text(one.topic_id), one.overrides) for one in broker.topics}
    counts = {one.name: one.partition_count for one in broker.topics}
    broker.close()
    assert mine == {one["name"]: (one["id"], one["configs"]) for one in told()["topics"]}
    assert counts == {one["name"]: len(one["partitions"]) for one in told()["topics"]}


def test_nothing_that_is_compacted_or_kept_forever_is_lost_ten_years_later(
    directory: Path,
) -> None:
    broker = open_broker(directory)
    before = offsets(broker)
    kept = values(broker, "keep-forever", 0), values(broker, "compacted", 0)
    assert all(kept)
    wait_a_year(broker)
    after = offsets(broker)
    for topic in ("keep-forever", "compacted", "__consumer_offsets", "__transaction_state"):
        for index in broker.topics.get(topic).partitions:
            assert after[f"{topic}-{index}"] == before[f"{topic}-{index}"]
    assert (values(broker, "keep-forever", 0), values(broker, "compacted", 0)) == kept
    broker.close()


def test_what_kafkas_settings_let_go_goes(directory: Path) -> None:
    broker = open_broker(directory)
    before = offsets(broker)
    wait_a_year(broker)
    after = offsets(broker)
    broker.close()
    for topic in (*DELETING, "compact-delete", "many-changes"):
        for key, (start, end) in before.items():
            if key.rpartition("-")[0] == topic and start < end:
                assert after[key] == (end, end), key


def test_quotas_broker_settings_and_producer_ids_are_there(directory: Path) -> None:
    broker = open_broker(directory)
    assert broker.settings.config.topic_defaults.retention_ms == 172_800_000
    assert broker.settings.config.log_cleaner_threads == 2
    assert broker.producer_ids.allocate() >= 2000
    assert len(list(broker.topics)) == 14
    assert broker.quotas.connection_rate_of("127.0.0.9") is not None
    assert broker.unconfirmed.lines == ()
    broker.close()
    again = open_broker(directory)
    assert again.unconfirmed.lines == ()
    assert again.settings.config.topic_defaults.retention_ms == 172_800_000
    again.close()


def test_users_log_in_with_their_passwords_and_rules_hold_as_in_kafka(directory: Path) -> None:
    manifest = json.loads((RECORDED / "manifest.json").read_text())
    open_broker(directory).close()
    broker = open_broker(directory)
    for name, password in manifest["scramPasswords"].items():
        user, mechanism = name.split()
        find = broker.security.find_account(mechanism, lambda: 0, lambda: b"")
        server = ScramServer(mechanism, find, "server")
        client = ScramClient(mechanism, user, password, "client")
        client.check(server.answer(client.prove(server.answer(client.first()))))
    rules = [
        {
            "resourceType": pattern.resource_type.name,
            "name": pattern.name,
            "patternType": pattern.pattern_type.name,
            "principal": entry.principal,
            "host": entry.host,
            "operation": entry.operation.name,
            "permission": entry.permission.name,
        }
        for pattern, entry in broker.security.image.all_acls()
    ]
    assert sorted(map(str, rules)) == sorted(map(str, manifest["acls"]))
    broker.close()


def test_the_metadata_log_is_no_topic_and_stays_as_it_was_without_a_change(
    directory: Path,
) -> None:
    before = {path.name: path.read_bytes() for path in (directory / METADATA).iterdir()}
    broker = open_broker(directory)
    assert broker.topics.find("__cluster_metadata") is None
    for make in (
        lambda: broker.admin.create_topic(NewTopic(name="__cluster_metadata")),
        lambda: broker.admin.create_topic(NewTopic(name="__cluster_metadata")),
    ):
        with pytest.raises(ApiError) as caught:
            make()
        assert caught.value.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    wait_a_year(broker)
    broker.close()
    assert {path.name: path.read_bytes() for path in (directory / METADATA).iterdir()} == before
    assert "__cluster_metadata" not in open_for_reading(str(directory), OsFileSystem()).topics()


def test_what_is_changed_here_stays_changed(directory: Path) -> None:
    broker = open_broker(directory)
    configure(broker, "keep-forever", **{"retention.ms": "77"})
    broker.close()
    again = open_broker(directory)
    assert again.topics.get("keep-forever").overrides == {"retention.ms": "77"}
    again.close()


@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_the_coordinators_topics_stay_compacted_whatever_is_asked(
    directory: Path, policy: str
) -> None:
    broker = open_broker(directory)
    for name in ("__consumer_offsets", "__transaction_state"):
        with pytest.raises(ApiError) as caught:
            configure(broker, name, **{"cleanup.policy": policy})
        assert caught.value.code is ErrorCode.INVALID_CONFIG
        configure(broker, name)
        assert broker.topics.get(name).config.cleanup_policy == ("compact",)
    broker.close()


def test_a_damaged_metadata_log_deletes_nothing_and_says_why(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = directory / METADATA / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[-3] ^= 1
    log.write_bytes(content)
    broker = open_broker(directory)
    before = offsets(broker)
    wait_a_year(broker)
    assert offsets(broker) == before
    assert (
        broker.log_jobs.cleaner.next_task(Timestamps(now_ms=broker_now(), monotonic_ms=0)) is None
    )
    broker.close()
    assert str(log) in caplog.text
    assert "ottla adopt" in caplog.text
    again = open_broker(directory)
    assert not again.unconfirmed.is_unknown("__consumer_offsets")
    again.close()


def test_a_directory_without_the_metadata_log_deletes_nothing(
    directory: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.rmtree(directory / METADATA)
    broker = open_broker(directory)
    before = offsets(broker)
    broker.admin.create_topic(NewTopic(name="made-here", partition_count=1))
    wait_a_year(broker)
    broker.close()
    assert "metadata.log.dir" in caplog.text
    again = open_broker(directory)
    assert {key: one for key, one in offsets(again).items() if key in before} == before
    assert again.unconfirmed.is_unknown("plain")
    assert not again.unconfirmed.is_unknown("made-here")
    again.close()


def test_a_mirror_of_the_directory_gets_the_settings_too() -> None:
    source = DirectorySource(str(RECORDED / "logdir"))
    assert {one.name: one.overrides for one in source.topics(Selection())} == {
        one["name"]: one["configs"] for one in told()["topics"] if not one["internal"]
    }


def _flip(folder: Path, chance: random.Random) -> None:
    path = chance.choice(sorted(folder.glob("*.log")) + sorted(folder.glob("*.checkpoint")))
    content = bytearray(path.read_bytes())
    content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def _cut(folder: Path, chance: random.Random) -> None:
    path = chance.choice(sorted(folder.glob("*.log")) + sorted(folder.glob("*.checkpoint")))
    path.write_bytes(path.read_bytes()[: chance.randrange(path.stat().st_size)])


def _zero(folder: Path, chance: random.Random) -> None:
    path = chance.choice(sorted(folder.glob("*.log")) + sorted(folder.glob("*.checkpoint")))
    content = bytearray(path.read_bytes())
    start = chance.randrange(len(content))
    content[start : start + 512] = bytes(len(content[start : start + 512]))
    path.write_bytes(content)


def _remove(folder: Path, chance: random.Random) -> None:
    chance.choice(sorted(folder.iterdir())).unlink()


def _swap(folder: Path, chance: random.Random) -> None:
    one, other = chance.sample(sorted(folder.iterdir()), 2)
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)


def _fifo(folder: Path, chance: random.Random) -> None:
    path = chance.choice(sorted(folder.iterdir()))
    path.unlink()
    os.mkfifo(path)


def _folder(folder: Path, chance: random.Random) -> None:
    path = chance.choice(sorted(folder.iterdir()))
    path.unlink()
    path.mkdir()


DAMAGES = (_flip, _cut, _zero, _remove, _swap, _fifo, _folder)


@pytest.mark.parametrize("is_clean", [True, False], ids=["stopped", "killed"])
@pytest.mark.parametrize("damage", DAMAGES, ids=lambda one: one.__name__[1:])
def test_whatever_is_damaged_of_the_metadata_log_nothing_that_is_kept_goes(
    directory: Path, damage: Callable[[Path, random.Random], None], is_clean: bool
) -> None:
    for path in directory.iterdir():
        if path.is_dir() and path.name not in (METADATA, "keep-forever-0", "compacted-0"):
            shutil.rmtree(path)
    for path in directory.glob("*-checkpoint"):
        path.unlink()
    if not is_clean:
        (directory / ".kafka_cleanshutdown").unlink()
    whole = directory.parent / "whole"
    shutil.copytree(directory, whole)
    for seed in range(3):
        shutil.rmtree(directory)
        shutil.copytree(whole, directory)
        damage(directory / METADATA, random.Random(seed))
        broker = open_broker(directory)
        before = {key: one for key, one in offsets(broker).items() if one[1]}
        assert set(before) >= {"keep-forever-0", "compacted-0"}
        wait_a_year(broker)
        assert {key: offsets(broker)[key] for key in before} == before
        policy = broker.topics.get("compacted").config.cleanup_policy
        assert policy == ("compact",) or broker.unconfirmed.is_unknown("compacted")
        broker.close()
