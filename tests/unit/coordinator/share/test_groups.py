"""Members of share groups come, share partitions, and go; and a restart brings all of it back."""

import random
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.config.group import GroupConfig
from ottla.coordinator.share.group import ShareGroup
from tests.support.groups import GROUP, FakeCatalog, topic_id
from tests.support.share_groups import SESSION_MS, ShareRunner


@pytest.fixture
def runner() -> ShareRunner:
    return ShareRunner()


def image(group: ShareGroup) -> dict[str, Any]:
    """All that a restart must bring back of a group."""
    return {
        "epoch": group.epoch,
        "hash": group.metadata_hash,
        "assignment epoch": group.assignment_epoch,
        "members": group.members,
        "targets": group.targets,
        "initializing": group.initializing,
        "initialized": group.initialized,
        "deleting": group.deleting,
    }


def test_a_member_has_partitions_as_soon_as_their_states_have_begun(runner: ShareRunner) -> None:
    runner.initializes = False
    first = runner.enter("m")
    assert (first.error, first.epoch, first.assigned) == (ErrorCode.NONE, 1, frozenset())
    assert [one[2:] for one in first.to_initialize] == [(index, -1) for index in range(4)]
    assert first.state_epoch == 1
    runner.initialized(first.to_initialize[:3])
    runner.advance(1000)
    assert len(runner.beat("m").assigned or ()) == 3
    assert runner.has("m") == {"a0", "a1", "a2"}


def test_a_first_member_waits_neither_for_an_interval_nor_for_an_assignment(
    runner: ShareRunner,
) -> None:
    assert runner.enter("m").heartbeat_interval_ms == 500, "its partitions come shortly"
    again = runner.beat("m")
    assert len(again.assigned or ()) == 4
    assert again.heartbeat_interval_ms == 5000


def test_who_has_nothing_new_to_say_is_told_nothing_new_and_nothing_is_written(
    runner: ShareRunner,
) -> None:
    runner.enter("m")
    runner.settle("m")
    written = len(runner.log)
    answer = runner.beat("m")
    assert (answer.error, answer.assigned, answer.to_initialize) == (ErrorCode.NONE, None, ())
    assert len(runner.log) == written


def test_members_share_partitions_without_waiting_for_each_other(runner: ShareRunner) -> None:
    runner.enter("m")
    runner.settle("m")
    runner.enter("n")
    runner.settle("n")
    assert len(runner.has("n")) == 2
    assert len(runner.has("m")) == 4, "it is not told before its next heartbeat"
    runner.settle("m")
    assert runner.has("m") | runner.has("n") == {"a0", "a1", "a2", "a3"}


def test_more_members_than_partitions_have_one_each() -> None:
    runner = ShareRunner(FakeCatalog(a=2))
    names = ["k", "l", "m", "n"]
    for name in names:
        runner.enter(name)
    runner.settle(*names)
    assert sorted(len(runner.has(name)) for name in names) == [1, 1, 1, 1]


def test_assignments_are_made_once_an_interval(runner: ShareRunner) -> None:
    runner.enter("m")
    runner.settle("m")
    runner.enter("n")
    before = runner.group.assignment_epoch
    runner.enter("o")
    assert runner.group.assignment_epoch == before
    runner.advance(1000)
    runner.beat("n")
    assert runner.group.assignment_epoch == runner.group.epoch > before


def test_a_new_partition_of_a_known_topic_begins_at_its_beginning(runner: ShareRunner) -> None:
    runner.enter("m")
    runner.settle("m")
    runner.topics.put("a", 6)
    answer = runner.beat("m")
    assert [one[2:] for one in answer.to_initialize] == [(4, 0), (5, 0)]
    runner.settle("m")
    assert runner.has("m") == {"a0", "a1", "a2", "a3", "a4", "a5"}


def test_a_topic_that_comes_later_is_found(runner: ShareRunner) -> None:
    runner.enter("m", "ab")
    runner.settle("m")
    runner.topics.put("b", 1)
    runner.settle("m")
    assert "b0" in runner.has("m")


def test_a_topic_that_is_deleted_is_forgotten_and_one_of_its_name_begins_anew(
    runner: ShareRunner,
) -> None:
    runner.enter("m", "ab")
    runner.topics.put("b", 1)
    runner.settle("m")
    runner.topics.remove("b")
    runner.settle("m")
    assert runner.has("m") == {"a0", "a1", "a2", "a3"}
    assert topic_id("b") not in runner.group.initialized
    runner.topics.put("b", 1)
    assert [one[2:] for one in runner.beat("m").to_initialize] == [(0, -1)]


def test_states_that_did_not_begin_are_asked_for_again_and_after_a_restart_at_once(
    runner: ShareRunner,
) -> None:
    runner.initializes = False
    asked = runner.enter("m").to_initialize
    runner.advance(29_999)
    assert runner.beat("m").to_initialize == ()
    runner.advance(1)
    assert runner.beat("m").to_initialize == asked
    again = ShareRunner(runner.topics, runner.log)
    again.told, again.initializes = runner.told, False
    assert again.beat("m").to_initialize == asked


