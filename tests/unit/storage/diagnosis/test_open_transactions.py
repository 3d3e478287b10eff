"""Why a transaction is open, by what its partition and its coordinator say of it."""

from dataclasses import replace

import pytest

from ottla.base.partitions import TopicPartition
from ottla.storage.diagnosis.open_transactions import (
    NO_COORDINATOR,
    CoordinatedTransaction,
    CoordinatorView,
    Holding,
    PartitionHeld,
    Verdict,
    began_ms,
    hanging,
    judge,
    seen_twice,
)

NOW_MS = 1_000_000
HOLDING = Holding(
    topic="t", partition=0, producer_id=7, producer_epoch=1,
    first_offset=5, began_ms=900_000, last_timestamp_ms=950_000,
)  # fmt: skip
ONGOING = CoordinatedTransaction(
    transactional_id="pay", producer_id=7, producer_epoch=1, state="Ongoing",
    timeout_ms=60_000, start_ms=NOW_MS - 30_000, partitions=frozenset({TopicPartition("t", 0)}),
)  # fmt: skip


def view(*transactions: CoordinatedTransaction, is_complete: bool = True) -> CoordinatorView:
    return CoordinatorView(transactions=transactions, is_complete=is_complete)


@pytest.mark.parametrize(
    ("coordinators", "verdict"),
    [
        (view(ONGOING), Verdict.OPEN),
        (view(replace(ONGOING, start_ms=NOW_MS - 60_000)), Verdict.OVERDUE),
        (view(replace(ONGOING, state="PrepareCommit")), Verdict.ENDING),
        (view(replace(ONGOING, state="PrepareAbort")), Verdict.ENDING),
        (view(replace(ONGOING, state="PrepareEpochFence")), Verdict.ENDING),
        (view(replace(ONGOING, state="CompleteCommit")), Verdict.HANGING),
        (view(replace(ONGOING, partitions=frozenset())), Verdict.HANGING),
        (view(replace(ONGOING, producer_id=8)), Verdict.HANGING),
        (view(), Verdict.HANGING),
        (view(is_complete=False), Verdict.UNKNOWN),
        (NO_COORDINATOR, Verdict.UNKNOWN),
        (view(ONGOING, is_complete=False), Verdict.OPEN),
        (view(replace(ONGOING, state="CompleteCommit"), is_complete=False), Verdict.UNKNOWN),
        (view(replace(ONGOING, partitions=frozenset()), is_complete=False), Verdict.UNKNOWN),
    ],
)
def test_a_transaction_is_open_for_one_reason(
    coordinators: CoordinatorView, verdict: Verdict
) -> None:
    assert judge(HOLDING, coordinators, NOW_MS).verdict is verdict


def test_it_is_due_when_its_timeout_has_passed_while_it_runs() -> None:
    assert ONGOING.due_ms == NOW_MS + 30_000
    assert replace(ONGOING, state="PrepareCommit").due_ms is None
    assert replace(ONGOING, start_ms=-1).due_ms is None


def test_it_began_with_its_first_record_or_as_its_coordinator_says() -> None:
    unseen = replace(HOLDING, began_ms=None)
    assert began_ms(judge(HOLDING, view(ONGOING), NOW_MS)) == 900_000
    assert began_ms(judge(unseen, view(ONGOING), NOW_MS)) == ONGOING.start_ms
    assert began_ms(judge(unseen, view(replace(ONGOING, start_ms=-1)), NOW_MS)) is None
    assert began_ms(judge(unseen, view(), NOW_MS)) is None


def held(*holdings: Holding) -> list[PartitionHeld]:
    return [
        PartitionHeld(
            topic="t", partition=0, where="d/t-0", last_stable_offset=5, end_offset=9,
            holdings=list(holdings),
        )
    ]  # fmt: skip


def test_what_began_or_ended_while_coordinators_were_asked_is_left_out() -> None:
    ended, began = replace(HOLDING, producer_id=1), replace(HOLDING, producer_id=2)
    looks = iter([held(HOLDING, ended), held(HOLDING, began)])
    found, coordinators = seen_twice(lambda: next(looks), lambda: view(ONGOING))
    assert [one.holdings for one in found] == [[HOLDING]]
    assert coordinators == view(ONGOING)


def test_only_what_nobody_will_end_hangs_in_order() -> None:
    late, early = replace(HOLDING, first_offset=9, producer_id=9), replace(HOLDING, producer_id=3)
    passing = replace(HOLDING, producer_id=4)
    looks = iter([[late, HOLDING, early, passing], [late, HOLDING, early]])
    found = hanging(lambda: next(looks), lambda: view(ONGOING), NOW_MS)
    assert [one.holding for one in found] == [early, late]
