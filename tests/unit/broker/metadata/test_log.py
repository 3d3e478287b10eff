"""The metadata log of a broker by itself: what was answered is there, and is replayed."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import FileSystem
from ottla.base.principal import ANONYMOUS
from ottla.base.resource_kinds import ResourceKind
from ottla.base.turns import at_once
from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration, ConfigChange, ConfigOperation
from ottla.broker.metadata.log import METADATA_CONFIG, LogOptions, MetadataLog, SnapshotLimits
from ottla.broker.quotas.quota_changes import QuotaAlteration
from ottla.broker.security.security import Security
from ottla.broker.security.users import ScramUpsertion
from ottla.metadata.acls import AclFilter
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.metadata.log_files import ReadLog
from ottla.metadata.log_writing import control_batch
from ottla.metadata.records import (
    BeginTransactionRecord,
    ConfigRecord,
    FeatureLevelRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from ottla.metadata.tokens import DelegationToken
from ottla.quorum.election_state import ElectionState
from ottla.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet, voter_records
from ottla.storage.directory.stopped_directory import StoppedDirectory
from ottla.storage.files.meta_properties import MetaProperties
from ottla.storage.files.metadata_files import metadata_file_sizes
from ottla.testing import CrashMode, FakeFileSystem
from ottla.testing.crash_points import every_crash_point
from ottla.testing.file_system import FakeFile
from tests.support.altering import alter_group, alter_quota
from tests.support.brokers import NOW_MS, at, disk, id_of, open_broker
from tests.support.logins import set_password
from tests.support.metadata import acls_of, image_of, log_of, segment, write_records
from tests.support.quorum_logs import QuorumDirectory
from tests.support.suspended import in_turns_of
from tests.unit.broker.security.test_security import AUTHORIZER, rule

RULES = [rule(f"t-{number}") for number in range(1200)]


def secured(files: FileSystem) -> Broker:
    return open_broker(files, authorizer_class_name=AUTHORIZER)


# Changes in turns


def test_a_change_of_many_entries_is_made_in_many_turns_and_is_one_transaction() -> None:
    files = disk("/d")
    security = secured(files).security
    turns: list[int] = []
    with in_turns_of(turns.append):
        security.create_acls(RULES)
    assert len(turns) > len(RULES), "reading and following go rule by rule"
    assert set(acls_of(files)) == set(RULES)
    cut = files.open(segment(), writable=True)
    cut.truncate(cut.size() - 20)  # within the batch that ends the transaction
    killed = files.crash(CrashMode.KEEP)
    killed.remove("/d/ottla-boot")  # or the log would have lost its end
    assert acls_of(killed) == []


def test_a_change_costs_the_same_among_few_rules_and_among_many() -> None:
    def turns(security: Security, topic: str) -> int:
        counted: list[int] = []
        with in_turns_of(counted.append):
            security.create_acls([rule(topic), rule("same", f"User:{topic}")])
        return len(counted)

    few, many = secured(disk("/d")).security, secured(disk("/d")).security
    few.create_acls([rule("first")])
    many.create_acls([*RULES, *(rule("same", f"User:{number}") for number in range(500))])
    assert turns(many, "one more") == turns(few, "one more")


def turns_of_a_change(at_moment: int) -> int:
    """Makes a change, and another one at one of its turns; returns how many turns it had."""
    files = disk("/d")
    security = secured(files).security
    wanted = {*RULES[:5]}
    turns: list[int] = []

    def another(number: int) -> None:
        turns.append(number)
        if number == at_moment:
            wanted.add(rule("other"))
            with at_once():
                security.create_acls([rule("other")])

    with in_turns_of(another):
        security.create_acls(RULES[:5])
    assert set(security.image.all_acls()) == wanted
    assert set(acls_of(files)) == wanted
    assert security.authorizer is not None
    assert security.authorizer._rules.literal.keys() == {
        (pattern.resource_type, pattern.name) for pattern, _ in wanted
    }
    return len(turns)


def test_a_change_that_comes_in_between_is_kept() -> None:
    for moment in range(turns_of_a_change(-1)):
        turns_of_a_change(moment)


def test_a_change_while_another_becomes_durable_leaves_it_its_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    files = disk("/d")
    security = secured(files).security
    waiting = RULES[1:3]
    plain = FakeFile.sync

    def sync(file: FakeFile) -> None:
        if waiting and file.path == segment():
            security.create_acls([waiting.pop()])
        plain(file)

    monkeypatch.setattr(FakeFile, "sync", sync)
    security.create_acls(RULES[:1])
    monkeypatch.undo()
    kept = files.open_files.count
    security.create_acls(RULES[3:4])
    assert files.open_files.count == kept, "the log's file is closed until the next change"
    assert set(acls_of(files.crash(CrashMode.STRICT))) == set(RULES[:4])


def test_expired_tokens_go_from_the_log_with_the_next_change() -> None:
    files = disk("/d")
    security = secured(files).security
    security.create_acls(RULES[:2])
    token = DelegationToken(
        token_id="t", owner=ANONYMOUS, requester=ANONYMOUS, renewers=(),
        issued_ms=1, expires_ms=2, max_ms=3,
    )  # fmt: skip
    security.put_token(token)
    security.drop_expired_tokens(3)
    assert (security.image.tokens, image_of(files).tokens) == ({}, {"t": token})
    security.create_acls(RULES[2:3])
    assert image_of(files).tokens == {}
    assert acls_of(files) == RULES[:3]


def test_a_crash_leaves_the_old_state_or_the_new_and_what_was_answered() -> None:
    def workload(files: FileSystem, acknowledged: list[int]) -> None:
        security = secured(files).security
        for number in range(2):
            with in_turns_of(lambda _: None):
                security.create_acls([RULES[number]])
            acknowledged.append(number)

    for point in every_crash_point(workload, seeds=1):
        if point.file_system.status("/d") is not None:
            acls = acls_of(point.file_system)
            assert acls in [RULES[:count] for count in range(3)]
            assert len(acls) >= len(point.acknowledged)


# Live state equals replayed state


def create(broker: Broker, number: int) -> None:
    if broker.topics.find(f"t{number}") is None:
        broker.admin.create_topic(NewTopic(name=f"t{number}", partition_count=1 + number % 3))


def delete(broker: Broker, number: int) -> None:
    topic = broker.topics.find(f"t{number}")
    if topic is not None:
        broker.admin.delete_topic(topic)


def grow(broker: Broker, number: int) -> None:
    topic = broker.topics.find(f"t{number}")
    if topic is not None:
        count = topic.partition_count + 1
        broker.admin.grow_topic(TopicGrowth(name=topic.name, partition_count=count))


def changed(name: str, number: int) -> Alteration:
    is_removed = number == 0
    operation = ConfigOperation.DELETE if is_removed else ConfigOperation.SET
    value = "" if is_removed else str(46_000 + number)
    return Alteration(changes=[ConfigChange(name=name, operation=operation, value=value)])


def configure(broker: Broker, number: int) -> None:
    for topic in list(broker.topics):
        broker.admin.alter_topic(topic.name, changed("retention.ms", number))


def quota(broker: Broker, number: int) -> None:
    limits = {"producer_byte_rate": float(number) or None}
    alter_quota(broker, QuotaAlteration(names=(("user", f"u{number % 2}"),), limits=limits))


def password(broker: Broker, number: int) -> None:
    set_password(broker, f"u{number}", "secret")


def forget(broker: Broker, number: int) -> None:
    broker.security.alter_users([ScramUpsertion(user=f"u{number}", mechanism_code=1)])


def allow(broker: Broker, number: int) -> None:
    broker.security.create_acls([rule(f"t{number}")])


def deny(broker: Broker, number: int) -> None:
    broker.security.delete_acls([AclFilter(name=f"t{number}")])


def group(broker: Broker, number: int) -> None:
    alter_group(broker, f"g{number % 2}", changed("consumer.session.timeout.ms", number))


CHANGES: list[Callable[[Broker, int], None]] = [
    create, delete, grow, configure, quota, password, forget, allow, deny, group,
]  # fmt: skip


def known(broker: Broker) -> Any:
    topics = {
        one.name: (one.topic_id, one.partition_count, dict(one.overrides)) for one in broker.topics
    }
    image = broker.security.image
    known = image.acls, image.credentials, image.tokens, image.quotas
    return topics, *known, image.configs


@given(st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(0, 4)), max_size=25), st.booleans())
def test_a_start_knows_what_the_broker_knew_before(
    steps: list[tuple[Callable[[Broker, int], None], int]], is_killed: bool
) -> None:
    files = disk("/d")
    broker = secured(files)
    for change, number in steps:
        change(broker, number)
    live = known(broker)
    recorded, image = image_of(files), broker.image_store.image
    for name in ("topics", "topic_names", "configs", "quotas", "credentials", "acls", "tokens"):
        assert getattr(image, name) == getattr(recorded, name), name
    if is_killed:
        files = files.crash(CrashMode.KEEP)
    else:
        broker.close()
    assert known(secured(files)) == live


# Snapshots


def filled(
    files: FileSystem, count: int, limits: SnapshotLimits, found: ReadLog | None = None
) -> MetadataLog:
    """A log with settings that were changed over and over."""
    files.make_directory("/d")
    files.sync_directory("/")
    properties = MetaProperties(cluster_id="c", node_id=1, directory_id=id_of(1))
    directory = StoppedDirectory("/d", files, properties, NOW_MS)
    options = LogOptions(node_id=1, now_ms=NOW_MS, limits=limits)
    log = MetadataLog(directory, files, found, options)
    log.commit([(TopicRecord(name="t", topic_id=id_of(7)), 0)])
    for number in range(count):
        change_setting(log, number)
        if log.is_due_for_snapshot:
            finish_snapshot(log)
    return log


def change_setting(log: MetadataLog, number: int) -> None:
    record = ConfigRecord(
        resource_type=ResourceKind.TOPIC, resource_name="t", name="retention.ms", value=str(number)
    )
    log.commit([(record, 0)])


def finish_snapshot(log: MetadataLog) -> None:
    while log.is_due_for_snapshot:
        log.advance_snapshot()


def test_changes_without_end_leave_a_small_directory() -> None:
    files = FakeFileSystem()
    log = filled(files, 1500, SnapshotLimits(bytes_between=5000, retention_bytes=20_000))
    sizes = metadata_file_sizes(files, "/d")
    assert sum(size for _, size in sizes) < 30_000
    assert image_of(files).topics["t"].configs == {"retention.ms": "1499"}
    assert image_of(files).end_offset == log.end_offset


def test_a_snapshot_keeps_the_voters_that_the_log_names() -> None:
    files = disk("/d")
    own = Voter(ReplicaKey(1, id_of(5)), (Endpoint("C", "h", 9093),))
    used = QuorumDirectory(files)
    used.opened.elections.write(ElectionState(7, 1), 0, VoterSet.of([own]))
    used.log.append(control_batch(voter_records(1, VoterSet.of([own])), 0, 7, NOW_MS))
    used.log.sync()
    used.close()
    limits = SnapshotLimits(bytes_between=5000, retention_bytes=20_000)
    filled(files, 300, limits, found=log_of(files))
    opened = QuorumDirectory(files.crash(CrashMode.KEEP)).opened
    assert opened.log.log_start_offset > 2
    assert opened.history.voters == VoterSet.of([own])


def test_a_change_while_a_snapshot_is_made_is_in_the_log_after_it() -> None:
    for step in range(1, 5):
        files = FakeFileSystem()
        log = filled(files, 20, SnapshotLimits(bytes_between=3000))
        number = 1000
        while not log.is_due_for_snapshot:
            change_setting(log, number)
        for _ in range(step):
            if log.is_due_for_snapshot:
                log.advance_snapshot()
        change_setting(log, 5)
        log.commit([(TopicRecord(name="u", topic_id=id_of(8)), 0)])
        finish_snapshot(log)
        assert set(image_of(files).topics) == {"t", "u"}, step
        assert image_of(files).topics["t"].configs == {"retention.ms": "5"}
        assert image_of(files).end_offset == log.end_offset


def test_no_snapshot_is_made_of_a_damaged_log(caplog: pytest.LogCaptureFixture) -> None:
    files = FakeFileSystem()
    log = filled(files, 20, SnapshotLimits(bytes_between=1 << 20))
    content = files.open(segment(), writable=True)
    content.pwrite(bytes([content.pread(1, 300)[0] ^ 1]), 300)
    log.advance_snapshot()
    while log.is_due_for_snapshot:
        log.advance_snapshot()
    change_setting(log, 5)
    (line,) = caplog.messages
    assert line.startswith(f"no snapshot is made of the metadata log: {segment()} at byte ")
    assert not any(name.endswith("checkpoint") for name, _ in metadata_file_sizes(files, "/d"))


def test_a_crash_while_a_snapshot_is_made_leaves_all_that_was_answered() -> None:
    limits = SnapshotLimits(bytes_between=2000, retention_bytes=1)

    def workload(files: FileSystem, acknowledged: list[int]) -> None:
        log = filled(files, 14, limits)
        for number in range(100, 110):
            change_setting(log, number)
            acknowledged.append(number)
            if log.is_due_for_snapshot:
                finish_snapshot(log)

    made = 0
    for point in every_crash_point(workload, seeds=1):
        if not point.acknowledged:
            continue
        found = image_of(point.file_system).topics["t"].configs["retention.ms"]
        assert int(found) - point.acknowledged[-1] in (0, 1), point
        made += any(name.endswith("checkpoint") for name, _ in metadata_file_sizes(
            point.file_system, "/d"
        ))  # fmt: skip
    assert made


# What is refused


def test_users_need_a_log_that_can_have_them() -> None:
    files = disk("/d")
    open_broker(files).close()
    write_records(files, FeatureLevelRecord(name="metadata.version", feature_level=10))
    broker = open_broker(files)
    with pytest.raises(ApiError, match=r"metadata\.version 10, and has users from 11 on") as caught:
        set_password(broker, "ana", "secret")
    assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION
    broker.admin.create_topic(NewTopic(name="t"))
    assert image_of(files).topics["t"].partitions[0].directories == (bytes(16),)


def test_credentials_are_written_again_after_a_removal_when_the_broker_stops() -> None:
    files = disk("/d")
    broker = open_broker(files)
    for name in "ab":
        set_password(broker, name, "secret")
    forget_a = ScramUpsertion(user="a", mechanism_code=1)
    broker.security.alter_users([forget_a])
    assert log_of(files).has_removed_credential
    broker.close()
    assert not log_of(files).has_removed_credential
    before = image_of(files).end_offset
    open_broker(files).close()
    assert image_of(files).end_offset == before
    assert list(image_of(files).credentials) == [("b", "SCRAM-SHA-256")]


def test_no_descriptor_stays_open_between_two_changes() -> None:
    files = disk("/d")
    broker = open_broker(files)
    broker.producer_ids.allocate()
    assert files.open_files.count == 0
    broker.scheduler.run_due(at(1.0))
    assert files.open_files.count == 0


def test_the_log_has_no_limits_of_a_topic() -> None:
    assert METADATA_CONFIG.segment_bytes > SnapshotLimits().retention_bytes
    assert not METADATA_CONFIG.is_compacted


def test_what_an_open_transaction_of_kafka_left_counts_for_nothing() -> None:
    files = disk("/d")
    open_broker(files).close()
    user = UserScramCredentialRecord(
        name="a", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"v", iterations=4096
    )
    write_records(files, BeginTransactionRecord(name="x"), user)
    assert image_of(files).credentials == {}
    broker = open_broker(files)
    broker.admin.create_topic(NewTopic(name="t"))
    assert set(image_of(files).topics) == {"t"}
    assert image_of(files).credentials == {}
