"""One simulated run of a group with everything that happens in it: `make sim SEED=n`.

`make sim SEED=n PROTOCOL=consumer` is one of the new group protocol, `PROTOCOL=transactions` one of
transactional producers.
"""

import logging
import sys

from ottla.testing.history import check
from ottla.testing.history.lines import format_operation
from tests.simulation.consumer_world import ConsumerWorld
from tests.simulation.group_world import World
from tests.simulation.transaction_world import TransactionWorld


class WithTime(logging.Formatter):
    """Lines with the simulated time."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def format(self, record: logging.LogRecord) -> str:
        return f"{self._world.now_ms:>9} ms  {record.getMessage()}"


def simulate_transactions(seed: int) -> None:
    """Its log is the history: one operation a line."""
    world = TransactionWorld(seed)
    history = world.run()
    for one in sorted(history, key=lambda one: one.began):
        print(format_operation(one))
    findings = check(history)
    for finding in findings:
        print(finding)
    print(f"seed {seed}: {dict(world.counts)}, {len(findings)} findings")
    sys.exit(bool(findings))


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    if sys.argv[2:] == ["transactions"]:
        simulate_transactions(seed)
        return
    world = ConsumerWorld(seed) if sys.argv[2:] == ["consumer"] else World(seed)
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(WithTime(world))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    world.run()
    print(f"seed {seed}: {world.counts}, all invariants hold")


if __name__ == "__main__":
    main()
