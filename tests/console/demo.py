"""A broker with something to look at, as the pictures of the documents show it."""

import json
import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import ottla
from ottla.cli.console.console_command import console_target
from ottla.cli.target import parse_target
from ottla.client.administration.admin import Admin
from ottla.client.connecting.target import open_target
from ottla.console.access import policy_for
from ottla.console.decoding import Decodings
from ottla.console.serving import ConsoleServer
from ottla.console.state import ConsoleState
from ottla.console.state_directory import StateDirectory
from ottla.testing import LocalBroker
from tests.console.asking import FEW_LOGS

DAY_MS = 86_400_000
TEAS = ("Assam", "Darjeeling", "Sencha", "Rooibos", "Earl Grey")


def fill(broker: LocalBroker) -> None:
    """Orders of the last ten days, of which the first are about to go; names, compacted in part."""
    chance = random.Random(1)
    broker.create_topic(
        "orders",
        partitions=3,
        config={"segment.bytes": 16_384, "retention.ms": 7 * DAY_MS, "max.message.bytes": 16_384},
    )
    broker.create_topic(
        "customers",
        config={
            "cleanup.policy": "compact",
            "segment.bytes": 16_384,
            "max.message.bytes": 16_384,
            "min.cleanable.dirty.ratio": 0.5,
        },
    )
    broker.create_topic("payments")
    now_ms = broker.clock.now_ms()
    for partition in range(3):
        for chunk in range(30):
            builder = ottla.RecordBatchBuilder()
            for number in range(20):
                at_ms = now_ms - (30 - chunk) * DAY_MS // 3 + number * 60_000
                value = {
                    "id": chunk * 60 + number * 3 + partition,
                    "tea": chance.choice(TEAS),
                    "pots": chance.randrange(1, 5),
                    "total": round(chance.random() * 40, 2),
                    "table": {"number": chance.randrange(12), "garden": chance.random() < 0.4},
                }
                headers = [("trace-id", b"%08x" % chance.getrandbits(32))]
                key = b"table %d" % value["table"]["number"]
                builder.append(key, json.dumps(value).encode(), at_ms, headers)
            broker.log.append_batch("orders", partition, builder)
    for number in range(600):
        key = f"customer {number % 60}"
        broker.produce("customers", json.dumps({"name": key, "visits": number}), key=key)
    for number in range(40):
        broker.produce("payments", f"payment {number}", key=f"{number}")
    with admin_of(broker) as admin:
        for group, share in (("billing", 500), ("kitchen", 590), ("statistics", 0)):
            places = {ottla.TopicPartition("orders", index): share for index in range(3)}
            admin.alter_group_offsets(group, places)
        start = {ottla.TopicPartition("payments", 0): 25}
        admin.alter_share_group_offsets("jobs", start)


@contextmanager
def admin_of(broker: LocalBroker) -> Iterator[Admin]:
    """Also in a thread in which playwright keeps an event loop, where `ottla.Admin` is refused."""
    with open_target(broker.address) as cluster:
        yield Admin(cluster)


@contextmanager
def demo_broker(directory: Path) -> Iterator[LocalBroker]:
    # What is about to go is there to be looked at, however long the tests take.
    settings = {
        **FEW_LOGS,
        "log.cleaner.enable": "true",
        "log.initial.task.delay.ms": DAY_MS,
    }
    with LocalBroker(directory, settings) as broker:
        fill(broker)
        yield broker


@contextmanager
def console_of(
    broker: LocalBroker,
    *,
    token: str = "",
    is_read_only: bool = False,
    decodings: Decodings | None = None,
    tables: tuple[str, ...] = (),
    **client: str,
) -> Iterator[str]:
    """A console that listens; gives its address, as `http://HOST:PORT`."""
    target = console_target(parse_target(broker.address, client))
    target = replace(target, decodings=decodings or Decodings())
    with tempfile.TemporaryDirectory() as directory:
        state = ConsoleState(
            target=target,
            directory=StateDirectory(directory),
            version=ottla.__version__,
            is_read_only=is_read_only,
            tables=tables,
        )
        server = ConsoleServer(
            state,
            ("127.0.0.1", 0),
            lambda address: policy_for(address, token=token, names=(), is_encrypted=False),
        )
        with server.in_thread():
            yield f"http://127.0.0.1:{server.address[1]}"
