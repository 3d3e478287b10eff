"""Requests about delegation tokens, as far as rules decide (KIP-48, KIP-373)."""

from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import create_delegation_token, describe_delegation_token
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenResponse
from tests.unit.server.authorization.row import OWNER, TOKEN, D, Op, Row, U


def create_request() -> create_delegation_token.CreateDelegationTokenRequest:
    return create_delegation_token.CreateDelegationTokenRequest(
        owner_principal_type=OWNER.type, owner_principal_name=OWNER.name, max_lifetime_ms=-1
    )


def describe_request() -> describe_delegation_token.DescribeDelegationTokenRequest:
    return describe_delegation_token.DescribeDelegationTokenRequest(owners=None)


def shows_token(answer: DescribeDelegationTokenResponse) -> bool:
    """Those that the client has made in other rows are its own."""
    return any(one.token_id == TOKEN for one in answer.tokens)


ROWS: dict[ApiKey, list[Row]] = {
    ApiKey.CREATE_DELEGATION_TOKEN: [Row(create_request, 3, ((Op.CREATE_TOKENS, U),))],
    ApiKey.DESCRIBE_DELEGATION_TOKEN: [
        Row(describe_request, 3, ((Op.DESCRIBE, D),), shows=shows_token),
        Row(describe_request, 3, ((Op.DESCRIBE_TOKENS, U),), shows=shows_token),
    ],
}
