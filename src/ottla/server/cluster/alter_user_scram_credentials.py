"""AlterUserScramCredentials, 0: sets and removes passwords in ZooKeeper, for all brokers.

Differs from Kafka, where only the controller does so: each user has a node of its own, which is
changed as a whole. Kafka's counterpart: `ZkAdminManager.alterUserScramCredentials`.
"""

from collections.abc import Mapping, Sequence
from functools import partial

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.turns import freed_in_turns, in_turns
from ottla.broker.security.registered import (
    credentials_of,
    entity_of,
    user_path,
    with_credentials,
)
from ottla.broker.security.users import ScramUpsertion, with_upsertions
from ottla.controller.settings import Change, Refusals
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from ottla.registries.paths import is_node_name, sanitized
from ottla.server.cluster.applying import membership_of
from ottla.server.handlers.alter_user_scram_credentials import answer, upsertions
from ottla.server.request_context import PendingAnswer, RequestContext


def handle(request: AlterUserScramCredentialsRequest, context: RequestContext) -> PendingAnswer:
    context.may_take_long()
    by_user: dict[str, list[ScramUpsertion]] = {}
    for one in in_turns(upsertions(request)):
        by_user.setdefault(one.user, []).append(one)
    changes: dict[str, Change] = {
        user_path(user): partial(_change, wanted)
        for user, wanted in in_turns(by_user.items())
        if is_node_name(sanitized(user))
    }

    def answered(refusals: Refusals) -> AlterUserScramCredentialsResponse:
        freed_in_turns(by_user)
        freed_in_turns(changes)
        freed_in_turns(refusals)
        no_user = ApiError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty, and not . or .."
        )
        return answer(
            freed_in_turns(
                {user: refusals.get(user_path(user), no_user) for user in in_turns(by_user)}
            )
        )

    waiting = membership_of(context).change_settings(changes)
    return PendingAnswer(waiting, answered, takes_long=True)


def _change(wanted: Sequence[ScramUpsertion], settings: Mapping[str, str]) -> Mapping[str, str]:
    """Raises `ApiError`."""
    user = wanted[0].user
    entity = entity_of(user_path(user))
    assert entity is not None
    try:
        known = credentials_of(entity, settings)
    except ValueError as error:
        raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from error
    credentials, results = with_upsertions(known, wanted)
    refusal = results[user]
    if refusal is not None:
        raise refusal
    return with_credentials(settings, credentials)
