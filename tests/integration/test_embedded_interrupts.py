"""Ctrl-C in one call of an open log, while other threads use it: none of them notices."""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

import ottla
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from tests.support.patience import PATIENCE_S, wait_until

INTERRUPTS = 8
MOMENT_S = 0.2

Use = Callable[[ottla.Log], None]


def append(log: ottla.Log) -> None:
    log.append("t", b"value")


def read(log: ottla.Log) -> None:
    assert sum(1 for _ in log.scan("t")) <= sum(end for _, end in log.offsets("t").values())


def tail(log: ottla.Log) -> None:
    next(iter(log.tail("t", timeout_s=MOMENT_S)), None)


def wait(log: ottla.Log) -> None:
    log.wait_for_records("t", {0: log.offsets("t")[0][1]}, MOMENT_S)


def produce(log: ottla.Log) -> None:
    with ottla.Producer(log) as producer:
        assert producer.send("t", b"value").result(PATIENCE_S).offset >= 0


def produce_in_transactions(log: ottla.Log) -> None:
    with ottla.Producer(log, settings={"transactional.id": "cook"}) as producer:
        for _ in range(3):
            with producer.transaction():
                producer.send("t", b"value")


def consume(log: ottla.Log) -> None:
    with ottla.Consumer(log, group="cooks") as consumer:
        consumer.subscribe(["t"])
        consumer.consume(1, timeout=MOMENT_S)
        consumer.commit()


USES: tuple[Use, ...] = (append, read, tail, wait, produce, produce_in_transactions, consume)


def interrupted(broker: Broker, at: Timestamps) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_other_threads_go_on_with_what_they_do(tmp_path: Path) -> None:
    rounds = dict.fromkeys(USES, 0)
    failures: list[tuple[str, Exception]] = []
    is_over = threading.Event()

    def repeat(use: Use, log: ottla.Log) -> None:
        try:
            while not is_over.is_set():
                use(log)
                rounds[use] += 1
        except Exception as error:
            failures.append((use.__name__, error))

    def have_done(least: int) -> bool:
        return bool(failures) or min(rounds.values()) >= least

    with ottla.open(tmp_path) as log:
        log.create_topic("t", partitions=2)
        threads = [threading.Thread(target=repeat, args=(use, log)) for use in USES]
        for one in threads:
            one.start()
        for number in range(1, INTERRUPTS + 1):
            wait_until(partial(have_done, number))
            with pytest.raises(KeyboardInterrupt):
                log.hold(interrupted)
        wait_until(partial(have_done, INTERRUPTS + 1))
        is_over.set()
        for one in threads:
            one.join(PATIENCE_S)
    assert failures == []
