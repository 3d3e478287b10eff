"""CreateDelegationToken, 0 to 3: a token in ZooKeeper, for all brokers.

Kafka's counterpart: `DelegationTokenManagerZk.createToken`.
"""

from functools import partial

from ottla.base.errors import ApiError
from ottla.broker.security.registered import token_node
from ottla.controller.tokens import FoundTokens, create_token
from ottla.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.server.cluster.applying import membership_of
from ottla.server.handlers.create_delegation_token import created, new_token, owner_of, refused
from ottla.server.request_context import PendingAnswer, RequestContext


def handle(
    request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse | PendingAnswer:
    context.may_take_long()
    owner = owner_of(request, context)
    try:
        token = new_token(request, owner, context)
        hmac = context.broker.security.hmac_of(token)
    except ApiError as error:
        return refused(owner, error, context)

    def answered(result: FoundTokens | ApiError) -> CreateDelegationTokenResponse:
        if isinstance(result, ApiError):
            return refused(owner, result, context)
        return created(token, hmac, context)

    steps = partial(create_token, token_node(token))
    return PendingAnswer(membership_of(context).change_token(steps), answered)
