"""What a KRaft directory's damaged metadata log had is not shown as if nothing had been set."""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
from ottla.base.errors import RefusalError
from ottla.base.ids import Uuid
from ottla.base.resource_kinds import ResourceKind
from ottla.cli.directory.adopt import adopt_command
from ottla.client.administration.config_values import ALL_BROKERS
from ottla.codec.api_messages import encode_record
from ottla.metadata.records import ClientQuotaRecord, ConfigRecord, QuotaEntity, TopicRecord
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.files.filenames import INTEGRITY
from tests.support.read_only import reading

TOPIC_ID = Uuid(bytes(15) + b"\x07")
RECORDS = [
    TopicRecord(name="kept", topic_id=TOPIC_ID),
    ConfigRecord(
        resource_type=ResourceKind.TOPIC,
        resource_name="kept",
        name="cleanup.policy",
        value="compact",
    ),
    ClientQuotaRecord(
        entity=[QuotaEntity(entity_type="user", entity_name="ana")],
        key="producer_byte_rate",
        value=5.0,
    ),
]
Reader = Callable[[str], object]
READERS: dict[str, Reader] = {
    "quotas": lambda path: reading(path).describe_quotas(),
    "users": lambda path: reading(path).describe_user_scram_credentials(),
    "acls": lambda path: reading(path).describe_acls(),
    "brokers": lambda path: reading(path).describe_configs(ResourceKind.BROKER, [ALL_BROKERS]),
    "group": lambda path: reading(path).describe_configs(ResourceKind.GROUP, ["g"]),
    "topic": lambda path: reading(path).describe_configs(ResourceKind.TOPIC, ["kept"]),
}


@pytest.fixture
def kafkas(tmp_path: Path) -> Path:
    """A directory of a Kafka that was stopped, with nothing of Ottla's."""
    path = tmp_path / "d"
    with ottla.open(path) as log:
        log.create_topic("kept")
    shutil.rmtree(path / "__cluster_metadata-0")
    for one in [*path.glob("ottla-*"), path / "kept-0" / INTEGRITY]:
        one.unlink(missing_ok=True)
    (path / "kept-0" / "partition.metadata").unlink()
    builder = RecordBatchBuilder(leader_epoch=1)
    for record in RECORDS:
        builder.append(None, encode_record(record), 0)
    metadata = path / "__cluster_metadata-0"
    metadata.mkdir()
    (metadata / "00000000000000000000.log").write_bytes(builder.build())
    return path


def damage(path: Path) -> Path:
    """Flips a bit, and returns the file."""
    log = path / "__cluster_metadata-0" / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[-3] ^= 1
    log.write_bytes(content)
    return log


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_each_reader_refuses_and_names_the_file_and_what_helps(kafkas: Path, read: Reader) -> None:
    read(str(kafkas))
    log = damage(kafkas)
    with pytest.raises(RefusalError, match=r"are not known, since .*CRC mismatch") as caught:
        read(str(kafkas))
    assert str(log) in str(caught.value)
    assert f"ottla adopt {kafkas}" in str(caught.value)


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
def test_without_a_metadata_log_each_reader_warns(
    kafkas: Path, read: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    log = damage(kafkas)
    log.unlink()
    log.parent.rmdir()
    read(str(kafkas))
    assert [one.levelno for one in caplog.records] == [logging.WARNING]
    assert "are not known, since there is no metadata log here" in caplog.text


def test_topics_are_listed_with_a_warning(kafkas: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert reading(kafkas).topics_settings(["kept"])["kept"]["cleanup.policy"] == "compact"
    assert not caplog.records
    damage(kafkas)
    assert reading(kafkas).topics_settings(["kept"]) == {}
    assert "settings of topics are not known, since the metadata log cannot be read" in caplog.text


def test_one_topic_that_is_held_back_makes_no_quota_unknown(
    kafkas: Path, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(kafkas / "kept-0", kafkas / "copied-0")
    READERS["quotas"](str(kafkas))
    assert not caplog.records
    reading(kafkas).describe_configs(ResourceKind.TOPIC, ["copied"])
    assert "settings of topic copied are not known, since the metadata log" in caplog.text


def test_the_start_says_what_is_not_known_and_adopt_settles_it(
    kafkas: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log = damage(kafkas)
    ottla.open(kafkas).close()
    assert f"{log} at byte 0: CRC mismatch" in caplog.text
    with pytest.raises(RefusalError):
        READERS["quotas"](str(kafkas))
    done = CliRunner().invoke(adopt_command, [str(kafkas), "--yes"], catch_exceptions=False)
    assert done.exit_code == 0
    assert READERS["quotas"](str(kafkas)) == []
    caplog.clear()
    ottla.open(kafkas).close()
    assert "not known" not in caplog.text


def test_adopt_settles_it_where_there_are_no_topics_too(kafkas: Path) -> None:
    damage(kafkas)
    shutil.rmtree(kafkas / "kept-0")
    for path in kafkas.glob("*-checkpoint"):
        path.unlink()
    asked = CliRunner().invoke(adopt_command, [str(kafkas)], catch_exceptions=False)
    assert asked.exit_code == 1
    assert "The metadata log cannot be read to its end" in asked.output
    assert "the metadata log is unchanged; --yes re-creates it" in asked.output
    done = CliRunner().invoke(adopt_command, [str(kafkas), "--yes"], catch_exceptions=False)
    assert done.exit_code == 0
    assert "re-created with node" in done.output
    assert READERS["quotas"](str(kafkas)) == []
