"""AlterClientQuotas, 0 to 1: sets and removes quotas of users, clients and addresses.

They take effect at once. Left out: quotas of changes to topics (`controller_mutation_rate`), which
are refused. Kafka's counterpart: `ClientQuotaControlManager` (KIP-546, KIP-612).
"""

from collections.abc import Mapping, Sequence
from functools import partial

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import counted
from ottla.broker.quotas.quota_changes import ENTITY_TYPES, KEYS, QuotaAlteration
from ottla.codec.schema import Message
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntryData,
    EntryResult,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond

ENOUGH_NAMES = len(ENTITY_TYPES) + 1
ENOUGH_LIMITS = len(KEYS) + 1
"""One of this many must be unknown or a duplicate, and the entity is refused."""

Names = tuple[tuple[str, str | None], ...]


def handle(request: AlterClientQuotasRequest, context: RequestContext) -> Message | PendingResponse:
    context.may_take_long()
    counts = counted(map(_names, request.entries))
    altered = context.broker.controller.alter_quotas(
        request.entries,
        lambda entry: _alteration(entry, counts),
        validate_only=request.validate_only,
    )
    return respond(altered, partial(_answer, request))


def _answer(
    request: AlterClientQuotasRequest, errors: Sequence[ApiError | None]
) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            EntryResult(
                error_code=error.code if error else 0,
                error_message=error.message if error else None,
                entity=entry.entity,
            )
            for entry, error in zip(request.entries, errors, strict=True)
        ]
    )


def _names(entry: EntryData) -> Names:
    pairs = [(one.entity_type, one.entity_name) for one in entry.entity[:ENOUGH_NAMES]]
    return tuple(sorted(pairs, key=lambda pair: (pair[0], pair[1] or "")))


def _alteration(entry: EntryData, counts: Mapping[Names, int]) -> QuotaAlteration:
    names = _names(entry)
    if counts[names] > 1:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Ignoring duplicate entity")
    ops = entry.ops[:ENOUGH_LIMITS]
    limits = {op.key: None if op.remove else op.value for op in ops}
    if len(limits) < len(ops):
        raise ApiError(
            ErrorCode.INVALID_REQUEST, "A quota is named twice; the entity is not changed"
        )
    return QuotaAlteration(names=names, limits=limits)
