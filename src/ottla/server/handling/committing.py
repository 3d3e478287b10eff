"""In a cluster, responses of coordinators wait until their content is committed.

A group's or transaction's machine is ahead of the high watermark of its partition. No response may
depend on records that another coordinator might not have: as in Kafka, it waits until everything
that the machine appended before is on the in-sync replicas. Only handlers of members of a cluster
are wrapped in this way. Kafka's counterpart: `CoordinatorRuntime`'s deferred events.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from ottla.base.error_codes import ErrorCode
from ottla.base.timestamps import Timestamps
from ottla.broker.broker import Broker
from ottla.broker.waiting.rooms import Waiting
from ottla.codec.schema import Message, Struct
from ottla.protocol.api_keys import ApiKey
from ottla.server.dispatching.request_context import (
    Handler,
    PendingAnswer,
    PendingResponse,
    RequestContext,
)

Keys = Callable[[Any], Iterable[str]]

Uncommitted = Callable[[str, Timestamps], Waiting[ErrorCode] | None]


def _group(request: Any) -> Iterable[str]:
    return (request.group_id,)


def _groups(request: Any) -> Iterable[str]:
    return [one.group_id for one in request.groups] or (request.group_id,)


def _transaction(request: Any) -> Iterable[str]:
    return () if request.transactional_id is None else (request.transactional_id,)


def _transactions(request: Any) -> Iterable[str]:
    many = [one.transactional_id for one in request.transactions]
    return many or (request.v3_and_below_transactional_id,)


GROUPS: Final[Mapping[ApiKey, Keys]] = {
    ApiKey.OFFSET_COMMIT: _group,
    ApiKey.OFFSET_FETCH: _groups,
    ApiKey.JOIN_GROUP: _group,
    ApiKey.HEARTBEAT: _group,
    ApiKey.LEAVE_GROUP: _group,
    ApiKey.SYNC_GROUP: _group,
    ApiKey.DELETE_GROUPS: lambda request: request.groups_names,
    ApiKey.OFFSET_DELETE: _group,
    ApiKey.TXN_OFFSET_COMMIT: _group,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _group,
    ApiKey.SHARE_GROUP_HEARTBEAT: _group,
}
TRANSACTIONS: Final[Mapping[ApiKey, Keys]] = {
    ApiKey.INIT_PRODUCER_ID: _transaction,
    ApiKey.ADD_PARTITIONS_TO_TXN: _transactions,
    ApiKey.ADD_OFFSETS_TO_TXN: _transaction,
    ApiKey.END_TXN: _transaction,
}


def committed(api_key: ApiKey, handle: Handler) -> Handler:
    """Wraps a handler, so that a coordinator's responses wait.

    Other arguments, which guards of `server/authorization` pass, are passed on.
    """
    keys = GROUPS.get(api_key) or TRANSACTIONS.get(api_key)
    if keys is None:
        return handle

    def handle_and_wait(
        request: Any, context: RequestContext, *told: Any
    ) -> Message | PendingResponse | None:
        response = handle(request, context, *told)
        if response is None or isinstance(response, PendingResponse):
            return response  # the coordinator itself delays later responses
        uncommitted = _uncommitted(context.broker, api_key)
        return _when_committed(response, list(keys(request)), uncommitted, context.at)

    return handle_and_wait


def when_committed(
    response: Message, group_ids: list[str], context: RequestContext
) -> Message | PendingResponse:
    """The response of a handler that has waited for others first."""
    uncommitted = context.broker.groups.uncommitted
    return _when_committed(response, group_ids, uncommitted, context.at)


def _uncommitted(broker: Broker, api_key: ApiKey) -> Uncommitted:
    return broker.groups.uncommitted if api_key in GROUPS else broker.transactions.uncommitted


def _when_committed(
    response: Message, keys: list[str], uncommitted: Uncommitted, at: Timestamps
) -> Message | PendingResponse:
    """Sends the response once the last of its keys' records is committed, or an error."""

    def go_on(error: ErrorCode) -> Message | PendingResponse:
        if error:
            refuse(response, error)
            return response
        return _when_committed(response, keys, uncommitted, at)

    while keys:
        waiting = uncommitted(keys.pop(), at)
        if waiting is not None:
            return PendingAnswer(waiting, go_on)
    return response


def refuse(part: Struct, error: ErrorCode) -> None:
    """Puts the error in every place of a response that reports success."""
    for field in part.FIELDS:
        value = getattr(part, field.name)
        if field.name.endswith("error_code"):
            if not value:
                setattr(part, field.name, error)
        elif field.struct is not None:
            for one in value if isinstance(value, list) else ():
                refuse(one, error)
