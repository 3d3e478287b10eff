"""DescribeUserScramCredentials, 0: users with passwords, and their mechanisms; never the
credentials.

Kafka's counterpart: `ScramImage.describe` (KIP-554).
"""

from collections.abc import Mapping

from ottla.base.error_codes import ErrorCode
from ottla.base.turns import counted, in_turns
from ottla.broker.security.users import describe_users
from ottla.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ottla.server.dispatching.request_context import RequestContext

Users = Mapping[str, list[tuple[int, int]]]


def handle(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    context.may_take_long()
    known = describe_users(context.broker.security.image.credentials)
    counts = counted(user.name for user in request.users or []) or dict.fromkeys(known, 1)
    return DescribeUserScramCredentialsResponse(
        error_message=None,
        results=[_describe(name, count, known) for name, count in in_turns(counts.items())],
    )


def _describe(name: str, count: int, known: Users) -> DescribeUserScramCredentialsResult:
    if count > 1:
        code = ErrorCode.DUPLICATE_RESOURCE
        message = f"Cannot describe SCRAM credentials for the same user twice: {name}"
    elif name not in known:
        code = ErrorCode.RESOURCE_NOT_FOUND
        message = f"Attempt to describe a user credential that does not exist: {name}"
    else:
        return DescribeUserScramCredentialsResult(
            user=name,
            error_message=None,
            credential_infos=[
                CredentialInfo(mechanism=mechanism, iterations=iterations)
                for mechanism, iterations in known[name]
            ],
        )
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=message)
