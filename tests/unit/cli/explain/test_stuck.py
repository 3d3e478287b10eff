"""`ottla explain stuck`: which transaction keeps consumers waiting, and what ends it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import ottla
from ottla.cli.main import explain_group, main
from ottla.coordinator.transaction.records import (
    TransactionLogKey,
    TransactionLogValue,
    TransactionTopic,
    encode_key,
    encode_value,
)
from ottla.diagnosis.words.transactions import ways_out
from ottla.embedded.log import Log
from ottla.record.builder import RecordBatchBuilder
from ottla.record.control import EndTransactionMarker, build_end_transaction_marker
from ottla.storage.diagnosis.open_transactions import (
    CoordinatedTransaction,
    CoordinatorView,
    Holding,
    Verdict,
    judge,
)
from ottla.storage.log.producer_state import AppendOrigin
from tests.support.brokers import NOW_MS

FAR_AWAY_MS = 1 << 42
"""A timeout that has not passed whenever the tests run."""


def run(*arguments: object) -> Result:
    texts = ["stuck", *map(str, arguments)]
    return CliRunner().invoke(explain_group, texts, catch_exceptions=False)


def told(*arguments: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(*arguments, "--json").output.splitlines()]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with ottla.open(tmp_path / "d") as log:
        log.create_topic("t", partitions=2)
        yield log


def write(log: Log, producer_id: int, sequence: int = 0, partition: int = 0) -> None:
    """One record in a transaction."""
    builder = RecordBatchBuilder(
        producer_id=producer_id, producer_epoch=3, base_sequence=sequence, is_transactional=True
    )
    builder.append(b"k", b"v", NOW_MS + sequence)
    log.append_batch("t", partition, builder)


def end(log: Log, producer_id: int, partition: int = 0) -> None:
    marker = build_end_transaction_marker(
        EndTransactionMarker(is_commit=True, coordinator_epoch=0),
        producer_id=producer_id,
        producer_epoch=3,
        timestamp_ms=NOW_MS,
    )
    partition_log = log.broker.topics.partition("t", partition).log
    partition_log.writer.append_as_leader(
        bytearray(marker), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
    )
    partition_log.writer.write_out()


def coordinate(log: Log, name: str, producer_id: int, status: int, *partitions: int) -> None:
    """What a coordinator notes of a transactional id."""
    if "__transaction_state" not in log.topics():
        log.create_topic("__transaction_state")
    value = TransactionLogValue(
        producer_id=producer_id,
        producer_epoch=3,
        transaction_timeout_ms=60_000,
        transaction_status=status,
        transaction_partitions=[TransactionTopic(topic="t", partition_ids=list(partitions))],
        transaction_last_update_timestamp_ms=NOW_MS,
        transaction_start_timestamp_ms=FAR_AWAY_MS,
    )
    key = encode_key(TransactionLogKey(transactional_id=name))
    log.append("__transaction_state", encode_value(value), key=key)


def test_the_oldest_open_transaction_stands_in_the_way(log: Log, tmp_path: Path) -> None:
    write(log, 7)
    end(log, 7)
    write(log, 8)
    write(log, 9)
    write(log, 8, sequence=1)
    partition, first, second, other = told("t", "-d", tmp_path / "d")
    assert (partition["last_stable_offset"], partition["end_offset"]) == (2, 5)
    assert (partition["held_offsets"], partition["transactions"]) == (3, 2)
    assert [one["producer_id"] for one in (first, second)] == [8, 9]
    assert [one["is_first"] for one in (first, second)] == [True, False]
    assert (first["began_ms"], first["last_timestamp_ms"]) == (NOW_MS, NOW_MS + 1)
    assert first["producer_epoch"] == 3
    assert first["verdict"] == "unknown"
    assert (other["partition"], other["held_offsets"]) == (1, 0)


def test_where_nothing_is_open_nothing_is_stuck(log: Log, tmp_path: Path) -> None:
    write(log, 7)
    end(log, 7)
    output = run("t", "-d", tmp_path / "d", "-p", 0).output
    assert output == (
        f"{tmp_path}/d/t-0: nothing is stuck: read_committed consumers see all up to offset 2\n"
    )


def test_what_a_clean_stop_has_left_open_is_found_in_its_snapshot(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "d") as log:
        log.create_topic("t")
        write(log, 8)
    _, first = told("t", "-d", tmp_path / "d")
    assert (first["producer_id"], first["first_offset"]) == (8, 0)


def test_an_open_transaction_is_named_by_its_id(log: Log, tmp_path: Path) -> None:
    coordinate(log, "shop", 8, 1, 0)
    write(log, 8)
    _, first = told("t", "-d", tmp_path / "d", "-p", 0)
    assert (first["verdict"], first["transactional_id"], first["state"]) == (
        "open", "shop", "Ongoing"
    )  # fmt: skip
    assert first["ways_out"][1].startswith(
        "ottla transactions abort HOST:PORT --transactional-id shop"
    )


def test_what_no_coordinator_knows_to_be_open_hangs(log: Log, tmp_path: Path) -> None:
    coordinate(log, "shop", 8, 4, 0)
    coordinate(log, "other", 9, 1, 1)
    write(log, 8)
    write(log, 9)
    write(log, 10)
    found = told("t", "-d", tmp_path / "d", "-p", 0)[1:]
    assert [one["verdict"] for one in found] == ["hanging"] * 3
    assert found[0]["ways_out"] == [
        "ottla transactions abort HOST:PORT --topic t --partition 0 --start-offset 0"
    ]


def test_the_last_note_on_a_transactional_id_counts(log: Log, tmp_path: Path) -> None:
    coordinate(log, "shop", 8, 4, 0)
    coordinate(log, "shop", 8, 1, 0)
    coordinate(log, "gone", 9, 1, 0)
    log.append(
        "__transaction_state", None, key=encode_key(TransactionLogKey(transactional_id="gone"))
    )
    write(log, 8)
    write(log, 9)
    found = told("t", "-d", tmp_path / "d", "-p", 0)[1:]
    assert [one["verdict"] for one in found] == ["open", "hanging"]


def test_a_person_reads_who_and_since_when_and_what_to_do(log: Log, tmp_path: Path) -> None:
    coordinate(log, "shop", 8, 4, 0)
    write(log, 8)
    lines = run("t", "-d", tmp_path / "d", "-p", 0).output.splitlines()
    assert lines[0] == (
        f"{tmp_path}/d/t-0: read_committed consumers see nothing from offset 0 on; 0 wait for 1 "
        "open transaction"
    )
    rows = [" ".join(line.split()) for line in lines]
    assert "8/3 0 2023-11-14 22:13:20 2023-11-14 22:13:20 hanging shop" in rows
    assert lines[-3:] == [
        "the transaction of producer 8 from offset 0 holds it back: it hangs, no coordinator "
        "will end it (transactional id shop, CompleteCommit)",
        "to free the partition:",
        "  - ottla transactions abort HOST:PORT --topic t --partition 0 --start-offset 0",
    ]


def test_a_running_broker_says_the_same(log: Log) -> None:
    write(log, 8)
    write(log, 9)
    end(log, 9)
    address = log.listen("127.0.0.1:0").address
    partition, first = told("t", "-b", address, "-p", 0)
    assert (partition["last_stable_offset"], partition["end_offset"]) == (0, 3)
    assert (first["producer_id"], first["first_offset"]) == (8, 0)
    assert f"{address} --topic t --partition 0 --start-offset 0" in first["ways_out"][-1]


@pytest.mark.usefixtures("without_pauses")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["t", "-d", "DIR", "-p", "7"], "topic t has no partition 7 here; it has [0, 1]"),
        (["t", "-b", "127.0.0.1:1"], "127.0.0.1:1: Connection refused; name a broker's HOST:PORT"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2(
    arguments: list[str],
    message: str,
    log: Log,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    directory = str(tmp_path / "d")
    with pytest.raises(SystemExit) as stop:
        main(["explain", "stuck", *(one.replace("DIR", directory) for one in arguments)])
    assert stop.value.code == 2
    expected = message.replace("DIR", directory, 1)
    assert capsys.readouterr().err == f"ottla: {expected}\n"


def test_a_topic_that_a_broker_has_not_is_named(
    log: Log, capsys: pytest.CaptureFixture[str]
) -> None:
    address = log.listen("127.0.0.1:0").address
    with pytest.raises(SystemExit):
        main(["explain", "stuck", "x", "-b", address])
    assert capsys.readouterr().err == "ottla: there is no topic x; there is t\n"


# The judgement

HOLDING = Holding(
    topic="t", partition=0, producer_id=8, producer_epoch=3, first_offset=5, began_ms=None,
    last_timestamp_ms=NOW_MS,
)  # fmt: skip


def coordinated(state: str, *, partition: int = 0) -> CoordinatorView:
    one = CoordinatedTransaction(
        transactional_id="shop", producer_id=8, producer_epoch=3, state=state, timeout_ms=60_000,
        start_ms=NOW_MS, partitions=frozenset({("t", partition)}),
    )  # fmt: skip
    return CoordinatorView(transactions=[one], is_complete=True)


@pytest.mark.parametrize(
    ("view", "now_ms", "verdict"),
    [
        (coordinated("Ongoing"), NOW_MS + 59_999, Verdict.OPEN),
        (coordinated("Ongoing"), NOW_MS + 60_000, Verdict.OVERDUE),
        (coordinated("PrepareCommit"), NOW_MS, Verdict.ENDING),
        (coordinated("PrepareAbort"), NOW_MS, Verdict.ENDING),
        (coordinated("CompleteAbort"), NOW_MS, Verdict.HANGING),
        (coordinated("Empty"), NOW_MS, Verdict.HANGING),
        (coordinated("Ongoing", partition=1), NOW_MS, Verdict.HANGING),
        (CoordinatorView(transactions=[], is_complete=True), NOW_MS, Verdict.HANGING),
        (CoordinatorView(transactions=[], is_complete=False), NOW_MS, Verdict.UNKNOWN),
    ],
)
def test_a_transaction_is_judged_by_what_its_coordinator_knows(
    view: CoordinatorView, now_ms: int, verdict: Verdict
) -> None:
    judged = judge(HOLDING, view, now_ms)
    assert judged.verdict is verdict
    assert ways_out(judged, "b:1")
