"""A process that does the jobs it is told of until it, or its Java, is killed.

`python -m tests.crash.kills.child DIRECTORY MASTER` starts Spark, says `java PID`, and then takes a
job a line, as JSON, and says `done` or, in one line, why it failed.
"""

import json
import sys
from pathlib import Path

from ottla.spark.session import LocalSession, SessionSettings
from tests.crash.kills.jobs import Jobs


def main(directory: str, master: str) -> None:
    settings = SessionSettings(
        cores=2, is_short=True, log_level="OFF", spark={"spark.master": master}
    )
    session = LocalSession.start(settings)
    jobs = Jobs(Path(directory), session.spark)
    print(f"java {session.process_id}", flush=True)
    for line in sys.stdin:
        try:
            # Which waits for a Java that was killed to be gone: its sockets are closed before.
            with session.needing_java():
                jobs.run(**json.loads(line))
        except Exception as error:
            print(f"failed {type(error).__name__}: {str(error)!r}", flush=True)
        else:
            print("done", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
