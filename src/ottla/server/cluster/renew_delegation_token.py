"""RenewDelegationToken, 0 to 2: lets a token in ZooKeeper live longer.

Kafka's counterpart: `DelegationTokenManagerZk.renewToken`.
"""

from functools import partial

from ottla.base.errors import ApiError
from ottla.broker.security.registered import token_node
from ottla.controller.tokens import FoundTokens, change_token
from ottla.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from ottla.server.cluster.applying import membership_of
from ottla.server.handlers.renew_delegation_token import answer, renewed
from ottla.server.request_context import PendingAnswer, RequestContext


def handle(
    request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse | PendingAnswer:
    context.may_take_long()
    try:
        token = renewed(request, context)
    except ApiError as error:
        return answer(error)

    def answered(result: FoundTokens | ApiError) -> RenewDelegationTokenResponse:
        return answer(result if isinstance(result, ApiError) else token.expires_ms)

    steps = partial(change_token, token_node(token))
    return PendingAnswer(membership_of(context).change_token(steps), answered)
