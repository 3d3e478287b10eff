"""Hostile requests to a member of a cluster, which is its controller too; ZooKeeper is a model."""

import shutil

from ottla.broker.broker import Broker
from ottla.broker.membership.marker_requests import MarkerRequest
from ottla.broker.waiting.rooms import Waiting
from ottla.cluster.orders import OrderWriter
from ottla.config.inter_broker_version import LATEST
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from ottla.zookeeper.controllers import ProducerIdBlock
from tests.support.brokers import NOW_MS
from tests.support.hostile_requests import SETTINGS, HostileClient, keyed_batch
from tests.support.lonely_member import ME, LonelyMember

INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state")


class AllocatingMember(LonelyMember):
    """Its producers get ids, and what it sends to other brokers is lost."""

    _next_id = 0

    def allocate_producer_ids(self) -> Waiting[ProducerIdBlock]:
        waiting: Waiting[ProducerIdBlock] = Waiting()
        start, self._next_id = self._next_id, self._next_id + 1000
        waiting.result = ProducerIdBlock(broker_id=ME, start=start, end=start + 999)
        self._done.append(waiting)
        return waiting

    def send_markers(self, request: MarkerRequest) -> None:
        pass


class HostileMember(HostileClient):
    """As `HostileClient`: the controller's orders are delivered between the requests."""

    def _open(self) -> Broker:
        shutil.rmtree(self._directory, ignore_errors=True)
        self._member = AllocatingMember(
            2, 3, authorizer_class_name="kafka.security.authorizer.AclAuthorizer", **SETTINGS
        )
        for name in ("t", "c", *INTERNAL):
            topic = CreatableTopic(
                name=name,
                num_partitions=-1,
                replication_factor=-1,
                assignments=[
                    CreatableReplicaAssignment(partition_index=index, broker_ids=[ME])
                    for index in range(1 if name in INTERNAL else 2)
                ],
            )
            self._member.request(CreateTopicsRequest(topics=[topic], timeout_ms=1000), 5)
        broker = self._member.broker
        for name in ("t", "c"):
            for index in range(2):
                broker.appends.append(
                    broker.topics.partition(name, index), keyed_batch(), now_ms=NOW_MS
                )
        broker.appends.write_out()
        return broker

    def _likely(self) -> dict[str, tuple[str | int, ...]]:
        epoch = self._member.broker_of(ME).epoch
        return {
            "broker_epoch": (epoch, epoch, -1),
            "broker_id": (ME, 2),
            "controller_epoch": (1,) * 20 + (0, 2),
            "controller": (ME, ME, 0, 2),
            "leader": (ME, 2, -1),
            "replica": (ME, 2, -1),
            "live": (ME,),
        }

    def _settle(self) -> None:
        super()._settle()
        self._deliver()

    def _deliver(self) -> None:
        controller = self._member.controller
        waiting, controller.outgoing = controller.outgoing, []
        writer = OrderWriter(controller_id=ME, version=LATEST, listener="PLAINTEXT")
        for outgoing in waiting:
            if outgoing.broker == ME:
                for wire in writer.requests(outgoing):
                    self._send(wire.message, wire.version)
                    super()._settle()
