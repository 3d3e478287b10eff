"""What a scrape of a member of a cluster says of its replicas."""

import urllib.request

from ottla.base.partitions import TopicPartition
from ottla.cli.serve.metrics.serving import ServedMetrics
from ottla.config.listeners import Listener
from ottla.controller.events import AlteredAnswer
from ottla.server.network.listener import Server
from ottla.testing import FakeClock
from ottla.zookeeper.topics import PartitionState
from tests.support.brokers import at, batch, disk
from tests.support.replicated_brokers import PartitionOrders, open_member, replicas_of

ANY = ("127.0.0.1", 0)
ORDERS = TopicPartition("orders", 0)
LAG_MS = 30_001


def test_replicas_that_lag_and_leave_show() -> None:
    broker, clock = open_member(1, disk("/d"), min_insync_replicas="2"), FakeClock()
    orders, replicas = PartitionOrders(ORDERS, (1, 2, 3)), replicas_of(broker)
    orders.lead(1, {1: broker})
    broker.appends.append(orders.partition(broker), batch(b"one", b"two"), now_ms=0)
    broker.appends.write_out()
    replicas.advance(at(LAG_MS))
    changes = replicas.alter_partitions.next_request()
    state = PartitionState(leader=1, leader_epoch=0, controller_epoch=1, isr=(1,))
    answers = [
        AlteredAnswer(change=one, state=state, partition_epoch=orders.partition_epoch + 1)
        for one in changes
    ]
    replicas.altered(replicas.alter_partitions.attempt, answers, at(LAG_MS))
    assert replicas.manager.isr_shrinks == 1
    server = Server(broker, [Listener(name="PLAINTEXT", address=ANY)], clock=clock)
    served = ServedMetrics(ANY, clock, str)
    served.serve(broker, server)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{served.port}/metrics") as answer:
            lines = answer.read().decode().splitlines()
    finally:
        served.close()
        server.close()
    found = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    assert float(found["ottla_leader_partitions"]) == 1
    assert float(found["ottla_under_replicated_partitions"]) == 1
    assert float(found["ottla_under_min_isr_partitions"]) == 1
    assert float(found["ottla_isr_shrinks_total"]) == 1
    assert float(found["ottla_active_controllers"]) == 0
