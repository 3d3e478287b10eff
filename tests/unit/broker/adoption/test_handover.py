"""What is written so that Apache Kafka can start on a directory: all of it, once, or a refusal."""

import itertools
import json
from collections.abc import Callable

import pytest

from ottla.base.errors import UserError
from ottla.base.files import FileSystem, join, read_file, replace_file
from ottla.base.ids import Uuid
from ottla.base.resource_kinds import ResourceKind
from ottla.broker.adoption.handover import (
    Handover,
    HandoverOptions,
    locked,
    plan_handover,
    write_handover,
)
from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration, ConfigChange, ConfigOperation
from ottla.broker.configs.settings import ConfigSource
from ottla.broker.quotas.quota_changes import QuotaAlteration
from ottla.broker.security.users import ScramUpsertion
from ottla.codec.schema import Message
from ottla.config.security import STANDARD_AUTHORIZER
from ottla.metadata.acls import (
    Acl,
    AclFilter,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.metadata.image import Acls
from ottla.metadata.records import (
    AccessControlEntryRecord,
    BeginTransactionRecord,
    ConfigRecord,
    RegisterBrokerRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
    decode_record,
)
from ottla.record.batch import iter_batches
from ottla.record.record import read_records
from ottla.storage.files.checkpoints import checkpoint_text
from ottla.storage.files.meta_properties import read_meta_properties, write_meta_properties
from ottla.storage.files.metadata_files import has_metadata_log
from ottla.testing import CrashMode, FakeFileSystem
from ottla.testing.crash_points import every_crash_point
from tests.support.altering import alter_group, alter_quota
from tests.support.brokers import NOW_MS, batch, disk, id_of, open_broker
from tests.support.logins import set_password
from tests.support.metadata import image_of, lose_metadata, segment, write_records

LOG = "/d/__cluster_metadata-0"
APP = (("client-id", "app"),)


def options() -> HandoverOptions:
    numbers = itertools.count(900)
    return HandoverOptions(now_ms=NOW_MS, new_id=lambda: id_of(next(numbers)))


def hand_over(file_system: FileSystem, *paths: str) -> list[str]:
    chosen = options()
    with locked(paths or ("/d",), file_system):
        plan = plan_handover(paths or ("/d",), file_system, chosen)
        return write_handover(plan, file_system, chosen)


def planned(file_system: FileSystem, *paths: str) -> Handover:
    return plan_handover(paths or ("/d",), file_system, options())


def change(name: str, value: str | None) -> Alteration:
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    return Alteration(changes=[ConfigChange(name=name, operation=operation, value=value or "")])


def fill(broker: Broker) -> None:
    broker.admin.create_topic(
        NewTopic(name="t", partition_count=2, overrides={"retention.ms": "-1"})
    )
    broker.appends.append(broker.topics.partition("t", 0), batch(), now_ms=NOW_MS)
    broker.admin.alter_broker(ConfigSource.ALL_BROKERS, change("log.retention.ms", "7"))
    broker.admin.alter_broker(ConfigSource.BROKER, change("log.cleaner.threads", "2"))
    broker.admin.alter_broker(ConfigSource.ALL_BROKERS, change("cordoned.log.dirs", ""))
    alter_group(broker, "g", change("consumer.session.timeout.ms", "50000"))
    alter_quota(broker, QuotaAlteration(names=APP, limits={"producer_byte_rate": 5000.0}))
    broker.producer_ids.allocate()


@pytest.fixture
def stopped() -> FakeFileSystem:
    """A directory in which a broker was, and has been closed."""
    return closed()


def test_the_metadata_log_says_all_that_is_known(stopped: FakeFileSystem) -> None:
    image = image_of(stopped)
    assert image.features == {"metadata.version": 21}
    topic = image.topics["t"]
    assert topic.configs == {"retention.ms": "-1"}
    properties = read_meta_properties(stopped, "/d/meta.properties")
    assert properties is not None
    for partition in topic.partitions.values():
        assert (partition.replicas, partition.isr, partition.leader) == ((1,), (1,), 1)
        assert partition.directories == (properties.directory_id,)
        assert partition.leader_epoch == 0
    assert image.configs == {
        4: {
            "": {"log.retention.ms": "7", "cordoned.log.dirs": ""},
            "1": {"log.cleaner.threads": "2"},
        },
        32: {"g": {"consumer.session.timeout.ms": "50000"}},
    }
    assert image.quotas == {APP: {"producer_byte_rate": 5000.0}}
    assert image.next_producer_id == 1000
    state = json.loads(read_file(stopped, f"{LOG}/quorum-state"))
    assert (state["leaderEpoch"], state["currentVoters"]) == (1, [{"voterId": 1}])
    epochs = read_file(stopped, f"{LOG}/leader-epoch-checkpoint")
    assert epochs == checkpoint_text(["1 0"])


def test_nothing_is_missing_after_a_clean_stop(stopped: FakeFileSystem) -> None:
    before = image_of(stopped)
    assert hand_over(stopped) == []
    assert not planned(stopped).records
    assert image_of(stopped) == before


def test_a_directory_in_which_nothing_was_changed_gets_a_log() -> None:
    files = disk("/d")
    open_broker(files).close()
    (line,) = hand_over(files)
    assert line.startswith(f"{LOG}: 0 records more")
    image = image_of(files)
    assert (image.voters, image.features) == ({1}, {"metadata.version": 21})
    assert read_file(files, "/d/bootstrap.checkpoint")
    assert hand_over(files) == []
    assert not list(open_broker(files).topics)


def test_each_use_that_changes_something_is_an_epoch(stopped: FakeFileSystem) -> None:
    old = image_of(stopped)
    open_broker(stopped).close()
    assert image_of(stopped) == old
    broker = open_broker(stopped)
    broker.admin.alter_topic("t", change("retention.ms", None))
    broker.admin.alter_topic("t", change("segment.bytes", "5000"))
    broker.admin.grow_topic(TopicGrowth(name="t", partition_count=3))
    broker.admin.create_topic(NewTopic(name="new"))
    broker.admin.alter_broker(ConfigSource.BROKER, change("log.cleaner.threads", None))
    alter_group(broker, "g", change("consumer.session.timeout.ms", None))
    alter_quota(broker, QuotaAlteration(names=APP, limits={"producer_byte_rate": None}))
    broker.close()
    image = image_of(stopped)
    assert image.epoch == old.epoch + 1
    assert image.topics["t"].configs == {"segment.bytes": "5000"}
    assert set(image.topics["t"].partitions) == {0, 1, 2}
    assert image.topics["t"].partitions[0] == old.topics["t"].partitions[0]
    assert set(image.topics) == {"t", "new"}
    assert image.configs == {4: {"": {"log.retention.ms": "7", "cordoned.log.dirs": ""}}}
    assert image.quotas == {}
    epochs = read_file(stopped, f"{LOG}/leader-epoch-checkpoint")
    assert epochs == checkpoint_text(["1 0", f"2 {old.end_offset}"])


def test_a_topic_made_again_has_none_of_the_settings_of_the_deleted_one(
    stopped: FakeFileSystem,
) -> None:
    old = image_of(stopped)
    broker = open_broker(stopped)
    broker.admin.delete_topic(broker.topics.get("t"))
    broker.admin.create_topic(NewTopic(name="t"))
    broker.close()
    image = image_of(stopped)
    assert image.topics["t"].topic_id != old.topics["t"].topic_id
    assert image.topics["t"].configs == {}
    assert old.topics["t"].topic_id in image.removed


def ids_of(acls: Acls) -> list[Uuid]:
    return [one for entries in acls.values() for ids in entries.values() for one in ids]


def test_users_and_acls_of_kafka_stay_in_its_log(stopped: FakeFileSystem) -> None:
    acl = AccessControlEntryRecord(
        id=id_of(5), resource_type=2, pattern_type=3, operation=3, permission_type=3,
        resource_name="t", principal="User:a", host="*",
    )  # fmt: skip
    user = UserScramCredentialRecord(
        name="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    )
    write_records(stopped, acl, user)
    broker = open_broker(stopped)
    broker.admin.create_topic(NewTopic(name="u"))
    broker.close()
    hand_over(stopped)
    image = image_of(stopped)
    assert ids_of(image.acls) == [id_of(5)]
    assert set(image.credentials) == {("a", "SCRAM-SHA-256")}
    assert set(image.topics) == {"t", "u"}


def test_users_acls_and_tokens_that_were_changed_here_go_with_the_log(
    stopped: FakeFileSystem,
) -> None:
    acls = [
        Acl(
            ResourcePattern(ResourceType.TOPIC, PatternType.PREFIXED, name),
            Entry("User:a", "*", Operation.READ, Permission.ALLOW),
        )
        for name in ("s", "t")
    ]
    broker = open_broker(stopped, authorizer_class_name=STANDARD_AUTHORIZER)
    broker.security.create_acls(acls)
    set_password(broker, "a", "secret")
    set_password(broker, "b", "secret")
    broker.close()
    hand_over(stopped)
    first = image_of(stopped)
    assert [pattern.name for pattern in first.acls] == ["s", "t"]
    assert set(first.credentials) == {("a", "SCRAM-SHA-256"), ("b", "SCRAM-SHA-256")}
    broker = open_broker(stopped, authorizer_class_name=STANDARD_AUTHORIZER)
    broker.security.delete_acls([AclFilter(name="t")])
    set_password(broker, "a", "another")
    broker.security.alter_users([ScramUpsertion(user="b", mechanism_code=1)])
    kept = broker.security.image
    broker.close()
    hand_over(stopped)
    last = image_of(stopped)
    assert ids_of(last.acls) == ids_of(first.acls)[:1], "what is the same keeps its id"
    assert set(last.credentials) == {("a", "SCRAM-SHA-256")}
    assert last.credentials["a", "SCRAM-SHA-256"] != first.credentials["a", "SCRAM-SHA-256"]
    again = open_broker(stopped, authorizer_class_name=STANDARD_AUTHORIZER)
    assert again.security.image.acls == kept.acls
    assert again.security.image.credentials == kept.credentials


def written_records(file_system: FileSystem) -> list[Message]:
    """All records of the log, as Kafka reads them at its start."""
    names = sorted(name for name in file_system.list(LOG) if name.endswith(".log"))
    return [
        decode_record(record.value or b"")[0]
        for name in names
        for one in iter_batches(read_file(file_system, f"{LOG}/{name}"))
        if not one.is_control
        for record in read_records(one)
    ]


Credentials = frozenset[tuple[str, int]]


def kafkas_credentials(records: list[Message], first: str) -> Credentials:
    """What Kafka 3.9 knows after it has replayed the log, with a user's changes first in each
    delta: `MetadataBatchLoader` begins a delta at each BeginTransaction, and `ScramDelta.apply`
    drops a mechanism's map once a removal leaves it empty.
    """
    image: dict[int, set[str]] = {}
    changes: dict[int, dict[str, bool]] = {}
    for one in [*records, BeginTransactionRecord()]:
        if isinstance(one, UserScramCredentialRecord | RemoveUserScramCredentialRecord):
            is_added = isinstance(one, UserScramCredentialRecord)
            changes.setdefault(one.mechanism, {})[one.name] = is_added
        if isinstance(one, BeginTransactionRecord):
            for mechanism, users in changes.items():
                found = image.setdefault(mechanism, set())
                for user in sorted(users, key=lambda user: (user != first, user)):
                    if users[user]:
                        found.add(user)
                    else:
                        found.discard(user)
                        if not found:
                            image.pop(mechanism, None)
            changes = {}
    return frozenset((user, mechanism) for mechanism, users in image.items() for user in users)


def users_of(file_system: FileSystem) -> set[Credentials]:
    """The credentials for each order in which Kafka may apply a delta."""
    records = written_records(file_system)
    return {kafkas_credentials(records, first) for first in "abc"}


def test_kafka_keeps_a_credential_whose_mechanism_a_removal_empties(
    stopped: FakeFileSystem,
) -> None:
    a, b, c = (frozenset({(name, 1)}) for name in "abc")
    for added, gone, kept in ("a", "", a), ("b", "a", b), ("c", "", b | c), ("", "b", c):
        broker = open_broker(stopped)
        for name in added:
            set_password(broker, name, "secret")
        for name in gone:
            broker.security.alter_users([ScramUpsertion(user=name, mechanism_code=1)])
        broker.close()
        hand_over(stopped)
        assert users_of(stopped) == {kept}
    assert hand_over(stopped) == []
    records = written_records(stopped)
    removal = RemoveUserScramCredentialRecord(name="x", mechanism=1)
    assert {kafkas_credentials([*records, removal], "x")} == {c}, "Kafka's next record"


def test_several_directories_have_one_log_and_tell_where_partitions_lie() -> None:
    file_system = disk("/d", "/e")
    broker = open_broker(file_system, "/d", "/e")
    broker.admin.create_topic(NewTopic(name="t", partition_count=4))
    broker.close()
    assert not has_metadata_log(file_system, "/e")
    hand_over(file_system, "/d", "/e")
    partitions = image_of(file_system).topics["t"].partitions
    ids = {
        path: properties.directory_id
        for path in ("/d", "/e")
        if (properties := read_meta_properties(file_system, join(path, "meta.properties")))
    }
    for index, partition in partitions.items():
        path = next(path for path in ids if f"t-{index}" in file_system.list(path))
        assert partition.directories == (ids[path],)
    assert hand_over(file_system, "/e", "/d") == []
    with pytest.raises(UserError, match="is in none of the directories; name all"):
        planned(file_system, "/d")


def test_a_zookeeper_clusters_identity_becomes_a_nodes(stopped: FakeFileSystem) -> None:
    path = "/d/meta.properties"
    known = read_meta_properties(stopped, path)
    assert known is not None
    hand_over(stopped)
    replaced = stopped
    old = type(known)(version=0, cluster_id=known.cluster_id, node_id=1)
    write_meta_properties(replaced, path, old, now_ms=NOW_MS)
    lines = hand_over(replaced)
    assert f"{path}: version 1, node.id 1" in lines
    made = read_meta_properties(replaced, path)
    assert made is not None
    assert (made.version, made.node_id, made.cluster_id) == (1, 1, known.cluster_id)
    assert made.directory_id is not None


def in_use(file_system: FileSystem) -> None:
    assert file_system.lock("/d/.lock") is not None


def not_closed(file_system: FileSystem) -> None:
    file_system.remove("/d/.kafka_cleanshutdown")


def strange_folder(file_system: FileSystem) -> None:
    file_system.make_directory("/d/backup")


def forgotten_topics(file_system: FileSystem) -> None:
    lose_metadata(file_system)


def no_identity(file_system: FileSystem) -> None:
    for name in ("meta.properties", "ottla-meta-properties"):
        file_system.remove(f"/d/{name}")


def of_a_larger_cluster(file_system: FileSystem) -> None:
    write_records(file_system, RegisterBrokerRecord(broker_id=2, incarnation_id=id_of(3)))


def damaged_metadata(file_system: FileSystem) -> None:
    file = file_system.open(segment(), writable=True)
    file.pwrite(b"no log", file.size() // 2)


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (in_use, "is in use by another process"),
        (not_closed, "was not closed in order"),
        (strange_folder, "/d/backup is no partition, and Apache Kafka does not start"),
        (forgotten_topics, "topic t: its settings are not known"),
        (no_identity, "has no meta.properties"),
        (of_a_larger_cluster, "of a cluster with other nodes"),
        (damaged_metadata, "the metadata log cannot be read"),
    ],
)
def test_what_must_be_settled_first_is_said_and_nothing_is_written(
    stopped: FakeFileSystem, spoil: Callable[[FileSystem], None], reason: str
) -> None:
    spoil(stopped)
    names = set(stopped.list("/d"))
    with pytest.raises(UserError, match=reason):
        hand_over(stopped)
    assert set(stopped.list("/d")) - {".lock"} == names - {".lock"}


def closed() -> FakeFileSystem:
    file_system = disk("/d")
    broker = open_broker(file_system, ids=itertools.count(1000))
    fill(broker)
    broker.close()
    return file_system


@pytest.mark.slow
def test_a_crash_anywhere_leaves_what_a_broker_and_the_next_handover_finish() -> None:
    def copied() -> FakeFileSystem:
        files = closed()
        path = "/d/t-0/leader-epoch-checkpoint"
        replace_file(files, path, checkpoint_text(["7 0"]))  # as of a log of another cluster
        return files.crash(CrashMode.KEEP)

    def workload(file_system: FileSystem, done: list[list[str]]) -> None:
        done.append(hand_over(file_system))

    count = 0
    for point in every_crash_point(workload, make_file_system=copied, seeds=1):
        files = point.file_system
        if files.status("/d/.kafka_cleanshutdown") is None:
            open_broker(files).close()
        hand_over(files)
        partition = image_of(files).topics["t"].partitions[0]
        assert (partition.leader_epoch, partition.leader) == (7, -1), point
        assert hand_over(files) == []
        count += 1
    assert count > 20


def retention(value: str | None) -> ConfigRecord:
    return ConfigRecord(
        resource_type=ResourceKind.TOPIC, resource_name="t", name="retention.ms", value=value
    )


def test_what_kafka_changes_counts_here(stopped: FakeFileSystem) -> None:
    for kafkas, expected in (("5000", {"retention.ms": "5000"}), (None, {})):
        write_records(stopped, retention(kafkas))
        broker = open_broker(stopped)
        assert broker.topics.get("t").overrides == expected
        assert broker.unconfirmed.lines == ()
        broker.close()


def subscription(name: str, **values: str) -> list[ConfigRecord]:
    return [
        ConfigRecord(
            resource_type=ResourceKind.CLIENT_METRICS,
            resource_name=name,
            name=key.replace("_", "."),
            value=value,
        )
        for key, value in values.items()
    ]


def test_subscriptions_to_clients_metrics_go_there_and_back(stopped: FakeFileSystem) -> None:
    broker = open_broker(stopped)
    for name in ("kept", "gone"):
        broker.admin.alter_client_metrics(name, change("interval.ms", "5000"))
    broker.close()
    hand_over(stopped)

    def theirs() -> dict[str, dict[str, str]]:
        configs = image_of(stopped).configs[ResourceKind.CLIENT_METRICS]
        return {name: dict(one) for name, one in configs.items()}

    assert theirs() == {"kept": {"interval.ms": "5000"}, "gone": {"interval.ms": "5000"}}
    new = subscription("new", interval_ms="700", metrics="org.apache.kafka.consumer.")
    write_records(stopped, *new, *subscription("kept", interval_ms="800"))
    broker = open_broker(stopped)
    assert broker.settings.client_metrics == {
        "kept": {"interval.ms": "800"},
        "gone": {"interval.ms": "5000"},
        "new": {"interval.ms": "700", "metrics": "org.apache.kafka.consumer."},
    }
    broker.admin.alter_client_metrics("gone", change("interval.ms", None))
    broker.close()
    hand_over(stopped)
    assert theirs() == {
        "kept": {"interval.ms": "800"},
        "new": {"interval.ms": "700", "metrics": "org.apache.kafka.consumer."},
    }
