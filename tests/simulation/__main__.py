"""One simulated run of a group with everything that happens in it: `make sim SEED=n`.

`make sim SEED=n PROTOCOL=consumer` is one of the new group protocol.
"""

import logging
import sys

from tests.simulation.consumer_world import ConsumerWorld
from tests.simulation.group_world import World


class WithTime(logging.Formatter):
    """Lines with the simulated time."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def format(self, record: logging.LogRecord) -> str:
        return f"{self._world.now_ms:>9} ms  {record.getMessage()}"


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    world = ConsumerWorld(seed) if sys.argv[2:] == ["consumer"] else World(seed)
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(WithTime(world))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    world.run()
    print(f"seed {seed}: {world.counts}, all invariants hold")


if __name__ == "__main__":
    main()
