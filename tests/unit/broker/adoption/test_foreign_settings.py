"""Settings of a metadata log laid over what was known: imported, imported again, or held back."""

from collections.abc import Sequence

import pytest

from ottla.base.errors import UserError
from ottla.base.files import FileSystem, join, read_file, replace_file
from ottla.base.ids import Uuid, uuid_text
from ottla.base.timestamps import Timestamps
from ottla.broker.adoption.adoption_file import (
    ADOPTION_FILE_NAME,
    Adoption,
    ImportedState,
    read_adoption_file,
    write_adoption_file,
)
from ottla.broker.adoption.foreign_settings import find_settings
from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration, ConfigChange
from ottla.broker.quotas.quota_changes import QuotaFilter
from ottla.broker.topics.topics import NewTopic
from ottla.codec.schema import Message
from ottla.metadata.records import (
    BROKER_RESOURCE,
    GROUP_RESOURCE,
    TOPIC_RESOURCE,
    ClientQuotaRecord,
    ConfigRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RemoveTopicRecord,
    TopicRecord,
    encode_record,
)
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.files.filenames import INTEGRITY, MARKS
from ottla.storage.files.topic_file import TOPIC_FILE_NAME
from ottla.testing import FakeFileSystem
from tests.support.brokers import NOW_MS, batch, disk, id_of, open_broker
from tests.support.summed import summed

LOG = "/d/__cluster_metadata-0/00000000000000000000.log"
YEARS_MS = 10 * 365 * 24 * 3600 * 1000
T, OTHER = id_of(7), id_of(8)


def topic(name: str = "t", topic_id: Uuid = T, partition_count: int = 1) -> list[Message]:
    partitions = [
        PartitionRecord(partition_id=index, topic_id=topic_id, replicas=[1], isr=[1], leader=1)
        for index in range(partition_count)
    ]
    return [TopicRecord(name=name, topic_id=topic_id), *partitions]


def config(
    name: str, value: str | None, *, resource: str = "t", kind: int = TOPIC_RESOURCE
) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)


def write_log(file_system: FileSystem, records: Sequence[Message], *more: bytes) -> None:
    """The metadata log of a Kafka that has been stopped, with all these records from the start."""
    builder = RecordBatchBuilder(leader_epoch=1)
    for value in [*map(encode_record, records), *more]:
        builder.append(None, value, NOW_MS)
    if file_system.status("/d/__cluster_metadata-0") is None:
        file_system.make_directory("/d/__cluster_metadata-0")
    replace_file(file_system, LOG, builder.build())


@pytest.fixture
def kafkas() -> FakeFileSystem:
    """A directory with a topic `t` of three old records, and nothing of Ottla's."""
    file_system = disk("/d")
    broker = open_broker(file_system)
    broker.create_topic(NewTopic(name="t", partition_count=1, topic_id=T))
    broker.append(
        broker.topics.partition("t", 0), batch(b"a", b"b", b"c", timestamp_ms=NOW_MS), now_ms=NOW_MS
    )
    broker.close()
    for own in (TOPIC_FILE_NAME, "ottla-log-starts", "ottla-meta-properties"):
        file_system.remove(join("/d", own))
    return file_system


def overrides(broker: Broker, name: str = "t") -> dict[str, str]:
    return dict(broker.topics.get(name).overrides)


def alter(broker: Broker, name: str, value: str) -> None:
    broker.admin.alter_topic("t", Alteration(changes=[ConfigChange(name=name, value=value)]))


def test_what_kafka_has_changed_since_counts_and_of_the_rest_what_was_changed_here(
    kafkas: FakeFileSystem,
) -> None:
    told = [*topic(), config("retention.ms", "1000"), config("segment.ms", "1000")]
    told += [config("flush.ms", "1000"), config("retention.bytes", "1000")]
    write_log(kafkas, told)
    broker = open_broker(kafkas)
    alter(broker, "segment.ms", "77")
    alter(broker, "retention.ms", "77")
    alter(broker, "max.message.bytes", "77")
    broker.close()
    assert overrides(open_and_close(kafkas))["retention.ms"] == "77"
    told += [config("retention.ms", "2000"), config("flush.ms", None)]
    write_log(kafkas, told)
    assert overrides(open_and_close(kafkas)) == {
        "retention.ms": "2000",
        "segment.ms": "77",
        "retention.bytes": "1000",
        "max.message.bytes": "77",
    }


