"""Where a share group is: set anew, or deleted, by an administrator, and kept over a crash."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.coordinator.requests import MemberClaim
from ottla.coordinator.share.requests import StatesToChange
from tests.support.groups import GROUP, FakeCatalog, topic_id
from tests.support.share_groups import ShareRunner


@pytest.fixture
def runner() -> ShareRunner:
    """A group that is empty, and has read all four partitions of the topic a."""
    runner = ShareRunner()
    runner.enter("m")
    runner.settle("m")
    runner.beat("m", -1)
    return runner


def altered(runner: ShareRunner, *topics: str, group_id: str = GROUP) -> StatesToChange:
    found = [(runner.topics.find(one), (0, 1)) for one in topics]
    wanted = [(topic, its) for topic, its in found if topic is not None]
    answer = runner.run(runner.machine.shares.begin_again(group_id, wanted, runner.at))
    assert answer is not None
    return answer


def deleted(runner: ShareRunner, *topics: str, group_id: str = GROUP) -> StatesToChange:
    ids = [topic_id(one) for one in topics] or None
    answer = runner.run(runner.machine.shares.begin_deletion(group_id, ids, runner.at))
    assert answer is not None
    return answer


def test_who_has_members_is_not_changed(runner: ShareRunner) -> None:
    runner.enter("n")
    epoch = runner.group.epoch
    for answer in (altered(runner, "a"), deleted(runner)):
        assert answer.error is ErrorCode.NON_EMPTY_GROUP
        assert answer.partitions == ()
    assert runner.group.epoch == epoch


def test_a_state_begins_anew_with_a_higher_epoch(runner: ShareRunner) -> None:
    epoch = runner.group.epoch
    answer = altered(runner, "a")
    assert (answer.error, answer.state_epoch) == (ErrorCode.NONE, epoch + 1)
    assert answer.partitions == [(topic_id("a"), 0), (topic_id("a"), 1)]
    assert runner.group.initialized[topic_id("a")].partitions == {0, 1, 2, 3}, "it has its place"
    assert runner.group.initializing == {}


def test_a_group_may_be_given_its_place_before_its_first_member_comes() -> None:
    runner = ShareRunner()
    answer = altered(runner, "a")
    assert answer.state_epoch == 1
    assert runner.group.initializing[topic_id("a")].partitions == {0, 1}
    done = runner.machine.shares.states_have_begun(GROUP, answer.partitions, runner.at)
    runner.run(done)
    assert runner.group.initialized[topic_id("a")].partitions == {0, 1}
    joined = runner.enter("m")
    assert [one[2:] for one in joined.to_initialize] == [(2, 0), (3, 0)], "as new partitions"


def test_states_are_deleted_with_their_topics_once_the_share_coordinators_have_done_so(
    runner: ShareRunner,
) -> None:
    answer = deleted(runner, "a")
    assert answer.partitions == [(topic_id("a"), index) for index in range(4)]
    assert runner.group.initialized == {}
    assert runner.group.deleting == {topic_id("a"): "a"}
    again = ShareRunner(runner.topics, runner.log)
    assert deleted(again, "a").partitions == answer.partitions, "a crash is no end of it"
    runner.run(runner.machine.shares.states_are_deleted(GROUP, [topic_id("a")], runner.at))
    assert runner.group.deleting == {}
    assert deleted(runner).partitions == []
    assert [one[2:] for one in runner.enter("m").to_initialize] == [(i, -1) for i in range(4)]


def test_a_topic_that_the_group_has_not_read_has_no_state_to_delete(runner: ShareRunner) -> None:
    runner.topics.put("b", 1)
    assert deleted(runner, "b") == StatesToChange(state_epoch=runner.group.epoch, partitions=[])


def test_an_empty_group_forgets_topics_that_are_deleted(runner: ShareRunner) -> None:
    runner.topics.remove("a")
    for decision in runner.machine.forget_topics(["a"], lambda: runner.at):
        if decision is not None:
            runner.run(decision)
    assert runner.group.initialized == {}


@pytest.mark.parametrize(("group_id", "code"), [("", 24), ("other", 69), ("classic", 69)])
def test_what_is_no_share_group_has_no_states(group_id: str, code: int) -> None:
    runner = ShareRunner(FakeCatalog(a=2))
    runner.commit(claim=MemberClaim(group_id="classic"))
    assert deleted(runner, "a", group_id=group_id).error == code
    if group_id != "other":
        assert altered(runner, "a", group_id=group_id).error == code
