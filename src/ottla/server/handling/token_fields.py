"""The common part of the requests for delegation tokens (KIP-48, KIP-373).

Kafka's counterparts: `KafkaApis.allowTokenRequests`, `DelegationTokenControlManager`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.principal import ANONYMOUS, Principal
from ottla.metadata.acls import Operation, ResourceType
from ottla.metadata.tokens import DelegationToken, TokenLifetimes
from ottla.server.dispatching.request_context import RequestContext


def check_connection(context: RequestContext) -> None:
    """Raises `ApiError` for an unauthenticated client, or one authenticated by a token."""
    client = context.client
    # On a listener with TLS only, clients without a certificate are unauthenticated.
    is_unknown = client.protocol == "PLAINTEXT" or client.principal == ANONYMOUS
    if is_unknown or client.is_by_token:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def lifetimes_of(context: RequestContext) -> TokenLifetimes:
    config = context.broker.settings.config
    return TokenLifetimes(
        max_ms=config.delegation_token_max_lifetime_ms,
        expiry_ms=config.delegation_token_expiry_time_ms,
    )


def own_token(hmac: bytes, context: RequestContext) -> DelegationToken:
    """The token with that secret, if the client is its owner or renewer; raises `ApiError`."""
    check_connection(context)
    token = context.broker.security.token_by_hmac(hmac)
    if context.principal != token.owner and context.principal not in token.renewers:
        raise ApiError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)
    return token


def may_use_tokens_of(owner: Principal, operation: Operation, context: RequestContext) -> bool:
    """Whether the client may use another user's tokens: by the resource type USER, with an
    authorizer.
    """
    return _allows(operation, ResourceType.USER, str(owner), context)


def may_see(token: DelegationToken, context: RequestContext) -> bool:
    return (
        token.concerns(context.principal)
        or _allows(Operation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id, context)
        or may_use_tokens_of(token.owner, Operation.DESCRIBE_TOKENS, context)
    )


def _allows(
    operation: Operation, resource_type: ResourceType, name: str, context: RequestContext
) -> bool:
    authorizer = context.broker.security.authorizer
    client = context.client
    return authorizer is None or authorizer.allows(
        client.principal, client.host, operation, resource_type, name
    )
