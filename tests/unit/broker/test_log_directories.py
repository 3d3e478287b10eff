"""Several log directories as one broker: which are taken, which are away, what comes back."""

import errno
from collections.abc import Callable

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UserError
from ottla.base.files import join, replace_file
from ottla.broker.broker import Broker
from ottla.broker.configs.config_changes import Alteration, ConfigChange
from ottla.broker.configs.settings import ConfigSource
from ottla.metadata.deciding.topics import NewTopic, TopicGrowth
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.storage.files.filenames import BOOT_NOTE
from ottla.storage.files.meta_properties import read_meta_properties
from ottla.testing import CrashMode, FakeFileSystem
from ottla.testing.faults import FaultPlan, FaultyFileSystem
from tests.support.asking import Asker
from tests.support.brokers import NOW_MS, at, batch, disk, open_broker


def opened(file_system: FakeFileSystem, *paths: str) -> Broker:
    return open_broker(file_system, *(paths or ("/d", "/e")))


def with_topic(count: int = 2) -> FakeFileSystem:
    """Topic t, whose even partitions lie in /d and whose odd ones in /e, with a record each."""
    file_system = disk("/d", "/e")
    broker = opened(file_system)
    broker.admin.create_topic(NewTopic(name="t", partition_count=count))
    for index in range(count):
        broker.appends.append(
            broker.topics.partition("t", index), batch(b"%d" % index), now_ms=NOW_MS
        )
    broker.close()
    return file_system.crash(CrashMode.KEEP)


def damage_properties(file_system: FakeFileSystem, path: str) -> None:
    replace_file(file_system, join(path, "meta.properties"), b"version=7\n")


def hide_properties(file_system: FakeFileSystem, path: str) -> None:
    """Reading it is an error of the system from now on."""
    file_system.rename(join(path, "meta.properties"), join(path, "hidden.tmp"))
    file_system.make_directory(join(path, "meta.properties"))


def mend(file_system: FakeFileSystem, path: str) -> None:
    file_system.remove_directory(join(path, "meta.properties"))
    file_system.rename(join(path, "hidden.tmp"), join(path, "meta.properties"))


def refused(deed: Callable[[], object]) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        deed()
    return caught.value.code


def stop(broker: Broker, file_system: FakeFileSystem) -> FakeFileSystem:
    broker.close()
    return file_system.crash(CrashMode.KEEP)


# Names


@pytest.mark.parametrize("twin", ["/d", "/d/", "/e/../d", "//d", "/./d"])
def test_a_directory_that_is_named_twice_is_refused_with_both_names(twin: str) -> None:
    file_system = disk("/d", "/e")
    with pytest.raises(UserError) as caught:
        opened(file_system, "/d", twin)
    assert str(caught.value) == (f"/d and {twin} are the same log directory; name each only once")
    assert file_system.list("/d") == []


def test_a_directory_that_is_a_copy_of_another_is_refused() -> None:
    file_system = with_topic()
    content = file_system.open("/d/meta.properties").pread(1000, 0)
    replace_file(file_system, "/e/meta.properties", content)
    file_system.set_modified_ms("/e/meta.properties", 1 << 45)
    with pytest.raises(UserError, match=r"/d and /e have the same directory\.id"):
        opened(file_system)


def test_a_directory_without_an_id_is_given_one() -> None:
    file_system = with_topic()
    before = file_system.open("/e/meta.properties").pread(1000, 0)
    lines = [one for one in before.split(b"\n") if not one.startswith(b"directory.id")]
    replace_file(file_system, "/e/meta.properties", b"\n".join(lines))
    broker = opened(file_system)
    properties = read_meta_properties(file_system, "/e/meta.properties")
    assert properties is not None
    assert properties.directory_id == broker.directories[1].directory_id is not None
    assert properties.directory_id != broker.directories[0].directory_id


# Away from the start


@pytest.mark.parametrize("spoil", [damage_properties, hide_properties])
def test_a_directory_that_cannot_be_read_does_not_stop_the_start(
    spoil: Callable[[FakeFileSystem, str], None],
) -> None:
    file_system = with_topic()
    spoil(file_system, "/e")
    broker = opened(file_system)
    assert [one.is_offline for one in broker.directories] == [False, True]
    broker.appends.append(broker.topics.partition("t", 0), batch(), now_ms=NOW_MS)
    for deed in (
        lambda: broker.appends.append(broker.topics.partition("t", 1), batch(), now_ms=NOW_MS),
        lambda: broker.topics.online_partition("t", 1).find_offset(-1),
    ):
        assert refused(deed) is ErrorCode.KAFKA_STORAGE_ERROR
    assert broker.topics.get("t").known_indexes == [0, 1]
    assert broker.topics.get("t").leaderless_indexes == [1]


