"""What brokers of a cluster ask each other needs CLUSTER_ACTION, and features need ALTER."""

import pytest

from ottla.metadata.acls import Acl, Operation, Permission
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import request_class
from ottla.server.authorization.members import GUARDS_OF_MEMBERS
from ottla.server.dispatching.apis import CLUSTER_APIS
from ottla.server.dispatching.request_context import Client
from tests.support.asking import ADDRESS, Asker
from tests.support.lonely_member import LonelyMember
from tests.unit.server.authorization.row import (
    ANA,
    CLUSTER_DENIED,
    HOST,
    C,
    acl,
    error_codes,
)

NEEDED = {
    key: Operation.ALTER if key is ApiKey.UPDATE_FEATURES else Operation.CLUSTER_ACTION
    for key in GUARDS_OF_MEMBERS
}


@pytest.fixture(scope="module")
def member() -> LonelyMember:
    return LonelyMember(
        2,
        authorizer_class_name="kafka.security.authorizer.AclAuthorizer",
        super_users="User:ANONYMOUS",
    )


def is_denied(member: LonelyMember, key: ApiKey, rules: list[Acl]) -> bool:
    assert member.broker.security.authorizer is not None
    member.broker.security.authorizer.change(rules)
    asker = Asker(member.broker, client=Client(ADDRESS, HOST, ANA))
    request, version = request_class(key)(), CLUSTER_APIS[key].newest
    later, output = asker.send(request, version)
    if later is not None:
        member.broker.answers.take_answered(0.0)
        return False
    return CLUSTER_DENIED in error_codes(asker.decode(request, version, output))


@pytest.mark.parametrize("key", sorted(NEEDED))
def test_a_request_of_brokers_is_answered_as_the_rules_say(
    member: LonelyMember, key: ApiKey
) -> None:
    need = (NEEDED[key], C)
    others = [acl((one, C)) for one in (Operation.DESCRIBE, Operation.ALTER_CONFIGS)]
    assert is_denied(member, key, others)
    assert is_denied(member, key, [acl(need), acl(need, Permission.DENY)])
    assert not is_denied(member, key, [acl(need)])


def test_every_request_that_only_a_member_answers_has_a_guard() -> None:
    assert set(CLUSTER_APIS) == set(NEEDED)
