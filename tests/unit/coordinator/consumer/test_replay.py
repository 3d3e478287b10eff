"""What the log says of a group is the group, in whatever order compaction leaves it."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import MemberState
from ottla.coordinator.offsets.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    decode_key,
    decode_value,
)
from tests.support.consumer_groups import SESSION_MS, ConsumerRunner, FakeCatalog, image
from tests.support.groups import GROUP, NO_DELAY, EncodedRecord

MEMBERS = "mnop"


def compacted(log: list[EncodedRecord]) -> list[EncodedRecord]:
    """The last record of each key, where it was written; tombstones are gone."""
    last = {key: number for number, (key, _) in enumerate(log)}
    return [
        (key, value)
        for number, (key, value) in enumerate(log)
        if last[key] == number and value is not None
    ]


def images(runner: ConsumerRunner) -> dict[str, Any]:
    return {name: image(group) for name, group in runner.machine.groups.items()}


steps = st.lists(
    st.one_of(
        st.tuples(
            st.just("enter"), st.sampled_from(MEMBERS), st.sampled_from(["a", "ab", "", "b"])
        ),
        st.tuples(st.just("match"), st.sampled_from(MEMBERS), st.sampled_from(["a", ".", "[bc]"])),
        st.tuples(st.just("static"), st.sampled_from(MEMBERS), st.sampled_from("xy")),
        st.tuples(st.just("beat"), st.sampled_from(MEMBERS), st.booleans()),
        st.tuples(st.just("leave"), st.sampled_from(MEMBERS), st.sampled_from([-1, -2])),
        st.tuples(st.just("topic"), st.sampled_from("abc"), st.integers(0, 4)),
        st.tuples(st.just("wait"), st.just(""), st.sampled_from([1000, SESSION_MS])),
    ),
    max_size=25,
)


def take(runner: ConsumerRunner, what: str, who: str, how: Any) -> None:
    if what == "enter":
        runner.enter(who, how)
    elif what == "match":
        runner.enter(who, None, topic_regex=how)
    elif what == "static":
        runner.enter(who + how, instance_id=how)
    elif what == "leave":
        names = runner.machine.groups[GROUP].static_ids if runner.told else {}
        instance_id = next((name for name, one in names.items() if one[:1] == who), None)
        member_id = names.get(instance_id or "", who)
        runner.leave(member_id, how, instance_id=instance_id)
    elif what == "beat" and who in runner.told:
        group = runner.machine.groups.get(GROUP)
        member = group and group.members.get(who)
        runner.beat(who, owned=member.assigned if member and how else None)
    elif what == "topic":
        runner.catalog.put(who, how)
    elif what == "wait":
        runner.advance(how)


@pytest.mark.slow
@given(steps=steps)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_a_restart_brings_everything_back(steps: list[tuple[str, str, Any]]) -> None:
    runner = ConsumerRunner(FakeCatalog(a=3, b=2))
    for what, who, how in steps:
        take(runner, what, who, how)
        again = ConsumerRunner(runner.catalog, NO_DELAY, list(runner.log))
        assert images(again) == images(runner)
    again = ConsumerRunner(runner.catalog, NO_DELAY, compacted(runner.log))
    assert images(again) == images(runner)


@pytest.mark.slow
@given(steps=steps)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_no_partition_ever_has_two_holders(steps: list[tuple[str, str, Any]]) -> None:
    runner = ConsumerRunner(FakeCatalog(a=3, b=2))
    for what, who, how in steps:
        take(runner, what, who, how)
        for group in runner.machine.groups.values():
            held = [place for one in group.members.values() for place in one.holds]
            assert len(held) == len(set(held))
            assert group.owners.keys() == set(held)


def test_an_operation_changes_nothing_before_its_records_are_replayed() -> None:
    runner = ConsumerRunner()
    runner.enter("m")
    before = image(runner.group)
    log = list(runner.log)
    runner.run = lambda decision: decision.answer  # type: ignore[method-assign]
    runner.enter("n")
    runner.leave("m")
    assert image(runner.group) == before
    assert runner.log == log


def test_a_state_of_a_newer_kafka_is_unknown() -> None:
    group = ConsumerGroup(GROUP)
    key = ConsumerGroupCurrentMemberAssignmentKey(group_id=GROUP, member_id="m")
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=1,
        previous_member_epoch=0,
        state=9,
        assigned_partitions=[],
        partitions_pending_revocation=[],
    )
    runner = ConsumerRunner()
    runner.enter("m")
    group = runner.group
    group.replay(key, value)
    assert group.members["m"].state is MemberState.UNKNOWN


def test_an_epoch_that_kafka_4_wrote_with_a_hash_is_read() -> None:
    tagged = b"\0\0" + b"\0\0\0\7" + b"\1" + b"\0\x08" + bytes(8)
    value = decode_value(ConsumerGroupMetadataKey(group_id=GROUP), tagged)
    assert isinstance(value, ConsumerGroupMetadataValue)
    assert value.epoch == 7
    assert decode_key(b"\0\3\0\1g") == ConsumerGroupMetadataKey(group_id="g")
