"""OffsetFetch, 0 to 10: how far a group, or from version 8 several groups, have read (KIP-709).

Nothing committed is offset -1 and no error. With `require_stable` an offset that an open
transaction is about to move is refused (KIP-447). From version 9 a member says its epoch, which a
group of the new protocol checks (KIP-848).
Kafka's counterpart: `KafkaApis.handleOffsetFetchRequest`.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.partitions import TopicPartition
from ottla.base.turns import in_turns, turn_dict, turn_list
from ottla.base.values import dataclass
from ottla.coordinator.offsets.committed_offsets import NO_LEADER_EPOCH, NO_OFFSET, FetchedOffset
from ottla.coordinator.requests import MemberClaim
from ottla.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from ottla.server.dispatching.request_context import RequestContext

FIRST_GROUPS_VERSION = 8
FIRST_TOPIC_ID_VERSION = 10

NOTHING = FetchedOffset(committed=None)

PartitionT = TypeVar("PartitionT", OffsetFetchResponsePartition, OffsetFetchResponsePartitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wanted:
    """Partitions of one topic; `name` is `None` for an unknown id."""

    name: str | None
    topic_id: Uuid = ZERO_UUID
    indexes: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The result for a partition, in any version of the response."""

    index: int
    offset: int = NO_OFFSET
    leader_epoch: int = NO_LEADER_EPOCH
    metadata: str = ""
    error: ErrorCode = ErrorCode.NONE


def handle(request: OffsetFetchRequest, context: RequestContext) -> OffsetFetchResponse:
    if context.api_version >= FIRST_GROUPS_VERSION:
        return OffsetFetchResponse(groups=[_group(one, request, context) for one in request.groups])
    wanted = None
    if request.topics is not None:
        wanted = turn_list(
            [_Wanted(name=one.name, indexes=one.partition_indexes) for one in request.topics]
        )
    claim = MemberClaim(group_id=request.group_id)
    error_code = ErrorCode.NONE
    try:
        fetched = _fetch(claim, wanted, request, context)
    except ApiError as error:
        error_code = error.code
        fetched = turn_list(
            [
                (one, turn_list([_Found(index=index, error=error_code) for index in one.indexes]))
                for one in wanted or ()
            ]
        )
    return OffsetFetchResponse(
        error_code=error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name or "",
                partitions=[_partition(OffsetFetchResponsePartition, one) for one in found],
            )
            for topic, found in fetched
        ],
    )


def _group(
    group: OffsetFetchRequestGroup, request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponseGroup:
    wanted = None
    if group.topics is not None:
        wanted = turn_list(
            [
                _Wanted(
                    name=context.broker.catalog.name_by_id(one.topic_id)
                    if context.api_version >= FIRST_TOPIC_ID_VERSION
                    else one.name,
                    topic_id=one.topic_id,
                    indexes=one.partition_indexes,
                )
                for one in group.topics
            ]
        )
    claim = MemberClaim(
        group_id=group.group_id, member_id=group.member_id or "", generation=group.member_epoch
    )
    try:
        fetched = _fetch(claim, wanted, request, context)
    except ApiError as error:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code)
    return OffsetFetchResponseGroup(
        group_id=group.group_id,
        topics=[
            OffsetFetchResponseTopics(
                name=topic.name or "",
                topic_id=topic.topic_id,
                partitions=[_partition(OffsetFetchResponsePartitions, one) for one in found],
            )
            for topic, found in fetched
        ],
    )


def _fetch(
    claim: MemberClaim,
    wanted: list[_Wanted] | None,
    request: OffsetFetchRequest,
    context: RequestContext,
) -> Iterable[tuple[_Wanted, list[_Found]]]:
    """The results by topic; `wanted` is `None` for all that the group has committed."""
    places = None
    if wanted is None:
        context.may_take_long()
    else:
        places = turn_list(
            [TopicPartition(one.name, index) for one in wanted if one.name for index in one.indexes]
        )
    fetched = context.broker.groups.machine_of(claim.group_id, context.at).fetch_offsets(
        claim, places
    )
    if wanted is None:
        wanted = _all_topics(fetched, context)
    return turn_list([(one, _find(one, fetched, request.require_stable)) for one in wanted])


def _all_topics(fetched: Iterable[TopicPartition], context: RequestContext) -> list[_Wanted]:
    """The topics of a group's offsets; by id only existing topics."""
    indexes: dict[str, list[int]] = turn_dict()
    for topic, index in in_turns(fetched):
        indexes.setdefault(topic, turn_list()).append(index)
    if context.api_version < FIRST_TOPIC_ID_VERSION:
        return turn_list([_Wanted(name=topic, indexes=some) for topic, some in indexes.items()])
    known = ((context.broker.catalog.find(topic), some) for topic, some in indexes.items())
    return turn_list(
        [
            _Wanted(name=topic.name, topic_id=topic.topic_id, indexes=some)
            for topic, some in known
            if topic is not None
        ]
    )


def _find(
    wanted: _Wanted, fetched: Mapping[TopicPartition, FetchedOffset], require_stable: bool
) -> list[_Found]:
    found: list[_Found] = turn_list()
    for index in wanted.indexes:
        if wanted.name is None:
            found.append(_Found(index=index, error=ErrorCode.UNKNOWN_TOPIC_ID))
            continue
        one = fetched.get(TopicPartition(wanted.name, index), NOTHING)
        committed = one.committed
        if one.is_unstable and require_stable:
            found.append(_Found(index=index, error=ErrorCode.UNSTABLE_OFFSET_COMMIT))
        elif committed is None:
            found.append(_Found(index=index))
        else:
            found.append(
                _Found(
                    index=index,
                    offset=committed.offset,
                    leader_epoch=committed.leader_epoch,
                    metadata=committed.metadata,
                )
            )
    return found


def _partition(kind: Callable[..., PartitionT], found: _Found) -> PartitionT:
    return kind(
        partition_index=found.index,
        committed_offset=found.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.metadata,
        error_code=found.error,
    )
