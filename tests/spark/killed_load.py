"""A process that kills itself in the middle of a load: `python -m tests.spark.killed_load`.

Arguments: log, table, the step at which it dies, and how many tasks must have run by then.
"""

import os
import signal
import sys

from ottla.loading.job import LoadOptions, Progress, Step
from ottla.spark.load import load
from ottla.spark.session import LocalSession, SessionSettings


def main(log: str, table: str, step_name: str, task_count: str) -> None:
    settings = SessionSettings(cores=2, is_short=True, log_level="OFF")
    session = LocalSession.start(settings)
    sys.stdout.write(f"{session.java.origin}\n")
    sys.stdout.flush()

    def die(progress: Progress) -> None:
        if progress.step is Step[step_name] and progress.tasks_done >= int(task_count):
            os.kill(os.getpid(), signal.SIGKILL)

    options = LoadOptions(min_partitions=12)
    load(log, "orders", table, spark=session.spark, progress=die, options=options)


if __name__ == "__main__":
    main(*sys.argv[1:])
