"""What brokers of a cluster ask each other needs CLUSTER_ACTION, and features need ALTER."""

import pytest

from ottla.base.ids import Uuid
from ottla.metadata.acls import Acl, Operation, Permission
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import delete_share_group_state as deleting
from ottla.protocol.messages import initialize_share_group_state as initializing
from ottla.protocol.messages import read_share_group_state as reading
from ottla.protocol.messages import read_share_group_state_summary as summarizing
from ottla.protocol.messages import request_class
from ottla.protocol.messages import write_share_group_state as writing
from ottla.server.authorization.members import GUARDS_OF_MEMBERS
from ottla.server.dispatching.apis import CLUSTER_APIS, QUORUM_APIS
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
    ApiKey(key): Operation.ALTER if key == ApiKey.UPDATE_FEATURES else Operation.CLUSTER_ACTION
    for key in CLUSTER_APIS
}

NAMED_STATES = {
    api_key: module.__dict__[topic](
        topic_id=Uuid(bytes(range(16))), partitions=[module.PartitionData()]
    )
    for api_key, module, topic in (
        (ApiKey.INITIALIZE_SHARE_GROUP_STATE, initializing, "InitializeStateData"),
        (ApiKey.READ_SHARE_GROUP_STATE, reading, "ReadStateData"),
        (ApiKey.WRITE_SHARE_GROUP_STATE, writing, "WriteStateData"),
        (ApiKey.DELETE_SHARE_GROUP_STATE, deleting, "DeleteStateData"),
        (ApiKey.READ_SHARE_GROUP_STATE_SUMMARY, summarizing, "ReadStateSummaryData"),
    )
}
"""A topic for the requests that are refused for each partition, and not as a whole."""


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
    if key in NAMED_STATES:
        request = request_class(key)(group_id="g", topics=[NAMED_STATES[key]])
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
    assert set(CLUSTER_APIS) | set(QUORUM_APIS) == set(GUARDS_OF_MEMBERS)
