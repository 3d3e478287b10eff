"""What members of a group read: by name, by expression, and as topics come, grow and go."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.coordinator.consumer.requests import VisibleTopics
from tests.support.consumer_groups import ConsumerRunner, FakeCatalog, places


@pytest.fixture
def runner() -> ConsumerRunner:
    return ConsumerRunner(FakeCatalog(a=2, b=2))


def test_new_partitions_are_noticed_with_the_next_heartbeat(runner: ConsumerRunner) -> None:
    runner.enter("m")
    runner.catalog.put("a", 3)
    answer = runner.beat("m")
    assert answer.epoch == 2
    assert places(answer.assigned or frozenset()) == {"a0", "a1", "a2"}


def test_a_topic_that_nobody_reads_changes_nothing(runner: ConsumerRunner) -> None:
    runner.enter("m")
    runner.catalog.put("b", 9)
    assert runner.beat("m").epoch == 1


def test_a_topic_that_is_not_there_yet_is_read_once_it_is(runner: ConsumerRunner) -> None:
    answer = runner.enter("m", "c")
    assert (answer.epoch, answer.assigned) == (1, frozenset())
    runner.catalog.put("c", 1)
    assert places(runner.beat("m").assigned or frozenset()) == {"c0"}


def test_a_deleted_topic_is_given_up(runner: ConsumerRunner) -> None:
    runner.enter("m", "ab")
    runner.catalog.remove("b")
    answer = runner.beat("m")
    assert places(answer.assigned or frozenset()) == {"a0", "a1"}
    runner.beat("m", owned=["a0", "a1"])
    assert runner.state == "Stable"


def test_who_reads_something_else_is_given_it(runner: ConsumerRunner) -> None:
    runner.enter("m")
    asked = runner.beat("m", topics="b", owned=["a0", "a1"])
    assert asked.assigned == frozenset()
    gave = runner.beat("m", owned=[])
    assert places(gave.assigned or frozenset()) == {"b0", "b1"}
    assert (runner.group.epoch, runner.state) == (2, "Stable")


def test_who_reads_nothing_is_a_member_all_the_same(runner: ConsumerRunner) -> None:
    runner.enter("m")
    answer = runner.enter("n", "")
    assert (answer.epoch, answer.assigned) == (1, frozenset())
    assert runner.state == "Stable"


def test_what_changes_only_what_a_client_is_called_raises_no_epoch(runner: ConsumerRunner) -> None:
    runner.enter("m")
    assert runner.beat("m", client_id="other", rack_id="r").epoch == 1
    assert runner.member("m").client_id == "other"


def test_an_expression_matches_whole_names_and_new_topics_too(runner: ConsumerRunner) -> None:
    answer = runner.enter("m", None, topic_regex="[ac]")
    assert places(answer.assigned or frozenset()) == {"a0", "a1"}
    runner.catalog.put("c", 1)
    assert places(runner.beat("m").assigned or frozenset()) == {"a0", "a1", "c0"}
    runner.catalog.put("d", 1)
    assert runner.beat("m").assigned is None


def test_an_expression_finds_what_the_member_may_see_and_more_when_that_has_changed(
    runner: ConsumerRunner,
) -> None:
    seen = VisibleTopics(lambda name: name == "a", 1)
    answer = runner.enter("m", None, topic_regex=".*", visible=seen)
    assert places(answer.assigned or frozenset()) == {"a0", "a1"}
    everything = VisibleTopics(lambda _: True, 1)
    assert runner.beat("m", visible=everything).assigned is None, "nothing has changed"
    answer = runner.beat("m", visible=everything._replace(revision=2))
    assert places(answer.assigned or frozenset()) == {"a0", "a1", "b0", "b1"}


def test_an_expression_is_not_looked_up_for_members_that_use_another(
    runner: ConsumerRunner,
) -> None:
    """Nor when a member goes, which nobody is asked for."""
    everything, nothing = VisibleTopics(lambda _: True, 1), VisibleTopics(lambda _: False, 1)
    runner.enter("m", None, topic_regex="[ab]", visible=everything)
    runner.enter("n", None, topic_regex=".", visible=nothing)
    assert runner.group.regexes == {"[ab]": {"a", "b"}, ".": set()}
    runner.catalog.put("c", 1)
    runner.leave("m")
    assert runner.group.regexes == {".": set()}


def test_names_and_an_expression_add_up(runner: ConsumerRunner) -> None:
    answer = runner.enter("m", "a", topic_regex="b")
    assert len(answer.assigned or ()) == 4


def test_an_expression_that_nobody_uses_any_more_is_forgotten(runner: ConsumerRunner) -> None:
    runner.enter("m", None, topic_regex="a")
    runner.enter("n", None, topic_regex="b")
    assert runner.group.regexes.keys() == {"a", "b"}
    runner.leave("n")
    assert runner.group.regexes.keys() == {"a"}
    runner.beat("m", topics="b", topic_regex="")
    assert runner.group.regexes == {}
    assert runner.group.subscribed_topics() == {"b"}


def test_an_expression_that_is_none_changes_nothing(runner: ConsumerRunner) -> None:
    runner.enter("m")
    answer = runner.beat("m", topic_regex="[")
    assert answer.error is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert "`[`" in (answer.message or "")
    assert runner.member("m").topic_regex is None


def test_who_gives_an_expression_up_gives_up_what_it_matched(runner: ConsumerRunner) -> None:
    runner.enter("m", "a", topic_regex="b")
    asked = runner.beat("m", topic_regex="")
    assert places(asked.assigned or frozenset()) == {"a0", "a1"}
