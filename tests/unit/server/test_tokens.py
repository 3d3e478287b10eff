"""Delegation tokens: who may have, renew, end and see one, and that they let somebody in."""

from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.principal import ANONYMOUS, Principal
from ottla.base.scram import bytes_text
from ottla.broker.broker import Broker
from ottla.broker.security.sasl import LoginError
from ottla.broker.security.scram import ScramServer
from ottla.client.connecting.scram import ScramClient
from ottla.metadata.acls import (
    Acl,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from ottla.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.server.dispatching.request_context import Client
from ottla.testing.file_system import FakeFileSystem
from tests.support.asking import ADDRESS, Asker
from tests.support.brokers import NOW_MS, disk, open_broker
from tests.support.metadata import segment

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
ANA, BOB, EVE = (Principal("User", name) for name in ("ana", "bob", "eve"))
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
MISMATCH = ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


def new_broker(file_system: FakeFileSystem | None = None, **more: str) -> Broker:
    settings = {
        "authorizer_class_name": AUTHORIZER,
        "delegation_token_secret_key": "sealed",
        "delegation_token_max_lifetime_ms": "5000",
        "delegation_token_expiry_time_ms": "2000",
    }
    return open_broker(file_system or disk("/d"), **{**settings, **more})


def asker(broker: Broker, principal: Principal = ANA, **more: Any) -> Asker:
    client = Client(ADDRESS, "h", principal, "CLIENTS", **{"protocol": "SASL_PLAINTEXT", **more})
    return Asker(broker, client=client)


def create(broker: Broker, lifetime_ms: int = -1, renewer: str = "bob") -> Any:
    renewers = [CreatableRenewers(principal_type="User", principal_name=renewer)]
    request = CreateDelegationTokenRequest(renewers=renewers, max_lifetime_ms=lifetime_ms)
    return asker(broker).ask(request, 3)


def describe(broker: Broker, principal: Principal, **owners: str) -> list[str]:
    wanted = [
        DescribeDelegationTokenOwner(principal_type="User", principal_name=name)
        for name in owners.values()
    ]
    request = DescribeDelegationTokenRequest(owners=wanted or None)
    answer = asker(broker, principal).ask(request, 3)
    assert answer.error_code == 0
    return [one.token_id for one in answer.tokens]


def log_in(broker: Broker, token_id: str, secret: bytes, now_ms: int = NOW_MS) -> Any:
    server = ScramServer(
        "SCRAM-SHA-256",
        broker.security.find_account("SCRAM-SHA-256", lambda: now_ms, lambda: b"sixteen bytes it"),
        "server",
    )
    client = ScramClient("SCRAM-SHA-256", token_id, bytes_text(secret), "client", is_token=True)
    client.check(server.answer(client.prove(server.answer(client.first()))))
    return server.login


def test_a_token_is_its_owners_and_lets_the_owner_in_by_scram() -> None:
    file_system = disk("/d")
    broker = new_broker(file_system)
    token = create(broker)
    assert (token.principal_name, token.token_requester_principal_name) == ("ana", "ana")
    assert token.issue_timestamp_ms == NOW_MS
    assert token.expiry_timestamp_ms == NOW_MS + 2000
    assert token.max_timestamp_ms == NOW_MS + 5000
    broker.close()
    login = log_in(new_broker(file_system), token.token_id, token.hmac)
    assert (login.principal, login.lifetime_ms, login.is_token) == (ANA, 2000, True)


def test_a_token_that_is_asked_for_without_a_lifetime_lives_as_long_as_may_be() -> None:
    assert create(new_broker(), lifetime_ms=0).max_timestamp_ms == NOW_MS + 5000


def test_no_secret_of_a_token_lies_on_the_disk() -> None:
    file_system = disk("/d")
    token = create(new_broker(file_system))
    content = file_system.open(segment()).pread(100_000, 0)
    assert token.token_id.encode() in content
    assert bytes_text(token.hmac).encode() not in content


def test_the_secret_of_a_token_is_salted_once_however_often_its_id_is_named() -> None:
    """It takes two milliseconds, which nobody spends without the secret again and again."""
    broker = new_broker()
    token_id = create(broker).token_id
    salts = iter((b"first", b"second", b"third"))

    def challenge(mechanism: str) -> bytes:
        find = broker.security.find_account(mechanism, lambda: NOW_MS, lambda: next(salts))
        client = ScramClient(mechanism, token_id, "guessed", "client", is_token=True)
        return ScramServer(mechanism, find, "server").answer(client.first())

    assert challenge("SCRAM-SHA-512") == challenge("SCRAM-SHA-512")
    assert challenge("SCRAM-SHA-256") == challenge("SCRAM-SHA-256")
    assert next(salts) == b"third"


@pytest.mark.parametrize("now_ms", [NOW_MS + 2001, NOW_MS + 100_000])
def test_a_token_whose_time_is_over_lets_nobody_in(now_ms: int) -> None:
    broker = new_broker()
    token = create(broker)
    with pytest.raises(LoginError):
        log_in(broker, token.token_id, token.hmac, now_ms)
    broker.security.drop_expired_tokens(now_ms)
    assert describe(broker, ANA) == []


def test_owner_and_renewers_let_it_live_longer_but_not_forever() -> None:
    broker = new_broker()
    hmac = create(broker).hmac
    for principal in (ANA, BOB):
        renewed = asker(broker, principal).ask(
            RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=9_000_000), 2
        )
        assert (renewed.error_code, renewed.expiry_timestamp_ms) == (0, NOW_MS + 5000)
    refused = asker(broker, EVE).ask(RenewDelegationTokenRequest(hmac=hmac), 2)
    assert (refused.error_code, refused.expiry_timestamp_ms) == (MISMATCH, -1)
    unknown = asker(broker).ask(RenewDelegationTokenRequest(hmac=b"x"), 2)
    assert unknown.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_token_can_be_ended_sooner_or_at_once() -> None:
    broker = new_broker()
    hmac = create(broker).hmac
    shorter = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=500)
    assert asker(broker).ask(shorter, 2).expiry_timestamp_ms == NOW_MS + 500
    gone = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=-1)
    assert asker(broker, EVE).ask(gone, 2).error_code == MISMATCH
    assert asker(broker, BOB).ask(gone, 2).error_code == 0
    assert asker(broker).ask(gone, 2).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_token_is_seen_by_those_it_concerns_and_those_whom_rules_allow() -> None:
    broker = new_broker()
    token_id = create(broker).token_id
    assert describe(broker, ANA) == describe(broker, BOB) == [token_id]
    assert describe(broker, ANA, owner="bob") == [token_id], "it is a renewer's too, as in Kafka"
    assert describe(broker, ANA, owner="eve") == []
    assert describe(broker, EVE) == []
    for resource, name, operation in (
        (ResourceType.DELEGATION_TOKEN, token_id, Operation.DESCRIBE),
        (ResourceType.USER, "User:ana", Operation.DESCRIBE_TOKENS),
    ):
        pattern = ResourcePattern(resource, PatternType.LITERAL, name)
        rule = Acl(pattern, Entry("User:eve", "*", operation, Permission.ALLOW))
        assert broker.security.authorizer is not None
        broker.security.authorizer.change([rule])
        assert describe(broker, EVE) == [token_id]


