"""AlterClientQuotas, 0 to 1: sets and removes quotas in ZooKeeper, for all brokers.

Kafka's counterpart: `ZkAdminManager.alterClientQuotas` (KIP-546).
"""

from collections.abc import Mapping

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import freed_in_turns, in_turns
from ottla.broker.quotas.quota_changes import QuotaAlteration
from ottla.broker.security.registered import entity_path, with_limits
from ottla.controller.settings import Change, Refusals
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
)
from ottla.registries.paths import is_node_name
from ottla.server.cluster.applying import membership_of
from ottla.server.handlers.alter_client_quotas import alterations, answer
from ottla.server.request_context import PendingAnswer, RequestContext


def handle(request: AlterClientQuotasRequest, context: RequestContext) -> PendingAnswer:
    context.may_take_long()
    changes: dict[str, Change] = {}
    places: list[str | ApiError] = []
    read = alterations(request)
    for entry in in_turns(request.entries):
        try:
            alteration = read(entry)
            path = _path_of(alteration)
            changes[path] = _change(alteration)
            places.append(path)
        except ApiError as error:
            places.append(error.without_traceback())

    def answered(refusals: Refusals) -> AlterClientQuotasResponse:
        freed_in_turns(changes)
        freed_in_turns(refusals)
        errors = (
            one if isinstance(one, ApiError) else refusals[one] for one in freed_in_turns(places)
        )
        return answer(request, errors)

    waiting = membership_of(context).change_settings(changes, validate_only=request.validate_only)
    return PendingAnswer(waiting, answered, takes_long=True)


def _path_of(alteration: QuotaAlteration) -> str:
    """Raises `ApiError`."""
    path = entity_path(alteration.entity())
    if not all(map(is_node_name, path.split("/"))):
        raise ApiError(ErrorCode.INVALID_REQUEST, f"{path} cannot be a node of ZooKeeper")
    return path


def _change(alteration: QuotaAlteration) -> Change:
    """Raises `ApiError` for invalid limits."""
    alteration.apply({})

    def change(settings: Mapping[str, str]) -> Mapping[str, str]:
        return with_limits(settings, alteration.limits)

    return change
