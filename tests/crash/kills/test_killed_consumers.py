"""Workers that keep offsets with their results, killed at any moment: each payment counts once."""

import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from examples.exactly_once import GROUP, TOPIC, Database, open_database

import ottla
from ottla.embedded.log import Log
from ottla.record.builder import RecordBatchBuilder
from tests.integration.cli.support import ENVIRONMENT
from tests.support.patience import wait_until
from tests.support.postgres import postgres

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[3]
SETTINGS = {
    "offsets.topic.num.partitions": 1,
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1,
}
PARTITION_COUNT = 2
ACCOUNTS = 7
PAYMENTS = 3000
"""Before each kill."""

KILLS = 4
KILLS_AT_LENGTH = 100
WORKERS = ("a", "b")

WORKER = """
import faulthandler, runpy, signal
faulthandler.register(signal.SIGUSR1)
runpy.run_module("examples.exactly_once", run_name="__main__", alter_sys=True)
"""


class Workers:
    """Two of them, one of which is killed and started again now and then."""

    def __init__(self, address: str, database: str) -> None:
        self._command = [sys.executable, "-c", WORKER, address, database]
        self._running = {name: self._start(name) for name in WORKERS}

    def _start(self, name: str) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [*self._command, "--name", name],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={**ENVIRONMENT, "PYTHONPATH": f"{ENVIRONMENT['PYTHONPATH']}:{ROOT}"},
            cwd=ROOT,
        )

    def kill(self, name: str) -> None:
        self.check()
        worker = self._running[name]
        worker.kill()
        worker.communicate()
        self._running[name] = self._start(name)

    def check(self) -> None:
        for worker in self._running.values():
            assert worker.poll() is None, worker.communicate()[1].decode()

    def stacks(self) -> str:
        """Where each of them is at work, or waits."""
        found = []
        for name, worker in self._running.items():
            worker.send_signal(signal.SIGUSR1)
            time.sleep(1)
            worker.kill()
            found.append(f"worker {name}:\n{worker.communicate()[1].decode()}")
        return "\n".join(found)

    def close(self) -> None:
        for worker in self._running.values():
            worker.kill()
            worker.communicate()


def pay(log: Log, chance: random.Random, count: int, paid: Counter[str]) -> None:
    for partition in range(PARTITION_COUNT):
        builder = RecordBatchBuilder()
        for _ in range(count // PARTITION_COUNT):
            account, amount = f"account {chance.randrange(ACCOUNTS)}", chance.randrange(1, 1000)
            # Now: retention would remove what is older than a week.
            builder.append(account.encode(), b"%d" % amount, time.time_ns() // 1_000_000)
            paid[account] += amount
        log.append_batch(TOPIC, partition, builder)


@contextmanager
def sqlite() -> Iterator[str]:
    with TemporaryDirectory() as directory:
        yield f"{directory}/balances.db"


@pytest.mark.parametrize("start", [sqlite, postgres])
def test_each_payment_counts_once_however_often_workers_are_killed(
    tmp_path: Path, start: Callable[[], AbstractContextManager[str]], crash_seconds: float
) -> None:
    chance = random.Random(1)
    paid: Counter[str] = Counter()
    with (
        start() as url,
        ottla.open(tmp_path / "log", SETTINGS) as log,
        ExitStack() as stack,
    ):
        log.create_topic(TOPIC, partitions=PARTITION_COUNT)
        pay(log, chance, PAYMENTS, paid)
        workers = Workers(log.listen("127.0.0.1:0").address, url)
        stack.callback(workers.close)
        database = open_database(url)
        stack.callback(database.close)
        before = 0
        for _ in range(KILLS_AT_LENGTH if crash_seconds else KILLS):

            def has_grown(before: int = before) -> bool:
                workers.check()
                return counted(database) > before

            wait_until(has_grown, lambda: standstill(log, workers, database))
            time.sleep(chance.random() / 20)  # Any moment of a transaction.
            workers.kill(chance.choice(WORKERS))
            before = counted(database)  # All may be counted as soon as they are paid.
            pay(log, chance, PAYMENTS, paid)
        wait_until(lambda: counted(database) == sum(log.offsets(TOPIC)[n][1] for n in (0, 1)))
        assert dict(database.execute("SELECT account, amount FROM balances").fetchall()) == paid


def standstill(log: Log, workers: Workers, database: Database) -> str:
    """What holds them up, by the broker, the database and themselves."""
    with ottla.Admin(log) as admin:
        group = admin.describe_groups([GROUP])
    rows = database.execute("SELECT * FROM offsets").fetchall()
    ends = {number: log.offsets(TOPIC)[number] for number in range(PARTITION_COUNT)}
    held = ""
    if hasattr(database, "_connection") and "psycopg" in type(database._connection).__module__:
        query = "SELECT pid, state, wait_event_type, wait_event, query FROM pg_stat_activity"
        held = str(database.execute(query).fetchall())
    return f"no payment counts any more: {group}\n{rows} of {ends}\n{held}\n{workers.stacks()}"


def counted(database: Database) -> int:
    """Payments that the database says it has."""
    try:
        rows = database.execute("SELECT next_offset FROM offsets").fetchall()
    except Exception as error:
        if "offsets" in str(error):  # The first worker has not made the table yet.
            return 0
        raise
    return sum(one for (one,) in rows)
