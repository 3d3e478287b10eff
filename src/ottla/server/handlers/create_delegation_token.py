"""CreateDelegationToken, 0 to 3: a token for the client, or for an owner that it may act for.

Kafka's counterpart: `DelegationTokenControlManager.createDelegationToken` (KIP-48, KIP-373).
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.ids import uuid_text
from ottla.base.principal import USER, Principal
from ottla.codec.schema import Message
from ottla.metadata.acls import Operation
from ottla.metadata.tokens import DelegationToken
from ottla.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond
from ottla.server.handling.token_fields import check_connection, lifetimes_of, may_use_tokens_of

FIRST_REQUESTER_VERSION = 3


def handle(
    request: CreateDelegationTokenRequest, context: RequestContext
) -> Message | PendingResponse:
    context.may_take_long()
    owner = _owner_of(request, context)
    try:
        token = _new_token(request, owner, context)
        hmac = context.broker.security.hmac_of(token)
    except ApiError as error:
        return _refused(owner, error, context)

    def answer(refusal: ApiError | None) -> CreateDelegationTokenResponse:
        if refusal is not None:
            return _refused(owner, refusal, context)
        return _created(token, hmac, context)

    return respond(context.broker.controller.create_token(token), answer)


def _refused(
    owner: Principal, error: ApiError, context: RequestContext
) -> CreateDelegationTokenResponse:
    response = CreateDelegationTokenResponse(
        error_code=error.code,
        principal_type=owner.type,
        principal_name=owner.name,
        issue_timestamp_ms=-1,
        expiry_timestamp_ms=-1,
        max_timestamp_ms=-1,
    )
    return _with_requester(response, context)


def _created(
    token: DelegationToken, hmac: bytes, context: RequestContext
) -> CreateDelegationTokenResponse:
    response = CreateDelegationTokenResponse(
        principal_type=token.owner.type,
        principal_name=token.owner.name,
        issue_timestamp_ms=token.issued_ms,
        expiry_timestamp_ms=token.expires_ms,
        max_timestamp_ms=token.max_ms,
        token_id=token.token_id,
        hmac=hmac,
    )
    return _with_requester(response, context)


def _with_requester(
    response: CreateDelegationTokenResponse, context: RequestContext
) -> CreateDelegationTokenResponse:
    if context.api_version >= FIRST_REQUESTER_VERSION:
        response.token_requester_principal_type = context.principal.type
        response.token_requester_principal_name = context.principal.name
    return response


def _owner_of(request: CreateDelegationTokenRequest, context: RequestContext) -> Principal:
    if request.owner_principal_name:
        return Principal(request.owner_principal_type or USER, request.owner_principal_name)
    return context.principal


def _new_token(
    request: CreateDelegationTokenRequest, owner: Principal, context: RequestContext
) -> DelegationToken:
    """Raises `ApiError`."""
    check_connection(context)
    renewers = tuple(Principal(one.principal_type, one.principal_name) for one in request.renewers)
    if any(one.type != USER for one in (owner, *renewers)):
        raise ApiError(ErrorCode.INVALID_PRINCIPAL_TYPE)
    if owner != context.principal and not may_use_tokens_of(
        owner, Operation.CREATE_TOKENS, context
    ):
        raise ApiError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    return lifetimes_of(context).new(
        uuid_text(context.broker.options.new_id()),
        (owner, context.principal),
        renewers,
        request.max_lifetime_ms,
        context.at.now_ms,
    )
