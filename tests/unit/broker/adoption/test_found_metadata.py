"""The metadata log that Kafka has written: continued, changed by Kafka meanwhile, or held back."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ottla.base.errors import ApiError, RefusalError, UserError
from ottla.base.files import FileSystem, join, read_file, replace_file
from ottla.base.ids import Uuid, uuid_text
from ottla.base.resource_kinds import ResourceKind
from ottla.base.timestamps import Timestamps
from ottla.broker.adoption.found_metadata import find_metadata, nodes_beside
from ottla.broker.adoption.handover import HandoverOptions
from ottla.broker.adoption.recreation import finish, recreate
from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration, ConfigChange
from ottla.broker.quotas.quota_changes import QuotaFilter
from ottla.codec.api_messages import encode_record
from ottla.codec.schema import Message
from ottla.config.security import STANDARD_AUTHORIZER
from ottla.metadata.deciding.topics import NewTopic
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    ConfigRecord,
    PartitionRecord,
    ProducerIdsRecord,
    QuotaEntity,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from ottla.record.builder import RecordBatchBuilder
from ottla.storage.diagnosis.directory_check import check
from ottla.storage.files.filenames import INTEGRITY
from ottla.testing import CrashMode, FakeFileSystem
from ottla.testing.crash_points import every_crash_point
from tests.support.brokers import NOW_MS, batch, disk, id_of, open_broker
from tests.support.metadata import lose_metadata, write_records

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
    name: str, value: str | None, *, resource: str = "t", kind: int = ResourceKind.TOPIC
) -> ConfigRecord:
    return ConfigRecord(resource_type=kind, resource_name=resource, name=name, value=value)


def write_log(file_system: FileSystem, records: Sequence[Message], *more: bytes) -> None:
    """The metadata log of a Kafka that has been stopped, with these records."""
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
    broker.admin.create_topic(NewTopic(name="t", partition_count=1, topic_id=T))
    broker.appends.append(
        broker.topics.partition("t", 0), batch(b"a", b"b", b"c", timestamp_ms=NOW_MS), now_ms=NOW_MS
    )
    broker.close()
    lose_metadata(file_system)
    for own in ("ottla-boot", "ottla-log-starts", "ottla-meta-properties"):
        file_system.remove(join("/d", own))
    return file_system


def overrides(broker: Broker, name: str = "t") -> dict[str, str]:
    return dict(broker.topics.get(name).overrides)


def alter(broker: Broker, name: str, value: str) -> None:
    broker.admin.alter_topic("t", Alteration(changes=[ConfigChange(name=name, value=value)]))


def test_what_kafka_changes_and_what_is_changed_here_are_in_one_log(kafkas: FakeFileSystem) -> None:
    told = [*topic(), config("retention.ms", "1000"), config("segment.ms", "1000")]
    write_log(kafkas, [*told, config("flush.ms", "1000"), config("retention.bytes", "1000")])
    broker = open_broker(kafkas)
    alter(broker, "segment.ms", "77")
    alter(broker, "retention.ms", "77")
    alter(broker, "max.message.bytes", "77")
    broker.close()
    assert overrides(open_and_close(kafkas))["retention.ms"] == "77"
    write_records(kafkas, config("retention.ms", "2000"), config("flush.ms", None))
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
        config("log.retention.ms", "5000", resource="", kind=ResourceKind.BROKER),
        config("log.segment.bytes", "5000", resource="1", kind=ResourceKind.BROKER),
        config("log.segment.bytes", "6000", resource="2", kind=ResourceKind.BROKER),
        config("advertised.nonsense", "x", resource="", kind=ResourceKind.BROKER),
        config("consumer.session.timeout.ms", "50000", resource="g", kind=ResourceKind.GROUP),
        ProducerIdsRecord(broker_id=1, broker_epoch=1, next_producer_id=9000),
    ]
    write_log(kafkas, told)
    broker = open_broker(kafkas)
    defaults = broker.settings.config.topic_defaults
    assert (defaults.retention_ms, defaults.segment_bytes) == (5000, 5000)
    assert broker.settings.groups.of("g").consumer_session_timeout_ms == 50_000
    assert quotas_of(broker) == [((("user", "u"),), {"producer_byte_rate": 5.0})]
    assert broker.producer_ids.allocate() == 9000
    assert broker.settings.config.unknown == ["advertised.nonsense"]  # kept, as a plugin's
    broker.close()
    gone = ClientQuotaRecord(entity=entity, key="producer_byte_rate", remove=True)
    back = config("log.retention.ms", None, resource="", kind=ResourceKind.BROKER)
    write_records(kafkas, gone, back)
    again = open_broker(kafkas)
    assert again.settings.config.topic_defaults.retention_ms == 604_800_000
    assert quotas_of(again) == []
    assert again.producer_ids.allocate() > 9000
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
    new = topic("t", OTHER)
    write_records(kafkas, RemoveTopicRecord(topic_id=T), *new, config("segment.ms", "5"))
    broker = open_and_close(kafkas)
    assert broker.topics.get("t").topic_id == OTHER
    assert overrides(broker) == {"segment.ms": "5"}


def uuid(topic_id: Uuid) -> bytes:
    return uuid_text(topic_id).encode()


def of_two_nodes(name: str, topic_id: Uuid) -> list[Message]:
    other = RegisterBrokerRecord(broker_id=2, incarnation_id=id_of(3))
    return [other, *topic(name, topic_id)]


def test_topics_of_other_brokers_are_not_made_here_and_ours_that_the_log_lacks_are_held_back(
    kafkas: FakeFileSystem,
) -> None:
    write_log(kafkas, of_two_nodes("elsewhere", OTHER))
    broker = open_broker(kafkas)
    assert [one.name for one in broker.topics] == ["t"]
    assert "does not have its settings" in broker.unconfirmed.unknown["t"]
    wait(broker)
    assert broker.topics.get("t").partitions[0].log.log_start_offset == 0
    broker.close()


def test_controllers_that_vote_no_more_are_not_beside_the_last_voter() -> None:
    gone = RegisterControllerRecord(controller_id=2, incarnation_id=id_of(3))
    image = MetadataImage(voters=frozenset({1}), controllers={2: gone})
    assert nodes_beside(image, 1) == []
    assert nodes_beside(replace(image, voters=frozenset()), 1) == [2], "they may vote"
    assert nodes_beside(image, 2) == [1]


def test_a_log_of_several_nodes_is_not_continued_until_it_is_recreated(
    kafkas: FakeFileSystem,
) -> None:
    write_log(kafkas, [*of_two_nodes("t", T), config("retention.ms", "-1")])
    before = read_file(kafkas, LOG)
    broker = open_broker(kafkas)
    assert overrides(broker) == {"retention.ms": "-1"}
    for change in (
        lambda: alter(broker, "segment.ms", "77"),
        lambda: broker.admin.create_topic(NewTopic(name="new")),
        broker.producer_ids.allocate,
    ):
        with pytest.raises(ApiError, match=r"with other nodes \(2\); stop the broker and run"):
            change()
    assert overrides(broker) == {"retention.ms": "-1"}
    broker.close()
    assert read_file(kafkas, LOG) == before
    options = HandoverOptions(now_ms=NOW_MS, new_id=lambda: id_of(99))
    line = recreate(find_metadata(["/d"], kafkas), kafkas, options)
    assert "node 1 as the only one and 1 topics" in line
    broker = open_broker(kafkas)
    alter(broker, "segment.ms", "77")
    broker.close()
    assert overrides(open_and_close(kafkas)) == {"retention.ms": "-1", "segment.ms": "77"}
    (kept,) = [name for name in kafkas.list("/d") if name.endswith("-stray")]
    assert read_file(kafkas, join("/d", kept, f"{0:020}.log")) == before


def wait(broker: Broker, rounds: int = 5) -> None:
    """Lets ten years pass, and what is due run so often."""
    for number in range(rounds - 4, rounds + 1):
        at = Timestamps(now_ms=NOW_MS + YEARS_MS, monotonic_ms=number * 400_000.0)
        broker.scheduler.run_due(at)


def test_a_record_of_a_later_kafka_holds_back_what_is_after_it(kafkas: FakeFileSystem) -> None:
    write_log(kafkas, [], b"\x01\x63\x00\x00")
    broker = open_broker(kafkas)
    assert "metadata record 99 of version 0" in broker.unconfirmed.unknown["t"]
    wait(broker)
    assert broker.topics.get("t").partitions[0].log.log_start_offset == 0
    broker.close()
    options = HandoverOptions(now_ms=NOW_MS, new_id=lambda: id_of(99))
    recreate(find_metadata(["/d"], kafkas), kafkas, options)
    again = open_broker(kafkas)
    again.admin.confirm_topics({"t": {"retention.ms": "1000"}})
    wait(again, 10)
    assert again.topics.get("t").partitions[0].log.log_start_offset == 3
    again.close()
    assert not open_and_close(kafkas).unconfirmed.unknown


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (
            AccessControlEntryRecord(
                id=id_of(5), resource_type=2, pattern_type=3, operation=99, permission_type=2,
                resource_name="t", principal="User:a", host="*",
            ),
            "an ACL has a kind that is not known here: .*User:a",
        ),
        (
            UserScramCredentialRecord(
                name="ana", mechanism=9, salt=b"s", stored_key=b"k", server_key=b"v",
                iterations=4096,
            ),
            "the user ana has the SCRAM mechanism 9, which is not known here",
        ),
    ],
)  # fmt: skip
def test_who_may_do_what_by_a_later_kafka_is_not_guessed(
    kafkas: FakeFileSystem, record: Message, expected: str
) -> None:
    write_log(kafkas, [*topic(), record])
    with pytest.raises(RefusalError, match=expected):
        open_broker(kafkas)


def test_an_empty_folder_of_the_logs_name_in_another_directory_hides_nothing(
    kafkas: FakeFileSystem,
) -> None:
    write_log(kafkas, [*topic(), config("retention.ms", "-1")])
    kafkas.make_directory("/a")
    kafkas.make_directory("/a/__cluster_metadata-0")
    for paths in (["/a", "/d"], ["/d", "/a"]):
        assert find_metadata(paths, kafkas).known.entries["t"].configs == {"retention.ms": "-1"}


def test_a_setting_on_which_it_depends_and_that_means_nothing_holds_the_topic_back(
    kafkas: FakeFileSystem, caplog: pytest.LogCaptureFixture
) -> None:
    write_log(kafkas, [*topic(), config("cleanup.policy", "shred"), config("segment.ms", "9")])
    broker = open_broker(kafkas)
    assert broker.topics.get("t").config.segment_ms == 9
    assert "topic t: a stored setting is not valid and is ignored: cleanup.policy" in caplog.text
    wait(broker)
    assert broker.topics.get("t").partitions[0].log.log_start_offset == 0
    broker.close()


@pytest.mark.slow
def test_whenever_a_crash_comes_while_the_log_is_recreated_it_is_as_before_or_new(
    kafkas: FakeFileSystem,
) -> None:
    def made() -> FakeFileSystem:
        files = disk("/d")
        open_broker(files, ids=itertools.count(1)).close()
        write_log(files, [*of_two_nodes("t", T), config("retention.ms", "-1")])
        files.make_directory("/d/t-0")
        files.sync_directory("/d")
        return files.crash(CrashMode.KEEP)

    options = HandoverOptions(now_ms=NOW_MS, new_id=lambda: id_of(99))

    def workload(files: FileSystem, done: list[str]) -> None:
        done.append(recreate(find_metadata(["/d"], files), files, options))

    for point in every_crash_point(workload, make_file_system=made, seeds=1):
        finish("/d", point.file_system)
        found = find_metadata(["/d"], point.file_system)
        assert found.log is not None, point
        assert (found.refusal is None) or not point.acknowledged, point


def test_a_metadata_log_that_is_offline_leaves_the_other_directories_served() -> None:
    files = disk("/d", "/e")
    broker = open_broker(files, "/d", "/e")
    broker.admin.create_topic(NewTopic(name="t", partition_count=2))
    broker.close()
    files.remove("/d/meta.properties")
    files.make_directory("/d/meta.properties")
    broker = open_broker(files, "/d", "/e")
    (served,) = broker.topics.get("t").partitions
    place = broker.topics.partition("t", served)
    assert broker.appends.append(place, batch(b"x"), now_ms=NOW_MS).size
    assert "/d, which is offline" in broker.unconfirmed.unknown["t"]
    with pytest.raises(ApiError, match="the metadata log is offline"):
        broker.admin.create_topic(NewTopic(name="new"))
    with pytest.raises(UserError, match=r"allow\.everyone\.if\.no\.acl\.found"):
        open_broker(
            files, "/d", "/e",
            authorizer_class_name=STANDARD_AUTHORIZER, allow_everyone_if_no_acl_found="true",
        )  # fmt: skip


@pytest.mark.parametrize("content", [b"", b"log 0 torn"])
def test_an_integrity_file_that_a_power_failure_spoiled_is_written_again_at_the_next_start(
    content: bytes,
) -> None:
    file_system = disk("/d")
    broker = open_broker(file_system)
    broker.admin.create_topic(NewTopic(name="t"))
    broker.close()
    path = join("/d/__cluster_metadata-0", INTEGRITY)
    replace_file(file_system, path, content)
    open_broker(file_system).close()
    assert check(file_system, "/d").findings == []
    assert read_file(file_system, path).startswith(b"log 0 ")
