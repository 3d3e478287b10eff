"""What a dump shows of a metadata log: each record as text, and nothing that gives access."""

import pytest

from ottla.base.files import join
from ottla.broker.configs.config_changes import Alteration, ConfigChange
from ottla.broker.configs.settings import ConfigSource
from ottla.metadata.deciding.topics import NewTopic
from ottla.storage.diagnosis.dump import dump_file
from ottla.storage.diagnosis.metadata_rows import decoded_metadata
from ottla.storage.diagnosis.rows import RecordRow
from tests.support.brokers import NOW_MS, batch, disk, open_broker
from tests.support.logins import set_password
from tests.support.metadata import segment

SECRET = "listener.name.internal.ssl.key.password"


def shown() -> str:
    files = disk("/d")
    broker = open_broker(files)
    broker.admin.create_topic(NewTopic(name="orders", overrides={"retention.ms": "-1"}))
    set_password(broker, "ana", "pot & kettle")
    change = ConfigChange(name=SECRET, value="of the key")
    broker.admin.alter_broker(ConfigSource.BROKER, Alteration(changes=[change]))
    credential = next(iter(broker.security.image.credentials.values()))
    broker.close()
    rows = dump_file(files, segment(), deep=True)
    values = [one.value for one in rows if isinstance(one, RecordRow) and one.value is not None]
    text = b"\n".join(values)
    assert credential.stored_key not in text
    assert b"of the key" not in text
    return text.decode()


def test_records_are_shown_with_their_fields() -> None:
    text = shown()
    assert "TopicRecord(name='orders', topic_id=" in text
    assert "name='retention.ms', value='-1')" in text
    assert "FeatureLevelRecord(name='metadata.version', feature_level=21)" in text


def test_keys_and_passwords_are_hidden() -> None:
    text = shown()
    assert "UserScramCredentialRecord(name='ana', mechanism=1, salt='[hidden]'" in text
    assert f"name='{SECRET}', value='[hidden]')" in text


@pytest.mark.parametrize("value", [b"", b"\x01", b"\x01\x63\x00\x00", b"hello"])
def test_what_is_no_record_is_said_to_be_none(value: bytes) -> None:
    files = disk("/d")
    open_broker(files).admin.create_topic(NewTopic(name="t"))
    rows = list(dump_file(files, segment(), deep=True))
    row = next(one for one in rows if isinstance(one, RecordRow) and one.control_type is None)
    changed = type(row)(**{name: getattr(row, name) for name in row.__slots__} | {"value": value})
    found = decoded_metadata(changed)
    assert isinstance(found, RecordRow)
    assert found.value is not None
    assert found.value.startswith(b"not a metadata record: ")


def test_records_of_topics_are_not_decoded() -> None:
    files = disk("/d")
    broker = open_broker(files)
    broker.admin.create_topic(NewTopic(name="t", partition_count=1))
    broker.appends.append(broker.topics.partition("t", 0), batch(b"value"), now_ms=NOW_MS)
    broker.close()
    rows = dump_file(files, join("/d/t-0", f"{0:020}.log"), deep=True)
    assert [one.value for one in rows if isinstance(one, RecordRow)] == [b"value"]
