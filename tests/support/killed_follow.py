"""A process that follows a log and kills itself: `python -m tests.support.killed_follow`.

Arguments: directory, and the step of its second commit at which it dies. The log gets its second
half, broken records and all, when the first commit is made.
"""

import os
import signal
import sys
from pathlib import Path

from ottla.loading.follow import follow
from ottla.tables.writing.progress import Progress, Step
from tests.support.following import EAGER, StopAfter, append_values, some_orders, table_load


def main(directory: str, step_name: str) -> None:
    path = Path(directory)
    commits = 0

    def die(progress: Progress) -> None:
        nonlocal commits
        if commits and progress.step is Step[step_name]:
            os.kill(os.getpid(), signal.SIGKILL)
        commits += progress.step is Step.COMMITTED

    def feed(round_number: int) -> None:
        if round_number == 0:
            append_values(path / "log", some_orders(400, 100))

    loads = [table_load(path, die)]
    for _ in follow(loads, EAGER, StopAfter(1000, feed)):
        pass


if __name__ == "__main__":
    main(*sys.argv[1:])
