"""The sink of a stream, killed again and again, and the broker under it: every row once."""

import random
import time
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("numpy")

import ottla
from ottla.base.addresses import parse_address
from ottla.client.bulk.producer_identity import init_producer
from ottla.spark.sink.sink_state import transactional_id
from ottla.spark.sink.transactions import Step, connected
from tests.crash.kills.processes import ServedBroker
from tests.unit.spark.sinking import (
    SETTINGS,
    KilledError,
    Killer,
    Query,
    committed_values,
    divided,
    rows_of,
)

pytestmark = pytest.mark.slow

MIN_SECONDS = 3.0
MAX_TASKS = 4
BATCHES = 3
STEPS = 90
"""More than a batch has, so that some attempts are not killed."""

TIMEOUT_MS = 60_000


def run_killed(query: Query, batch: int, chance: random.Random) -> int:
    """One batch, tried until it is through; returns how often it was killed.

    Either rows come divided in another way each time, or the broker aborts what is left open.
    """
    aborts = chance.random() < 0.5
    count = chance.randint(1, MAX_TASKS)
    kills = 0
    while True:
        tasks = divided(rows_of(batch), count)
        try:
            query.run(batch, tasks, Killer(chance.randrange(STEPS)))
        except KilledError:
            kills += 1
        else:
            return kills
        if not aborts:
            count = chance.randint(1, MAX_TASKS)
        elif chance.random() < 0.5:
            with connected(query.options) as cluster:
                for number in chance.sample(range(count), chance.randint(1, count)):
                    name = transactional_id(query.name, number)
                    init_producer(cluster, name, TIMEOUT_MS)


def test_every_row_is_there_once_whatever_was_killed_and_however_often(
    tmp_path: Path, crash_seconds: float
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    kills = rounds = 0
    started = time.monotonic()
    with ottla.open(tmp_path / "d", SETTINGS) as log:
        address = parse_address(log.listen("127.0.0.1:0").address)
        while time.monotonic() - started < max(MIN_SECONDS, crash_seconds) or not kills:
            chance = random.Random(seed + rounds)
            topic = f"t{rounds}"
            log.create_topic(topic, partitions=chance.randint(1, 3))
            query = Query(address, topic, f"sink-{rounds}")
            kills += sum(run_killed(query, batch, chance) for batch in range(BATCHES))
            expected = sorted(row for batch in range(BATCHES) for row in rows_of(batch))
            assert committed_values(tmp_path / "d", topic) == expected, seed + rounds
            rounds += 1
    print(f"{rounds} streams, {kills} kills")


class BrokerKiller(Killer):
    """Kills the broker at a step, and starts it again: the sink should hardly notice."""

    broker: ServedBroker

    def __call__(self, step: Step) -> None:
        self.steps.append(step)
        if len(self.steps) - 1 == self.at:
            self.broker.kill()
            self.broker.start()


def test_a_broker_that_is_killed_at_any_step_is_gone_on_with(
    tmp_path: Path, crash_seconds: float
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    places = random.Random(seed).sample(range(20), 20)
    broker = ServedBroker(tmp_path / "d")
    started = time.monotonic()
    tried = 0
    try:
        query = Query(parse_address(broker.address), "t", "sink")
        create_topic(broker.address)
        for batch, place in enumerate(places):
            killer = BrokerKiller(place)
            killer.broker = broker
            query.run(batch, divided(rows_of(batch), 2), killer)
            tried += 1
            expected = sorted(row for one in range(batch + 1) for row in rows_of(one))
            assert committed_values(tmp_path / "d", "t") == expected, (place, killer.steps)
            if time.monotonic() - started > max(MIN_SECONDS, crash_seconds) and tried > 1:
                break
    finally:
        broker.kill()
    print(f"{tried} kills")


def create_topic(address: str) -> None:
    from ottla.client.connecting.socket_connection import SocketConnection
    from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest

    with SocketConnection(*parse_address(address)) as connection:
        topic = CreatableTopic(name="t", num_partitions=3, replication_factor=1)
        answer = connection.ask(CreateTopicsRequest(topics=[topic], timeout_ms=5000))
        assert not answer.topics[0].error_code
