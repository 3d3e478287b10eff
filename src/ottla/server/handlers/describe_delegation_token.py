"""DescribeDelegationToken, 0 to 3: the tokens that the client may see, of some owners or of all.

As in Kafka, a token also belongs to its requester and its renewers.

As in Kafka, the response contains a token's secret: a client that may see a token may use it.
Kafka's counterpart: `KafkaApis.handleDescribeTokensRequest` (KIP-48).
"""

from ottla.base.errors import ApiError
from ottla.base.principal import Principal
from ottla.base.turns import in_turns, turn_dict
from ottla.metadata.tokens import DelegationToken
from ottla.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.server.dispatching.request_context import RequestContext
from ottla.server.handling.token_fields import check_connection, may_see

FIRST_REQUESTER_VERSION = 3


def handle(
    request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    context.may_take_long()
    security = context.broker.security
    owners: dict[Principal, None] | None = None
    if request.owners is not None:
        owners = turn_dict(
            (Principal(one.principal_type, one.principal_name), None) for one in request.owners
        )
    try:
        check_connection(context)
        return DescribeDelegationTokenResponse(
            tokens=[
                _describe(one, security.hmac_of(one), context.api_version)
                for one in in_turns(list(security.image.tokens.values()))
                if (owners is None or not owners.keys().isdisjoint(one.principals))
                and one.expires_ms >= context.at.now_ms
                and may_see(one, context)
            ]
            if security.token_secret
            else []
        )
    except ApiError as error:
        return DescribeDelegationTokenResponse(error_code=error.code)


def _describe(token: DelegationToken, hmac: bytes, api_version: int) -> DescribedDelegationToken:
    described = DescribedDelegationToken(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=one.type, principal_name=one.name)
            for one in token.renewers
        ],
    )
    if api_version >= FIRST_REQUESTER_VERSION:
        described.token_requester_principal_type = token.requester.type
        described.token_requester_principal_name = token.requester.name
    return described
