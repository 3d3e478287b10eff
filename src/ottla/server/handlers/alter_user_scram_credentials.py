"""AlterUserScramCredentials, 0: sets and removes passwords for logins by SCRAM.

The request carries the salted password; the stored keys are derived from it here, and are durable
when the response is sent. Kafka's counterpart: `ScramControlManager.alterCredentials` (KIP-554).
"""

from collections.abc import Mapping

from ottla.base.errors import ApiError
from ottla.base.turns import in_turns, turn_list
from ottla.broker.security.users import ScramUpsertion
from ottla.codec.schema import Message
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond


def handle(
    request: AlterUserScramCredentialsRequest, context: RequestContext
) -> Message | PendingResponse:
    context.may_take_long()
    return respond(context.broker.controller.alter_users(_upsertions(request)), _answer)


def _upsertions(request: AlterUserScramCredentialsRequest) -> list[ScramUpsertion]:
    wanted = turn_list(
        [ScramUpsertion(user=one.name, mechanism_code=one.mechanism) for one in request.deletions]
    )
    wanted += [
        ScramUpsertion(
            user=one.name,
            mechanism_code=one.mechanism,
            iterations=one.iterations,
            salt=bytes(one.salt),
            salted_password=bytes(one.salted_password),
        )
        for one in request.upsertions
    ]
    return wanted


def _answer(outcomes: Mapping[str, ApiError | None]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(
                user=user,
                error_code=error.code if error else 0,
                error_message=error.message if error else None,
            )
            for user, error in in_turns(outcomes.items())
        ]
    )
