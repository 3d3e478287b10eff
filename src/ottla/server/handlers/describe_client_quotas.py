"""DescribeClientQuotas, 0 to 1: the quotas of users, clients and addresses that match a filter.

Kafka's counterpart: `ClientQuotasImage.describe` (KIP-546).
"""

from ottla.base.errors import ApiError
from ottla.base.turns import turn_list
from ottla.broker.quotas.quota_changes import Component, QuotaFilter
from ottla.protocol.messages.describe_client_quotas import (
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    EntityData,
    EntryData,
    ValueData,
)
from ottla.server.dispatching.request_context import RequestContext


def handle(
    request: DescribeClientQuotasRequest, context: RequestContext
) -> DescribeClientQuotasResponse:
    context.may_take_long()
    wanted = QuotaFilter(
        components=turn_list(
            [
                Component(entity_type=one.entity_type, match_type=one.match_type, match=one.match)
                for one in request.components
            ]
        ),
        is_strict=request.strict,
    )
    try:
        found = turn_list(context.broker.admin.select_quotas(wanted))
    except ApiError as error:
        return DescribeClientQuotasResponse(
            error_code=error.code, error_message=error.message, entries=None
        )
    return DescribeClientQuotasResponse(
        error_message=None,
        entries=[
            EntryData(
                entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                values=[ValueData(key=key, value=value) for key, value in limits.items()],
            )
            for entity, limits in found
        ],
    )
