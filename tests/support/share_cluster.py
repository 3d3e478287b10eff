"""Brokers of a cluster in one process, whose persisters ask each other's share coordinators by the
bytes of their requests. The only partition of `__share_group_state` is led by hand.
"""

from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from ottla.base.partitions import SHARE_GROUP_STATE, TopicPartition
from ottla.broker.membership.state_requests import ShareStateRequest, StateRequest
from ottla.broker.waiting.rooms import Waiting
from ottla.cluster.share_state_channels import answers_of, message_of
from ottla.codec.schema import Message
from ottla.coordinator.share.coordinator import ShareStateAnswer
from ottla.coordinator.share.persisted_state import PersistedState, SharePartitionKey
from ottla.protocol.messages import request_class
from ottla.server.dispatching.request_context import PendingResponse
from ottla.testing import CrashMode
from tests.support.brokers import id_of
from tests.support.replicated_brokers import ClusterInProcess, PartitionOrders, Unasked
from tests.support.share_states import states_of

PLACE = TopicPartition(SHARE_GROUP_STATE, 0)
READ = TopicPartition("t", 0)
KEY = SharePartitionKey("jobs", id_of(79), 0)
SETTINGS = {
    "zookeeper_connect": "a:2181",
    "share_coordinator_state_topic_num_partitions": "1",
}


class UnderWay(NamedTuple):
    """A request that another broker has, with its response, or what it waits for."""

    sender: int
    request: ShareStateRequest
    message: Message
    version: int
    later: PendingResponse | None
    response: Any


class Member(Unasked):
    """Queues requests for other coordinators, and notes which topics are asked for."""

    def __init__(self, cluster: "ShareCluster", broker_id: int) -> None:
        self._cluster = cluster
        self._broker_id = broker_id

    def ask_share_coordinator(self, request: ShareStateRequest) -> None:
        self._cluster.queue.append((self._broker_id, request))

    def create_topics(self, names: Sequence[str]) -> None:
        self._cluster.wanted += names


class ShareCluster(ClusterInProcess):
    """`replicas` are those of the state topic; `queue` has what is on its way."""

    def __init__(self, replicas: tuple[int, ...] = (1, 2, 3), **settings: str) -> None:
        self.queue: deque[tuple[int, ShareStateRequest]] = deque()
        self.wanted: list[str] = []
        self.read = PartitionOrders(READ, (replicas[0],), topic_id=KEY.topic_id)
        self._under_way: list[UnderWay] = []
        super().__init__(
            PLACE,
            replicas,
            membership=lambda one: Member(self, one),  # type: ignore[arg-type, return-value]
            **SETTINGS,
            **settings,
        )
        self.topic_ids[READ.topic] = self.read.topic_id
        self.read.lead(replicas[0], self.brokers)

    def kill(self, broker_id: int, mode: CrashMode = CrashMode.STRICT) -> None:
        """What it has asked is answered to nobody."""
        super().kill(broker_id, mode)
        self.queue = deque(one for one in self.queue if one[0] != broker_id)
        self._under_way = [one for one in self._under_way if one.sender != broker_id]

    def begin(self, broker_id: int, *requests: StateRequest) -> Waiting[list[ShareStateAnswer]]:
        """What a leader of partitions on a broker asks."""
        broker = self.brokers[broker_id]
        waiting = broker.share_persister.wait(requests, self.orders.at)
        broker.appends.write_out()
        return waiting

    def answers(self, broker_id: int, *requests: StateRequest) -> list[ShareStateAnswer]:
        waiting = self.begin(broker_id, *requests)
        for _ in range(100):
            if waiting.result is not None:
                return waiting.result
            self.go_on()
        raise AssertionError(f"no answer to {requests}")

    def go_on(self, ms: float = 20.0) -> None:
        """Some time passes: what was sent arrives, replicas fetch, and answers come back."""
        self.orders.now_ms += ms
        for broker in self.brokers.values():
            broker.answers.advance(self.orders.at)
            broker.appends.write_out()
        self.deliver()
        self.replicate(1)
        self.bring_back()

    def deliver(self) -> None:
        """What was sent reaches the brokers that are there; others' connections break."""
        while self.queue:
            sender, request = self.queue.popleft()
            if request.broker not in self.brokers:
                self._answered(sender, request, None)
                continue
            message = message_of(request.requests)
            assert message.API_KEY is not None
            version = request_class(message.API_KEY).VERSIONS.last
            asker = self.askers[request.broker]
            asker.monotonic_ms = self.orders.now_ms
            later, output = asker.send(message, version)
            response = None if later else asker.decode(message, version, output)
            self._under_way.append(UnderWay(sender, request, message, version, later, response))

    def bring_back(self) -> None:
        """Answers reach those who have asked."""
        answered = {
            one
            for broker in self.brokers.values()
            for one in broker.answers.take_answered(self.orders.now_ms)
        }
        under_way, self._under_way = self._under_way, []
        for one in under_way:
            response = one.response
            if one.later is not None and one.later.pending_id in answered:
                asker = self.askers[one.request.broker]
                response = asker.finish(one.later, one.message, one.version)
            if one.request.broker not in self.brokers:
                self._answered(one.sender, one.request, None)
            elif response is None:
                self._under_way.append(one)
            else:
                answers = answers_of(one.request.requests, response)
                self._answered(one.sender, one.request, answers)

    def _answered(
        self, sender: int, request: ShareStateRequest, answers: list[ShareStateAnswer] | None
    ) -> None:
        persister = self.brokers[sender].share_persister
        persister.answered(request.number, answers, self.orders.at)

    def load(self) -> None:
        """Has all coordinators finish what they are loading."""
        for broker in self.brokers.values():
            while broker.share_coordinator.shards.is_busy:
                broker.share_coordinator.advance(self.orders.at)

    def states(self, broker_id: int) -> dict[SharePartitionKey, PersistedState]:
        return states_of(self.brokers[broker_id])
