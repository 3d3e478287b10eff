"""A broker that says what a test wants it to, over a real socket: for what no sound broker does."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, reader
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import encode_response, read_request_header
from ottla.protocol.messages import request_class
from ottla.protocol.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.fetch import (
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopic,
    OffsetForLeaderTopicResult,
)
from tests.support.patience import PATIENCE_S
from tests.support.threaded_server import ThreadedServer

VERSIONS = {
    ApiKey.FETCH: 12,
    ApiKey.LIST_OFFSETS: 7,
    ApiKey.METADATA: 12,
    ApiKey.API_VERSIONS: 0,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: 4,
}
TOPIC_ID = bytes(range(16))


class ScriptedBroker(ThreadedServer):
    """Leads partition 0 of every topic, unless another broker of the test does.

    `on_fetch` answers each fetch; `None` from it cuts the connection. `asked` are the offsets.
    """

    def __init__(self, on_fetch: Callable[[int], PartitionData | None]) -> None:
        self.on_fetch = on_fetch
        self.leader: ScriptedBroker = self
        self.asked: list[int] = []
        self.was_asked = threading.Condition()
        self.start_offset = 0
        self.epoch_ends: dict[int, int] = {}
        super().__init__()
        self.address = f"127.0.0.1:{self.port}"

    def wait_until_asked(self, offset: int) -> bool:
        with self.was_asked:
            return self.was_asked.wait_for(lambda: offset in self.asked, timeout=PATIENCE_S)

    def serve(self, peer: socket.socket) -> None:
        with peer.makefile("rb") as frames:
            while size := frames.read(4):
                frame = memoryview(frames.read(int.from_bytes(size, "big")))
                header, position = read_request_header(frame)
                kind = request_class(header.api_key)
                request, _ = reader(kind, header.api_version)(frame, position)
                answer = self._answer(request)
                if answer is None:
                    return
                output = Output()
                encode_response(header, answer, output)
                peer.sendall(output.read_all())

    def _answer(self, request: Any) -> Message | None:
        if isinstance(request, ApiVersionsRequest):
            known = [
                ApiVersion(api_key=key, min_version=0, max_version=last)
                for key, last in VERSIONS.items()
            ]
            return ApiVersionsResponse(api_keys=known)
        if isinstance(request, MetadataRequest):
            return self._metadata([one.name for one in request.topics or ()])
        if isinstance(request, ListOffsetsRequest):
            told = ListOffsetsPartitionResponse(partition_index=0, offset=self.start_offset)
            name = request.topics[0].name
            return ListOffsetsResponse(
                topics=[ListOffsetsTopicResponse(name=name, partitions=[told])]
            )
        if isinstance(request, OffsetForLeaderEpochRequest):
            return self._epoch_end(request.topics[0])
        assert isinstance(request, FetchRequest)
        return self._fetched(request)

    def _metadata(self, names: list[Any]) -> MetadataResponse:
        brokers = [
            MetadataResponseBroker(node_id=one.port, host="127.0.0.1", port=one.port)
            for one in {self.port: self, self.leader.port: self.leader}.values()
        ]
        partition = MetadataResponsePartition(
            partition_index=0, leader_id=self.leader.port, replica_nodes=[], isr_nodes=[]
        )
        topics = [
            MetadataResponseTopic(name=name, topic_id=TOPIC_ID, partitions=[partition])
            for name in names
        ]
        return MetadataResponse(brokers=brokers, topics=topics)

    def _epoch_end(self, topic: OffsetForLeaderTopic) -> OffsetForLeaderEpochResponse:
        epoch = topic.partitions[0].leader_epoch
        told = EpochEndOffset(partition=0, leader_epoch=epoch, end_offset=self.epoch_ends[epoch])
        result = OffsetForLeaderTopicResult(topic=topic.topic, partitions=[told])
        return OffsetForLeaderEpochResponse(topics=[result])

    def _fetched(self, request: FetchRequest) -> FetchResponse | None:
        (topic,) = request.topics
        offset = topic.partitions[0].fetch_offset
        with self.was_asked:
            self.asked.append(offset)
            self.was_asked.notify_all()
        found = self.on_fetch(offset)
        if found is None:
            return None
        return FetchResponse(
            responses=[FetchableTopicResponse(topic=topic.topic, partitions=[found])]
        )


def records_of(
    records: bytes = b"",
    *,
    error: ErrorCode = ErrorCode.NONE,
    aborted: list[tuple[int, int]] | None = None,
) -> PartitionData:
    """One partition's part of an answer."""
    return PartitionData(
        partition_index=0,
        error_code=error,
        high_watermark=1000,
        last_stable_offset=1000,
        records=records,
        aborted_transactions=[
            AbortedTransaction(producer_id=producer, first_offset=first)
            for producer, first in aborted or ()
        ],
    )


@contextmanager
def scripted(on_fetch: Callable[[int], PartitionData | None]) -> Iterator[ScriptedBroker]:
    broker = ScriptedBroker(on_fetch)
    try:
        yield broker
    finally:
        broker.close()
