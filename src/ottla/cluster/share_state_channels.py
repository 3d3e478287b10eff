"""Sends requests about states of share groups to the share coordinators on other brokers.

Kafka's counterpart: `PersisterStateManager`, which sends the same requests.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from ottla.base.error_codes import ErrorCode
from ottla.base.ids import Uuid
from ottla.base.timestamps import Timestamps
from ottla.broker.membership.state_requests import (
    DeleteState,
    InitializeState,
    ReadState,
    ShareStateRequest,
    StateRequest,
    SummarizeState,
    WriteState,
)
from ottla.cluster.channels import ChannelParts, Channels
from ottla.cluster.peers import Peer
from ottla.codec.schema import Message
from ottla.coordinator.share.coordinator import UNINITIALIZED, ShareStateAnswer
from ottla.coordinator.share.persisted_state import PersistedState
from ottla.coordinator.share.records_in_flight import StateBatch
from ottla.metadata.brokers import Endpoint
from ottla.protocol.messages import delete_share_group_state as deleting
from ottla.protocol.messages import initialize_share_group_state as initializing
from ottla.protocol.messages import read_share_group_state as reading
from ottla.protocol.messages import read_share_group_state_summary as summarizing
from ottla.protocol.messages import write_share_group_state as writing

Answers = list[ShareStateAnswer]

ShareStateChannels = Channels[ShareStateRequest, Answers]

NO_ANSWER: Final = ShareStateAnswer(error=ErrorCode.COORDINATOR_NOT_AVAILABLE)


def share_state_channels(
    parts: ChannelParts,
    answered: Callable[[int, Sequence[ShareStateAnswer] | None, Timestamps], None],
) -> ShareStateChannels:
    """Channels whose answers go to `answered`: a request's number, and the answers in order."""

    def deliver(request: ShareStateRequest, answers: Answers | None, at: Timestamps) -> None:
        answered(request.number, answers, at)

    return Channels(parts, "share-group-states", _ask, deliver)


def _ask(request: ShareStateRequest, peer: Peer, endpoint: Endpoint | None) -> Answers:
    response = peer.ask(endpoint, message_of(request.requests))
    return answers_of(request.requests, response)


def message_of(requests: Sequence[StateRequest]) -> Message:
    """The request for the wire; all are of one kind, about one group."""
    group_id = requests[0].key.group_id
    match requests[0]:
        case InitializeState():
            topics = _by_topic(initializing.InitializeStateData, requests, _to_initialize)
            return initializing.InitializeShareGroupStateRequest(group_id=group_id, topics=topics)
        case ReadState():
            topics = _by_topic(reading.ReadStateData, requests, _to_read)
            return reading.ReadShareGroupStateRequest(group_id=group_id, topics=topics)
        case WriteState():
            topics = _by_topic(writing.WriteStateData, requests, _to_write)
            return writing.WriteShareGroupStateRequest(group_id=group_id, topics=topics)
        case DeleteState():
            topics = _by_topic(deleting.DeleteStateData, requests, _to_delete)
            return deleting.DeleteShareGroupStateRequest(group_id=group_id, topics=topics)
        case SummarizeState():
            topics = _by_topic(summarizing.ReadStateSummaryData, requests, _to_summarize)
            return summarizing.ReadShareGroupStateSummaryRequest(group_id=group_id, topics=topics)


def _by_topic(
    topic: Callable[..., Any], requests: Iterable[Any], partition: Callable[[Any], Any]
) -> list[Any]:
    found: dict[Uuid, list[Any]] = {}
    for one in requests:
        found.setdefault(one.key.topic_id, []).append(partition(one))
    return [topic(topic_id=one, partitions=partitions) for one, partitions in found.items()]


def _to_initialize(one: InitializeState) -> initializing.PartitionData:
    return initializing.PartitionData(
        partition=one.key.partition, state_epoch=one.state_epoch, start_offset=one.start_offset
    )


def _to_read(one: ReadState) -> reading.PartitionData:
    return reading.PartitionData(partition=one.key.partition, leader_epoch=one.leader_epoch)


def _to_write(one: WriteState) -> writing.PartitionData:
    change = one.change
    return writing.PartitionData(
        partition=one.key.partition,
        state_epoch=change.state_epoch,
        leader_epoch=change.leader_epoch,
        start_offset=change.start_offset,
        delivery_complete_count=change.complete_count,
        state_batches=[
            writing.StateBatch(
                first_offset=batch.first,
                last_offset=batch.last,
                delivery_state=batch.state,
                delivery_count=batch.delivery_count,
            )
            for batch in change.batches
        ],
    )


def _to_delete(one: DeleteState) -> deleting.PartitionData:
    return deleting.PartitionData(partition=one.key.partition)


def _to_summarize(one: SummarizeState) -> summarizing.PartitionData:
    return summarizing.PartitionData(partition=one.key.partition, leader_epoch=one.leader_epoch)


def answers_of(requests: Sequence[StateRequest], response: Any) -> Answers:
    """The answers in the order of the requests."""
    read = READINGS.get(type(requests[0]), _uninitialized)
    found = {
        (topic.topic_id, one.partition): ShareStateAnswer(
            error=ErrorCode(one.error_code), message=one.error_message, state=read(one)
        )
        for topic in response.results
        for one in topic.partitions
    }
    return [found.get((one.key.topic_id, one.key.partition), NO_ANSWER) for one in requests]


def _uninitialized(_: Any) -> PersistedState:
    return UNINITIALIZED


def _read(result: reading.PartitionResult) -> PersistedState:
    return PersistedState(
        state_epoch=result.state_epoch,
        leader_epoch=0,
        start_offset=result.start_offset,
        batches=tuple(
            StateBatch(
                batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count
            )
            for batch in result.state_batches
        ),
    )


def _summarized(result: summarizing.PartitionResult) -> PersistedState:
    return PersistedState(
        state_epoch=result.state_epoch,
        leader_epoch=result.leader_epoch,
        start_offset=result.start_offset,
        complete_count=result.delivery_complete_count,
    )


READINGS: Final[Mapping[type, Callable[[Any], PersistedState]]] = {
    ReadState: _read,
    SummarizeState: _summarized,
}
"""How results are read; others bring no state."""
