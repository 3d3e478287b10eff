"""Topics that are made or deleted together: how much that writes, and what others see meanwhile."""

import errno
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from itertools import count

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.files import FileSystem
from ottla.base.turns import at_once
from ottla.broker.broker import Broker
from ottla.broker.topics.topics import Topic
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.testing import FakeFileSystem
from ottla.testing.crash_points import every_crash_point
from ottla.testing.faults import FaultPlan, FaultyFileSystem
from ottla.testing.recording import IoKind, RecordingFileSystem
from tests.support.brokers import batch, disk, open_broker
from tests.support.metadata import segment, topics_of
from tests.support.turns import TakingTurns, with_others_in_between


def named(number: int, partition_count: int = 1) -> list[NewTopic]:
    return [NewTopic(name=f"t{one}", partition_count=partition_count) for one in range(number)]


def written(number: int, *, is_deleted: bool) -> RecordingFileSystem:
    """What making topics writes, or deleting them."""
    file_system = RecordingFileSystem(disk("/d"))
    broker = open_broker(file_system)
    broker.admin.create_topic(NewTopic(name="first", partition_count=1))
    if not is_deleted:
        file_system.calls.clear()
    broker.admin.create_topics(named(number))
    if is_deleted:
        file_system.calls.clear()
        broker.admin.delete_topics([one for one in broker.topics if one.name != "first"])
    return file_system


@pytest.mark.parametrize("is_deleted", [False, True])
def test_the_calls_for_topics_of_one_request_grow_as_their_number_does(is_deleted: bool) -> None:
    few, many = (written(number, is_deleted=is_deleted).calls for number in (20, 80))
    assert len(many) <= 4 * len(few)
    sizes = [sum(one.size for one in some if "index" not in one.path) for some in (few, many)]
    assert sizes[1] <= 4.5 * sizes[0], "an index grows at once"


def appends(file_system: RecordingFileSystem) -> int:
    """The writes to the metadata log after its creation."""
    writes = [one for one in file_system.calls if one.kind is IoKind.PWRITE]
    return sum(one.path == segment() for one in writes)


@pytest.mark.parametrize("is_deleted", [False, True])
def test_the_metadata_log_is_written_once_for_all_topics_of_a_request(is_deleted: bool) -> None:
    assert appends(written(30, is_deleted=is_deleted)) == 1


def test_the_metadata_log_is_written_once_for_all_topics_that_a_request_grows() -> None:
    file_system = RecordingFileSystem(disk("/d"))
    broker = open_broker(file_system)
    broker.admin.create_topics(named(30))
    file_system.calls.clear()
    growths = [TopicGrowth(name=f"t{one}", partition_count=3) for one in range(31)]
    *none, refusal = broker.admin.grow_topics(growths)
    assert none == [None] * 30
    assert refusal is not None
    assert refusal.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [len(topic.partitions) for topic in broker.topics] == [3] * 30
    assert appends(file_system) == 1


def test_a_topic_that_goes_while_others_of_its_request_are_looked_at_is_not_grown() -> None:
    broker = open_broker(disk("/d"))
    broker.admin.create_topics(named(3))

    def delete() -> None:
        topic = broker.topics.find("t2")
        if topic is not None:
            broker.admin.delete_topic(topic)

    growths = [TopicGrowth(name=f"t{one}", partition_count=3) for one in range(3)]
    with with_others_in_between(delete):
        *none, refusal = broker.admin.grow_topics(growths)
    assert none == [None, None]
    assert refusal is not None
    assert refusal.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_the_names_of_directories_are_synced_together() -> None:
    made = written(32, is_deleted=False).calls
    gone = written(32, is_deleted=True).calls
    for calls, most in ((made, 10), (gone, 4)):
        synced = [one for one in calls if one.kind is IoKind.SYNC_DIRECTORY and one.path == "/d"]
        assert len(synced) <= most


def test_one_topic_that_cannot_be_is_refused_and_the_others_are_made() -> None:
    broker = open_broker(disk("/d"))
    broker.admin.create_topic(NewTopic(name="old", partition_count=1))
    wanted = [*named(2), NewTopic(name="old"), NewTopic(name="t.1"), NewTopic(name="t_1")]
    wanted.append(NewTopic(name="none", partition_count=0))
    results = broker.admin.create_topics(wanted)
    codes = [one.code if isinstance(one, ApiError) else one.name for one in results]
    assert codes == [
        "t0",
        "t1",
        ErrorCode.TOPIC_ALREADY_EXISTS,
        "t.1",
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.INVALID_PARTITIONS,
    ]
    assert {topic.name for topic in broker.topics} == {"old", "t0", "t1", "t.1"}


