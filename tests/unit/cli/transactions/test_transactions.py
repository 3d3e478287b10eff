"""`ottla transactions`: what a broker knows of transactions, and the end of one that hangs."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

import ottla
from ottla.base.addresses import parse_address
from ottla.cli.main import explain_group, main, transactions_group
from ottla.client.connecting.socket_connection import SocketConnection
from ottla.embedded.log import Log
from ottla.protocol.messages.add_partitions_to_transaction import (
    AddPartitionsTopic,
    AddPartitionsToTransactionRequest,
)
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.record.builder import RecordBatchBuilder
from tests.support.brokers import NOW_MS

NOBODYS = 4711
"""A producer id that no coordinator has given out."""


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    settings = {"transaction.state.log.num.partitions": 1}
    with ottla.open(tmp_path / "d", settings) as log:
        log.create_topic("t", partitions=2)
        yield log


@pytest.fixture
def address(log: Log) -> str:
    return log.listen("127.0.0.1:0").address


def run(address: str, *arguments: object) -> Result:
    texts = [*map(str, arguments), "--bootstrap", address]
    return CliRunner().invoke(transactions_group, texts, catch_exceptions=False)


def told(address: str, *arguments: object) -> list[dict[str, Any]]:
    return [json.loads(line) for line in run(address, *arguments, "--json").output.splitlines()]


def write(log: Log, producer_id: int, epoch: int = 0, partition: int = 0) -> None:
    """One record in a transaction, past the coordinator."""
    builder = RecordBatchBuilder(
        producer_id=producer_id, producer_epoch=epoch, base_sequence=0, is_transactional=True
    )
    builder.append(b"k", b"v", NOW_MS)
    log.append_batch("t", partition, builder)


def open_transaction(log: Log, address: str, name: str, *partitions: int) -> int:
    """As a producer begins one; its producer id."""
    with SocketConnection(*parse_address(address)) as connection:
        init = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        given = connection.ask(init)
        assert given.error_code == 0
        if not partitions:
            return int(given.producer_id)
        topics = [AddPartitionsTopic(name="t", partitions=list(partitions))]
        # Clients add partitions in version 3; what is newer is for brokers, several at a time.
        request = AddPartitionsToTransactionRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=given.producer_id,
            v3_and_below_producer_epoch=given.producer_epoch,
            v3_and_below_topics=topics,
        )
        answer = connection.ask(request, newest=3)
        assert not any(
            one.partition_error_code
            for topic in answer.results_by_topic_v3_and_below
            for one in topic.results_by_partition
        )
    for partition in partitions:
        write(log, given.producer_id, given.producer_epoch, partition)
    producer_id: int = given.producer_id
    return producer_id


def stable_offset(log: Log, partition: int = 0) -> int:
    return log.broker.topics.partition("t", partition).log.last_stable_offset


def test_transactional_ids_are_listed_with_their_states(log: Log, address: str) -> None:
    shop = open_transaction(log, address, "shop", 0)
    open_transaction(log, address, "idle")
    assert told(address, "list", "--producer-id", shop) == [
        {"transactional_id": "shop", "producer_id": shop, "state": "Ongoing"}
    ]
    assert {one["transactional_id"] for one in told(address, "list")} == {"idle", "shop"}
    assert [one["state"] for one in told(address, "list", "--state", "Ongoing")] == ["Ongoing"]
    head, _, first = run(address, "list", "--state", "Ongoing").output.splitlines()
    assert head.split() == ["transactional", "id", "producer", "state"]
    assert first.split() == ["shop", str(shop), "Ongoing"]


def test_a_transaction_is_described_with_its_partitions_and_its_end(log: Log, address: str) -> None:
    shop = open_transaction(log, address, "shop", 0, 1)
    (one,) = told(address, "describe", "shop")
    assert (one["producer_id"], one["state"], one["timeout_ms"]) == (shop, "Ongoing", 60_000)
    assert one["partitions"] == ["t-0", "t-1"]
    assert one["due_ms"] == one["start_ms"] + 60_000
    lines = run(address, "describe", "shop").output.splitlines()
    assert lines[0] == f"shop: Ongoing, producer {shop} epoch 0, timeout 60 s"
    assert "unless its producer ends it" in lines[1]
    assert lines[2] == "  writes to t-0, t-1"


def test_a_broker_that_is_asked_why_consumers_wait_names_the_id(log: Log, address: str) -> None:
    open_transaction(log, address, "shop", 0)
    words = ["stuck", "t", "--bootstrap", address, "--partition", "0", "--json"]
    output = CliRunner().invoke(explain_group, words, catch_exceptions=False).output
    _, first = [json.loads(line) for line in output.splitlines()]
    assert (first["verdict"], first["transactional_id"]) == ("open", "shop")
    assert first["began_ms"] is not None
    assert f"{address} --transactional-id shop" in first["ways_out"][1]


def test_what_hangs_is_found_and_what_is_open_is_not(log: Log, address: str) -> None:
    open_transaction(log, address, "shop", 0)
    found = run(address, "find-hanging")
    assert (found.exit_code, found.output) == (0, "0 transactions that no coordinator will end\n")
    write(log, NOBODYS, partition=1)
    found = run(address, "find-hanging", "--topic", "t")
    assert found.exit_code == 1
    assert "t-1: the transaction of producer 4711 epoch 0 from offset 0" in found.output
    (one,) = told(address, "find-hanging")
    assert one["verdict"] == "hanging"


def test_the_command_that_is_named_ends_what_hangs(log: Log, address: str) -> None:
    write(log, NOBODYS)
    log.append("t", b"waits", partition=0)
    assert stable_offset(log) == 0
    (one,) = told(address, "find-hanging")
    (command,) = one["ways_out"]
    words = command.removeprefix("ottla transactions ").split()
    ended = CliRunner().invoke(transactions_group, words, catch_exceptions=False)
    assert ended.output == "t-0: the transaction of producer 4711 from offset 0 is aborted\n"
    assert stable_offset(log) == 3
    assert told(address, "find-hanging") == []


def test_a_transaction_is_aborted_by_its_id_in_all_partitions(log: Log, address: str) -> None:
    open_transaction(log, address, "shop", 0, 1)
    output = run(address, "abort", "--transactional-id", "shop").output
    assert output.startswith("shop: Ongoing until now; its producer is fenced by epoch ")
    assert (stable_offset(log, 0), stable_offset(log, 1)) == (2, 2)
    again = run(address, "abort", "--transactional-id", "shop").output
    assert again.startswith("shop: nothing was open; ")


NAME_ONE = (
    "name either a transaction, --transactional-id ID, or a place, --topic TOPIC --partition N "
    "--start-offset OFFSET"
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["abort"], NAME_ONE),
        (["abort", "--topic", "t", "--partition", "0"], NAME_ONE),
        (["abort", "--transactional-id", "x", "--topic", "t"], NAME_ONE),
        (["list", "--state", "Ongong"], "ADDRESS knows no state Ongong; one is Ongoing"),
        (["abort", "--topic", "t", "--partition", "0", "--start-offset", "7"],
         "t-0: no transaction is open from offset 7; open ones begin at none"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_and_exit_code_2(
    arguments: list[str], message: str, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["transactions", *arguments, "--bootstrap", address])
    assert stop.value.code == 2
    assert capsys.readouterr().err == f"ottla: {message.replace('ADDRESS', address)}\n"


def test_a_topic_that_is_not_there_is_named(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["transactions", "find-hanging", "--topic", "x", "--bootstrap", address])
    assert capsys.readouterr().err == "ottla: there is no topic x; there is t\n"


@pytest.mark.parametrize("verb", [["describe"], ["abort", "--transactional-id"]])
def test_an_id_that_no_coordinator_knows_is_exit_code_1_with_the_nearest(
    verb: list[str], log: Log, address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    open_transaction(log, address, "shop")
    with pytest.raises(SystemExit) as stop:
        main(["transactions", *verb, "shops", "--bootstrap", address])
    assert stop.value.code == 1
    expected = "ottla: there is no transactional id shops; did you mean shop?\n"
    assert capsys.readouterr().err == expected
