"""Histories that are wrong on purpose: each kind of wrong is found, and nothing else is."""

import pytest

from ottla.testing.history import (
    FindingKind,
    Operation,
    Outcome,
    Poll,
    Send,
    UnusableHistoryError,
    check,
)
from tests.unit.testing.history.story import ORDERS, Story

OTHER = "orders-1"


@pytest.fixture
def story() -> Story:
    return Story()


def only_finding(story: Story, kind: FindingKind) -> str:
    (finding,) = check(story.operations)
    assert finding.kind is kind
    assert all(one in story.operations for one in finding.operations)
    return str(finding)


# Lost writes


def test_an_acknowledged_send_that_a_reader_passes_is_lost(story: Story) -> None:
    story.send("p1", "a", 0)
    lost = story.send("p1", "b", 1)
    story.send("p1", "c", 2)
    passing = story.poll("c1", (0, "a"), (2, "c"))
    (finding,) = check(story.operations)
    assert finding.kind is FindingKind.LOST_WRITE
    assert finding.operations == (lost, passing)
    assert str(finding) == (
        "lost write: p1 sent 'b' to orders-0 and got offset 1, but c1 read from offset 0 up "
        "to 3 without it, and nobody else saw it"
    )


def test_a_lost_send_is_reported_once_however_many_readers_pass_it(story: Story) -> None:
    story.send("p1", "a", 0)
    story.assign("c1", orders_0=0)
    story.assign("c2", orders_0=0)
    story.poll("c1", positions={ORDERS: 1})
    story.poll("c2", positions={ORDERS: 1})
    assert story.kinds() == [FindingKind.LOST_WRITE]


def test_an_acknowledged_send_after_the_log_s_end_is_lost(story: Story) -> None:
    story.send("p1", "a", 0)
    story.send("p1", "b", 1)
    story.log_end("admin", 1)
    text = only_finding(story, FindingKind.LOST_WRITE)
    assert "'b'" in text
    assert "later admin found the log end at offset 1" in text


def test_a_committed_record_that_read_committed_passes_is_lost(story: Story) -> None:
    story.begin("p1", "t1")
    story.send("p1", "a", 0, transaction="t1")
    story.commit("p1", "t1")
    story.assign("c1", orders_0=0)
    story.read_committed("c1", positions={ORDERS: 2})
    assert story.kinds() == [FindingKind.LOST_WRITE]


# Duplicates


def test_a_value_at_two_offsets_is_a_duplicate(story: Story) -> None:
    story.send("p1", "a", 0)
    story.poll("c1", (0, "a"), (1, "a"))
    text = only_finding(story, FindingKind.DUPLICATE)
    assert "'a' once, and it was read at orders-0 offset 0 and orders-0 offset 1" in text


def test_a_duplicate_is_found_among_the_reads_of_several(story: Story) -> None:
    story.send("p1", "a", outcome=Outcome.UNKNOWN)
    story.poll("c1", (4, "a"))
    story.poll("c2", (7, "a"))
    assert story.kinds() == [FindingKind.DUPLICATE]


def test_an_input_with_outputs_in_two_committed_transactions_was_processed_twice(
    story: Story,
) -> None:
    story.send("p1", "in", 0)
    for name, process in (("t1", "w1"), ("t2", "w2")):
        story.begin(process, name)
        story.send(
            process, f"out-{name}", None, transaction=name, source=(ORDERS, 0), partition=OTHER
        )
        story.commit_offsets(process, "g", orders_0=1, transaction=name)
        story.commit(process, name)
    text = only_finding(story, FindingKind.DUPLICATE)
    assert "group g processed orders-0 offset 0 in more than one committed transaction" in text


# Inconsistent offsets


def test_two_values_at_one_offset_are_inconsistent(story: Story) -> None:
    story.send("p1", "a")
    story.send("p1", "b")
    story.poll("c1", (0, "a"))
    story.poll("c2", (0, "b"))
    assert "c1 'a' and c2 'b' was read" in only_finding(story, FindingKind.INCONSISTENT_OFFSETS)


