"""The processes of a trial: a driver that is started again after it was killed, and a broker."""

import json
import os
import random
import select
import signal
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

import psutil

from tests.crash.kills.plan import Killer, Plan, Victim, kill_workers, workers
from tests.integration.cli.support import ENVIRONMENT
from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[3]
MASTERS = ("local[2]", "local[2,3]")
"""Of which the second one tries a task again whose Python process has died."""

BROKER_SETTINGS = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}
START_SECONDS = 60
ATTEMPTS = 8
"""How often a job is tried that nobody kills any more: a dead worker may be met once more."""


def seeded() -> random.Random:
    """Chance with a new seed, which is told, or the one that is to be tried again."""
    seed = int(os.environ.get("KILL_SEED", random.randrange(10**6)))
    print(f"seed {seed} (again with KILL_SEED={seed})")
    return random.Random(seed)


class Driver:
    """A process that has a session of Spark's."""

    def __init__(self, directory: Path, master: str) -> None:
        environment = {**ENVIRONMENT, "PYTHONPATH": f"{ENVIRONMENT['PYTHONPATH']}:{ROOT}"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.crash.kills.child", str(directory), master],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment,
            cwd=ROOT,
        )
        self.java = int(self._line().split()[1])
        self.is_over = False

    def begin(self, job: str, **arguments: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"job": job, **arguments}) + "\n")
        self.process.stdin.flush()

    def answer(self) -> str:
        """`done`, why it failed, or nothing when it was killed, it and all its processes."""
        line = self._line()
        self.is_over = not line or not is_running(self.java)
        return line.strip()

    def has_answered(self, seconds: float) -> bool:
        """Waits at the most so long: it is time, not an event, that kills go by."""
        return bool(select.select([self.process.stdout], [], [], seconds)[0])

    def end(self) -> None:
        """Kills what is left of it, and waits until nobody has its output open any more."""
        self.process.kill()
        self.process.communicate()

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()


def is_running(process_id: int) -> bool:
    """Whether it is there, and not only not yet asked for its exit code."""
    try:
        return psutil.Process(process_id).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


class ServedBroker:
    """`ottla serve` as a process, which can be killed and started again where it was."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.address = f"127.0.0.1:{free_port()}"
        self.start()

    def start(self) -> None:
        command = [sys.executable, "-m", "ottla", "serve", "--data-dir", str(self._data)]
        command += ["--listen", self.address]
        for key, value in BROKER_SETTINGS.items():
            command += ["-o", f"{key}={value}"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().split()[1]

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


class KeptBroker(ServedBroker):
    """Comes back whenever somebody kills it. Use it in a `with` statement."""

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.returns = 0
        self._is_wanted = True
        self._returned = threading.Condition()
        self._keeper = threading.Thread(target=self._keep)
        self._keeper.start()

    def await_return(self, number: int) -> None:
        """Until it has come back so often."""
        with self._returned:
            assert self._returned.wait_for(lambda: self.returns >= number, START_SECONDS)

    def _keep(self) -> None:
        while True:
            self.process.wait()
            if not self._is_wanted:
                return
            self.kill()
            self.start()
            with self._returned:
                self.returns += 1
                self._returned.notify_all()

    def __enter__(self) -> "KeptBroker":
        return self

    def __exit__(self, *_: object) -> None:
        self._is_wanted = False
        self.process.kill()
        self._keeper.join()
        self.kill()


class Trial:
    """Jobs in a directory, and who is killed meanwhile. Use it in a `with` statement."""

    def __init__(
        self, directory: Path, chance: random.Random, broker: KeptBroker | None = None
    ) -> None:
        self.directory = directory
        self.chance = chance
        self.broker = broker
        self.killer = Killer(str(directory / "kill"))
        self.killer.forget()
        self.kills: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.broker_returns = 0
        """How often it must have come back."""
        self._driver: Driver | None = None

    def __enter__(self) -> "Trial":
        return self

    def __exit__(self, *_: object) -> None:
        if self._driver is not None:
            self._driver.end()
        print(f"kills: {dict(sorted(self.kills.items()))}")
        for failure, count in self.failures.most_common():
            print(f"{count} times: {failure[:300]}")

    @property
    def driver(self) -> Driver:
        """One that lives, with or without a second chance for its tasks."""
        if self._driver is None:
            self._driver = Driver(self.directory, self.chance.choice(MASTERS))
        return self._driver

    def kill_at(self, victim: Victim, step: str, turn: int, job: str, **arguments: str) -> str:
        """A job with a kill at a step; what came of it, as `Driver.answer` says it."""
        self._await_broker()
        plan = Plan(victim=victim, step=step, turn=turn, processes=self._processes())
        self.killer.prepare(plan)
        answer = self._do(job, **arguments)
        is_killed = self.killer.has_killed
        self.kills[f"{job} {victim.value} {step}"] += is_killed
        self.broker_returns += is_killed and victim is Victim.BROKER
        self.killer.forget()
        return answer

    def kill_at_random(self, victim: Victim, seconds: float, job: str, **arguments: str) -> None:
        """A job with a kill so long after it began, unless it is through before."""
        self._await_broker()
        self.driver.begin(job, **arguments)
        if not self.driver.has_answered(seconds):
            is_killed = True
            if victim is Victim.WORKER:
                there = workers(self.driver.java)
                first = self.chance.randrange(len(there)) if there else 0
                is_killed = bool(kill_workers(self.driver.java, count=1, first=first))
            else:
                os.kill(self._processes()[victim.value], signal.SIGKILL)
                self.broker_returns += victim is Victim.BROKER
            self.kills[f"{job} {victim.value}"] += is_killed
        self._answered()

    def until_done(self, job: str, **arguments: str) -> None:
        """Does a job that nobody kills, again as long as it fails from what was killed before."""
        for _ in range(ATTEMPTS):
            answer = self._do(job, **arguments)
            if answer == "done":
                return
        raise AssertionError(f"{job}: {answer}")

    def _do(self, job: str, **arguments: str) -> str:
        self._await_broker()
        self.driver.begin(job, **arguments)
        return self._answered()

    def _answered(self) -> str:
        answer = self.driver.answer()
        if answer not in ("", "done"):
            self.failures[answer] += 1
        if self.driver.is_over:
            self.driver.end()
            self._driver = None
        return answer

    def _await_broker(self) -> None:
        if self.broker is not None:
            self.broker.await_return(self.broker_returns)

    def _processes(self) -> dict[str, int]:
        found = {Victim.DRIVER: self.driver.process.pid, Victim.JAVA: self.driver.java}
        if self.broker is not None:
            found[Victim.BROKER] = self.broker.process.pid
        return {victim.value: process_id for victim, process_id in found.items()}
