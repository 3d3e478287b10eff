"""A process that follows a log and kills itself: `python -m tests.spark.killed_follow`.

Arguments: directory, and the step of its second commit at which it dies. The log gets its second
half, broken records and all, when the first commit is made.
"""

import os
import signal
import sys
from pathlib import Path

from ottla.loading.follow import follow
from ottla.loading.job import Progress, Step
from ottla.spark.session import LocalSession, SessionSettings
from tests.spark.following import EAGER, StopAfter, some_orders, table_load
from tests.spark.test_decoded_load import append_values


def main(directory: str, step_name: str) -> None:
    path = Path(directory)
    session = LocalSession.start(SessionSettings(cores=2, is_short=True, log_level="OFF"))
    commits = 0

    def die(progress: Progress) -> None:
        nonlocal commits
        if commits and progress.step is Step[step_name]:
            os.kill(os.getpid(), signal.SIGKILL)
        commits += progress.step is Step.COMMITTED

    def feed(round_number: int) -> None:
        if round_number == 0:
            append_values(path / "log", some_orders(400, 100))

    loads = [table_load(path, session.spark, die)]
    for _ in follow(loads, EAGER, StopAfter(1000, feed)):
        pass


if __name__ == "__main__":
    main(*sys.argv[1:])