def test_another_value_than_was_acknowledged_there_is_inconsistent(story: Story) -> None:
    story.send("p1", "a", 0)
    story.send("p2", "b")
    story.poll("c1", (0, "b"))
    assert "c1 read 'b' there" in only_finding(story, FindingKind.INCONSISTENT_OFFSETS)


# Unsent reads


def test_a_read_of_what_nobody_sent_is_found(story: Story) -> None:
    story.poll("c1", (0, "ghost"))
    assert "nobody sent" in only_finding(story, FindingKind.UNSENT_READ)


def test_a_read_from_another_partition_is_found(story: Story) -> None:
    story.send("p1", "a", partition=OTHER)
    story.poll("c1", (0, "a"))
    assert "p1 sent to orders-1" in only_finding(story, FindingKind.UNSENT_READ)


def test_a_read_before_the_send_is_found(story: Story) -> None:
    story.poll("c1", (0, "a"))
    story.send("p1", "a", 0)
    assert "before p1 sent it" in only_finding(story, FindingKind.UNSENT_READ)


# Aborted and dirty reads


def test_a_read_of_a_failed_send_is_an_aborted_read(story: Story) -> None:
    story.send("p1", "a", outcome=Outcome.FAIL)
    story.poll("c1", (0, "a"))
    assert "which p1 saw fail" in only_finding(story, FindingKind.ABORTED_READ)


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.UNKNOWN])
def test_a_committed_read_of_an_aborted_transaction_is_found(
    story: Story, outcome: Outcome
) -> None:
    story.begin("p1", "t1")
    story.send("p1", "a", 0, transaction="t1")
    story.abort("p1", "t1", outcome)
    story.read_committed("c1", (0, "a"))
    text = only_finding(story, FindingKind.ABORTED_READ)
    assert "c1 read 'a' at orders-0 offset 0 as committed, but transaction t1 of p1" in text


def test_a_commit_that_surely_failed_is_an_abort(story: Story) -> None:
    story.begin("p1", "t1")
    story.send("p1", "a", 0, transaction="t1")
    story.commit("p1", "t1", Outcome.FAIL)
    story.read_committed("c1", (0, "a"))
    assert story.kinds() == [FindingKind.ABORTED_READ]


def test_a_committed_read_of_an_open_transaction_is_a_dirty_read(story: Story) -> None:
    story.begin("p1", "t1")
    story.send("p1", "a", 0, transaction="t1")
    story.read_committed("c1", (0, "a"))
    assert "nobody ever tried to commit" in only_finding(story, FindingKind.DIRTY_READ)


def test_a_committed_read_before_the_commit_is_a_dirty_read(story: Story) -> None:
    story.begin("p1", "t1")
    story.send("p1", "a", 0, transaction="t1")
    story.read_committed("c1", (0, "a"))
    story.commit("p1", "t1")
    assert "before transaction t1 of p1 was to be committed" in only_finding(
        story, FindingKind.DIRTY_READ
    )


# Torn transactions


@pytest.mark.parametrize("outcome", [Outcome.OK, Outcome.UNKNOWN])
def test_half_a_transaction_seen_is_torn(story: Story, outcome: Outcome) -> None:
    story.begin("p1", "t1")
    story.send("p1", "a", 0, transaction="t1")
    story.send("p1", "b", 0, transaction="t1", partition=OTHER)
    story.commit("p1", "t1", outcome)
    story.assign("c1", orders_0=0, orders_1=0)
    story.read_committed("c1", (0, "a"), positions={ORDERS: 2, OTHER: 2})
    text = only_finding(story, FindingKind.TORN_TRANSACTION)
    assert text == (
        "torn transaction: of transaction t1, c1 read 'a' at orders-0 offset 0, but c1 read past "
        "'b' at orders-1 offset 0"
    )


def test_a_transaction_torn_within_a_partition_names_all_that_is_missing(story: Story) -> None:
    story.begin("p1", "t1")
    for offset, value in enumerate("abcd"):
        story.send("p1", value, offset, transaction="t1")
    story.commit("p1", "t1")
    story.read_committed("c1", (0, "a"), (3, "d"))
    text = only_finding(story, FindingKind.TORN_TRANSACTION)
    assert "'b' at orders-0 offset 1, 'c' at orders-0 offset 2" in text


