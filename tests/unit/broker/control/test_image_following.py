"""A broker of a KRaft cluster does what the images say."""

import errno
from itertools import pairwise
from typing import NoReturn

import pytest

from ottla.base.fetching_session import NOT_NAMED
from ottla.base.ids import Uuid, uuid_text
from ottla.base.partitions import TopicPartition
from ottla.base.principal import Principal
from ottla.base.resource_kinds import ResourceKind
from ottla.broker.replication.fetches import Fetch
from ottla.cluster.fetch_session import FetchLimits, FollowerSession
from ottla.metadata.acls import (
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.metadata.deciding.topics import NewTopic
from ottla.metadata.directories import LOST, UNASSIGNED
from ottla.metadata.image import METADATA_VERSION
from ottla.metadata.records import (
    FeatureLevelRecord,
    FenceBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.metadata.values import acl_record
from ottla.storage.directory.log_directory import LogDirectory
from ottla.storage.files.meta_properties import VERSION_KRAFT, properties_of
from ottla.testing import FakeFileSystem
from tests.support.brokers import NOW_MS, at, batch, disk, id_of, open_broker
from tests.support.scripted_images import (
    ME,
    OTHER,
    FollowingMember,
    ScriptedImages,
    partition_record,
)
from tests.support.shortages import ScarceFileSystem
from tests.support.turns import with_others_in_between

ORDERS = TopicPartition("orders", 0)


def directories(there: FakeFileSystem, path: str = "/d") -> list[str]:
    """The names of partitions' directories, without the ids of those that are put away."""
    marked = (name.rpartition("-") for name in there.list(path))
    named = [one for one in marked if one[2].isdigit() or one[2] == "stray"]
    return sorted(one[0].partition(".")[0] + f"-{one[2]}" for one in named)


def test_a_replica_leads_or_follows_as_the_image_has_it_and_others_are_not_made() -> None:
    images, there = ScriptedImages(), FakeFileSystem()
    member = FollowingMember(there)
    member.show(images.image)
    member.show(images.create("orders", 70, (1, 2), (2, 1), (2, 3)))
    assert member.roles() == {
        TopicPartition("orders", 0): ("Leading", 1, 0, 0),
        TopicPartition("orders", 1): ("Following", 2, 0, 0),
    }
    assert directories(there) == ["orders-0", "orders-1"]
    member.show(images.change(70, isr=[2], leader=2))
    assert member.roles()[ORDERS] == ("Following", 2, 1, 1)
    member.show(images.change(70, leader=-1))
    assert member.roles()[ORDERS] == ("NoneType", -1, 2, 2)


def test_a_topic_begins_with_its_settings_and_follows_their_changes() -> None:
    images = ScriptedImages()
    member = FollowingMember()
    member.show(images.image)
    images.create("orders", 70, (1,))
    member.show(images.configure("orders", "retention.ms", "5000"))
    topic = member.broker.topics.get("orders")
    assert topic.config.retention_ms == 5000
    assert not member.broker.unconfirmed.is_unknown("orders")
    member.show(images.configure("orders", "retention.ms", None))
    assert topic.overrides == {}


def test_settings_are_reported_as_changed_only_after_the_first_image() -> None:
    images = ScriptedImages()
    images.create("orders", 70, (1,))
    images.configure("", "message.max.bytes", "2000", ResourceKind.BROKER)
    images.configure("orders", "retention.ms", "5000")
    there = FakeFileSystem()
    member = FollowingMember(there)
    member.show(images.image)
    member.broker.close()
    events: list[object] = []
    later = FollowingMember(there, on_event=events.append)
    later.show(images.image)
    assert later.broker.topics.get("orders").config.retention_ms == 5000
    assert events == []
    later.show(images.configure("orders", "retention.ms", "6000"))
    assert [str(one) for one in events] != []


def test_the_replicas_of_a_deleted_topic_and_those_moved_away_are_deleted() -> None:
    images, there = ScriptedImages(), FakeFileSystem()
    member = FollowingMember(there)
    images.create("orders", 70, (1, 2))
    member.show(images.create("paid", 71, (1,), (1, 2)))
    images.change(71, 1, replicas=[2, 3], isr=[2, 3], leader=2)
    member.show(images.delete(70))
    assert set(member.roles()) == {TopicPartition("paid", 0)}
    assert "orders" not in [topic.name for topic in member.broker.topics]
    kept = [name for name in there.list("/d") if name.endswith(("-0", "-1"))]
    assert kept == ["paid-0"]


def test_a_topic_that_was_deleted_and_created_again_begins_empty() -> None:
    images = ScriptedImages()
    member = FollowingMember()
    member.show(images.create("orders", 70, (1,)))
    broker = member.broker
    broker.appends.append(broker.topics.partition("orders", 0), batch(), now_ms=NOW_MS)
    broker.appends.write_out()
    images.commit(RemoveTopicRecord(topic_id=id_of(70)))
    member.show(images.create("orders", 72, (1,)))
    topic = member.broker.topics.get("orders")
    assert uuid_text(topic.topic_id) == uuid_text(id_of(72))
    assert topic.partition(0).log.log_end_offset == 0
    assert member.roles() == {ORDERS: ("Leading", 1, 0, 0)}


def test_what_the_first_image_does_not_place_here_is_kept_as_stray() -> None:
    images, there = ScriptedImages(), FakeFileSystem()
    member = FollowingMember(there)
    for number, name in enumerate(("orders", "gone", "moved", "again")):
        images.create(name, 70 + number, (1, 2))
    member.show(images.image)
    member.broker.close()
    images.delete(71)
    images.change(72, replicas=[2, 3], isr=[2, 3], leader=2)
    images.delete(73)
    images.create("again", 80, (1,))
    later = FollowingMember(there)
    assert later.roles() == {}
    later.show(images.image)
    assert set(later.roles()) == {ORDERS, TopicPartition("again", 0)}
    assert later.broker.topics.get("again").topic_id == id_of(80)
    assert directories(there) == [
        "again-0",
        "again-0-stray",
        "gone-0-stray",
        "moved-0-stray",
        "orders-0",
    ]


def test_a_directory_of_a_member_of_a_quorum_is_one_of_kraft_and_its_topics_are_held() -> None:
    images, there = ScriptedImages(), FakeFileSystem()
    member = FollowingMember(there)
    member.show(images.create("orders", 70, (1,)))
    member.broker.close()
    properties = properties_of(there, "/d")
    assert properties is not None
    assert (properties.version, properties.node_id) == (VERSION_KRAFT, ME)
    assert properties.directory_id is not None
    again = FollowingMember(there)
    assert again.broker.unconfirmed.is_unknown("orders")
    again.show(images.image)
    assert not again.broker.unconfirmed.is_unknown("orders")


def test_settings_of_brokers_groups_and_client_metrics_are_those_of_the_image() -> None:
    images = ScriptedImages()
    member = FollowingMember()
    settings = member.broker.settings
    images.configure("", "message.max.bytes", "2000", ResourceKind.BROKER)
    images.configure(str(OTHER), "message.max.bytes", "3000", ResourceKind.BROKER)
    images.configure("workers", "consumer.session.timeout.ms", "50000", ResourceKind.GROUP)
    member.show(images.configure("slow", "interval.ms", "1000", ResourceKind.CLIENT_METRICS))
    assert settings.config.topic_defaults.max_message_bytes == 2000
    assert settings.groups.of("workers").consumer_session_timeout_ms == 50_000
    assert settings.client_metrics == {"slow": {"interval.ms": "1000"}}
    member.show(images.configure(str(ME), "message.max.bytes", "4000", ResourceKind.BROKER))
    assert settings.config.topic_defaults.max_message_bytes == 4000
    member.show(images.configure(str(ME), "message.max.bytes", "many", ResourceKind.BROKER))
    assert settings.config.topic_defaults.max_message_bytes == 4000
    assert len(member.complaints) == 1
    assert "message.max.bytes" in member.complaints[0]


def test_a_controller_has_no_topics() -> None:
    images = ScriptedImages()
    member = FollowingMember(
        process_roles="controller",
        controller_quorum_voters="1@localhost:9093",
        listeners="CONTROLLER://127.0.0.1:9093",
        listener_security_protocol_map="CONTROLLER:PLAINTEXT",
    )
    images.configure("", "message.max.bytes", "2000", ResourceKind.BROKER)
    member.show(images.create("orders", 70, (1,)))
    assert member.roles() == {}
    assert list(member.broker.topics) == []
    assert member.complaints == []
    assert member.broker.settings.config.topic_defaults.max_message_bytes == 2000


def test_topics_of_a_broker_by_itself_go_on_with_their_ids() -> None:
    there = FakeFileSystem()
    alone = open_broker(there, node_id=str(ME))
    alone.admin.create_topic(NewTopic(name="orders", partition_count=1, replication_factor=1))
    topic_id = alone.topics.get("orders").topic_id
    alone.appends.append(alone.topics.partition("orders", 0), batch(), now_ms=NOW_MS)
    image = alone.image_store.image
    alone.close()
    member = FollowingMember(there, image=image)
    images = ScriptedImages()
    images.commit(TopicRecord(name="orders", topic_id=topic_id))
    member.show(images.commit(partition_record(topic_id, 0, (ME,), ME)))
    assert member.roles() == {ORDERS: ("Leading", ME, 0, 0)}
    assert member.broker.topics.partition("orders", 0).log.log_end_offset == 1


def test_brokers_that_are_fenced_are_no_longer_waited_for() -> None:
    images = ScriptedImages()
    member = FollowingMember()
    member.show(images.create("orders", 70, (1, 2)))
    epoch = images.image.brokers[OTHER].epoch
    assert member.replicas.metadata.is_live(OTHER)
    images.commit(FenceBrokerRecord(id=OTHER, epoch=epoch))
    member.show(images.change(70, isr=[1]))
    assert not member.replicas.metadata.is_live(OTHER)
    leading = member.replicas.manager.leading(ORDERS)
    assert leading is not None
    assert leading.isr.committed == {ME}


def test_replicas_are_assumed_in_steps_between_which_others_have_their_turn() -> None:
    count = 40
    images = ScriptedImages()
    member = FollowingMember()
    member.show(images.image)
    seen: list[int] = []
    image = images.create("orders", 70, *([(1, 2)] * count))
    with with_others_in_between(lambda: seen.append(len(member.roles()))):
        member.show(image)
    steps = [after - before for before, after in pairwise([*seen, count])]
    assert len(member.roles()) == count
    assert 0 < max(steps) <= 8
    seen.clear()
    image = images.delete(70)
    with with_others_in_between(lambda: seen.append(len(member.roles()))):
        member.show(image)
    assert seen[0] == count
    assert {before - after for before, after in pairwise([*seen, 0])} == {0, 4}


def test_many_rules_are_applied_in_steps_and_denials_first() -> None:
    images = ScriptedImages()
    member = FollowingMember(
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    )
    member.show(images.image)
    authorizer = member.broker.security.authorizer
    assert authorizer is not None
    question = (Principal("User", "ana"), "h", Operation.READ, ResourceType.TOPIC, "orders")
    for number in range(50):
        images.commit(acl_record(id_of(300 + number), allowed(f"topic-{number}")))
    images.commit(acl_record(id_of(400), allowed("orders")))
    denied = allowed("orders").entry._replace(permission=Permission.DENY)
    image = images.commit(acl_record(id_of(401), allowed("ord")._replace(entry=denied)))
    revisions: list[int] = []
    seen: set[bool] = set()

    def ask() -> None:
        revisions.append(authorizer.revision)
        seen.add(authorizer.allows(*question))

    with with_others_in_between(ask):
        member.show(image)
    assert max(after - before for before, after in pairwise(revisions)) == 1
    assert (seen, authorizer.allows(*question)) == ({False}, False)


def allowed(prefix: str) -> Acl:
    """Ana may read topics whose names begin so."""
    pattern = ResourcePattern(ResourceType.TOPIC, PatternType.PREFIXED, prefix)
    return Acl(pattern, Entry("User:ana", "*", Operation.READ, Permission.ALLOW))


def directory_ids(member: FollowingMember) -> dict[str, Uuid]:
    ids = {one.path: one.directory_id for one in member.broker.directories}
    return {path: one for path, one in ids.items() if one is not None}


def test_a_replica_is_made_where_the_image_has_it_and_else_where_there_is_most_room() -> None:
    images = ScriptedImages()
    member = FollowingMember(disk("/a", "/b"), "/a", "/b")
    ids = directory_ids(member)
    images.create("orders", 70, (1, 2), (1, 2), (1, 2))
    for index in range(3):
        images.change(70, index, directories=[ids["/b"], id_of(20)])
    images.create("paid", 71, (1,))
    images.change(71, directories=[UNASSIGNED])
    member.show(images.image)
    topics = member.broker.topics
    assert {one.directory.path for one in topics.get("orders").partitions.values()} == {"/b"}
    assert topics.partition("paid", 0).directory.path == "/a"


def test_a_replica_that_may_be_in_a_failed_directory_is_not_made_again() -> None:
    images = ScriptedImages()
    there = disk("/a", "/b")
    member = FollowingMember(there, "/a", "/b")
    ids = directory_ids(member)
    images.create("orders", 70, (1,), (1,))
    for index, path in enumerate(("/a", "/b")):
        images.change(70, index, directories=[ids[path]])
    member.show(images.image)
    member.broker.directories[1].health.fail(OSError("gone"))
    member.replicas.advance(at(1.0))
    assert set(member.roles()) == {ORDERS}
    member.show(images.change(70, 1, leader=-1))
    assert set(member.roles()) == {ORDERS}
    images.create("paid", 71, (1,), (1,))
    member.show(images.change(71, 1, directories=[LOST]))
    assert TopicPartition("paid", 0) in member.roles()
    assert TopicPartition("paid", 1) not in member.roles()


def test_a_log_is_made_in_the_directory_that_is_left_while_others_fail() -> None:
    member = FollowingMember(disk("/a", "/b", "/c"), "/a", "/b", "/c")
    directories = member.broker.directories
    for directory, error in zip(directories[:2], ("first", "second"), strict=True):
        _have_fail(directory, error)
    member.show(ScriptedImages().create("orders", 70, (1,), (1,), (1,)))
    assert {place.partition for place in member.roles()} == {0, 1, 2}
    partitions = member.broker.topics.get("orders").partitions.values()
    assert {one.directory.path for one in partitions} == {"/c"}


class Lacking(ScarceFileSystem):
    """Lacks descriptors for files whose paths have `lacking`, if it is set."""

    lacking: str | None = None

    def check_descriptors(self, path: str | None) -> None:
        self.has_descriptors = self.lacking is None or self.lacking not in (path or "")
        super().check_descriptors(path)


def test_partitions_without_descriptors_are_made_when_there_are_some() -> None:
    images, there = ScriptedImages(), Lacking(FakeFileSystem())
    member = FollowingMember(there)
    member.show(images.image)
    there.lacking = "orders-2"
    member.show(images.create("orders", 70, *[(1,)] * 12))
    others = 12 - len(member.roles()) - 1  # it makes them in any order
    named = f"orders-2 and {others} more" if others else "orders-2"
    assert member.complaints == [
        f"{named} cannot be made here yet, and clients wait: Too many open files "
        "(/d/orders-2/partition.metadata.tmp); raise the process's limit of open files (ulimit -n) "
        "or of memory"
    ]
    member.follower.make_awaited()
    assert len(member.complaints) == 1, "told once"
    there.lacking = None
    member.follower.make_awaited()
    assert not member.follower.awaits
    assert {one.partition for one in member.roles()} == set(range(12))
    assert set(member.roles().values()) == {("Leading", 1, 0, 0)}
    assert member.complaints[1:] == ["no partition waits to be made here any more"]
    assert there.status("/d/orders-11") is not None


def test_a_partition_that_waited_is_made_as_the_image_has_it_then() -> None:
    images, there = ScriptedImages(), Lacking(FakeFileSystem())
    member = FollowingMember(there)
    member.show(images.image)
    there.lacking = "/d/"
    for number, name in enumerate(("orders", "gone", "moved")):
        images.create(name, 70 + number, (1,))
    member.show(images.image)
    assert (member.roles(), list(member.broker.topics)) == ({}, [])
    images.delete(70)
    images.delete(71)
    images.change(72, replicas=[2, 3], isr=[2, 3], leader=2)
    images.create("orders", 80, (2, 1))
    member.show(images.configure("orders", "retention.ms", "5000"))
    there.lacking = None
    member.show(images.create("later", 81, (1,)))
    assert member.roles() == {
        ORDERS: ("Following", 2, 0, 0),
        TopicPartition("later", 0): ("Leading", 1, 0, 0),
    }
    topic = member.broker.topics.get("orders")
    assert (topic.topic_id, topic.config.retention_ms) == (id_of(80), 5000)
    assert not member.follower.awaits


@pytest.mark.parametrize(("level", "known"), [(26, NOT_NAMED), (27, 0)])
def test_a_follower_names_what_it_knows_to_be_committed_from_its_level_on(
    level: int, known: int
) -> None:
    images = ScriptedImages()
    member = FollowingMember()
    images.commit(FeatureLevelRecord(name=METADATA_VERSION, feature_level=level))
    member.show(images.create("orders", 70, (2, 1)))
    ((leader, request),) = member.replicas.requests(at(0.0))
    assert isinstance(request, Fetch)
    assert (leader, request.high_watermark) == (OTHER, known)
    session = FollowerSession(ME, 18, FetchLimits())
    session.put(request, id_of(70))
    sent, _ = session.request(broker_epoch=1)
    assert sent.topics[0].partitions[0].high_watermark == known


def test_on_a_full_disk_a_partition_is_made_on_another_and_nothing_waits() -> None:
    """As Kafka has it: room does not come back by itself, and other replicas take over."""
    images, there = ScriptedImages(), ScarceFileSystem(FakeFileSystem())
    member = FollowingMember(there, "/a", "/b")
    member.show(images.image)
    there.full_for = "/a/orders-0/partition.metadata.tmp"
    member.show(images.create("orders", 70, (1,)))
    assert [one.is_offline for one in member.broker.directories] == [True, False]
    assert member.broker.topics.partition("orders", 0).directory.path == "/b"
    assert member.roles() == {ORDERS: ("Leading", 1, 0, 0)}
    assert (member.follower.awaits, member.complaints) == (False, [])


def _have_fail(directory: LogDirectory, error: str) -> None:
    """The disk breaks when a log is made there."""

    def create_log(*_: object, **__: object) -> NoReturn:
        raise directory.health.fail(OSError(errno.EIO, error))

    directory.create_log = create_log  # type: ignore[method-assign]