def test_a_name_is_taken_while_its_topic_is_being_made_or_deleted() -> None:
    broker = open_broker(disk("/d"))
    seen: list[ErrorCode] = []

    def another() -> None:
        if broker.topics.find("t1") is None and "t1" not in broker.topic_changes.under_way:
            return
        try:
            broker.admin.create_topic(NewTopic(name="t1", partition_count=1))
        except ApiError as error:
            seen.append(error.code)

    with with_others_in_between(another):
        broker.admin.create_topics(named(3))
    another()
    with with_others_in_between(another):
        broker.admin.delete_topics([broker.topics.get("t1")])
    assert set(seen) == {ErrorCode.TOPIC_ALREADY_EXISTS}
    assert len(seen) > 3
    broker.admin.create_topic(NewTopic(name="t1", partition_count=1))


def test_a_topic_that_is_listed_has_settings_also_while_it_is_being_made_or_deleted() -> None:
    broker = open_broker(disk("/d"))
    seen: list[int] = []

    def another() -> None:
        listed = [topic.name for topic in broker.catalog]
        settings = broker.controller.find_topics(listed)
        assert isinstance(settings, Mapping)
        assert [*settings] == listed
        assert {settings[name].overrides["retention.ms"] for name in listed} <= {"1234"}
        seen.append(len(listed) - len(broker.topics))

    with with_others_in_between(another):
        broker.admin.create_topics(
            [replace(one, overrides={"retention.ms": "1234"}) for one in named(3)]
        )
    assert max(seen) == 3, "they were listed before their files were there"
    with with_others_in_between(another):
        broker.admin.delete_topics([*broker.topics])


@pytest.mark.slow
def test_others_make_and_fill_topics_while_many_are_being_made_and_all_outlive_a_crash() -> None:
    file_system = disk("/d")
    broker = open_broker(file_system)
    numbers = count()

    def another() -> None:
        name = f"other{next(numbers)}"
        broker.admin.create_topic(NewTopic(name=name, partition_count=1))
        broker.appends.append(broker.topics.partition(name, 0), batch(), now_ms=1)
        broker.appends.write_out()
        broker.directories[0].checkpoints.write()

    with with_others_in_between(another):
        broker.admin.create_topics(named(5, partition_count=3))
    made = {topic.name: len(topic.partitions) for topic in broker.topics}
    assert sum(name.startswith("other") for name in made) > 5
    broker.close()
    again = open_broker(file_system)
    assert {topic.name: len(topic.partitions) for topic in again.topics} == made


def test_a_topic_that_grows_is_neither_deleted_nor_grown_by_others_meanwhile() -> None:
    broker = open_broker(disk("/d"))
    topic = broker.admin.create_topic(NewTopic(name="t", partition_count=1))
    seen: list[ErrorCode] = []

    def another() -> None:
        for deed in (lambda: broker.admin.delete_topic(topic), lambda: grow(broker, topic, 99)):
            with pytest.raises(ApiError) as caught:
                deed()
            seen.append(caught.value.code)

    with with_others_in_between(another):
        grow(broker, topic, 20)
    assert len(topic.partitions) == 20
    assert set(seen) == {ErrorCode.REASSIGNMENT_IN_PROGRESS}
    broker.admin.delete_topic(topic)


def grow(broker: Broker, topic: Topic, count: int) -> None:
    growth = TopicGrowth(name=topic.name, partition_count=count)
    (refusal,) = broker.topic_changes.grow_all([growth])
    if refusal is not None:
        raise refusal


def configure(broker: Broker, topic: Topic, retention_ms: str) -> None:
    broker.topic_changes.configure(topic, lambda _: {"retention.ms": retention_ms})


def refusal(deed: Callable[[], object]) -> ErrorCode | None:
    try:
        deed()
    except ApiError as error:
        return error.code
    return None


def test_a_topic_that_is_being_deleted_is_unknown_to_other_changes_of_it() -> None:
    file_system = disk("/d")
    broker = open_broker(file_system)
    broker.admin.create_topics(named(3))
    topic = broker.topics.get("t1")
    seen: list[ErrorCode | None] = []

    def another() -> None:
        seen.append(refusal(lambda: broker.admin.delete_topics([topic])))
        seen.append(refusal(lambda: grow(broker, topic, 9)))
        seen.append(refusal(lambda: configure(broker, topic, "5")))

    with with_others_in_between(another):
        broker.admin.delete_topics([topic])
    assert set(seen) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert {key.topic for key in broker.directories[0].logs} == {"t0", "t2"}
    broker.close()
    assert {topic.name for topic in open_broker(file_system).topics} == {"t0", "t2"}