def test_what_one_saw_committed_another_must_not_take_for_aborted(story: Story) -> None:
    story.begin("p1", "t1")
    story.send("p1", "a", 0, transaction="t1")
    story.send("p1", "b", 1, transaction="t1")
    story.commit("p1", "t1", Outcome.UNKNOWN)
    story.read_committed("c1", (0, "a"))
    story.assign("c2", orders_0=0)
    story.read_committed("c2", positions={ORDERS: 3})
    assert set(story.kinds()) == {FindingKind.TORN_TRANSACTION, FindingKind.POLL_SKIP}


# Polls


def test_going_back_unasked_is_found(story: Story) -> None:
    for offset, value in enumerate("abc"):
        story.send("p1", value, offset)
    story.poll("c1", (0, "a"), (1, "b"))
    story.poll("c1", (1, "b"), (2, "c"))
    assert "c1 was at offset 2 of orders-0, and then read 'b' at offset 1" in only_finding(
        story, FindingKind.NON_MONOTONIC_POLL
    )


def test_going_back_within_a_poll_is_found(story: Story) -> None:
    story.send("p1", "a", 0)
    story.send("p1", "b", 1)
    story.assign("c1", orders_0=0)
    story.poll("c1", (1, "b"), (0, "a"))
    assert story.kinds() == [FindingKind.NON_MONOTONIC_POLL]


def test_reading_below_the_assigned_position_is_found(story: Story) -> None:
    story.send("p1", "a", 0)
    story.assign("c1", orders_0=1)
    story.poll("c1", (0, "a"))
    assert story.kinds() == [FindingKind.NON_MONOTONIC_POLL]


def test_what_one_passes_over_and_another_saw_is_a_skip(story: Story) -> None:
    for offset, value in enumerate("abc"):
        story.send("p1", value, offset)
    story.poll("c1", (0, "a"), (1, "b"), (2, "c"))
    story.poll("c2", (0, "a"), (2, "c"))
    assert only_finding(story, FindingKind.POLL_SKIP) == (
        "poll skip: c2 read past offset 1 of orders-0 without 'b', which c1 read there"
    )


def test_a_skip_between_polls_of_an_unanswered_send_is_found(story: Story) -> None:
    story.send("p1", "a", 0)
    story.send("p1", "b")
    story.poll("c1", (0, "a"), (1, "b"))
    story.poll("c2", (0, "a"))
    story.poll("c2", positions={ORDERS: 2})
    assert story.kinds() == [FindingKind.POLL_SKIP]


# Sends


def test_a_smaller_offset_for_a_later_send_of_one_process_is_found(story: Story) -> None:
    story.send("p1", "a", 5)
    story.send("p1", "b", 4)
    assert only_finding(story, FindingKind.NON_MONOTONIC_SEND) == (
        "non-monotonic send: p1 sent 'b' to orders-0 and got offset 4, after p1 had sent 'a' "
        "and got offset 5"
    )


def test_a_smaller_offset_for_another_s_later_send_is_found(story: Story) -> None:
    story.send("p1", "a", 5)
    story.send("p2", "b", 3)
    assert "after p1 had sent 'a'" in only_finding(story, FindingKind.NON_MONOTONIC_SEND)


def test_pipelined_sends_of_one_process_keep_the_order_of_their_calls() -> None:
    sends = [
        Send(process="p1", began=n, ended=10, partition=ORDERS, value=str(n), outcome=Outcome.OK,
             offset=9 - n)
        for n in (1, 2)
    ]  # fmt: skip
    assert [one.kind for one in check(sends)] == [FindingKind.NON_MONOTONIC_SEND]


# Committed offsets


