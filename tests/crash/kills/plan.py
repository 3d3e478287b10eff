"""Who is killed where: a plan in files, so that all processes of a Spark job go by the same one."""

import itertools
import json
import os
import signal
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from enum import Enum
from pathlib import Path

import psutil

LIMIT_SECONDS = 400


class Victim(Enum):
    DRIVER = "driver"
    JAVA = "java"
    WORKER = "worker"
    """A Python process of Java's: of a task, or what plans and commits."""
    BROKER = "broker"


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The victim dies when `step` is reached for the `turn`th time (from 1), by whichever process.

    `processes` are the ids of those victims that can be named beforehand.
    """

    victim: Victim
    step: str
    turn: int
    processes: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Killer:
    """Carries out the plan in a directory, once. Travels to the processes of tasks."""

    directory: str

    def prepare(self, plan: Plan) -> None:
        self.forget()
        path = Path(self.directory, "plan")
        path.write_text(json.dumps({**asdict(plan), "victim": plan.victim.value}))

    def forget(self) -> None:
        directory = Path(self.directory)
        directory.mkdir(exist_ok=True)
        for path in directory.iterdir():
            path.unlink()

    @property
    def has_killed(self) -> bool:
        return Path(self.directory, "killed").exists()

    def __call__(self, step: Enum) -> None:
        self.reached(step.name)

    def reached(self, step: str) -> None:
        try:
            fields = json.loads(Path(self.directory, "plan").read_text())
        except FileNotFoundError:
            return
        plan = Plan(**{**fields, "victim": Victim(fields["victim"])})
        if plan.step == step and self._turn() == plan.turn:
            self._carry_out(plan)

    def _turn(self) -> int:
        """How often the step was reached by now, whoever else counts at the same time."""
        for turn in itertools.count(1):
            with suppress(FileExistsError):
                os.close(os.open(Path(self.directory, f"turn-{turn}"), os.O_CREAT | os.O_EXCL))
                return turn
        raise AssertionError

    def _carry_out(self, plan: Plan) -> None:
        is_worker = os.getpid() != plan.processes.get(Victim.DRIVER.value)
        if plan.victim is Victim.WORKER and not is_worker:
            killed = kill_workers(plan.processes[Victim.JAVA.value], count=1)
            if killed:
                Path(self.directory, "killed").touch()
            return
        Path(self.directory, "killed").touch()
        itself = os.getpid()
        os.kill(plan.processes.get(plan.victim.value, itself), signal.SIGKILL)
        if is_worker and plan.victim is not Victim.BROKER:
            # It ends with its Java, and does no more until then.
            signal.alarm(LIMIT_SECONDS)
            signal.pause()


def workers(java: int) -> list[psutil.Process]:
    """The Python processes that Java has, which are forked from one that does no work itself."""
    try:
        found = psutil.Process(java).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return [one for one in found if one.ppid() != java]


def kill_workers(java: int, *, count: int, first: int = 0) -> int:
    """Kills some of them; returns how many there were to be killed."""
    chosen = workers(java)[first:][:count]
    for one in chosen:
        with suppress(psutil.NoSuchProcess):
            one.kill()
    return len(chosen)
