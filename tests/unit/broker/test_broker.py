"""The broker: topics that outlive a crash, appends and fetches with Kafka's codes, waiting."""

from dataclasses import replace
from inspect import isfunction
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UserError
from ottla.base.files import replace_file
from ottla.broker.broker import Broker
from ottla.broker.topics.topics import Topics
from ottla.broker.waiting.fetch_queries import FetchQuery, FetchResult, PartitionQuery
from ottla.broker.waiting.rooms import WaitingFetch
from ottla.metadata.deciding.topics import NewTopic
from ottla.storage.log.offsets import Isolation
from ottla.storage.log.reader import FetchData
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.brokers import NOW_MS, TOPIC_DEFAULTS, batch, disk, open_broker
from tests.support.metadata import segment

LARGE = 1 << 30


def broker_with_topic(**overrides: str) -> Broker:
    broker = open_broker(disk("/d"))
    values: dict[str, str | None] = {
        name.replace("_", "."): text for name, text in overrides.items()
    }
    broker.admin.create_topic(NewTopic(name="t", partition_count=2, overrides=values))
    return broker


def append(broker: Broker, *values: bytes, index: int = 0) -> int:
    info = broker.appends.append(broker.topics.partition("t", index), batch(*values), now_ms=NOW_MS)
    broker.appends.write_out()
    return info.first_offset


def query(*offsets: int, max_size: int = LARGE, min_size: int = 1) -> FetchQuery:
    """Partition i of topic t from the i-th offset."""
    partitions = [
        PartitionQuery("t", index, offset, max_size) for index, offset in enumerate(offsets)
    ]
    return FetchQuery(partitions, max_size, min_size)


def sizes(result: FetchResult) -> list[int]:
    return [
        one.records.size if isinstance(one, FetchData) and one.records else 0
        for one in result.partitions
    ]


def refusal(broker: Broker, wanted: PartitionQuery) -> ErrorCode:
    (result,) = broker.fetches.fetch(FetchQuery([wanted], LARGE)).partitions
    assert isinstance(result, ApiError)
    return result.code


# Appending and fetching


def test_what_is_appended_can_be_fetched_once_it_is_written_out() -> None:
    broker = broker_with_topic()
    broker.appends.append(broker.topics.partition("t", 0), batch(b"a", b"b"), now_ms=NOW_MS)
    assert sizes(broker.fetches.fetch(query(0))) == [0]
    assert broker.appends.has_pending
    broker.appends.write_out()
    assert not broker.appends.has_pending
    result = broker.fetches.fetch(query(0))
    (data,) = result.partitions
    assert isinstance(data, FetchData)
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (2, 2, 0)
    assert data.records is not None
    assert (
        data.records.read() == bytes(batch(b"a", b"b")[:12]) + b"\0\0\0\0" + batch(b"a", b"b")[16:]
    )


def test_an_unknown_partition_refuses_an_append() -> None:
    broker = broker_with_topic()
    for topic, index in (("t", 2), ("u", 0), ("t", -1)):
        with pytest.raises(ApiError) as caught:
            broker.appends.append(broker.topics.partition(topic, index), batch(), now_ms=NOW_MS)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_one_replica_is_too_few_for_a_topic_that_wants_two_in_sync() -> None:
    broker = broker_with_topic(min_insync_replicas="2")
    with pytest.raises(ApiError) as caught:
        broker.appends.append(broker.topics.partition("t", 0), batch(), now_ms=NOW_MS, acks=-1)
    assert caught.value.code is ErrorCode.NOT_ENOUGH_REPLICAS
    assert (
        broker.appends.append(
            broker.topics.partition("t", 0), batch(), now_ms=NOW_MS, acks=1
        ).first_offset
        == 0
    )


def test_a_fetch_fills_up_to_its_limit_but_brings_one_batch_at_least() -> None:
    broker = broker_with_topic()
    size = len(batch(b"x"))
    for index in (0, 0, 0, 1):
        append(broker, b"x", index=index)
    assert sizes(broker.fetches.fetch(query(0, 0))) == [3 * size, size]
    assert sizes(broker.fetches.fetch(query(0, 0, max_size=1))) == [size, 0]
    assert sizes(broker.fetches.fetch(query(3, 0, max_size=1))) == [0, size]


def test_a_hard_limit_holds_even_if_nothing_fits() -> None:
    broker = broker_with_topic()
    append(broker, b"x" * 100)
    hard = query(0, max_size=80)
    hard.is_hard_limit = True
    assert sizes(broker.fetches.fetch(hard)) == [80]


