"""A process that kills itself in the middle of a load: `python -m tests.support.killed_load`.

Arguments: log, table, the step at which it dies, how many tasks must have run by then, the engine,
and the log's tier if it has one. It prints which Java it is that runs Spark.
"""

import os
import signal
import sys

from ottla.loading.job import LoadOptions
from ottla.spark.load import load
from ottla.spark.session import LocalSession, SessionSettings
from ottla.storage.reading.opening import TierPlace
from ottla.tables.writing.progress import Progress, Step
from tests.support import local_loads


def main(log: str, table: str, step_name: str, task_count: str, engine: str, *tier: str) -> None:
    def die(progress: Progress) -> None:
        if progress.step is Step[step_name] and progress.tasks_done >= int(task_count):
            os.kill(os.getpid(), signal.SIGKILL)

    place = TierPlace(address=tier[0]) if tier else None
    options = LoadOptions(min_partitions=12, tier=place)
    if engine == "local":
        local_loads.load(log, "orders", table, progress=die, options=options)
        return
    settings = SessionSettings(cores=2, is_short=True, log_level="OFF")
    session = LocalSession.start(settings)
    sys.stdout.write(f"{session.java.origin}\n")
    sys.stdout.flush()
    load(log, "orders", table, spark=session.spark, progress=die, options=options)


if __name__ == "__main__":
    main(*sys.argv[1:])