@pytest.mark.slow
def test_a_topic_made_where_another_of_its_name_has_just_gone_is_written_down() -> None:
    new = NewTopic(name="t", partition_count=1, overrides={"retention.ms": "5"})
    was_refused: set[bool] = set()
    for slices_before in range(12):
        file_system = disk("/d")
        broker = open_broker(file_system)
        old = broker.admin.create_topic(NewTopic(name="t", partition_count=1))
        with TakingTurns() as turns:
            turns.begin(partial(broker.admin.delete_topics, [old]))
            turns.run(slices_before)
            turns.begin(partial(broker.admin.create_topics, [new]))
        topic = broker.topics.find("t")
        was_refused.add(topic is None)
        entry = topics_of(file_system).get("t")
        assert (entry and entry.configs) == (topic and topic.overrides)
        broker.close()
    assert was_refused == {False, True}


def test_the_settings_that_a_topic_has_after_two_changes_at_a_time_are_those_written_down() -> None:
    file_system = disk("/d")
    broker = open_broker(file_system)
    topic = broker.admin.create_topic(NewTopic(name="t", partition_count=1))
    for slices_before in range(8):
        with TakingTurns() as turns:
            for age in ("5", "6", "7"):
                turns.begin(partial(configure, broker, topic, age))
                turns.run(slices_before)
        entry = topics_of(file_system)["t"]
        assert {"retention.ms": str(topic.config.retention_ms)} == entry.configs


def test_changes_that_wait_for_each_other_are_finished_when_the_server_stops() -> None:
    file_system = disk("/d")
    broker = open_broker(file_system)
    with TakingTurns() as turns:
        for one in range(8):
            turns.begin(partial(broker.admin.create_topics, [NewTopic(name=f"t{one}")]))
            turns.run(one + 1)
        turns.requests.finish()
    assert len(broker.topics) == len(topics_of(file_system)) > 1


@pytest.mark.slow
@pytest.mark.parametrize("taken", [at_once, partial(with_others_in_between, lambda: None)])
def test_a_crash_while_topics_are_made_and_deleted_leaves_each_whole_or_none_of_it(
    taken: Callable[[], AbstractContextManager[None]],
) -> None:
    """Written at once, and in turns."""

    def workload(file_system: FileSystem, acknowledged: list[set[str]]) -> None:
        broker = open_broker(file_system, ids=count(1))
        acknowledged.append(set())
        with taken():
            broker.admin.create_topics(named(3, partition_count=2))
        acknowledged.append({"t0", "t1", "t2"})
        with taken():
            broker.admin.delete_topics([broker.topics.get("t0"), broker.topics.get("t2")])
        acknowledged.append({"t1"})

    def check(file_system: FakeFileSystem, acknowledged: list[set[str]]) -> Broker:
        broker = open_broker(file_system)
        there = {topic.name: len(topic.partitions) for topic in broker.topics}
        step = len(acknowledged)
        if step == 3:
            assert there == {"t1": 2}
        else:
            assert set(there.values()) <= {2}
            assert step < 2 or "t1" in there
        return broker

    for point in every_crash_point(workload, make_file_system=lambda: disk("/d"), seeds=1):
        check(point.file_system, point.acknowledged)


@pytest.mark.slow
def test_settings_that_a_failing_disk_refuses_do_not_stay_in_effect() -> None:
    """Of two changes at a time, whichever call fails."""

    def changed(fault: FaultPlan) -> tuple[Broker, FaultyFileSystem]:
        disks = disk("/d", "/e")
        broker = open_broker(disks, "/d", "/e")
        broker.admin.create_topic(NewTopic(name="t", partition_count=1))
        broker.close()
        file_system = FaultyFileSystem(disks, fault)
        broker = open_broker(file_system, "/d", "/e")
        topic = broker.topics.get("t")
        with TakingTurns() as turns:
            for age in ("5", "6"):
                change = partial(configure, broker, topic, age)
                turns.begin(partial(refusal, change))
                turns.run(1)
        return broker, file_system

    never = FaultPlan(at_call=-1, error=OSError(errno.EIO, "a fault of the test"))
    _, probe = changed(never)
    written = [n for n, one in enumerate(probe.calls) if one.path == segment()]
    for at_call in range(written[0], len(probe.calls)):
        broker, _ = changed(replace(never, at_call=at_call))
        topic = broker.topics.get("t")
        default = broker.settings.config.topic_defaults.retention_ms
        assert topic.config.retention_ms == int(topic.overrides.get("retention.ms", default))
