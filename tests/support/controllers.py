"""A controller alone with a model of ZooKeeper, which answers at once."""

from ottla.config.inter_broker_version import parse_inter_broker_version
from ottla.controller.events import Answer, Elect, Event, NodeChanged, Request
from ottla.controller.machine import ControllerMachine
from ottla.controller.operations import Operation, Result
from ottla.controller.parts import ControllerOptions
from ottla.controller.requests import Outgoing
from ottla.metadata.brokers import BrokerRegistration, Endpoint
from ottla.zookeeper import paths
from ottla.zookeeper.brokers import encode_broker
from tests.support.model_zookeeper import ModelZooKeeper


class LonelyController:
    """It is elected when it is made. `outgoing` are all requests so far, `asked` all operations."""

    def __init__(self, zookeeper: ModelZooKeeper, broker: int = 0, version: str = "3.9") -> None:
        self.zookeeper = zookeeper
        self.machine = ControllerMachine(
            ControllerOptions(broker_id=broker, version=parse_inter_broker_version(version))
        )
        self.outgoing: list[Outgoing] = []
        self.asked: list[Operation] = []
        self.session = zookeeper.connect(lambda path: self.machine.receive(NodeChanged(path)))
        self.receive(Elect())
        assert self.machine.is_active

    def receive(self, event: Event) -> None:
        self.machine.receive(event)
        self.run()

    def run(self) -> None:
        """Until nothing is left to do."""
        results: tuple[Result, ...] | None = None
        while (batch := self.machine.advance(results)) is not None:
            self.asked += batch.operations
            results = self.zookeeper.execute(self.session, batch)
        self.outgoing += self.machine.take_outgoing()

    def ask(self, request: Request) -> Answer:
        self.receive(request)
        ((pending_id, answer),) = self.machine.take_answers()
        assert pending_id == request.pending_id
        return answer


def cluster_of(*brokers: int, racks: dict[int, str] | None = None) -> ModelZooKeeper:
    """A ZooKeeper where brokers have registered."""
    zookeeper = ModelZooKeeper()
    for broker in brokers:
        register(zookeeper, broker, rack=(racks or {}).get(broker))
    return zookeeper


def register(zookeeper: ModelZooKeeper, broker: int, rack: str | None = None) -> None:
    """Again, with another epoch, where it is there."""
    endpoint = Endpoint(
        listener="PLAINTEXT", host="h", port=9092 + broker, security_protocol="PLAINTEXT"
    )
    content = encode_broker(BrokerRegistration(endpoints=(endpoint,), rack=rack))
    path = paths.broker_path(broker)
    if path in zookeeper.nodes:
        zookeeper.delete(path)
    zookeeper.make(path, content)
