"""DescribeShareGroupOffsets, 0 to 1: where share groups are in partitions (KIP-932), and how many
records they have not finished (KIP-1226).

A group that has not begun in a partition has start offset -1 there, and an unknown lag. Kafka's
counterpart: `KafkaApis.handleDescribeShareGroupOffsetsRequest`.
"""

from collections.abc import Iterable, Mapping

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.turns import turn_dict, turn_list
from ottla.codec.schema import Message
from ottla.coordinator.share.coordinator import ShareStateAnswer
from ottla.coordinator.share.persisted_state import SharePartitionKey
from ottla.protocol.messages.describe_share_group_offsets import (
    DescribedGroup,
    DescribedPartition,
    DescribedTopic,
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsResponse,
    WantedGroup,
)
from ottla.server.dispatching.request_context import (
    PendingAnswer,
    PendingResponse,
    RequestContext,
)

FIRST_LAG_VERSION = 1
UNKNOWN_LAG = -1
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

Summaries = Mapping[SharePartitionKey, ShareStateAnswer]
Ends = Mapping[TopicPartition, int]


def handle(
    request: DescribeShareGroupOffsetsRequest, context: RequestContext
) -> Message | PendingResponse:
    context.may_take_long()
    asked = turn_list(_Asked(one, context) for one in request.groups)
    keys = turn_list(key for one in asked for key in one.keys)

    def answer(summaries: Summaries, ends: Ends) -> Message:
        return DescribeShareGroupOffsetsResponse(
            groups=[one.answer(summaries, ends) for one in asked]
        )

    def find_ends(summaries: Summaries) -> Message | PendingResponse:
        names = {one.topic_ids[name]: name for one in asked for name in one.topic_ids}
        places = turn_dict(
            (TopicPartition(names[key.topic_id], key.partition), None)
            for key, found in summaries.items()
            if found.state.start_offset >= 0
        )
        if context.api_version < FIRST_LAG_VERSION or not places:
            return answer(summaries, {})
        ends = context.broker.end_offsets.wait(places)
        return PendingAnswer(ends, lambda found: answer(summaries, found), takes_long=True)

    if not keys:
        return answer({}, {})
    summaries = context.broker.share_groups.summarize(keys, context.at)
    return PendingAnswer(summaries, find_ends, takes_long=True)


class _Asked:
    """What is asked about one group: `keys` are the partitions that exist."""

    __slots__ = ("_context", "_error", "_group_id", "_topics", "topic_ids")

    def __init__(self, wanted: WantedGroup, context: RequestContext) -> None:
        self._context = context
        self._group_id = wanted.group_id
        self._error: ApiError | None = None
        self._topics: dict[str, Iterable[int]] = turn_dict()
        self.topic_ids: dict[str, Uuid] = turn_dict()
        try:
            self._find(wanted)
        except ApiError as error:
            self._error = error.without_traceback()

    def _find(self, wanted: WantedGroup) -> None:
        broker = self._context.broker
        machine = broker.groups.machine_of(self._group_id, self._context.at)
        group = machine.shares.find(self._group_id)
        if wanted.topics is None:
            for topic in group.initialized.values():
                self._topics[topic.name] = sorted(topic.partitions)
        else:
            for one in wanted.topics:
                self._topics[one.topic_name] = one.partitions
        for name in self._topics:
            found = broker.catalog.find(name)
            if found is not None:
                self.topic_ids[name] = found.topic_id

    @property
    def keys(self) -> Iterable[SharePartitionKey]:
        for name, topic_id in self.topic_ids.items():
            for index in self._topics[name]:
                yield SharePartitionKey(self._group_id, topic_id, index)

    def answer(self, summaries: Summaries, ends: Ends) -> DescribedGroup:
        if self._error is not None:
            return DescribedGroup(
                group_id=self._group_id,
                error_code=self._error.code,
                error_message=self._error.message,
            )
        return DescribedGroup(
            group_id=self._group_id,
            topics=[self._topic(name, summaries, ends) for name in self._topics],
        )

    def _topic(self, name: str, summaries: Summaries, ends: Ends) -> DescribedTopic:
        topic_id = self.topic_ids.get(name)
        if topic_id is None:
            unknown = [_failed(index, UNKNOWN, UNKNOWN.description) for index in self._topics[name]]
            return DescribedTopic(topic_name=name, partitions=unknown)
        return DescribedTopic(
            topic_name=name,
            topic_id=topic_id,
            partitions=[
                _partition(
                    index,
                    summaries[SharePartitionKey(self._group_id, topic_id, index)],
                    ends.get(TopicPartition(name, index)),
                )
                for index in self._topics[name]
            ],
        )


def _partition(index: int, found: ShareStateAnswer, end: int | None) -> DescribedPartition:
    if found.error:
        return _failed(index, found.error, found.message or found.error.description)
    state = found.state
    described = DescribedPartition(
        partition_index=index, start_offset=state.start_offset, leader_epoch=state.leader_epoch
    )
    if end is not None and state.start_offset >= 0:
        finished_count = max(0, state.complete_count)
        described.lag = max(0, end - state.start_offset - finished_count)
    return described


def _failed(index: int, code: ErrorCode, message: str) -> DescribedPartition:
    return DescribedPartition(
        partition_index=index, start_offset=-1, error_code=code, error_message=message
    )
