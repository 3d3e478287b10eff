"""What time brings about: transactions that take too long, unused ids, clocks that are set."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.config.transaction import TransactionConfig
from tests.support.transactions import TransactionLog, claim_of

HOUR_MS = 3_600_000


@pytest.fixture
def log() -> TransactionLog:
    return TransactionLog()


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_shut_out(
    log: TransactionLog,
) -> None:
    producer = claim_of(log.init(timeout_ms=1000))
    log.add(producer)
    log.pass_ms(600)
    log.add(producer, ("t", 1))
    log.pass_ms(399)
    assert log.tx().is_ongoing
    assert log.timers.next_deadline_ms == 1000
    log.pass_ms(1)
    assert log.states[-2:] == ["PrepareAbort", "CompleteAbort"]
    assert log.tx().epoch == producer.epoch + 1
    assert log.end(producer).error is ErrorCode.PRODUCER_FENCED


def test_the_time_of_a_transaction_runs_on_over_a_restart(log: TransactionLog) -> None:
    log.add(claim_of(log.init(timeout_ms=1000)))
    log.elapsed_ms += 700
    log.restart()
    log.pass_ms(299)
    assert log.tx().is_ongoing
    log.pass_ms(1)
    assert log.states[-1] == "CompleteAbort"


def test_a_clock_set_back_before_a_restart_gives_a_transaction_no_more_than_its_time(
    log: TransactionLog,
) -> None:
    log.add(claim_of(log.init(timeout_ms=1000)))
    log.fast_ms -= HOUR_MS
    log.restart()
    log.pass_ms(999)
    assert log.tx().is_ongoing
    log.pass_ms(1)
    assert log.states[-1] == "CompleteAbort"


@pytest.mark.parametrize("fast_ms", [-48 * HOUR_MS, 48 * HOUR_MS])
def test_setting_the_wall_clock_ends_no_transaction_and_keeps_none_open(
    log: TransactionLog, fast_ms: int
) -> None:
    log.add(claim_of(log.init(timeout_ms=1000)))
    log.fast_ms += fast_ms
    log.pass_ms(999)
    assert log.tx().is_ongoing
    log.pass_ms(1)
    assert log.states[-1] == "CompleteAbort"


def test_an_ended_transaction_leaves_the_next_one_its_whole_time(log: TransactionLog) -> None:
    producer = claim_of(log.init(timeout_ms=1000))
    log.add(producer)
    log.end(producer)
    log.pass_ms(900)
    log.add(producer)
    log.pass_ms(999)
    assert log.tx().is_ongoing
    log.pass_ms(1)
    assert not log.tx().is_ongoing


def test_an_abort_that_could_not_be_written_is_tried_again(log: TransactionLog) -> None:
    log.add(claim_of(log.init(timeout_ms=1000)))
    log.refusal = ErrorCode.NOT_COORDINATOR
    log.pass_ms(1000)
    assert log.tx().is_ongoing
    log.refusal = None
    log.pass_ms(1000)
    assert log.states[-1] == "CompleteAbort"


def test_ids_that_nobody_uses_are_forgotten() -> None:
    log = TransactionLog(
        TransactionConfig(
            transactional_id_expiration_ms=10_000,
            transaction_remove_expired_transaction_cleanup_interval_ms=1000,
        )
    )
    log.init("idle")
    log.writes_markers = False
    prepared = log.started("prepared")
    log.add(prepared)
    log.end(prepared)
    log.add(log.started("open"))
    log.pass_ms(1000)
    log.pass_ms(9000)
    assert set(log.machine.transactions) == {"idle", "prepared", "open"}
    log.pass_ms(1000)
    assert set(log.machine.transactions) == {"prepared", "open"}
    assert log.records[-1].value is None
    log.restart()
    assert set(log.machine.transactions) == {"prepared", "open"}


def test_setting_the_wall_clock_makes_no_id_be_forgotten() -> None:
    log = TransactionLog()
    log.started()
    log.pass_ms(2 * HOUR_MS)
    log.fast_ms += 30 * 24 * HOUR_MS
    log.pass_ms(2 * HOUR_MS)
    assert "tx" in log.machine.transactions


@pytest.mark.parametrize(("away_hours", "is_kept"), [(1, True), (6 * 24, True), (7 * 24, False)])
def test_the_time_that_a_broker_was_away_counts_but_leaves_an_hour_to_come_back_in(
    away_hours: int, is_kept: bool
) -> None:
    log = TransactionLog()
    log.started()
    log.fast_ms += away_hours * HOUR_MS
    log.restart()
    log.pass_ms(HOUR_MS - 1)
    assert "tx" in log.machine.transactions
    log.pass_ms(1)
    assert ("tx" in log.machine.transactions) == is_kept
