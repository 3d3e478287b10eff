"""Users, tokens, access rules and quotas that grow, and what is then done with them."""

from dataclasses import replace
from typing import Any

from benchmarks.growing import DAY_MS, EACH_MANY, made
from benchmarks.growth import Place
from ottla.base.error_codes import ErrorCode
from ottla.base.principal import ANONYMOUS, Principal
from ottla.metadata.acls import (
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.metadata.tokens import DelegationToken
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from ottla.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
from ottla.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

SHA_256 = 1
OWNER = Principal("User", "ana")
OF_ANYBODY: dict[str, Any] = {
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}
"""A filter of rules that lets all of a type of resource through."""


def users(place: Place) -> None:
    """Users with a SCRAM credential each."""
    for first in range(0, place.count, EACH_MANY):
        _set_passwords(place, range(first, min(first + EACH_MANY, place.count)))


def _set_passwords(place: Place, numbers: range) -> None:
    new = [
        ScramCredentialUpsertion(
            name=f"u-{one}",
            mechanism=SHA_256,
            iterations=4096,
            salt=b"salt",
            salted_password=b"password".ljust(32),
        )
        for one in numbers
    ]
    answer = place.ask(AlterUserScramCredentialsRequest(upsertions=new), 0)
    assert not any(one.error_code for one in answer.results)


def set_password(place: Place) -> None:
    _set_passwords(place, range(1))


def describe_users(place: Place) -> None:
    answer = place.ask(DescribeUserScramCredentialsRequest(users=None), 0)
    assert len(answer.results) == place.count


def delete_users(place: Place) -> None:
    gone = [
        ScramCredentialDeletion(name=f"u-{one}", mechanism=SHA_256) for one in range(place.count)
    ]
    answer = place.ask(AlterUserScramCredentialsRequest(deletions=gone), 0)
    assert not any(one.error_code for one in answer.results)


def tokens(place: Place) -> None:
    """Tokens of one owner, who has logged in."""
    known = {one.token_id: one for one in (_token(number, place) for number in range(place.count))}
    client = place.client()
    client.ask(ApiVersionsRequest(), 0)
    with place.server.lock:
        security = place.broker.security
        security.follow(replace(security.image, tokens=known))
        (connection,) = place.server._connections
        connection.peer = connection.peer._replace(protocol="SASL_PLAINTEXT", principal=OWNER)


def create_token(place: Place) -> None:
    answer = place.ask(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
    assert not answer.error_code
    place.kept["hmac"] = answer.hmac


def renew_token(place: Place) -> None:
    request = RenewDelegationTokenRequest(hmac=place.kept["hmac"], renew_period_ms=-1)
    assert not place.ask(request, 2).error_code


def describe_tokens(place: Place) -> None:
    answer = place.ask(DescribeDelegationTokenRequest(owners=None), 3)
    assert len(answer.tokens) > place.count


def _token(number: int, place: Place) -> DelegationToken:
    now_ms = place.clock.now_ms()
    return DelegationToken(
        token_id=f"token-{number}",
        owner=OWNER,
        requester=OWNER,
        renewers=(),
        issued_ms=now_ms,
        expires_ms=now_ms + DAY_MS,
        max_ms=now_ms + 7 * DAY_MS,
    )


def rules(place: Place) -> None:
    """Access rules of many principals, each for a topic."""
    acls = [
        Acl(
            ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, f"topic-{number}"),
            Entry(f"User:u{number % 1000}", "*", Operation.READ, Permission.ALLOW),
        )
        for number in range(place.count)
    ]
    all_ = ResourcePattern(ResourceType.CLUSTER, PatternType.LITERAL, "kafka-cluster")
    acls.append(Acl(all_, Entry("User:*", "*", Operation.ALL, Permission.ALLOW)))
    with place.server.lock:
        place.broker.security.create_acls(acls)


def rules_elsewhere(place: Place) -> None:
    """All of the client's rules allow it to write from another host."""
    with place.server.lock:
        place.broker.security.create_acls(
            [_may_write(number, "10.0.0.1") for number in range(place.count)]
        )


def _may_write(number: int, host: str) -> Acl:
    pattern = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, f"topic-{number}")
    return Acl(pattern, Entry(str(ANONYMOUS), host, Operation.WRITE, Permission.ALLOW))


def init_producer_in_vain(place: Place) -> None:
    answer = place.ask(InitProducerIdRequest(transactional_id=None), 4)
    assert answer.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED


def init_producer_denied(place: Place) -> None:
    """They allow it from here, but another one denies all of these topics."""
    denial = Acl(
        ResourcePattern(ResourceType.TOPIC, PatternType.PREFIXED, "topic-"),
        Entry(str(ANONYMOUS), "*", Operation.WRITE, Permission.DENY),
    )
    with place.server.lock:
        place.broker.security.create_acls(
            [denial, *(_may_write(number, "*") for number in range(place.count))]
        )
    init_producer_in_vain(place)


def create_rule(place: Place) -> None:
    new = AclCreation(
        resource_type=2,
        resource_name="new",
        resource_pattern_type=3,
        principal="User:new",
        host="*",
        operation=3,
        permission_type=3,
    )
    place.ask(CreateAclsRequest(creations=[new]), 3)


def describe_rules(place: Place) -> None:
    answer = place.ask(DescribeAclsRequest(resource_type_filter=1, **OF_ANYBODY), 3)
    assert len(answer.resources) >= place.count


def delete_rules(place: Place) -> None:
    """All about topics."""
    topics = DeleteAclsFilter(resource_type_filter=2, **OF_ANYBODY)
    answer = place.ask(DeleteAclsRequest(filters=[topics]), 3)
    assert len(answer.filter_results[0].matching_acls) >= place.count


def quotas(place: Place) -> None:
    """Quotas of many users."""
    entries = [
        EntryData(
            entity=[EntityData(entity_type="user", entity_name=f"u-{number}")],
            ops=[OpData(key="producer_byte_rate", value=1e9, remove=False)],
        )
        for number in range(place.count)
    ]
    made()(place)
    answer = place.ask(AlterClientQuotasRequest(entries=entries, validate_only=False), 1)
    assert not any(one.error_code for one in answer.entries)


def describe_quotas(place: Place) -> None:
    place.ask(DescribeClientQuotasRequest(components=[], strict=False), 1)


def change_quota(place: Place) -> None:
    entity = [EntityData(entity_type="user", entity_name="u-0")]
    ops = [OpData(key="consumer_byte_rate", value=1e9, remove=False)]
    request = AlterClientQuotasRequest(entries=[EntryData(entity=entity, ops=ops)])
    assert not place.ask(request, 1).entries[0].error_code
