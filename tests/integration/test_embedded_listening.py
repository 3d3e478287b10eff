"""The embedded log as a broker for other processes' clients."""

import os
import threading
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

import ottla
from ottla.base.files import OsFileSystem
from ottla.storage.directory.owner_note import Owner, owner_of
from tests.support.limits import few_open_files
from tests.support.patience import PATIENCE_S

pytestmark = pytest.mark.slow


def test_a_client_reads_what_the_process_appends_and_the_other_way_round(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("t")
        log.append("t", b"from inside")
        listening = log.listen("127.0.0.1:0")
        servers = {"bootstrap.servers": listening.address}
        producer = Producer(servers)
        producer.produce("t", b"from outside", partition=0)
        assert producer.flush(PATIENCE_S) == 0
        assert [one.value for one in log.read("t")] == [b"from inside", b"from outside"]
        consumer = Consumer({**servers, "group.id": "g"})
        consumer.assign([TopicPartition("t", 0, 0)])
        assert [one.value() for one in consumer.consume(2, PATIENCE_S)] == [
            b"from inside",
            b"from outside",
        ]
        log.append("t", b"while a client waits")
        (message,) = consumer.consume(1, PATIENCE_S)
        assert message.value() == b"while a client waits"
        consumer.close()


def test_an_address_in_use_is_named(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "one") as one, ottla.open(tmp_path / "two") as two:
        address = one.listen("127.0.0.1:0").address
        with pytest.raises(ottla.UserError, match=f"cannot listen on {address}"):
            two.listen(address)


def test_a_log_listens_on_one_address_at_a_time(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        listening = log.listen("127.0.0.1:0")
        with pytest.raises(ottla.UserError, match=f"listens on {listening.address}; close that"):
            log.listen("127.0.0.1:0")
        listening.close()
        assert owner_of(OsFileSystem(), str(tmp_path)) == Owner(pid=os.getpid())
        address = log.listen("127.0.0.1:0").address
        owner = Owner(pid=os.getpid(), addresses=(address,), command="open")
        assert owner_of(OsFileSystem(), str(tmp_path)) == owner
    assert "ottla-owner" not in os.listdir(tmp_path)


def test_what_comes_due_while_a_log_is_closed_is_no_failure(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = ottla.open(tmp_path)
    log.listen("127.0.0.1:0")
    is_closing = threading.Event()
    monkeypatch.setattr(log.pending, "end_all", is_closing.set)
    with log.looking():
        closing = threading.Thread(target=log.close)
        closing.start()
        is_closing.wait()
        log.run_due_jobs()
    closing.join()
    assert not caplog.messages


def test_who_listens_takes_as_many_open_files_as_it_may_have(tmp_path: Path) -> None:
    with few_open_files(), ottla.open(tmp_path) as log:
        log.listen("127.0.0.1:0")
        log.create_topic("many", partitions=100)
        log.append("many", b"value")