def open_and_close(file_system: FileSystem) -> Broker:
    broker = open_broker(file_system)
    broker.close()
    return broker


def test_quotas_groups_and_broker_settings_follow_kafka_too(kafkas: FakeFileSystem) -> None:
    entity = [QuotaEntity(entity_type="user", entity_name="u")]
    quota = ClientQuotaRecord(entity=entity, key="producer_byte_rate", value=5.0)
    told = [
        *topic(),
        quota,
        config("log.retention.ms", "5000", resource="", kind=BROKER_RESOURCE),
        config("log.segment.bytes", "5000", resource="1", kind=BROKER_RESOURCE),
        config("log.segment.bytes", "6000", resource="2", kind=BROKER_RESOURCE),
        config("advertised.nonsense", "x", resource="", kind=BROKER_RESOURCE),
        config("consumer.session.timeout.ms", "50000", resource="g", kind=GROUP_RESOURCE),
        ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=9000),
    ]
    write_log(kafkas, told)
    broker = open_broker(kafkas)
    defaults = broker.config.topic_defaults
    assert (defaults.retention_ms, defaults.segment_bytes) == (5000, 5000)
    assert broker.settings.groups.of("g").consumer_session_timeout_ms == 50_000
    assert quotas_of(broker) == [((("user", "u"),), {"producer_byte_rate": 5.0})]
    assert broker.allocate_producer_id() == 9000
    assert broker.config.unknown == ["advertised.nonsense"]  # kept, as a plugin's
    broker.close()
    gone = ClientQuotaRecord(entity=entity, key="producer_byte_rate", remove=True)
    back = config("log.retention.ms", None, resource="", kind=BROKER_RESOURCE)
    write_log(kafkas, [*told, gone, back])
    again = open_broker(kafkas)
    assert again.config.topic_defaults.retention_ms == 604_800_000
    assert quotas_of(again) == []
    assert again.allocate_producer_id() > 9000
    again.close()


def quotas_of(broker: Broker) -> list[tuple[object, object]]:
    return list(broker.admin.select_quotas(QuotaFilter(components=[], is_strict=False)))


def test_a_topic_that_kafka_has_made_again_has_the_settings_of_the_new_one(
    kafkas: FakeFileSystem,
) -> None:
    told = [*topic(), config("retention.ms", "1000")]
    write_log(kafkas, told)
    open_and_close(kafkas)
    path = "/d/t-0/partition.metadata"
    content = read_file(kafkas, path)
    replace_file(kafkas, path, content.replace(uuid(T), uuid(OTHER)))
    kafkas.remove(f"/d/t-0/{INTEGRITY}")
    told += [RemoveTopicRecord(topic_id=T), *topic("t", OTHER), config("segment.ms", "5")]
    write_log(kafkas, told)
    broker = open_and_close(kafkas)
    assert broker.topics.get("t").topic_id == OTHER
    assert overrides(broker) == {"segment.ms": "5"}


def uuid(topic_id: Uuid) -> bytes:
    return uuid_text(topic_id).encode()


def test_topics_of_other_brokers_are_not_made_here_and_ours_that_the_log_lacks_are_held_back(
    kafkas: FakeFileSystem,
) -> None:
    write_log(kafkas, topic("elsewhere", OTHER))
    broker = open_broker(kafkas)
    assert [one.name for one in broker.topics] == ["t"]
    assert "does not contain its settings" in broker.adoption.unknown["t"]
    wait(broker)
    assert broker.topics.get("t").partitions[0].log.log_start_offset == 0
    broker.close()


def wait(broker: Broker, rounds: int = 5) -> None:
    """Lets ten years pass, and what is due run so often."""
    for number in range(rounds - 4, rounds + 1):
        at = Timestamps(now_ms=NOW_MS + YEARS_MS, monotonic_ms=number * 400_000.0)
        broker.run_due_jobs(at)