def test_a_member_that_is_silent_for_too_long_is_one_no_more(runner: ShareRunner) -> None:
    runner.enter("m")
    runner.enter("n")
    runner.advance(SESSION_MS - 1)
    runner.beat("m")
    runner.advance(1)
    assert [*runner.group.members] == ["m"]
    runner.settle("m")
    assert runner.has("m") == {"a0", "a1", "a2", "a3"}
    assert runner.beat("n").error is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_that_leaves_is_not_waited_for(runner: ShareRunner) -> None:
    runner.enter("m")
    runner.settle("m")
    assert runner.beat("m", -1).error is ErrorCode.NONE
    assert runner.group.is_empty
    assert runner.group.listing().state == "Empty"
    runner.enter("n")
    runner.settle("n")
    assert len(runner.has("n")) == 4


def test_the_epoch_before_is_taken_since_an_answer_may_be_lost(runner: ShareRunner) -> None:
    runner.enter("m")
    runner.settle("m")
    epoch = runner.told["m"].epoch
    runner.enter("n")
    runner.settle("n", "m")
    late = runner.beat("m", epoch)
    assert (late.error, late.epoch) == (ErrorCode.NONE, runner.group.epoch)
    assert runner.beat("m", epoch + 100).error is ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize(
    "options",
    [
        {"group_id": " "},
        {"member_id": ""},
        {"member_id": "m" * 37},
        {"rack_id": ""},
        {"epoch": -2},
        {"topics": None},
        {"topics": ""},
    ],
)
def test_what_makes_no_sense_is_refused(runner: ShareRunner, options: dict[str, Any]) -> None:
    given = {"member_id": "m", "epoch": 0, "topics": "a", **options}
    assert runner.beat(**given).error is ErrorCode.INVALID_REQUEST
    assert runner.log == []


def test_a_full_group_takes_nobody_else(runner: ShareRunner) -> None:
    for number in range(runner.config.group_share_max_size):
        assert runner.enter(f"m{number}").error is ErrorCode.NONE
    assert runner.enter("n").error is ErrorCode.GROUP_MAX_SIZE_REACHED
    assert runner.beat("m0").error is ErrorCode.NONE


def test_a_group_has_settings_of_its_own(runner: ShareRunner) -> None:
    runner.group_configs[GROUP] = GroupConfig(
        share_heartbeat_interval_ms=7000,
        share_session_timeout_ms=60_000,
        share_assignment_interval_ms=0,
    )
    runner.enter("m")
    assert runner.beat("m").heartbeat_interval_ms == 7000
    runner.enter("n")
    assert runner.group.assignment_epoch == runner.group.epoch
    runner.beat("m")
    runner.advance(59_999)
    assert [*runner.group.members] == ["m", "n"]
    runner.advance(1)
    assert runner.group.is_empty


def test_a_group_id_belongs_to_one_protocol(runner: ShareRunner) -> None:
    runner.enter("m")
    runner.beat("m", -1)
    joined = runner.join("p")
    assert joined is not None
    assert joined.error is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert runner.commit() is ErrorCode.GROUP_ID_NOT_FOUND
    assert runner.machine.describe(GROUP) is None
    assert runner.machine.shares.describe(GROUP).group_id == GROUP


def test_a_group_with_committed_offsets_is_no_share_group(runner: ShareRunner) -> None:
    runner.commit()
    assert runner.enter("m").error is ErrorCode.GROUP_ID_NOT_FOUND
    assert runner.beat("m", 5, group_id="none").error is ErrorCode.GROUP_ID_NOT_FOUND


def test_an_empty_group_stays_until_it_is_deleted(runner: ShareRunner) -> None:
    runner.enter("m")
    runner.beat("m", -1)
    runner.advance(30 * 24 * 3_600_000)
    assert GROUP in runner.machine.groups
    answer = runner.run(runner.machine.delete_group(GROUP, runner.at))
    assert answer is not None
    assert answer.error is ErrorCode.NONE
    assert ShareRunner(runner.topics, runner.log).machine.groups == {}


def test_members_are_described_with_what_they_have(runner: ShareRunner) -> None:
    runner.enter("m", "ab")
    runner.settle("m")
    described = runner.machine.shares.describe(GROUP)
    assert (described.state, described.epoch) == ("Stable", runner.group.epoch)
    (member,) = described.members
    assert (member.member_id, member.topic_names) == ("m", ["a", "b"])
    assert len(member.assigned) == 4


@pytest.mark.parametrize("seed", range(10))
def test_a_restart_brings_back_what_was_there(seed: int) -> None:
    chance = random.Random(seed)
    runner = ShareRunner(FakeCatalog(a=3, b=1))
    for _ in range(60):
        member_id = chance.choice("mnop")
        runner.initializes = chance.random() < 0.8
        match chance.randrange(5):
            case 0:
                runner.enter(member_id, chance.choice(["a", "b", "ab"]))
            case 1 | 2 if member_id in runner.told:
                runner.beat(member_id)
            case 3:
                runner.advance(chance.choice([500, 5000, 50_000]))
            case 4 if member_id in runner.told and chance.random() < 0.5:
                runner.beat(member_id, -1)
        if GROUP in runner.machine.groups:
            again = ShareRunner(runner.topics, [*runner.log])
            assert image(again.group) == image(runner.group)
            for its in runner.group.targets.values():
                for topic, index in its:
                    assert index in runner.group.initialized[topic].partitions
