"""`ottla serve` by a clock that a trial sets: `python -m tests.histories.stepped_broker FILE
ARGUMENTS`, where FILE is that of a `WallClock`."""

import sys
from pathlib import Path

from ottla.cli.serve.serve_command import serve_command
from tests.histories.clocks import SteppedClock

if __name__ == "__main__":
    serve_command.main(sys.argv[2:], prog_name="ottla serve", obj=SteppedClock(Path(sys.argv[1])))
