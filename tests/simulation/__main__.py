"""One simulated run of a group with everything that happens in it: `make sim SEED=n`.

`make sim SEED=n PROTOCOL=consumer` is one of the new group protocol, `PROTOCOL=transactions` one of
transactional producers, `PROTOCOL=readers` runs of readers beside a log that changes, and
`PROTOCOL=cluster` two of brokers with a controller, over ZooKeeper and with KRaft, of which
`PROTOCOL=kraft` is the second, `PROTOCOL=replicas` one over ZooKeeper with real logs,
`PROTOCOL=tiers` one of brokers that share a remote tier, and `PROTOCOL=quorum` one of voters of
KRaft.
Of these five `make sim SEED=0-9999` tries all seeds of a range, on all cores.
"""

import logging
import multiprocessing
import sys
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from hypothesis import given, seed, settings

from ottla.testing.history import check
from ottla.testing.history.lines import format_operation
from tests.simulation.cluster_world import World as ClusterWorld
from tests.simulation.consumer_world import ConsumerWorld
from tests.simulation.group_world import World
from tests.simulation.kraft_world import World as KRaftWorld
from tests.simulation.quorum_world import World as QuorumWorld
from tests.simulation.readers_world import STEPS, ReadersWorld
from tests.simulation.tier_world import TierWorld
from tests.simulation.transaction_world import TransactionWorld


class WithTime(logging.Formatter):
    """Lines with the simulated time."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world

    def format(self, record: logging.LogRecord) -> str:
        return f"{self._world.now_ms:>9} ms  {record.getMessage()}"


def simulate_transactions(number: int) -> None:
    """Its log is the history: one operation a line."""
    world = TransactionWorld(number)
    history = world.run()
    for one in sorted(history, key=lambda one: one.began):
        print(format_operation(one))
    findings = check(history)
    for finding in findings:
        print(finding)
    print(f"seed {number}: {dict(world.counts)}, {len(findings)} findings")
    sys.exit(bool(findings))


def simulate_readers(number: int) -> None:
    """Its steps are printed where one fails, as few of them as do."""
    counts: Counter[str] = Counter()

    @seed(number)
    @settings(max_examples=1000, deadline=None, database=None)
    @given(STEPS)
    def readers_see_a_prefix(steps: list[Any]) -> None:
        world = ReadersWorld()
        world.run(steps)
        counts.update(world.counts)

    readers_see_a_prefix()
    print(f"seed {number}: {dict(counts)}, all invariants hold")


class BothWorlds:
    """A cluster over ZooKeeper, then one by itself."""

    def __init__(self, seed: int) -> None:
        self._worlds = ClusterWorld(seed), KRaftWorld(seed)

    def run(self) -> None:
        for world in self._worlds:
            world.run()

    @property
    def counts(self) -> Counter[str]:
        first, second = self._worlds
        return first.counts + second.counts


WORLDS: dict[str, Callable[[int], Any]] = {
    "cluster": BothWorlds,
    "kraft": KRaftWorld,
    "replicas": partial(ClusterWorld, has_real_logs=True),
    "tiers": TierWorld,
    "quorum": QuorumWorld,
}


def simulate_cluster(number: int, *, protocol: str) -> tuple[Counter[str], str | None]:
    """What happened in it, and what did not hold."""
    logging.disable()  # A failed directory, or store, is an error in the log, and of the plan.
    cluster = WORLDS[protocol](number)
    try:
        cluster.run()
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        return cluster.counts, f"{type(error).__name__} {error} ({where.name}:{where.lineno})"
    return cluster.counts, None


def simulate_clusters(seeds: range, *, protocol: str) -> None:
    counts: Counter[str] = Counter()
    failed = 0
    simulate = partial(simulate_cluster, protocol=protocol)
    with multiprocessing.Pool() as pool:
        for done, (number, (happened, finding)) in enumerate(
            zip(seeds, pool.imap(simulate, seeds), strict=True), 1
        ):
            counts += happened
            if finding is not None:
                failed += 1
                print(f"seed {number}: {finding}", flush=True)
            if done % 500 == 0:
                print(f"{done} of {len(seeds)} seeds, {failed} failed", flush=True)
    print(f"seeds {seeds.start} to {seeds.stop - 1}: {dict(counts)}, {failed} failed")
    sys.exit(bool(failed))


def main() -> None:
    first, _, last = (sys.argv[1] if len(sys.argv) > 1 else "0").partition("-")
    number = int(first)
    if sys.argv[2:] == ["transactions"]:
        simulate_transactions(number)
        return
    if len(sys.argv) == 3 and sys.argv[2] in WORLDS:
        protocol = sys.argv[2]
        if last:
            simulate_clusters(range(number, int(last) + 1), protocol=protocol)
        cluster = WORLDS[protocol](number)
        cluster.run()
        print(f"seed {number}: {dict(cluster.counts)}, all invariants hold")
        return
    if sys.argv[2:] == ["readers"]:
        simulate_readers(number)
        return
    world = ConsumerWorld(number) if sys.argv[2:] == ["consumer"] else World(number)
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(WithTime(world))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    world.run()
    print(f"seed {number}: {world.counts}, all invariants hold")


if __name__ == "__main__":
    main()
