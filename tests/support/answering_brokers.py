"""Three brokers that answer what clients ask of a cluster, as a test says they know it."""

from collections.abc import Callable, Sequence
from typing import Any

from ottla.base.addresses import Address
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UnreachableError
from ottla.client.administration.admin import Admin
from ottla.client.connecting.cluster import Cluster
from ottla.client.connecting.settings import admin_settings
from ottla.codec.schema import Message
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

BROKERS = (1, 2, 3)


class AnsweringBrokers:
    """A `Transport`: they have one topic of one partition, and nothing is on the move.

    Each is asked for the brokers it knows, and for the topic's replicas, whenever a client asks;
    the leader also whether it knows that it leads, and each whether it has heard of topics.
    """

    def __init__(
        self,
        replicas: Callable[[int], Sequence[int]] = lambda _: BROKERS,
        known: Callable[[int], Sequence[int]] = lambda _: BROKERS,
        controller: int = 1,
        leads: Callable[[], bool] = lambda: True,
        has_heard: Callable[[int], bool] = lambda _: True,
    ) -> None:
        self.replicas = replicas
        self.known = known
        self.controller = controller
        self.leads = leads
        self.has_heard = has_heard
        self.down: set[int] = set()
        self.called: list[int] = []
        """To whom connections were tried, in order."""

    def connect(self, address: Address) -> Any:
        self.called.append(address[1])
        if address[1] in self.down:
            raise UnreachableError(f"b:{address[1]}: nobody answers")
        return _Answering(self, address[1])

    def before_close(self, deed: Callable[[], None]) -> None: ...

    def close(self) -> None: ...

    def admin(self) -> Admin:
        """One whose patience ends after as many questions on every host."""
        return Admin(
            Cluster(
                [("b", 1)],
                admin_settings(None),
                sleep=lambda _: None,
                topics=[],
                clock=lambda: 0.0,
                transport=self,
            )
        )


class _Answering:
    """A connection to one of them; its port is its id."""

    def __init__(self, brokers: AnsweringBrokers, broker: int) -> None:
        self._brokers, self._broker = brokers, broker
        self.address = f"b:{broker}"

    def answers(self, _: int) -> bool:
        """They belong to no KRaft cluster."""
        return False

    def version_of(self, _: int) -> int:
        return 0

    def ask(self, request: Message, **_: object) -> Message:
        match request:
            case ListPartitionReassignmentsRequest():
                return ListPartitionReassignmentsResponse(error_message=None, topics=[])
            case ListOffsetsRequest():
                return ListOffsetsResponse(topics=[self._ends(one) for one in request.topics])
            case DescribeClusterRequest():
                known = self._brokers.known(self._broker)
                brokers = [DescribeClusterBroker(broker_id=b, host="b", port=b) for b in known]
                return DescribeClusterResponse(cluster_id="c", brokers=brokers)
            case MetadataRequest():
                return MetadataResponse(
                    brokers=[
                        MetadataResponseBroker(node_id=b, host="b", port=b)
                        for b in self._brokers.known(self._broker)
                    ],
                    controller_id=self._brokers.controller,
                    topics=[self._topic(one.name) for one in request.topics or []],
                )
        raise AssertionError(request)

    def _topic(self, name: str | None) -> MetadataResponseTopic:
        if not self._brokers.has_heard(self._broker):
            return MetadataResponseTopic(
                name=name, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, partitions=[]
            )
        replicas = list(self._brokers.replicas(self._broker))
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=1, replica_nodes=replicas, isr_nodes=replicas
        )
        return MetadataResponseTopic(name=name, partitions=[partition])

    def _ends(self, asked: ListOffsetsTopic) -> ListOffsetsTopicResponse:
        """The leader may not have heard yet that it is."""
        unknown = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        code = ErrorCode.NONE if self._brokers.leads() else unknown
        partition = ListOffsetsPartitionResponse(partition_index=0, error_code=code, offset=7)
        return ListOffsetsTopicResponse(name=asked.name, partitions=[partition])

    def close(self) -> None: ...

    def __enter__(self) -> "_Answering":
        return self

    def __exit__(self, *_: object) -> None: ...