def test_what_lay_in_a_directory_that_was_away_is_there_when_it_comes_back() -> None:
    file_system = with_topic()
    hide_properties(file_system, "/e")
    broker = opened(file_system)
    broker.admin.create_topic(NewTopic(name="u", partition_count=2))
    broker.admin.grow_topic(TopicGrowth(name="t", partition_count=3))
    after = stop(broker, file_system)
    mend(after, "/e")
    broker = opened(after)
    ends = {
        index: one.log.log_end_offset for index, one in broker.topics.get("t").partitions.items()
    }
    assert ends == {0: 1, 1: 1, 2: 0}
    assert {one.directory.path for one in broker.topics.get("u").partitions.values()} == {"/d"}


def test_nothing_is_recreated_that_may_lie_in_a_directory_that_is_away() -> None:
    file_system = with_topic()
    hide_properties(file_system, "/e")
    for _ in range(2):
        broker = opened(file_system)
        assert list(broker.directories[0].logs) == [("t", 0)]
        file_system = stop(broker, file_system)


def test_when_no_directory_is_left_the_start_ends_with_every_reason() -> None:
    file_system = with_topic()
    hide_properties(file_system, "/d")
    damage_properties(file_system, "/e")
    with pytest.raises(
        UserError, match=r"no log directory can be used: /d/meta.properties: .*; /e/meta"
    ):
        opened(file_system)


def test_a_directory_that_another_process_holds_stops_the_start() -> None:
    file_system = with_topic()
    opened(file_system, "/e")
    with pytest.raises(UserError, match="/e is in use by another process"):
        opened(file_system)


def test_a_disk_that_fails_while_it_is_opened_is_offline_and_loses_nothing() -> None:
    file_system = with_topic()
    probe = FaultyFileSystem(file_system.crash(CrashMode.KEEP))
    opened_on(probe)
    # Without the note of the boot, less is known after a kill.
    in_e = [
        number
        for number, call in enumerate(probe.calls)
        if call.path.startswith("/e") and BOOT_NOTE not in call.path
    ]
    assert in_e
    for at_call in in_e:
        copy = file_system.crash(CrashMode.KEEP)
        plan = FaultPlan(at_call=at_call, error=OSError(errno.EIO, "a fault of the test"))
        broker = opened_on(FaultyFileSystem(copy, plan))
        assert [one.is_offline for one in broker.directories] == [False, True]
        assert broker.topics.online_partition("t", 0).find_offset(-1) is not None
        again = opened(copy.crash(CrashMode.KEEP))
        found = again.topics.online_partition("t", 1).find_offset(-1)
        assert found is not None
        assert found.offset == 1


def opened_on(file_system: FaultyFileSystem) -> Broker:
    return open_broker(file_system, "/d", "/e")


# Deleted while away


def names(file_system: FakeFileSystem, path: str) -> list[str]:
    return [name for name in file_system.list(path) if name.startswith("t-")]


def test_a_topic_deleted_while_a_directory_was_away_is_removed_there_and_stays_gone() -> None:
    file_system = with_topic()
    hide_properties(file_system, "/e")
    broker = opened(file_system)
    broker.admin.delete_topic(broker.topics.get("t"))
    after = stop(broker, file_system)
    broker = opened(after)
    assert broker.topics.find("t") is None
    after = stop(broker, after)
    mend(after, "/e")
    broker = opened(after)
    assert broker.topics.find("t") is None
    (deleted,) = names(after, "/e")
    assert deleted.startswith("t-1.")
    assert deleted.endswith("-delete")
    for time_ms in (0.0, 1e9, 2e9):
        broker.scheduler.run_due(at(time_ms))
    assert names(after, "/e") == []
    assert names(after, "/d") == []


def test_a_recreated_topic_while_a_directory_was_away_keeps_nothing_of_the_old_one() -> None:
    file_system = with_topic()
    hide_properties(file_system, "/e")
    broker = opened(file_system)
    broker.admin.delete_topic(broker.topics.get("t"))
    topic_id = broker.admin.create_topic(NewTopic(name="t", partition_count=2)).topic_id
    after = stop(broker, file_system)
    mend(after, "/e")
    for _ in range(2):
        broker = opened(after)
        topic = broker.topics.get("t")
        assert topic.topic_id == topic_id
        assert [one.log.log_end_offset for one in topic.partitions.values()] == [0, 0]
        assert all(name.endswith("-delete") for name in names(after, "/e"))
        after = stop(broker, after)