def test_the_brokers_own_limit_caps_what_a_fetch_asks_for() -> None:
    broker = open_broker(disk("/d"), fetch_max_bytes="1024")
    broker.admin.create_topic(NewTopic(name="t"))
    for _ in range(10):
        append(broker, b"x" * 400)
    assert sizes(broker.fetches.fetch(query(0)))[0] <= 1024


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (PartitionQuery("t", 0, 1, LARGE), None),
        (PartitionQuery("t", 0, 2, LARGE), ErrorCode.OFFSET_OUT_OF_RANGE),
        (PartitionQuery("t", 0, -1, LARGE), ErrorCode.OFFSET_OUT_OF_RANGE),
        (PartitionQuery("t", 9, 0, LARGE), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (PartitionQuery(None, 0, 0, LARGE), ErrorCode.UNKNOWN_TOPIC_ID),
        (PartitionQuery("t", 0, 0, LARGE, 0), None),
        (PartitionQuery("t", 0, 0, LARGE, 1), ErrorCode.UNKNOWN_LEADER_EPOCH),
    ],
)
def test_what_cannot_be_fetched_has_kafkas_code(
    wanted: PartitionQuery, code: ErrorCode | None
) -> None:
    broker = broker_with_topic()
    append(broker)
    if code is None:
        assert not broker.fetches.fetch(FetchQuery([wanted], LARGE)).has_error
    else:
        assert refusal(broker, wanted) is code


def test_a_client_with_an_older_leader_epoch_is_fenced() -> None:
    broker = broker_with_topic()
    broker.topics.partition("t", 0).leader_epoch = 5
    wanted = PartitionQuery("t", 0, 0, LARGE, 4)
    assert refusal(broker, wanted) is ErrorCode.FENCED_LEADER_EPOCH


def test_an_error_of_one_partition_does_not_hide_the_others() -> None:
    broker = broker_with_topic()
    append(broker, index=1)
    result = broker.fetches.fetch(query(7, 0))
    assert result.has_error
    assert sizes(result)[1] > 0


# Waiting


def wait(broker: Broker, wanted: FetchQuery, deadline_ms: float = 500) -> WaitingFetch:  # type: ignore[type-arg]
    waiting = broker.fetches.fetch_or_wait(wanted, deadline_ms)
    assert isinstance(waiting, WaitingFetch)
    return waiting


def test_a_fetch_that_finds_enough_does_not_wait() -> None:
    broker = broker_with_topic()
    append(broker)
    assert isinstance(broker.fetches.fetch_or_wait(query(0), 500), FetchResult)
    assert isinstance(broker.fetches.fetch_or_wait(query(1, min_size=0), 500), FetchResult)
    assert isinstance(broker.fetches.fetch_or_wait(query(99), 500), FetchResult)
    assert isinstance(broker.fetches.fetch_or_wait(query(), 500), FetchResult)


def test_an_append_answers_the_fetch_that_waits_for_it_when_it_is_written_out() -> None:
    broker = broker_with_topic()
    waiting = wait(broker, query(0))
    broker.appends.append(broker.topics.partition("t", 0), batch(), now_ms=NOW_MS)
    assert broker.answers.take_answered(0) == []
    broker.appends.write_out()
    assert broker.answers.has_answers
    assert broker.answers.take_answered(0) == [waiting]
    assert waiting.result is not None
    assert waiting.result.size == len(batch())
    assert broker.scheduler.next_deadline_ms is None