def test_a_record_of_a_later_kafka_holds_back_all_that_was_imported(
    kafkas: FakeFileSystem,
) -> None:
    told = [*topic(), config("retention.ms", "1000")]
    write_log(kafkas, told)
    broker = open_broker(kafkas)
    broker.create_topic(NewTopic(name="ours", partition_count=1))
    broker.close()
    write_log(kafkas, told, b"\x01\x63\x00\x00")
    again = open_broker(kafkas)
    assert "metadata record 99 of version 0" in again.adoption.unknown["t"]
    assert not again.adoption.is_unknown("ours")
    wait(again)
    assert again.topics.get("t").partitions[0].log.log_start_offset == 0
    again.adopt({"t": {"retention.ms": "1000"}})
    wait(again, 10)
    assert again.topics.get("t").partitions[0].log.log_start_offset == 3
    again.close()
    assert not open_and_close(kafkas).adoption.unknown


def test_a_log_that_has_become_shorter_since_the_import_changes_nothing(
    kafkas: FakeFileSystem,
) -> None:
    told = [*topic(), config("segment.ms", "1000"), config("retention.ms", "-1")]
    write_log(kafkas, told)
    open_and_close(kafkas)
    write_log(kafkas, told[:-1])
    broker = open_and_close(kafkas)
    assert overrides(broker) == {"segment.ms": "1000", "retention.ms": "-1"}
    assert "it ends at offset 3, and had 4" in broker.adoption.unknown["t"]


def test_an_empty_folder_of_the_logs_name_in_another_directory_hides_nothing(
    kafkas: FakeFileSystem,
) -> None:
    write_log(kafkas, [*topic(), config("retention.ms", "-1")])
    kafkas.make_directory("/a")
    kafkas.make_directory("/a/__cluster_metadata-0")
    for paths in (["/a", "/d"], ["/d", "/a"]):
        assert find_settings(paths, kafkas).known.entries["t"].overrides == {"retention.ms": "-1"}


def test_a_setting_on_which_it_depends_and_that_means_nothing_holds_the_topic_back(
    kafkas: FakeFileSystem,
) -> None:
    write_log(kafkas, [*topic(), config("cleanup.policy", "shred"), config("segment.ms", "9")])
    broker = open_and_close(kafkas)
    assert overrides(broker) == {"segment.ms": "9"}
    assert broker.adoption.unknown == {"t": "cleanup.policy=shred is not supported"}


def test_an_import_that_a_crash_cut_off_before_its_record_is_done_again(
    kafkas: FakeFileSystem,
) -> None:
    write_log(kafkas, [*topic(), config("retention.ms", "-1")])
    open_and_close(kafkas)
    kafkas.remove(join("/d", ADOPTION_FILE_NAME))
    kafkas.remove(join("/d", MARKS[ADOPTION_FILE_NAME]))
    broker = open_and_close(kafkas)
    assert overrides(broker) == {"retention.ms": "-1"}
    assert read_adoption_file(kafkas, "/d").imported.topics == {"t": {"retention.ms": "-1"}}


def test_a_directory_of_our_own_has_no_such_file(kafkas: FakeFileSystem) -> None:
    file_system = disk("/d")
    broker = open_broker(file_system)
    broker.create_topic(NewTopic(name="t", partition_count=1))
    broker.close()
    open_and_close(file_system)
    assert file_system.status(join("/d", ADOPTION_FILE_NAME)) is None


def test_the_record_of_an_adoption_survives_the_way_there_and_back() -> None:
    file_system = disk("/d")
    adoption = Adoption(
        revision=3,
        end_offset=231,
        metadata_files={"a.log": 5},
        unknown={"t": "why"},
        imported=ImportedState(
            topics={"t": {"retention.ms": "-1"}},
            default_configs={"log.retention.ms": "5"},
            broker_configs={"num.io.threads": "5"},
            group_configs={"g": {"consumer.session.timeout.ms": "5"}},
            quotas={(("client-id", None), ("user", "u")): {"producer_byte_rate": 1.5}},
        ),
    )
    write_adoption_file(file_system, "/d", adoption)
    assert read_adoption_file(file_system, "/d") == adoption


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"version": 2}', b'{"version": 1}', summed()]
)
def test_a_damaged_record_is_named_with_what_helps(content: bytes) -> None:
    file_system = disk("/d")
    replace_file(file_system, join("/d", ADOPTION_FILE_NAME), content)
    with pytest.raises(UserError, match=r"/d/ottla-adoption\.json.*restore the file"):
        find_settings(["/d"], file_system)
