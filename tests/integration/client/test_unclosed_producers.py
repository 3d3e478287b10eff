"""Scripts that never close their producer: what they sent is there when they have ended, or they
say that it is not.
"""

import gc
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import ottla
import ottla.aio
from ottla.client.producing import unclosed
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.ports import free_port

LATE = {"linger.ms": 60_000}
START = f"""
import sys
import ottla, ottla.aio
target, topic = sys.argv[1:]
def send(kind=ottla.Producer, **settings):
    producer = kind(target, settings={LATE!r} | settings)
    sent = producer.send(topic, b"tea")
    return producer
"""
ENDINGS = {
    "at-its-end": "producer = send()",
    "within-a-call": "def work(): producer = send()\nwork()",
    "deleted": "producer = send()\ndel producer",
    "exit": "producer = send(); sys.exit(3)",
    "exception": "producer = send(); raise ZeroDivisionError",
    "interrupt": "producer = send(); raise KeyboardInterrupt",
    "thread": """
import threading
def work(): ready.wait(); send()
ready = threading.Event()
threading.Thread(target=work).start()
ready.set()
""",
    "exit-function": "import atexit\natexit.register(send)",
    "event-loop": """
import asyncio
async def work():
    global producer
    producer = ottla.aio.Producer(target, settings={"linger.ms": 60_000})
    await producer.send(topic, b"tea")
asyncio.run(work())
""",
    "child": """
import multiprocessing
if __name__ == "__main__":
    child = multiprocessing.get_context("fork").Process(target=send)
    child.start()
    child.join()
""",
    "forked": """
import os
producer = send()
child = os.fork()
if child:
    os.waitpid(child, 0)
""",
}
"""How a script ends, and the topic of its record."""


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("unclosed")


@pytest.fixture(scope="module")
def errors(directory: Path) -> Iterator[Mapping[str, str]]:
    """What each script wrote to its standard error, when all have ended."""
    with ottla.open(directory / "data") as log:
        address = log.listen("127.0.0.1:0").address
        for name in ENDINGS:
            log.create_topic(name)
        scripts = {
            name: subprocess.Popen(
                [sys.executable, "-c", START + script, address, name],
                stderr=subprocess.PIPE,
                text=True,
            )
            for name, script in ENDINGS.items()
        }
        yield {name: one.communicate(timeout=PATIENCE_S)[1] for name, one in scripts.items()}


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
def test_what_a_script_sent_is_there_when_it_has_ended(
    errors: Mapping[str, str], directory: Path, ending: str
) -> None:
    with ottla.open(directory / "data", read_only=True) as log:
        assert [one.value for one in log.read(ending)] == [b"tea"], errors[ending]
    assert "not closed" not in errors[ending]


@pytest.mark.slow
def test_a_directory_is_left_clean(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("orders")
    script = START + ENDINGS["at-its-end"]
    command = [sys.executable, "-c", script, str(tmp_path / "data"), "orders"]
    subprocess.run(command, check=True, timeout=PATIENCE_S)
    with ottla.open(tmp_path / "data") as log:
        assert [one.value for one in log.read("orders")] == [b"tea"]


@pytest.mark.slow
def test_what_cannot_be_sent_is_counted_in_the_log_and_in_a_warning(tmp_path: Path) -> None:
    script = f"""
import ottla
from ottla.client.producing import unclosed
unclosed.PATIENCE_S = 0.1
log = ottla.open(r"{tmp_path / "data"}")
log.create_topic("orders")
gone = ottla.Producer(log.listen("127.0.0.1:{free_port()}").address)
gone.partitions_for("orders")
cafe = ottla.Producer(log, settings={{"transactional.id": "till"}})
cafe.begin_transaction()
for _ in range(3):
    sending = cafe.send("orders", b"tea")
log.close()
for _ in range(2):
    sending = gone.send("orders", b"tea")
"""
    command = [sys.executable, "-W", "default::ResourceWarning", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    for complaint in ("2 records were not delivered", unclosed.OPEN_TRANSACTION):
        assert f"a producer was not closed: {complaint}" in done.stderr
        assert f"ResourceWarning: a producer was not closed: {complaint}" in done.stderr


def test_a_producer_that_nobody_has_any_more_sends_and_ends(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("orders")
        for kind in (ottla.Producer, ottla.aio.Producer):
            producer = kind(log, settings=LATE)
            sender = producer._core.sender
            if isinstance(producer, ottla.Producer):
                producer.send("orders", b"tea")
            del producer
            gc.collect()
            sender.join(PATIENCE_S)
            assert not sender.is_running
        assert [one.value for one in log.read("orders")] == [b"tea"]
        wait_until(lambda: not log.before_close)


def test_a_log_that_closes_first_has_what_its_producers_sent(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("orders")
        producer = ottla.Producer(log, settings=LATE)
        sending = producer.send("orders", b"tea")
    assert sending.result(0).offset == 0
    producer.close()


@pytest.mark.slow
def test_a_lost_transaction_is_said(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("orders")
        producer = ottla.Producer(log, settings={"transactional.id": "till"})
        producer.begin_transaction()
        producer.send("orders", b"tea")
        core = producer._core
        with pytest.warns(ResourceWarning, match="neither committed nor aborted"):
            unclosed.UNCLOSED.let_go(core.sender)
        core.sender.join(PATIENCE_S)
    assert "neither committed nor aborted" in caplog.text