def test_a_topic_is_deleted_though_a_directory_has_failed_and_is_removed_there_later() -> None:
    file_system = with_topic()
    broker = opened(file_system)
    broker.directories[1].health.fail(OSError(errno.EIO, "broken"))
    broker.admin.delete_topic(broker.topics.get("t"))
    after = stop(broker, file_system)
    broker = opened(after)
    assert broker.topics.find("t") is None
    assert [name.endswith("-delete") for name in names(after, "/e")] == [True]


# Placement


def test_new_partitions_go_where_the_fewest_are() -> None:
    broker = opened(disk("/d", "/e", "/f"), "/d", "/e", "/f")
    broker.admin.create_topic(NewTopic(name="t", partition_count=7))
    assert [len(one.logs) for one in broker.directories] == [3, 2, 2]
    broker.directories[1].health.fail(OSError(errno.EIO, "broken"))
    broker.admin.create_topic(NewTopic(name="u", partition_count=3))
    assert [len(one.logs) for one in broker.directories] == [4, 2, 4]


def test_two_directories_with_the_log_of_one_partition_stop_the_start() -> None:
    file_system = with_topic()
    file_system.make_directory("/e/t-0")
    metadata = file_system.open("/d/t-0/partition.metadata").pread(1000, 0)
    replace_file(file_system, "/e/t-0/partition.metadata", metadata)
    with pytest.raises(UserError, match="/d/t-0 and /e/t-0 are both the log"):
        opened(file_system)


# Cordons


def cordoned(value: str) -> Broker:
    return open_broker(disk("/d", "/e"), "/d", "/e", cordoned_log_dirs=value)


def test_where_every_directory_is_cordoned_nothing_is_made_or_grown() -> None:
    for value in ("*", "/d,/e"):
        broker = cordoned(value)
        code = refused(lambda broker=broker: broker.admin.create_topic(NewTopic(name="t")))
        assert code is ErrorCode.INVALID_REPLICATION_FACTOR
        assert len(broker.topics) == 0


def test_a_cordon_is_put_up_and_taken_down_while_the_broker_runs() -> None:
    broker = cordoned("")
    broker.admin.create_topic(NewTopic(name="t"))
    for value, works in (("/d,/e", False), ("/d", True), ("*", False), ("", True)):
        change = ConfigChange(name="cordoned.log.dirs", value=value)
        broker.admin.alter_broker(ConfigSource.BROKER, Alteration(changes=[change]))
        count = broker.topics.get("t").partition_count + 1
        growth = TopicGrowth(name="t", partition_count=count)
        if works:
            broker.admin.grow_topic(growth)
        else:
            code = refused(lambda growth=growth: broker.admin.grow_topic(growth))
            assert code is ErrorCode.INVALID_REPLICATION_FACTOR


@pytest.mark.parametrize("value", ["/f", "*,/d", "/d,/f"])
def test_only_a_log_directory_can_be_cordoned(value: str) -> None:
    with pytest.raises(UserError, match=r"cordoned\.log\.dirs=.*must be one of log\.dirs"):
        cordoned(value)
    change = ConfigChange(name="cordoned.log.dirs", value=value)
    broker = cordoned("")
    code = refused(
        lambda: broker.admin.alter_broker(ConfigSource.BROKER, Alteration(changes=[change]))
    )
    assert code is ErrorCode.INVALID_REQUEST


# Groups


def coordinators(broker: Broker) -> list[int]:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[f"g{n}" for n in range(20)])
    return [one.error_code for one in Asker(broker).ask(request, 4).coordinators]


def test_a_group_whose_commits_are_away_has_no_coordinator_rather_than_no_commits() -> None:
    file_system = disk("/d", "/e")
    broker = opened(file_system)
    assert set(coordinators(broker)) == {0}
    broker.admin.create_topic(NewTopic(name="__consumer_offsets", partition_count=2))
    assert set(coordinators(broker)) == {0}
    after = stop(broker, file_system)
    hide_properties(after, "/e")
    found = coordinators(opened(after))
    assert set(found) == {0, ErrorCode.COORDINATOR_NOT_AVAILABLE}
    mend(after, "/e")
    broker = opened(after.crash(CrashMode.KEEP))
    assert set(coordinators(broker)) == {0}
    broker.directories[1].health.fail(OSError(errno.EIO, "broken"))
    assert coordinators(broker) == found
