"""A share group on three brokers, one of which is killed: its coordinators and leaders are others
then, and what was accepted before stays so.
"""

from contextlib import suppress
from pathlib import Path

import pytest

import ottla
from tests.support.grounds import BOTH_KINDS, Grounds
from tests.support.patience import wait_until
from tests.support.running_cluster import RunningCluster

pytest.importorskip("kazoo.client")
pytest.importorskip("confluent_kafka")

pytestmark = pytest.mark.slow

STATES = "__share_group_state"
SETTINGS = {
    "group_share_assignment_interval_ms": "0",
    "share_coordinator_state_topic_num_partitions": "3",
    "share_coordinator_state_topic_replication_factor": "3",
    "share_coordinator_state_topic_min_isr": "2",
}
COUNT = 30


class Work:
    """One share consumer that accepts all it gets; `accepted` are the values that it was told are.

    A value that was accepted must not come again.
    """

    def __init__(self, cluster: RunningCluster, consumer: ottla.ShareConsumer) -> None:
        self._cluster = cluster
        self._consumer = consumer
        self.accepted: set[bytes] = set()

    def accept_until(self, wanted: set[bytes]) -> None:
        wait_until(
            lambda: self._accept_some() or wanted <= self.accepted,
            lambda: f"only {len(self.accepted)} of {len(wanted)}: {self._cluster.logs()}",
        )
        assert self._consumer.poll(timeout=1) is None

    def _accept_some(self) -> bool:
        records = self._consumer.poll_many(10, timeout=0.5)
        values = {record.value for record in records}
        assert not values & self.accepted, "accepted before"
        with suppress(ottla.AcknowledgementError):  # nobody knows: they may come again
            for record in records:
                self._consumer.accept(record)
            self._consumer.commit()
            self.accepted |= values
        return False


@BOTH_KINDS
def test_what_was_accepted_stays_so_when_coordinators_and_leaders_die(
    tmp_path: Path, grounds: Grounds
) -> None:
    with RunningCluster(tmp_path, grounds=grounds, **SETTINGS) as cluster:
        with ottla.Admin(cluster.bootstrap) as admin:
            admin.create_topic("jobs", partitions=3, replication_factor=3)
        cluster.wait_in_sync("jobs", partitions=3)
        explicit = {"share.acknowledgement.mode": "explicit"}
        with (
            ottla.Producer(cluster.bootstrap) as producer,
            ottla.ShareConsumer(cluster.bootstrap, "workers", settings=explicit) as consumer,
        ):
            work = Work(cluster, consumer)

            def send(first: int) -> set[bytes]:
                values = {b"%d" % number for number in range(first, first + COUNT)}
                for value in values:
                    producer.send("jobs", value)
                producer.flush()
                return values

            consumer.subscribe("jobs")
            wait_until(
                lambda: consumer.poll(timeout=0.5) is not None or len(consumer.assignment()) == 3,
                cluster.logs,
            )
            work.accept_until(send(0))
            cluster.wait_in_sync(STATES, partitions=3)
            leaders = cluster.leaders(STATES)
            cluster.brokers[leaders[0][0]].kill()
            work.accept_until(send(COUNT))
