"""What Kafka allows and might look wrong."""

import pytest

from ottla.testing.history import Outcome
from tests.unit.testing.history.story import ORDERS, Story

OTHER = "orders-1"


@pytest.fixture
def story() -> Story:
    return Story()


def test_what_nobody_has_read_yet_is_not_lost(story: Story) -> None:
    story.send("p1", "a", 0)
    story.send("p1", "b", 1)
    story.poll("c1", (0, "a"))
    assert story.kinds() == []


def test_a_reader_that_begins_later_passes_nothing(story: Story) -> None:
    story.send("p1", "a", 0)
    story.send("p1", "b", 1)
    story.poll("c1", (1, "b"))
    assert story.kinds() == []


def test_an_unanswered_send_may_be_there_or_not(story: Story) -> None:
    story.send("p1", "a")
    story.send("p1", "b")
    story.send("p1", "c", 1)
    story.poll("c1", (0, "a"), (1, "c"))
    story.log_end("admin", 2)
    assert story.kinds() == []


def test_the_log_s_end_before_a_send_says_nothing_of_it(story: Story) -> None:
    story.log_end("admin", 0)
    story.send("p1", "a", 0)
    assert story.kinds() == []


def test_an_aborted_transaction_is_passed_by_and_may_be_seen_uncommitted(story: Story) -> None:
    story.begin("p1", "t1")
    story.send("p1", "a", 0, transaction="t1")
    story.abort("p1", "t1")
    story.send("p2", "b", 2)
    story.assign("c1", orders_0=0)
    story.read_committed("c1", (2, "b"))
    story.poll("c2", (0, "a"), (2, "b"))
    assert story.kinds() == []


@pytest.mark.parametrize("is_seen", [True, False])
def test_an_unanswered_commit_may_go_either_way(story: Story, is_seen: bool) -> None:
    story.begin("p1", "t1")
    story.send("p1", "a", 0, transaction="t1")
    story.send("p1", "b", 0, transaction="t1", partition=OTHER)
    story.commit("p1", "t1", Outcome.UNKNOWN)
    story.assign("c1", orders_0=0, orders_1=0)
    records = [(ORDERS, 0, "a"), (OTHER, 0, "b")] if is_seen else []
    story.read_committed("c1", *records, positions={ORDERS: 2, OTHER: 2})
    assert story.kinds() == []


def test_a_commit_that_is_tried_again_counts_when_it_is_answered(story: Story) -> None:
    story.begin("p1", "t1")
    story.send("p1", "a", 0, transaction="t1")
    story.commit("p1", "t1", Outcome.UNKNOWN)
    story.commit("p1", "t1")
    story.read_committed("c1", (0, "a"))
    assert story.kinds() == []


def test_a_consumer_that_is_told_to_may_go_back(story: Story) -> None:
    story.send("p1", "a", 0)
    story.poll("c1", (0, "a"))
    story.assign("c1", orders_0=0)
    story.poll("c1", (0, "a"))
    story.crash("c1")
    story.poll("c1", (0, "a"))
    assert story.kinds() == []


def test_concurrent_sends_of_two_processes_have_any_order() -> None:
    story = Story()
    first = story.send("p1", "a", 1)
    second = story.send("p2", "b", 0)
    late = type(first)(
        process="p1", began=first.began, ended=second.ended, partition=ORDERS, value="a",
        outcome=Outcome.OK, offset=1,
    )  # fmt: skip
    story.operations[0] = late
    assert story.kinds() == []


def test_a_commit_after_what_was_polled_is_at_least_once(story: Story) -> None:
    story.send("p1", "a", 0)
    story.send("p1", "b", 1)
    story.poll("c1", (0, "a"), (1, "b"))
    story.commit_offsets("c1", "g", orders_0=1)
    story.assign("c2", "g", orders_0=1)
    story.poll("c2", (1, "b"))
    assert story.kinds() == []


def test_a_commit_may_jump_over_what_was_aborted(story: Story) -> None:
    story.begin("p1", "t1")
    story.send("p1", "a", 0, transaction="t1")
    story.abort("p1", "t1")
    story.assign("c1", orders_0=0)
    story.read_committed("c1")
    story.commit_offsets("c1", "g", orders_0=2)
    assert story.kinds() == []


def test_a_group_may_continue_at_an_unanswered_commit_or_before_it(story: Story) -> None:
    story.commit_offsets("c1", "g", orders_0=2)
    story.commit_offsets("c1", "g", orders_0=5, outcome=Outcome.UNKNOWN)
    story.assign("c2", "g", orders_0=5)
    story.assign("c3", "g", orders_0=2)
    assert story.kinds() == []


def test_a_group_without_commits_begins_anywhere(story: Story) -> None:
    story.assign("c1", "g", orders_0=17)
    story.commit_offsets("c1", "g", orders_0=20, outcome=Outcome.FAIL)
    story.assign("c2", "g", orders_0=17)
    assert story.kinds() == []


def test_an_input_is_processed_again_after_an_abort(story: Story) -> None:
    story.send("p1", "in", 0)
    for name in ("t1", "t2"):
        story.begin("w1", name)
        story.send("w1", f"out-{name}", transaction=name, source=(ORDERS, 0), partition=OTHER)
        story.commit_offsets("w1", "g", orders_0=1, transaction=name)
        story.end("w1", name, is_commit=name == "t2")
    assert story.kinds() == []
