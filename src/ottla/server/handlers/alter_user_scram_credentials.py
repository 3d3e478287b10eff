"""AlterUserScramCredentials, 0: sets and removes passwords for logins by SCRAM.

The request carries the salted password; the stored keys are derived from it here, and are on disk
when the response is sent. Kafka's counterpart: `ScramControlManager.alterCredentials` (KIP-554).
"""

from collections.abc import Mapping

from ottla.base.errors import ApiError
from ottla.base.turns import freed_in_turns, in_turns
from ottla.broker.security.users import ScramUpsertion
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ottla.server.request_context import RequestContext


def handle(
    request: AlterUserScramCredentialsRequest, context: RequestContext
) -> AlterUserScramCredentialsResponse:
    context.may_take_long()
    wanted = upsertions(request)
    try:
        results = freed_in_turns(context.broker.security.alter_users(wanted))
    except ApiError as error:
        results = dict.fromkeys((one.user for one in wanted), error.without_traceback())
    return answer(results)


def upsertions(request: AlterUserScramCredentialsRequest) -> list[ScramUpsertion]:
    wanted = freed_in_turns(
        [
            ScramUpsertion(user=one.name, mechanism_code=one.mechanism)
            for one in in_turns(request.deletions)
        ]
    )
    wanted += [
        ScramUpsertion(
            user=one.name,
            mechanism_code=one.mechanism,
            iterations=one.iterations,
            salt=bytes(one.salt),
            salted_password=bytes(one.salted_password),
        )
        for one in in_turns(request.upsertions)
    ]
    return wanted


def answer(results: Mapping[str, ApiError | None]) -> AlterUserScramCredentialsResponse:
    """The result for each user."""
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=user,
                error_code=error.code if error else 0,
                error_message=error.message if error else None,
            )
            for user, error in in_turns(results.items())
        ]
    )
