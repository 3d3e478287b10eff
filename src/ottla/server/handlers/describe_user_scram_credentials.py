"""DescribeUserScramCredentials, 0: nobody has a password here.

Kafka's counterpart: `ScramImage.describe` with no credentials (KIP-554).
"""

from collections import Counter

from ottla.base.error_codes import ErrorCode
from ottla.base.turns import in_turns
from ottla.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from ottla.server.request_context import RequestContext


def handle(
    request: DescribeUserScramCredentialsRequest, context: RequestContext
) -> DescribeUserScramCredentialsResponse:
    counts = Counter(user.name for user in in_turns(request.users or []))
    return DescribeUserScramCredentialsResponse(
        error_message=None,
        results=[_describe(name, count) for name, count in in_turns(counts.items())],
    )


def _describe(name: str, count: int) -> DescribeUserScramCredentialsResult:
    code, message = ErrorCode.RESOURCE_NOT_FOUND, f"User {name} has no SCRAM credentials."
    if count > 1:
        code, message = ErrorCode.DUPLICATE_RESOURCE, f"The request names user {name} twice."
    return DescribeUserScramCredentialsResult(user=name, error_code=code, error_message=message)
