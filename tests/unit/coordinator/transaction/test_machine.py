"""The machine of transactions: each transition, by whom, and who is refused."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.coordinator.transaction.records import TransactionLogKey, TransactionLogValue
from ottla.coordinator.transaction.requests import ProducerClaim
from ottla.coordinator.transaction.state import TransactionState
from ottla.coordinator.transaction.transaction import LAST_CLIENT_EPOCH, Change
from tests.support.transactions import FIRST_ID, START_MS, WHERE, TransactionLog, claim_of


@pytest.fixture
def log() -> TransactionLog:
    return TransactionLog()


def at_epoch(log: TransactionLog, epoch: int) -> ProducerClaim:
    """A producer that has come to an epoch, however long that took."""
    change = Change(
        producer_id=7, epoch=epoch, state=TransactionState.EMPTY, timeout_ms=1, update_ms=START_MS
    )
    log.machine.replay(TransactionLogKey(transactional_id="tx"), change.to_record())
    return ProducerClaim(transactional_id="tx", producer_id=7, epoch=epoch)


# A producer begins


def test_a_new_transactional_id_gets_a_producer_id_at_epoch_zero(log: TransactionLog) -> None:
    answer = log.init()
    assert (answer.error, answer.producer_id, answer.epoch) == (ErrorCode.NONE, FIRST_ID, 0)
    assert log.states == ["Empty"]
    assert log.tx().start_ms == -1


def test_a_later_producer_shuts_out_the_earlier_one(log: TransactionLog) -> None:
    old = log.started()
    new = log.started()
    assert (new.producer_id, new.epoch) == (old.producer_id, old.epoch + 1)
    assert log.add(old) is ErrorCode.PRODUCER_FENCED
    assert log.end(old).error is ErrorCode.PRODUCER_FENCED
    assert log.add(new) is ErrorCode.NONE


def test_an_open_transaction_is_aborted_before_somebody_else_gets_the_id(
    log: TransactionLog,
) -> None:
    old = log.started()
    log.add(old)
    assert log.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert log.states == ["Empty", "Ongoing", "PrepareAbort", "CompleteAbort"]
    assert log.init().epoch == old.epoch + 2
    assert log.end(old).error is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("is_commit", [True, False])
def test_nobody_begins_while_markers_are_missing(log: TransactionLog, is_commit: bool) -> None:
    log.writes_markers = False
    producer = log.started()
    log.add(producer)
    log.end(producer, is_commit=is_commit)
    assert log.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert log.add(producer) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert log.machine.verify(producer, [WHERE]) == {WHERE: ErrorCode.CONCURRENT_TRANSACTIONS}
    assert log.end(producer, is_commit=is_commit).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert log.end(producer, is_commit=not is_commit).error is ErrorCode.INVALID_TXN_STATE


def test_an_empty_transactional_id_is_none(log: TransactionLog) -> None:
    assert log.init("").error is ErrorCode.INVALID_REQUEST
    nobody = ProducerClaim(transactional_id="", producer_id=1, epoch=0)
    assert log.add(nobody) is ErrorCode.INVALID_REQUEST
    assert log.end(nobody).error is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_must_be_within_the_brokers_limit(log: TransactionLog, timeout_ms: int) -> None:
    assert log.init(timeout_ms=timeout_ms).error is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert not log.records
    assert log.init(timeout_ms=900_000).error is ErrorCode.NONE


# Going on after an error (KIP-360)


def test_a_producer_recovers_with_the_next_epoch(log: TransactionLog) -> None:
    first = log.init()
    second = log.init(expected=(first.producer_id, first.epoch))
    assert (second.producer_id, second.epoch) == (first.producer_id, first.epoch + 1)


def test_a_producer_whose_answer_was_lost_recovers_once(log: TransactionLog) -> None:
    first = log.init()
    expected = (first.producer_id, first.epoch)
    assert log.init(expected=expected) == log.init(expected=expected)
    assert log.tx().epoch == first.epoch + 1


def test_a_producer_that_was_replaced_does_not_recover(log: TransactionLog) -> None:
    old = log.init()
    new = log.started()
    expected = (old.producer_id, old.epoch)
    assert log.init(expected=expected).error is ErrorCode.PRODUCER_FENCED
    log.add(new)
    assert log.init(expected=expected).error is ErrorCode.PRODUCER_FENCED
    assert log.tx().is_ongoing, "it must not abort its successor's transaction either"


def test_what_a_producer_recovered_from_is_worth_nothing_after_others_came(
    log: TransactionLog,
) -> None:
    first = log.init()
    log.init(expected=(first.producer_id, first.epoch))
    log.init()
    answer = log.init(expected=(first.producer_id, first.epoch))
    assert answer.error is ErrorCode.PRODUCER_FENCED


def test_a_producer_recovers_from_the_middle_of_a_transaction(log: TransactionLog) -> None:
    producer = log.started()
    log.add(producer)
    expected = (producer.producer_id, producer.epoch)
    assert log.init(expected=expected).error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert log.init(expected=expected).epoch == producer.epoch + 1


def test_a_producer_with_an_id_of_another_is_fenced(log: TransactionLog) -> None:
    first = log.init()
    answer = log.init(expected=(first.producer_id + 1, first.epoch))
    assert answer.error is ErrorCode.PRODUCER_FENCED


def test_a_producer_whose_transactional_id_was_forgotten_begins_again(log: TransactionLog) -> None:
    answer = log.init(expected=(3, 7))
    assert (answer.producer_id, answer.epoch) == (FIRST_ID, 0)


# Epochs end


def test_a_producer_id_whose_epochs_are_used_up_is_replaced(log: TransactionLog) -> None:
    old = at_epoch(log, LAST_CLIENT_EPOCH)
    expected = (old.producer_id, old.epoch)
    first = log.init(expected=expected)
    assert (first.producer_id, first.epoch) == (FIRST_ID, 0)
    assert log.init(expected=expected) == first
    assert log.tx().previous_producer_id == old.producer_id


def test_the_last_epoch_is_kept_for_shutting_a_producer_out(log: TransactionLog) -> None:
    old = at_epoch(log, LAST_CLIENT_EPOCH)
    log.add(old)
    assert log.init().error is ErrorCode.CONCURRENT_TRANSACTIONS
    assert log.tx().epoch == LAST_CLIENT_EPOCH + 1
    answer = log.init()
    assert (answer.producer_id, answer.epoch) == (FIRST_ID, 0)


# Partitions


def test_the_first_partition_begins_the_transaction(log: TransactionLog) -> None:
    producer = log.started()
    log.pass_ms(5)
    assert log.add(producer) is ErrorCode.NONE
    log.pass_ms(5)
    assert log.add(producer, WHERE, ("t", 1)) is ErrorCode.NONE
    assert log.tx().partitions == {("t", 0), ("t", 1)}
    assert log.tx().start_ms == START_MS + 5
    assert log.tx().update_ms == START_MS + 10


def test_partitions_that_are_known_are_not_written_again(log: TransactionLog) -> None:
    producer = log.started()
    log.add(producer, ("t", 0), ("t", 1))
    log.add(producer, ("t", 1))
    assert log.states == ["Empty", "Ongoing"]


def test_a_partition_belongs_to_a_transaction_until_it_ends(log: TransactionLog) -> None:
    producer = log.started()
    log.add(producer)
    other = ("t", 1)
    assert log.machine.verify(producer, [WHERE, other]) == {
        WHERE: ErrorCode.NONE,
        other: ErrorCode.TRANSACTION_ABORTABLE,
    }
    log.end(producer)
    assert log.machine.verify(producer, [WHERE]) == {WHERE: ErrorCode.TRANSACTION_ABORTABLE}


def test_who_never_asked_for_an_id_is_unknown(log: TransactionLog) -> None:
    nobody = ProducerClaim(transactional_id="tx", producer_id=1, epoch=0)
    unknown = ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert log.add(nobody) is unknown
    assert log.end(nobody).error is unknown
    assert log.machine.verify(nobody, [WHERE]) == {WHERE: unknown}
    log.init()
    assert log.add(nobody) is unknown
    assert log.end(nobody).error is unknown


# Ends


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transaction_is_prepared_and_then_complete(log: TransactionLog, is_commit: bool) -> None:
    log.writes_markers = False
    producer = log.started()
    log.add(producer)
    assert log.end(producer, is_commit=is_commit).error is ErrorCode.NONE
    (markers,) = log.machine.prepared
    assert (markers.producer_id, markers.epoch) == (producer.producer_id, producer.epoch)
    assert (markers.is_commit, markers.partitions) == (is_commit, {WHERE})
    log.run(log.machine.complete("tx", log.at))
    name = "Commit" if is_commit else "Abort"
    assert log.states == ["Empty", "Ongoing", f"Prepare{name}", f"Complete{name}"]
    assert not log.machine.prepared
    assert not log.tx().partitions


@pytest.mark.parametrize("is_commit", [True, False])
def test_ending_twice_alike_is_once_and_otherwise_is_refused(
    log: TransactionLog, is_commit: bool
) -> None:
    producer = log.started()
    log.add(producer)
    for _ in range(2):
        assert log.end(producer, is_commit=is_commit).error is ErrorCode.NONE
    assert log.end(producer, is_commit=not is_commit).error is ErrorCode.INVALID_TXN_STATE
    assert len(log.states) == 4


@pytest.mark.parametrize("is_commit", [True, False])
def test_what_has_not_begun_does_not_end(log: TransactionLog, is_commit: bool) -> None:
    producer = log.started()
    assert log.end(producer, is_commit=is_commit).error is ErrorCode.INVALID_TXN_STATE


# Transactions version 2 (KIP-890)


@pytest.mark.parametrize("is_commit", [True, False])
def test_every_end_of_version_2_raises_the_epoch(log: TransactionLog, is_commit: bool) -> None:
    old = log.started()
    log.add(old, client_version=2)
    answer = log.end(old, is_commit=is_commit, client_version=2)
    assert (answer.producer_id, answer.epoch) == (old.producer_id, old.epoch + 1)
    assert log.tx().epoch == answer.epoch
    assert log.add(old) is ErrorCode.PRODUCER_FENCED
    assert log.add(claim_of(answer)) is ErrorCode.NONE


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_of_version_2_whose_answer_was_lost_is_answered_again(
    log: TransactionLog, is_commit: bool
) -> None:
    producer = log.started()
    log.add(producer, client_version=2)
    first = log.end(producer, is_commit=is_commit, client_version=2)
    assert log.end(producer, is_commit=is_commit, client_version=2) == first
    other = log.end(producer, is_commit=not is_commit, client_version=2)
    assert other.error is ErrorCode.INVALID_TXN_STATE


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_of_version_2_waits_for_the_markers_of_the_one_before(
    log: TransactionLog, is_commit: bool
) -> None:
    log.writes_markers = False
    old = log.started()
    log.add(old, client_version=2)
    new = claim_of(log.end(old, client_version=2))
    concurrent = ErrorCode.CONCURRENT_TRANSACTIONS
    assert log.end(new, is_commit=is_commit, client_version=2).error is concurrent
    assert log.end(old, is_commit=True, client_version=2).error is concurrent
    assert log.end(old, is_commit=False, client_version=2).error is ErrorCode.INVALID_TXN_STATE


def test_version_2_commits_nothing_twice(log: TransactionLog) -> None:
    producer = log.started()
    log.add(producer, client_version=2)
    new = claim_of(log.end(producer, client_version=2))
    assert log.end(new, client_version=2).error is ErrorCode.INVALID_TXN_STATE


def test_a_delayed_end_of_version_2_does_not_touch_the_next_transaction(
    log: TransactionLog,
) -> None:
    old = log.started()
    log.add(old, client_version=2)
    new = claim_of(log.end(old, client_version=2))
    log.add(new, client_version=2)
    for is_commit in (True, False):
        late = log.end(old, is_commit=is_commit, client_version=2)
        assert late.error is ErrorCode.PRODUCER_FENCED
    assert log.tx().is_ongoing


def test_version_2_aborts_what_it_has_not_begun_and_commits_it_not(log: TransactionLog) -> None:
    producer = log.started()
    commit = log.end(producer, is_commit=True, client_version=2)
    assert commit.error is ErrorCode.INVALID_TXN_STATE
    abort = log.end(producer, is_commit=False, client_version=2)
    assert abort.epoch == producer.epoch + 1
    assert log.states == ["Empty", "PrepareAbort", "CompleteAbort"]
    assert log.tx().start_ms == START_MS
    again = log.end(claim_of(abort), is_commit=False, client_version=2)
    assert again.epoch == abort.epoch + 1


def test_the_last_end_of_a_producer_id_gives_the_next_id(log: TransactionLog) -> None:
    log.writes_markers = False
    old = at_epoch(log, LAST_CLIENT_EPOCH)
    log.add(old, client_version=2)
    answer = log.end(old, client_version=2)
    assert (answer.producer_id, answer.epoch) == (FIRST_ID, 0)
    (markers,) = log.machine.prepared
    assert (markers.producer_id, markers.epoch) == (old.producer_id, LAST_CLIENT_EPOCH + 1)
    log.writes_markers = True
    log.restart()
    assert (log.tx().producer_id, log.tx().epoch) == (FIRST_ID, 0)
    assert log.end(old, client_version=2) == answer
    assert log.add(claim_of(answer)) is ErrorCode.NONE


# The log


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_restart_finishes_what_was_prepared(
    log: TransactionLog, version: int, is_commit: bool
) -> None:
    producer = log.started()
    log.add(producer, client_version=version)
    log.writes_markers = False
    answer = log.end(producer, is_commit=is_commit, client_version=version)
    log.writes_markers = True
    log.restart()
    assert log.tx().state is (
        TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT
    )
    assert (log.tx().producer_id, log.tx().epoch) == (answer.producer_id, answer.epoch)


def test_a_refused_record_changes_nothing(log: TransactionLog) -> None:
    producer = log.started()
    log.add(producer)
    before = log.tx().state, log.tx().epoch, log.tx().partitions
    log.refusal = ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert log.add(producer, ("t", 1)) is log.refusal
    assert log.end(producer).error is log.refusal
    assert log.init().error is log.refusal
    assert (log.tx().state, log.tx().epoch, log.tx().partitions) == before
    log.refusal = None
    assert log.end(producer).error is ErrorCode.NONE


def test_old_clients_leave_records_that_kafkas_of_every_age_read(log: TransactionLog) -> None:
    old, new = log.started("old"), log.started("new")
    for producer, version in ((old, 0), (new, 2)):
        log.add(producer, client_version=version)
        log.end(producer, client_version=version)
    versions: dict[str, set[int]] = {"old": set(), "new": set()}
    for record in log.records:
        assert isinstance(record.key, TransactionLogKey)
        assert isinstance(record.value, TransactionLogValue)
        versions[record.key.transactional_id].add(record.value.written_version)
    assert versions == {"old": {0}, "new": {0, 1}}


# Administrators


def test_a_transaction_is_described_with_its_partitions_by_topic(log: TransactionLog) -> None:
    producer = log.started()
    log.add(producer, ("u", 1), ("t", 3), ("t", 1))
    found = log.machine.describe("tx")
    assert found is not None
    assert (found.state, found.start_ms, found.timeout_ms) == ("Ongoing", START_MS, 60_000)
    assert found.topics == {"t": [1, 3], "u": [1]}
    assert log.machine.describe("nobody") is None
    assert [one.transactional_id for one in log.machine.list_transactions()] == ["tx"]
