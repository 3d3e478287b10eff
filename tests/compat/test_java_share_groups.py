"""Apache Kafka's Java client in share groups: its consumer takes records, its administrator sees
where groups are, sets that, and deletes them.
"""

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from tests.compat.java import (
    HASTE_S,
    array_list,
    duration,
    java_class,
    kafka,
    needs_java_client,
    needs_version_4,
    wait,
)
from tests.compat.java_clients import (
    administrator,
    create_topic,
    java_map,
    place,
    record,
    send_all,
)
from tests.integration.cli.support import serving
from tests.support.patience import wait_until

pytestmark = [pytest.mark.slow, needs_java_client, needs_version_4]

OPTIONS = ["-o", "offsets.topic.num.partitions=2"]
OPTIONS += ["-o", "share.coordinator.state.topic.num.partitions=2"]
names = (f"name{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("java") / "data"
    with serving(directory, *OPTIONS) as (address, _):
        yield address


@pytest.fixture(scope="module")
def admin(address: str) -> Iterator[Any]:
    with administrator(address) as found:
        yield found


@pytest.fixture
def topic(address: str) -> str:
    """One with ten records in its first partition of two."""
    name = next(names)
    create_topic(address, name, 2)
    send_all(address, [record(name, f"v{number}", partition=0) for number in range(10)])
    return name


def share_consumer(address: str, group: str) -> Any:
    text = kafka("common.serialization.StringDeserializer")
    settings = {"bootstrap.servers": address, "group.id": group}
    return kafka("clients.consumer.KafkaShareConsumer")(java_map(settings), text(), text())


def options(name: str) -> Any:
    return kafka(f"clients.admin.{name}")()


def begin_at(admin: Any, group: str, **starts: int) -> None:
    wait(admin.alterShareGroupOffsets(group, offsets(**starts)).all())


def offsets(**starts: int) -> Any:
    """Start offsets of first partitions, by topic."""
    long = java_class("java.lang.Long")
    return java_map({place(topic): long.valueOf(start) for topic, start in starts.items()})


def where(admin: Any, group: str) -> dict[str, tuple[int, int]]:
    """The start offset and the lag of a group by topic, in their first partitions."""
    spec = kafka("clients.admin.ListShareGroupOffsetsSpec")()
    found = wait(admin.listShareGroupOffsets(java_map({group: spec})).partitionsToOffsetInfo(group))
    return {
        str(one.topic()): (info.startOffset(), info.lag().orElse(None))
        for one, info in dict(found).items()
        if one.partition() == 0
    }


def test_a_consumer_takes_records_and_its_group_is_described(
    address: str, admin: Any, topic: str
) -> None:
    group = next(names)
    begin_at(admin, group, **{topic: 0})
    reader = share_consumer(address, group)
    reader.subscribe(array_list([topic]))
    found: list[str] = []
    while len(found) < 10:
        found += [str(one.value()) for one in reader.poll(duration(HASTE_S))]
    assert found == [f"v{number}" for number in range(10)]
    reader.commitSync()

    def assigned() -> set[int]:
        reader.poll(duration(0))
        (described,) = wait(admin.describeShareGroups(array_list([group])).all()).values()
        assert str(described.groupState()) == "Stable"
        (member,) = described.members()
        return {one.partition() for one in member.assignment().topicPartitions()}

    wait_until(lambda: assigned() == {0, 1}, "the state of the other partition begins, too")
    listed = wait(admin.listGroups(options("ListGroupsOptions").forShareGroups()).all())
    assert group in {str(one.groupId()) for one in listed}
    reader.close(duration(HASTE_S))
    assert where(admin, group)[topic] == (10, 0)


def test_an_administrator_sets_where_a_group_begins_and_deletes_it(
    address: str, admin: Any, topic: str
) -> None:
    group = next(names)
    begin_at(admin, group, **{topic: 4})
    assert where(admin, group) == {topic: (4, 6)}
    begin_at(admin, group, **{topic: 1})
    assert where(admin, group) == {topic: (1, 9)}
    names_of = java_class("java.util.HashSet")(array_list([topic]))
    wait(admin.deleteShareGroupOffsets(group, names_of).all())
    assert where(admin, group) == {}
    wait(admin.deleteShareGroups(array_list([group])).all())
    with pytest.raises(kafka("common.errors.GroupIdNotFoundException")):
        wait(admin.describeShareGroups(array_list([group])).all())


def test_a_group_with_members_keeps_its_place(address: str, admin: Any, topic: str) -> None:
    group = next(names)
    reader = share_consumer(address, group)
    reader.subscribe(array_list([topic]))
    reader.poll(duration(1))
    for refused in (
        admin.alterShareGroupOffsets(group, offsets(**{topic: 1})).all(),
        admin.deleteShareGroups(array_list([group])).all(),
    ):
        with pytest.raises(kafka("common.errors.GroupNotEmptyException")):
            wait(refused)
    reader.close(duration(HASTE_S))


def test_settings_of_a_group_are_set(address: str, admin: Any) -> None:
    group = next(names)
    resource = kafka("common.config.ConfigResource")(
        kafka("common.config.ConfigResource$Type").GROUP, group
    )
    entry = kafka("clients.admin.ConfigEntry")("share.record.lock.duration.ms", "20000")
    kind = kafka("clients.admin.AlterConfigOp$OpType").SET
    change = array_list([kafka("clients.admin.AlterConfigOp")(entry, kind)])
    wait(admin.incrementalAlterConfigs(java_map({resource: change})).all())
    (found,) = wait(admin.describeConfigs(array_list([resource])).all()).values()
    assert found.get("share.record.lock.duration.ms").value() == "20000"