def test_a_token_for_another_owner_needs_a_rule() -> None:
    broker = new_broker()
    request = CreateDelegationTokenRequest(
        owner_principal_type="User", owner_principal_name="bob", max_lifetime_ms=-1
    )
    refused = asker(broker).ask(request, 3)
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    pattern = ResourcePattern(ResourceType.USER, PatternType.LITERAL, "User:bob")
    rule = Acl(pattern, Entry("User:ana", "*", Operation.CREATE_TOKENS, Permission.ALLOW))
    assert broker.security.authorizer is not None
    broker.security.authorizer.change([rule])
    made = asker(broker).ask(request, 3)
    assert (made.principal_name, made.token_requester_principal_name) == ("bob", "ana")


@pytest.mark.parametrize(
    "client",
    [
        {"protocol": "PLAINTEXT", "principal": ANONYMOUS},
        {"protocol": "SSL", "principal": ANONYMOUS},
        {"is_by_token": True, "principal": ANA},
    ],
)
def test_no_token_is_had_without_a_login_or_by_another_token(client: dict[str, Any]) -> None:
    broker = new_broker()
    who = asker(broker, **client)
    for request in (
        CreateDelegationTokenRequest(max_lifetime_ms=-1),
        RenewDelegationTokenRequest(hmac=b"x"),
        ExpireDelegationTokenRequest(hmac=b"x"),
        DescribeDelegationTokenRequest(owners=None),
    ):
        assert who.ask(request, 2).error_code == NOT_ALLOWED


def test_without_a_secret_there_are_no_tokens() -> None:
    broker = new_broker(delegation_token_secret_key="")
    disabled = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    assert create(broker).error_code == disabled
    request = DescribeDelegationTokenRequest(owners=None)
    assert asker(broker).ask(request, 3).error_code == disabled
