"""ExpireDelegationToken, 0 to 2: ends a token in ZooKeeper sooner, or at once.

Kafka's counterpart: `DelegationTokenManagerZk.expireToken`.
"""

from functools import partial

from ottla.base.errors import ApiError
from ottla.broker.security.registered import token_node
from ottla.controller.tokens import FoundTokens, change_token, drop_token
from ottla.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from ottla.server.cluster.applying import membership_of
from ottla.server.handlers.expire_delegation_token import answer, expired
from ottla.server.request_context import PendingAnswer, RequestContext


def handle(
    request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse | PendingAnswer:
    context.may_take_long()
    try:
        token, shortened, expires_ms = expired(request, context)
    except ApiError as error:
        return answer(error)

    def answered(result: FoundTokens | ApiError) -> ExpireDelegationTokenResponse:
        return answer(result if isinstance(result, ApiError) else expires_ms)

    if shortened is None:
        steps = partial(drop_token, token.token_id)
    else:
        steps = partial(change_token, token_node(shortened))
    return PendingAnswer(membership_of(context).change_token(steps), answered)
