"""`ottla serve` as a user meets it."""

import signal
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from tests.cli.support import run_ottla, serving

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_it_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    with serving(tmp_path / "data") as (_, process):
        process.send_signal(number)
        assert process.wait(10) == 0
    assert (tmp_path / "data" / ".kafka_cleanshutdown").exists()


def test_records_outlive_a_kill_and_a_restart(tmp_path: Path) -> None:
    with serving(tmp_path) as (address, process):
        producer = Producer({"bootstrap.servers": address, "acks": "all"})
        for number in range(100):
            producer.produce("t", b"%d" % number, partition=0)
        assert producer.flush(10) == 0
        process.kill()
    assert not (tmp_path / ".kafka_cleanshutdown").exists()
    with serving(tmp_path) as (address, _):
        consumer = Consumer({"bootstrap.servers": address, "group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        values = [message.value() for message in consumer.consume(100, 10)]
        consumer.close()
    assert values == [b"%d" % number for number in range(100)]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["-o", "no.such.setting=1"], "no.such.setting: there is no such setting"),
        (["-o", "log.segment.bytes=x"], "log.segment.bytes=x: must be an int"),
        (["-o", "nonsense"], "a setting is KEY=VALUE"),
        (["--listen", "nowhere"], "an address is HOST:PORT"),
    ],
)
def test_a_mistake_is_one_line_and_exit_code_2_and_changes_nothing(
    tmp_path: Path, arguments: list[str], told: str
) -> None:
    result = run_ottla("serve", "--data-dir", tmp_path / "data", *arguments)
    assert result.returncode == 2
    assert told in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "data").exists()


def test_a_directory_or_port_in_use_is_named(tmp_path: Path) -> None:
    with serving(tmp_path / "a") as (address, _):
        same_directory = run_ottla("serve", "-d", tmp_path / "a", "--listen", "127.0.0.1:0")
        assert same_directory.returncode == 2
        assert "in use by another process" in same_directory.stderr
        same_port = run_ottla("serve", "-d", tmp_path / "b", "--listen", address)
        assert same_port.returncode == 2
        assert f"cannot listen on {address}: Address already in use" in same_port.stderr


def test_an_unreadable_path_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    result = run_ottla("serve", "-d", tmp_path / "file")
    assert result.returncode == 2
    assert "is a file; name a directory" in result.stderr