def test_a_commit_ahead_of_what_was_polled_is_found(story: Story) -> None:
    for offset, value in enumerate("abc"):
        story.send("p1", value, offset)
    story.poll("c1", (0, "a"))
    story.commit_offsets("c1", "g", orders_0=3)
    assert "it had read only up to 1, without 'b' at offset 1" in only_finding(
        story, FindingKind.COMMIT_MISMATCH
    )


def test_a_commit_ahead_of_the_assigned_position_is_found(story: Story) -> None:
    story.send("p1", "a", 0)
    story.assign("c1", orders_0=0)
    story.commit_offsets("c1", "g", orders_0=1)
    assert story.kinds() == [FindingKind.COMMIT_MISMATCH]


def test_a_group_that_continues_before_its_commit_is_found(story: Story) -> None:
    story.commit_offsets("c1", "g", orders_0=2)
    story.commit_offsets("c1", "g", orders_0=5)
    story.assign("c2", "g", orders_0=2)
    found = only_finding(story, FindingKind.COMMIT_MISMATCH)
    assert "c2 continued at offset 2 of orders-0 for group g, which had committed 5" in found


def test_a_group_that_continues_at_an_aborted_commit_is_found(story: Story) -> None:
    story.commit_offsets("c1", "g", orders_0=2)
    story.begin("w1", "t1")
    story.commit_offsets("w1", "g", orders_0=5, transaction="t1")
    story.abort("w1", "t1")
    story.assign("c2", "g", orders_0=5)
    assert "which had committed 2" in only_finding(story, FindingKind.COMMIT_MISMATCH)


def test_a_group_that_forgets_a_transaction_s_commit_is_found(story: Story) -> None:
    story.commit_offsets("c1", "g", orders_0=2)
    story.begin("w1", "t1")
    story.commit_offsets("w1", "g", orders_0=5, transaction="t1")
    story.commit("w1", "t1")
    story.assign("c2", "g", orders_0=2)
    assert "which had committed 5" in only_finding(story, FindingKind.COMMIT_MISMATCH)


def test_a_transaction_that_commits_less_than_it_processed_is_found(story: Story) -> None:
    story.begin("w1", "t1")
    story.send("w1", "out", transaction="t1", source=(ORDERS, 3), partition=OTHER)
    story.commit_offsets("w1", "g", orders_0=3, transaction="t1")
    story.commit("w1", "t1")
    assert "produced 'out' from orders-0 offset 3, but commits offset 3" in only_finding(
        story, FindingKind.COMMIT_MISMATCH
    )


def test_an_input_below_the_commit_without_an_output_is_found(story: Story) -> None:
    story.send("p1", "in0", 0)
    story.send("p1", "in1", 1)
    story.begin("w1", "t1")
    story.send("w1", "out", transaction="t1", source=(ORDERS, 0), partition=OTHER)
    story.commit_offsets("w1", "g", orders_0=2, transaction="t1")
    story.commit("w1", "t1")
    assert "no committed transaction has processed 'in1' at offset 1" in only_finding(
        story, FindingKind.COMMIT_MISMATCH
    )


# Histories that cannot be judged


def test_a_value_that_is_sent_twice_is_refused(story: Story) -> None:
    story.send("p1", "a", 0)
    story.send("p2", "a", 1)
    with pytest.raises(UnusableHistoryError, match="p1 and p2 both send the value 'a': give each"):
        check(story.operations)


def test_a_transaction_without_its_begin_is_refused(story: Story) -> None:
    story.send("p1", "a", 0, transaction="t1")
    with pytest.raises(UnusableHistoryError, match="'t1' never begins"):
        check(story.operations)


def test_a_transaction_that_begins_twice_is_refused(story: Story) -> None:
    story.begin("p1", "t1")
    story.begin("p2", "t1")
    with pytest.raises(UnusableHistoryError, match="'t1' begins twice"):
        check(story.operations)


def test_an_end_before_the_beginning_is_refused() -> None:
    with pytest.raises(UnusableHistoryError, match="ended before it began"):
        check([Poll(process="c1", began=5, ended=4)])


def test_no_operations_are_no_findings() -> None:
    nothing: list[Operation] = []
    assert check(nothing) == []
