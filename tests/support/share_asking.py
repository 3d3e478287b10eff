"""Requests of members of a share group, asked without a socket."""

from collections.abc import Sequence
from typing import Any

from ottla.base.files import FileSystem
from ottla.base.ids import Uuid
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.membership.state_requests import InitializeState
from ottla.broker.topics.partition import Partition
from ottla.codec.primitives import Output
from ottla.codec.schema import Message
from ottla.coordinator.share.coordinator import ShareStateAnswer
from ottla.coordinator.share.persisted_state import SharePartitionKey
from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.messages import share_acknowledge, share_fetch
from ottla.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from ottla.protocol.messages.share_fetch import ShareFetchRequest
from ottla.server.dispatching.request_context import PendingResponse
from tests.support.asking import PEER, Asker
from tests.support.brokers import NOW_MS, at, batch, disk, open_broker

Range = tuple[int, int, int]
"""First offset, last offset, and a type of acknowledgement or a count of deliveries."""

WAIT_MS = 500


def share_broker(file_system: FileSystem | None = None, **settings: str) -> Broker:
    return open_broker(
        file_system or disk("/d"),
        offsets_topic_num_partitions="1",
        share_coordinator_state_topic_num_partitions="1",
        log_index_size_max_bytes="1200",
        **settings,
    )


def topic_id_of(broker: Broker) -> Uuid:
    return broker.topics.get("t").topic_id


def begin(broker: Broker, start_offset: int = 0, partitions: int = 1, epoch: int = 1) -> None:
    """Initializes the states of "t" in group "g", as its coordinator does."""
    if broker.topics.find("t") is None:
        broker.admin.create_topic(NewTopic(name="t", partition_count=partitions))
    answers: list[ShareStateAnswer] = []
    asked = [
        InitializeState(SharePartitionKey("g", topic_id_of(broker), one), epoch, start_offset)
        for one in range(partitions)
    ]
    broker.share_persister.ask(asked, answers.extend, at(0.0))
    for _ in range(10):
        broker.appends.write_out()
        broker.answers.advance(at(0.0))
    assert [one.error for one in answers] == [0] * partitions


def append(broker: Broker, *values: bytes, partition: int = 0) -> None:
    """Appends the values as one batch."""
    place: Partition = broker.topics.get("t").partition(partition)
    broker.appends.append(place, batch(*values), now_ms=0)
    broker.appends.write_out()


class Member:
    """A member with its connection and its session; the clock is the asker's."""

    def __init__(self, broker: Broker, name: str = "a", *, version: int = 2) -> None:
        self.broker = broker
        self.name = name
        self.version = version
        self.asker = Asker(broker, client=PEER._replace(connection=self))
        self.epoch = 0
        self.topic_id = topic_id_of(broker)
        self.lasts: Any = None

    def pass_to(self, monotonic_ms: float, now_ms: int = NOW_MS) -> None:
        self.asker.pass_to(monotonic_ms)
        self.broker.answers.advance(Timestamps(now_ms=now_ms, monotonic_ms=monotonic_ms))
        self.broker.appends.write_out()

    def fetch_request(
        self, said: Sequence[Range] = (), partitions: Sequence[int] = (0,), **fields: Any
    ) -> ShareFetchRequest:
        values = {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1 << 20,
            "max_records": 500,
            "batch_size": 500,
            "share_session_epoch": self.epoch,
            **fields,
        }
        topic = share_fetch.FetchTopic(
            topic_id=self.topic_id,
            partitions=[
                share_fetch.FetchPartition(
                    partition_index=one,
                    acknowledgement_batches=[
                        share_fetch.AcknowledgementBatch(
                            first_offset=first, last_offset=last, acknowledge_types=[kind]
                        )
                        for first, last, kind in said
                    ],
                )
                for one in partitions
            ],
        )
        return ShareFetchRequest(
            group_id="g", member_id=self.name, topics=[topic], forgotten_topics_data=[], **values
        )

    def fetch(self, said: Sequence[Range] = (), **fields: Any) -> Any:
        """The response to a fetch, which must come at once."""
        answer = self.asker.ask(self.fetch_request(said, **fields), self.version)
        self.epoch = max(self.epoch + 1, 1)
        return answer

    def wait(self, **fields: Any) -> "WaitingMember":
        """A fetch that must wait for records."""
        request = self.fetch_request(max_wait_ms=WAIT_MS, **fields)
        later, _ = self.asker.send(request, self.version)
        assert later is not None, "it was answered at once"
        self.epoch += 1
        return WaitingMember(self, request, later)

    def acknowledge(self, *said: Range, **fields: Any) -> Any:
        values = {"share_session_epoch": self.epoch, **fields}
        request = ShareAcknowledgeRequest(
            group_id="g",
            member_id=self.name,
            topics=[
                share_acknowledge.AcknowledgeTopic(
                    topic_id=self.topic_id,
                    partitions=[
                        share_acknowledge.AcknowledgePartition(
                            partition_index=0,
                            acknowledgement_batches=[
                                share_acknowledge.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=[kind]
                                )
                                for first, last, kind in said
                            ],
                        )
                    ],
                )
            ],
            **values,
        )
        answer = self.asker.ask(request, self.version)
        self.epoch += 1
        return answer

    def hang_up(self) -> None:
        self.broker.disconnected(self, at(self.asker.monotonic_ms))
        self.broker.appends.write_out()


class WaitingMember:
    """A fetch that waits."""

    def __init__(self, member: Member, request: Message, later: PendingResponse) -> None:
        self._member = member
        self._request = request
        self._later: PendingResponse | None = later

    def answer(self) -> Any:
        """The response, if it has come."""
        member = self._member
        answered = member.broker.answers.take_answered(member.asker.monotonic_ms)
        if self._later is None or self._later.pending_id not in answered:
            return None
        self._later, output = member.asker.go_on(self._later)
        return None if self._later is not None else self._decode(output)

    def _decode(self, output: Output) -> Any:
        return self._member.asker.decode(self._request, self._member.version, output)


def acquired(answer: Any, partition: int = 0) -> list[Range]:
    """What a response gives its member of a partition."""
    return [
        (one.first_offset, one.last_offset, one.delivery_count)
        for topic in answer.responses
        for its in topic.partitions
        if its.partition_index == partition
        for one in its.acquired_records
    ]


def errors(answer: Any) -> list[tuple[int, int]]:
    """The error of each partition, and that of its acknowledgements."""
    return [
        (one.error_code, one.acknowledge_error_code)
        for topic in answer.responses
        for one in topic.partitions
    ]
