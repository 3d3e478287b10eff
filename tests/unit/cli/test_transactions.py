"""`ottla transactions`: what a broker knows of transactions, and the end of one that hangs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import ottla
from ottla.cli.main import main


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with ottla.open(tmp_path / "d") as log:
        log.create_topic("t")
        yield log.listen("127.0.0.1:0").address


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
    assert capsys.readouterr().err == f"ottla: {message}\n"


def test_a_topic_that_is_not_there_is_named(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        main(["transactions", "find-hanging", "--topic", "x", "--bootstrap", address])
    assert capsys.readouterr().err.startswith(f"ottla: {address}: topic x: ")