@pytest.mark.skipif(not isfunction(Topics.get), reason="compiled calls pass by what counts them")
@pytest.mark.parametrize("uses_id", [False, True], ids=["by name", "by id"])
@pytest.mark.parametrize("is_long", [False, True], ids=["at once", "in turns"])
def test_a_fetch_looks_a_partitions_topic_up_once(
    uses_id: bool, is_long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = broker_with_topic()
    topic_id = broker.topics.get("t").topic_id
    looked_up: list[object] = []
    read: list[str] = []
    for method in (Topics.get, Topics.find_by_id, Topics.name_by_id):

        def counting(topics: Topics, key: Any, method: Any = method) -> Any:
            looked_up.append(key)
            return method(topics, key)

        monkeypatch.setattr(Topics, method.__name__, counting)
    wanted = replace(query(0, 0), may_read=lambda name: not read.append(name))
    if uses_id:
        for one in wanted.partitions:
            one.topic, one.topic_id = None, topic_id
    fetch = broker.fetches.fetch_many_or_wait if is_long else broker.fetches.fetch_or_wait
    assert isinstance(fetch(wanted, 500), WaitingFetch)
    assert looked_up == 2 * [topic_id if uses_id else "t"]
    assert read == ["t", "t"]


def test_a_long_fetch_is_not_read_again_unless_something_has_happened() -> None:
    broker = broker_with_topic()
    waiting, woken, committed = (
        broker.fetches.fetch_many_or_wait(query(0, 0), deadline_ms) for deadline_ms in (1, 2, 2)
    )
    assert isinstance(committed, WaitingFetch)
    assert broker.answers.take_answered(1) == [waiting]
    assert isinstance(waiting, WaitingFetch)
    assert waiting.result is not None
    assert [data.high_watermark for data in waiting.result.partitions] == [0, 0]
    append(broker)
    assert set(broker.answers.take_answered(1)) == {woken, committed}
    assert woken.result is None
    hurried = broker.fetches.fetch_many_or_wait(query(1, 0), 500)
    broker.fetches.waiting.hurry(broker.topics.partition("t", 1))
    assert broker.answers.take_answered(2) == [hurried]
    assert hurried.result is None


def test_a_fetch_waits_until_min_bytes_are_there() -> None:
    broker = broker_with_topic()
    size = len(batch())
    waiting = wait(broker, query(0, 0, min_size=2 * size))
    append(broker, index=0)
    assert broker.answers.take_answered(0) == []
    append(broker, index=1)
    assert broker.answers.take_answered(0) == [waiting]


def test_at_its_deadline_a_fetch_gets_what_there_is() -> None:
    broker = broker_with_topic()
    waiting = wait(broker, query(0, min_size=LARGE), deadline_ms=500)
    append(broker)
    assert broker.scheduler.next_deadline_ms == 500
    assert broker.answers.take_answered(499) == []
    assert broker.answers.take_answered(500) == [waiting]
    assert waiting.result is not None
    assert waiting.result.size == len(batch())


def test_a_cancelled_fetch_is_never_answered() -> None:
    broker = broker_with_topic()
    waiting = wait(broker, query(0))
    broker.fetches.cancel(waiting)
    append(broker)
    assert broker.answers.take_answered(1000) == []


def test_deleting_a_topic_answers_those_who_wait_for_it() -> None:
    broker = broker_with_topic()
    waiting = wait(broker, query(0))
    broker.admin.delete_topic(broker.topics.get("t"))
    assert broker.answers.take_answered(0) == [waiting]
    assert waiting.result is not None
    assert waiting.result.has_error


# Offsets by time


def test_offsets_are_found_by_time_and_by_sentinel() -> None:
    broker = broker_with_topic()
    for number in range(3):
        records = batch(b"v", timestamp_ms=1000 * (number + 1))
        broker.appends.append(broker.topics.partition("t", 0), records, now_ms=NOW_MS)
    broker.appends.write_out()

    def offset_of(timestamp_ms: int) -> int | None:
        found = broker.topics.online_partition("t", 0).find_offset(timestamp_ms)
        return found.offset if found else None

    times = (-1, -2, -3, -4, -5, 0, 1000, 1001, 3000, 3001)
    assert [offset_of(time_ms) for time_ms in times] == [3, 0, 2, 0, -1, 0, 0, 1, 2, None]
    assert (
        broker.topics.online_partition("t", 0).find_offset(-1, isolation=Isolation.LAST_STABLE)
        is not None
    )


# Topics and restarts


def reopened(broker: Broker, file_system: FakeFileSystem) -> Broker:
    broker.close()
    return open_broker(file_system)


def test_topics_their_ids_and_settings_survive_a_restart() -> None:
    file_system = disk("/d")
    broker = open_broker(file_system)
    values: dict[str, str | None] = {"retention.ms": "5"}
    made = broker.admin.create_topic(NewTopic(name="t", partition_count=3, overrides=values))
    broker = reopened(broker, file_system)
    topic = broker.topics.get("t")
    assert topic.topic_id == made.topic_id
    assert sorted(topic.partitions) == [0, 1, 2]
    assert topic.config == replace(TOPIC_DEFAULTS, retention_ms=5)
    assert topic.partitions[0].log.config == topic.config


def test_records_survive_a_restart_and_numbers_continue() -> None:
    file_system = disk("/d")
    broker = open_broker(file_system)
    broker.admin.create_topic(NewTopic(name="t"))
    append(broker, b"a", b"b")
    broker = reopened(broker, file_system)
    assert append(broker, b"c") == 2


def test_producer_ids_continue_after_those_in_the_logs() -> None:
    file_system = disk("/d")
    broker = open_broker(file_system)
    broker.admin.create_topic(NewTopic(name="t"))
    broker.appends.append(
        broker.topics.partition("t", 0), batch(producer_id=123_456), now_ms=NOW_MS
    )
    broker = reopened(broker, file_system)
    assert broker.producer_ids.allocate() == 123_457


def test_partitions_go_where_the_fewest_are() -> None:
    broker = open_broker(disk("/d", "/e"), "/d", "/e")
    broker.admin.create_topic(NewTopic(name="a"))
    broker.admin.create_topic(NewTopic(name="b", partition_count=3))
    assert [len(directory.logs) for directory in broker.directories] == [2, 2]


def test_a_topic_may_span_directories_and_is_whole_after_a_restart() -> None:
    file_system = disk("/d", "/e")
    broker = open_broker(file_system, "/d", "/e")
    broker.admin.create_topic(NewTopic(name="t", partition_count=4))
    broker.close()
    broker = open_broker(file_system, "/d", "/e")
    assert sorted(broker.topics.get("t").partitions) == [0, 1, 2, 3]


def test_a_dry_run_makes_nothing() -> None:
    broker = open_broker(disk("/d"))
    topic = broker.admin.create_topic(NewTopic(name="t", partition_count=3), validate_only=True)
    assert topic.partition_count == 3
    assert len(broker.topics) == 0
    assert broker.directories[0].logs == {}


def test_a_deleted_topic_is_gone_with_its_files_and_may_be_recreated() -> None:
    file_system = disk("/d")
    broker = open_broker(file_system)
    values: dict[str, str | None] = {"retention.ms": "5"}
    old = broker.admin.create_topic(NewTopic(name="t", overrides=values))
    append(broker)
    broker.admin.delete_topic(old)
    assert not [name for name in file_system.list("/d") if name == "t-0"]
    new = broker.admin.create_topic(NewTopic(name="t"))
    assert new.topic_id != old.topic_id
    broker = reopened(broker, file_system)
    assert broker.topics.get("t").config == TOPIC_DEFAULTS
    assert append(broker) == 0


def test_a_request_that_still_holds_a_deleted_topic_finds_no_partition_of_it() -> None:
    broker = broker_with_topic()
    topic = broker.topics.get("t")
    broker.admin.delete_topic(topic)
    with pytest.raises(ApiError) as caught:
        topic.partition(0)
    assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_deletion_can_be_switched_off() -> None:
    broker = open_broker(disk("/d"), delete_topic_enable="false")
    topic = broker.admin.create_topic(NewTopic(name="t"))
    with pytest.raises(ApiError) as caught:
        broker.admin.delete_topic(topic)
    assert caught.value.code is ErrorCode.TOPIC_DELETION_DISABLED


def test_a_topic_is_made_with_the_brokers_defaults() -> None:
    broker = open_broker(disk("/d"), num_partitions="3")
    assert broker.admin.create_topic(NewTopic(name="t")).partition_count == 3


def test_a_damaged_metadata_log_is_named_and_what_is_before_the_damage_is_served(
    caplog: pytest.LogCaptureFixture,
) -> None:
    file_system = disk("/d")
    broker = open_broker(file_system)
    for name in ("t", "u"):
        broker.admin.create_topic(NewTopic(name=name, partition_count=1))
    broker.close()
    file = file_system.open(segment(), writable=True)
    place = file.size() - 5
    file.pwrite(bytes([file.pread(1, place)[0] ^ 1]), place)
    broker = open_broker(file_system)
    assert f"{segment()} at byte " in caplog.text
    assert {one.name for one in broker.topics} == {"t", "u"}
    assert list(broker.unconfirmed.unknown) == ["t", "u"]
    with pytest.raises(ApiError, match=r"be read to its end.*ottla adopt") as caught:
        broker.admin.create_topic(NewTopic(name="v"))
    assert caught.value.code is ErrorCode.POLICY_VIOLATION
    assert broker.appends.append(broker.topics.partition("t", 0), batch(), now_ms=NOW_MS).size


def test_directories_of_two_clusters_make_no_broker() -> None:
    file_system = disk("/d", "/e")
    open_broker(file_system, "/d").close()
    other = file_system.crash(CrashMode.KEEP)
    open_broker(other, "/e").close()
    properties = other.open("/e/meta.properties")
    text = properties.pread(properties.size(), 0).replace(b"a-cluster", b"b-cluster")
    replace_file(other, "/e/meta.properties", text)
    with pytest.raises(UserError, match="another cluster"):
        open_broker(other, "/d", "/e")


def test_a_directory_named_twice_is_refused() -> None:
    with pytest.raises(UserError, match="only once"):
        open_broker(disk("/d"), "/d", "/d")
