"""Users, quotas and access rules that a broker of a cluster writes to ZooKeeper, and follows."""

import json
from collections.abc import Mapping
from secrets import token_bytes
from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.principal import Principal
from ottla.base.scram import make_credential, salt_password
from ottla.broker.configs.encoded_passwords import KeptPasswords
from ottla.broker.control.registered_access import found_clients, found_rules
from ottla.controller.acls import read_acls, read_all_acls
from ottla.controller.settings import read_clients, read_settings
from ottla.controller.tokens import drop_expired_tokens, read_all_tokens, read_tokens
from ottla.metadata.acls import (
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.protocol.messages import alter_client_quotas as quotas
from ottla.protocol.messages import alter_user_scram_credentials as users
from ottla.protocol.messages import create_acls, delete_acls
from ottla.protocol.messages import incremental_alter_configs as configs
from ottla.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from ottla.protocol.messages.describe_acls import DescribeAclsRequest
from ottla.protocol.messages.describe_client_quotas import DescribeClientQuotasRequest
from ottla.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest
from ottla.server.dispatching.request_context import Client
from ottla.zookeeper.access import (
    UnknownEntry,
    decode_acls,
    decode_token,
    encode_acls,
    pattern_at,
)
from ottla.zookeeper.entities import decode_scram, encode_scram
from ottla.zookeeper.nodes import NodeError
from tests.support.asking import ADDRESS
from tests.support.brokers import NOW_MS
from tests.support.lonely_member import LonelyMember

AUTHORIZER = "kafka.security.authorizer.AclAuthorizer"
SALT = b"salt of a user"
SHA_512 = 2


@pytest.fixture
def member() -> LonelyMember:
    return LonelyMember(
        authorizer_class_name=AUTHORIZER,
        super_users="User:ANONYMOUS",
        delegation_token_secret_key="sealed",
    )


def config_at(member: LonelyMember, path: str) -> dict[str, str]:
    content = member.zookeeper.content(f"/config/{path}")
    assert content is not None
    found: dict[str, str] = json.loads(content)["config"]
    return found


def notices(member: LonelyMember, folder: str) -> list[str]:
    """In the order in which they were left."""
    return [
        (member.zookeeper.content(f"{folder}/{one}") or b"").decode()
        for one in member.zookeeper.children(folder)
    ]


# Users


def upsertion(user: str, iterations: int = 4096) -> users.ScramCredentialUpsertion:
    return users.ScramCredentialUpsertion(
        name=user,
        mechanism=SHA_512,
        iterations=iterations,
        salt=SALT,
        salted_password=salt_password("SCRAM-SHA-512", b"secret", SALT, iterations),
    )


def alter_users(member: LonelyMember, *wanted: Any) -> dict[str, int]:
    deletions = [one for one in wanted if isinstance(one, users.ScramCredentialDeletion)]
    response = member.request(
        users.AlterUserScramCredentialsRequest(
            deletions=deletions, upsertions=[one for one in wanted if one not in deletions]
        ),
        0,
    )
    return {one.user: one.error_code for one in response.results}


def test_a_user_is_a_node_whose_password_holds_when_it_is_answered(member: LonelyMember) -> None:
    assert alter_users(member, upsertion("ana maria")) == {"ana maria": 0}
    text = config_at(member, "users/ana%20maria")["SCRAM-SHA-512"]
    assert decode_scram(text) == make_credential("SCRAM-SHA-512", b"secret", SALT, 4096)
    assert notices(member, "/config/changes") == ['{"version":2,"entity_path":"users/ana%20maria"}']
    find = member.broker.security.find_account("SCRAM-SHA-512", lambda: 0, lambda: b"")
    account = find("ana maria", False)
    assert account is not None
    assert account.login.principal == Principal("User", "ana maria")
    described = member.request(DescribeUserScramCredentialsRequest(users=None), 0)
    (shown,) = described.results
    assert (shown.user, shown.credential_infos[0].iterations) == ("ana maria", 4096)


def test_a_password_that_is_removed_leaves_the_users_quotas(member: LonelyMember) -> None:
    member.zookeeper.make(
        "/config/users/ana", b'{"version":1,"config":{"producer_byte_rate":"1024"}}'
    )
    deletion = users.ScramCredentialDeletion(name="ana", mechanism=SHA_512)
    assert alter_users(member, deletion) == {"ana": ErrorCode.RESOURCE_NOT_FOUND}
    assert alter_users(member, upsertion("ana")) == {"ana": 0}
    assert config_at(member, "users/ana").keys() == {"producer_byte_rate", "SCRAM-SHA-512"}
    assert alter_users(member, deletion) == {"ana": 0}
    assert config_at(member, "users/ana") == {"producer_byte_rate": "1024"}
    assert not member.broker.security.image.credentials


def test_each_user_is_changed_or_refused_alone(member: LonelyMember) -> None:
    results = alter_users(
        member, upsertion("ana"), upsertion("bob", 1), upsertion(""), upsertion(".")
    )
    refused = ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert results == {"ana": 0, "bob": refused, "": refused, ".": refused}
    assert member.zookeeper.children("/config/users") == ["ana"]
    member.zookeeper.make("/config/users/eve", b'{"version":1,"config":{"SCRAM-SHA-512":"x"}}')
    assert alter_users(member, upsertion("eve")) == {"eve": ErrorCode.UNKNOWN_SERVER_ERROR}


# Quotas


def alter_quotas(
    member: LonelyMember,
    limits: Mapping[str, float | None],
    validate_only: bool = False,
    **names: str | None,
) -> int:
    entry = quotas.EntryData(
        entity=[
            quotas.EntityData(entity_type=kind.replace("_", "-"), entity_name=name)
            for kind, name in names.items()
        ],
        ops=[
            quotas.OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in limits.items()
        ],
    )
    request = quotas.AlterClientQuotasRequest(entries=[entry], validate_only=validate_only)
    code: int = member.request(request, 1).entries[0].error_code
    return code


def test_quotas_are_settings_of_users_and_clients(member: LonelyMember) -> None:
    rate = {"producer_byte_rate": 1048576.0}
    assert alter_quotas(member, rate, user="ana") == 0
    assert alter_quotas(member, {"request_percentage": 50.0}, user=None, client_id="app/1") == 0
    assert alter_quotas(member, {"consumer_byte_rate": 2.0}, client_id=None) == 0
    assert config_at(member, "users/ana") == {"producer_byte_rate": "1048576"}
    assert config_at(member, "users/<default>/clients/app%2F1") == {"request_percentage": "50.0"}
    assert config_at(member, "clients/<default>") == {"consumer_byte_rate": "2"}
    described = member.request(DescribeClientQuotasRequest(), 1)
    assert len(described.entries or []) == 3
    assert member.broker.quotas.is_active
    assert alter_quotas(member, {"producer_byte_rate": None}, user="ana") == 0
    assert config_at(member, "users/ana") == {}
    assert len(member.request(DescribeClientQuotasRequest(), 1).entries) == 2


def test_quotas_of_addresses_are_settings_of_theirs(member: LonelyMember) -> None:
    rate = {"connection_creation_rate": 5.0}
    assert alter_quotas(member, rate, ip="10.0.0.7") == 0
    assert alter_quotas(member, rate, ip=None) == 0
    assert member.zookeeper.children("/config/ips") == ["10.0.0.7", "<default>"]
    assert config_at(member, "ips/10.0.0.7") == {"connection_creation_rate": "5"}
    assert member.broker.quotas.connection_rate_of("10.0.0.7") == 5.0
    assert alter_quotas(member, {"connection_creation_rate": None}, ip="10.0.0.7") == 0
    assert member.broker.quotas.connection_rate_of("10.0.0.7") == 5.0, "that of all others"
    # As an administrator may have written it with Kafka's tools: nobody is let in from there.
    none = found_clients({"ips/10.0.0.8": {"connection_creation_rate": "0"}})
    assert (none.errors, list(none.quotas.values())) == ((), [{"connection_creation_rate": 0.0}])


def test_quotas_that_cannot_be_change_nothing(member: LonelyMember) -> None:
    invalid = ErrorCode.INVALID_REQUEST
    assert alter_quotas(member, {"producer_byte_rate": 1.5}, user="ana") == invalid
    assert alter_quotas(member, {"connections": 1.0}, user="ana") == invalid
    assert alter_quotas(member, {"producer_byte_rate": 1.0}, client_id=".") == invalid
    assert alter_quotas(member, {"producer_byte_rate": 1.0}, validate_only=True, user="ana") == 0
    assert member.zookeeper.children("/config/users") == []
    assert not member.broker.quotas.is_active


# Settings of brokers


def set_of_broker(member: LonelyMember, name: str, text: str) -> tuple[int, str | None]:
    config = configs.AlterableConfig(name=name, config_operation=0, value=text)
    resource = configs.AlterConfigsResource(
        resource_type=4, resource_name=str(member.broker.node_id), configs=[config]
    )
    request = configs.IncrementalAlterConfigsRequest(resources=[resource])
    (result,) = member.request(request, 1).responses
    return result.error_code, result.error_message


KEYSTORE_PASSWORD = "listener.name.plaintext.ssl.keystore.password"


def test_a_password_of_a_broker_is_encrypted_in_zookeeper() -> None:
    pytest.importorskip("cryptography")
    member = LonelyMember(password_encoder_secret="of the encoder")
    assert set_of_broker(member, KEYSTORE_PASSWORD, "a secret") == (0, None)
    kept = config_at(member, "brokers/1")
    assert "a secret" not in kept[KEYSTORE_PASSWORD]
    passwords = KeptPasswords(member.broker.settings.config, token_bytes)
    assert passwords.meant(kept) == ({KEYSTORE_PASSWORD: "a secret"}, {})
    location = "listener.name.plaintext.ssl.keystore.location"
    assert set_of_broker(member, location, "/b1.pem")[0] == 0
    assert config_at(member, "brokers/1") == {**kept, location: "/b1.pem"}


def test_a_password_of_another_secret_stays_until_it_is_changed(member: LonelyMember) -> None:
    content = json.dumps({"version": 1, "config": {KEYSTORE_PASSWORD: "of somebody else"}})
    member.zookeeper.make("/config/brokers/1", content.encode())
    location = "listener.name.plaintext.ssl.keystore.location"
    assert set_of_broker(member, location, "/b1.pem")[0] == 0
    kept = {location: "/b1.pem", KEYSTORE_PASSWORD: "of somebody else"}
    assert config_at(member, "brokers/1") == kept


def test_passwords_without_a_secret_and_listeners_are_not_changed_in_zookeeper(
    member: LonelyMember,
) -> None:
    code, message = set_of_broker(member, KEYSTORE_PASSWORD, "a secret")
    assert code == ErrorCode.INVALID_REQUEST
    assert message == (
        "Password encoder secret not configured: password.encoder.secret is not set, with which "
        f"{KEYSTORE_PASSWORD} would be encrypted in ZooKeeper; set it, or the password in the "
        "broker's own settings"
    )
    code, message = set_of_broker(member, "advertised.listeners", "PLAINTEXT://elsewhere:1")
    assert code == ErrorCode.INVALID_REQUEST
    assert message is not None
    assert "[advertised.listeners] are changed in its own settings" in message
    location = "listener.name.plaintext.ssl.keystore.location"
    assert set_of_broker(member, location, "/b1.pem")[0] == 0
    assert config_at(member, "brokers/1") == {location: "/b1.pem"}


# Access rules


def creation(name: str, **fields: Any) -> create_acls.AclCreation:
    values = {
        "resource_type": ResourceType.TOPIC,
        "resource_pattern_type": PatternType.LITERAL,
        "principal": "User:ana",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
        **fields,
    }
    return create_acls.AclCreation(resource_name=name, **values)


def create(member: LonelyMember, *wanted: create_acls.AclCreation) -> list[int]:
    response = member.request(create_acls.CreateAclsRequest(creations=list(wanted)), 3)
    return [one.error_code for one in response.results]


def delete(member: LonelyMember, **fields: Any) -> list[str]:
    wanted = delete_acls.DeleteAclsFilter(
        **{
            "resource_type_filter": ResourceType.ANY,
            "resource_name_filter": None,
            "pattern_type_filter": PatternType.ANY,
            "principal_filter": None,
            "host_filter": None,
            "operation": Operation.ANY,
            "permission_type": Permission.ANY,
            **fields,
        }
    )
    response = member.request(delete_acls.DeleteAclsRequest(filters=[wanted]), 3)
    (result,) = response.filter_results
    assert result.error_code == 0
    return sorted(one.resource_name for one in result.matching_acls)


def may_read(member: LonelyMember, topic: str) -> bool:
    assert member.broker.security.authorizer is not None
    ana = Principal("User", "ana")
    return member.broker.security.authorizer.allows(
        ana, "h", Operation.READ, ResourceType.TOPIC, topic
    )


def test_rules_are_lists_by_resource_as_kafkas_authorizer_writes_them(
    member: LonelyMember,
) -> None:
    prefixed = creation(
        "pay-",
        resource_type=ResourceType.TRANSACTIONAL_ID,
        resource_pattern_type=PatternType.PREFIXED,
        operation=Operation.WRITE,
        permission_type=Permission.DENY,
    )
    assert create(member, creation("orders"), prefixed, creation("orders")) == [0, 0, 0]
    assert create(member, creation("orders", operation=Operation.DESCRIBE_CONFIGS)) == [0]
    assert member.zookeeper.content("/kafka-acl/Topic/orders") == (
        b'{"version":1,"acls":['
        b'{"principal":"User:ana","permissionType":"Allow","operation":"Read","host":"*"},'
        b'{"principal":"User:ana","permissionType":"Allow","operation":"DescribeConfigs",'
        b'"host":"*"}]}'
    )
    path = "/kafka-acl-extended/prefixed/TransactionalId/pay-"
    (entry,) = decode_acls(path, member.zookeeper.content(path))
    assert entry == Entry("User:ana", "*", Operation.WRITE, Permission.DENY)
    assert notices(member, "/kafka-acl-changes") == ["TOPIC:orders"] * 2
    assert notices(member, "/kafka-acl-extended-changes") == [
        '{"version":1,"resourceType":"TRANSACTIONAL_ID","name":"pay-","patternType":"PREFIXED"}'
    ]
    assert may_read(member, "orders")
    assert not may_read(member, "others")


def test_a_rule_that_is_there_already_changes_nothing(member: LonelyMember) -> None:
    assert create(member, creation("orders")) == create(member, creation("orders")) == [0]
    assert len(notices(member, "/kafka-acl-changes")) == 1


def test_rules_that_cannot_be_are_refused_alone(member: LonelyMember) -> None:
    refused = ErrorCode.INVALID_REQUEST
    slash = creation("a/b", resource_type=ResourceType.GROUP)
    unknown = creation("orders", operation=99)
    ranged = creation("orders", host="10.0.0.0/8")
    assert create(member, slash, creation("orders"), unknown, creation("."), ranged) == [
        refused,
        0,
        refused,
        refused,
        ErrorCode.UNSUPPORTED_VERSION,
    ]
    assert member.zookeeper.children("/kafka-acl/Group") == []


def test_deleted_rules_are_those_that_stand_in_zookeeper(member: LonelyMember) -> None:
    create(member, creation("orders"), creation("orders", principal="User:bob"), creation("logs"))
    # Of a rule that another broker has created a moment ago.
    write = Entry("User:ana", "*", Operation.WRITE, Permission.ALLOW)
    member.zookeeper.make("/kafka-acl/Topic/new", encode_acls((write,)))
    literal = {"pattern_type_filter": PatternType.LITERAL, "resource_name_filter": "new"}
    assert delete(member, resource_type_filter=ResourceType.TOPIC, **literal) == ["new"]
    assert delete(member, principal_filter="User:ana") == ["logs", "orders"]
    assert member.zookeeper.children("/kafka-acl/Topic") == ["orders"]
    assert not may_read(member, "orders")
    (left,) = member.broker.security.image.all_acls()
    assert left.entry.principal == "User:bob"
    anything = DescribeAclsRequest(
        resource_type_filter=1,
        resource_name_filter=None,
        pattern_type_filter=1,
        principal_filter=None,
        host_filter=None,
        operation=1,
        permission_type=1,
    )
    assert [one.resource_name for one in member.request(anything, 3).resources] == ["orders"]


def test_without_an_authorizer_rules_are_refused() -> None:
    member = LonelyMember()
    assert create(member, creation("orders")) == [ErrorCode.SECURITY_DISABLED]


# Delegation tokens


@pytest.fixture
def ana(member: LonelyMember) -> LonelyMember:
    """A member whose client has logged in as somebody."""
    client = Client(ADDRESS, "h", Principal("User", "ana"), "CLIENTS", "SASL_PLAINTEXT")
    member.asker.client = client
    return member


def token_ids(member: LonelyMember) -> list[str]:
    return member.zookeeper.children("/delegation_token/tokens")


def test_a_token_is_a_node_by_which_its_owner_logs_in(ana: LonelyMember) -> None:
    made = ana.request(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
    assert made.error_code == 0
    path = f"/delegation_token/tokens/{made.token_id}"
    node = decode_token(made.token_id, ana.zookeeper.content(path))
    owner = Principal("User", "ana")
    assert (node.owner, node.requester, node.expires_ms) == (
        owner,
        owner,
        made.expiry_timestamp_ms,
    )
    assert notices(ana, "/delegation_token/token_changes") == [made.token_id]
    find = ana.broker.security.find_account("SCRAM-SHA-256", lambda: NOW_MS, lambda: SALT)
    account = find(made.token_id, True)
    assert account is not None
    assert (account.login.principal, account.login.is_token) == (Principal("User", "ana"), True)
    renew = RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=1000)
    assert ana.request(renew, 2).expiry_timestamp_ms == NOW_MS + 1000
    assert decode_token(made.token_id, ana.zookeeper.content(path)).expires_ms == NOW_MS + 1000
    expire = ExpireDelegationTokenRequest(hmac=made.hmac, expiry_time_period_ms=-1)
    assert ana.request(expire, 2).error_code == 0
    assert token_ids(ana) == []
    assert find(made.token_id, True).login is None
    assert ana.request(renew, 2).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


def test_a_token_that_has_gone_elsewhere_is_not_changed(ana: LonelyMember) -> None:
    made = ana.request(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
    ana.zookeeper.delete(f"/delegation_token/tokens/{made.token_id}")
    renew = RenewDelegationTokenRequest(hmac=made.hmac, renew_period_ms=1000)
    assert ana.request(renew, 2).error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    found = ana.run(lambda: read_tokens([made.token_id])).result
    assert found == {made.token_id: None}
    ana.access.follow_tokens(found)
    assert ana.broker.security.image.tokens == {}


def test_expired_tokens_go_from_zookeeper_and_all_others_are_taken_on(ana: LonelyMember) -> None:
    short, long = (
        ana.request(CreateDelegationTokenRequest(max_lifetime_ms=lifetime_ms), 3)
        for lifetime_ms in (10, 10_000)
    )
    ana.zookeeper.make("/delegation_token/tokens/odd", b"no JSON")
    assert ana.run(lambda: drop_expired_tokens(NOW_MS + 11)).result == 1
    assert token_ids(ana) == sorted(["odd", long.token_id])
    assert notices(ana, "/delegation_token/token_changes")[-1] == short.token_id
    found = ana.run(read_all_tokens).result
    assert found is not None
    ana.access.take_tokens(found)
    assert list(ana.broker.security.image.tokens) == [long.token_id]


def test_a_token_is_for_those_who_have_logged_in(member: LonelyMember) -> None:
    refused = member.request(CreateDelegationTokenRequest(max_lifetime_ms=-1), 3)
    assert refused.error_code == ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert token_ids(member) == []


# What others have changed


def test_a_broker_that_begins_takes_on_all_that_stands_there(member: LonelyMember) -> None:
    assert alter_users(member, upsertion("ana")) == {"ana": 0}
    assert alter_quotas(member, {"producer_byte_rate": 9.0}, user="ana", client_id=None) == 0
    create(member, creation("logs-", resource_pattern_type=PatternType.PREFIXED))
    security, expected = member.broker.security, member.broker.security.image
    create(member, creation("gone"))
    member.zookeeper.delete("/kafka-acl/Topic/gone")
    clients, rules = member.run(read_clients), member.run(read_all_acls)
    assert clients.result is not None
    assert rules.result is not None
    member.access.take_clients(found_clients(clients.result))
    member.access.take_rules(found_rules(rules.result))
    assert security.image == expected
    assert may_read(member, "logs-eu")
    assert not may_read(member, "gone")


def test_rules_that_have_gone_elsewhere_go_here(member: LonelyMember) -> None:
    create(member, creation("logs-", resource_pattern_type=PatternType.PREFIXED))
    resource = ResourcePattern(ResourceType.TOPIC, PatternType.PREFIXED, "logs-")
    member.zookeeper.delete("/kafka-acl-extended/prefixed/Topic/logs-")
    found = member.run(lambda: read_acls([resource])).result
    assert found == {resource: ()}
    member.access.follow_rules(found_rules(found))
    assert not may_read(member, "logs-eu")
    assert member.broker.security.image.acls == {}


def test_what_is_not_what_kafka_writes_leaves_what_was_known(member: LonelyMember) -> None:
    create(member, creation("orders"))
    resource = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "orders")
    odd = UnknownEntry("User:a", "*", "Dance", "Allow")
    for entries in (NodeError("/kafka-acl/Topic/orders", "no JSON"), (odd,)):
        rules = found_rules({resource: entries})
        assert len(rules.errors) == 1
        member.access.follow_rules(rules)
        assert may_read(member, "orders")
        member.access.take_rules(rules)
        assert may_read(member, "orders")
    stranger = pattern_at(PatternType.LITERAL, "Planet", "orders")
    assert len(found_rules({stranger: (odd,)}).errors) == 1
    member.access.take_rules(found_rules({stranger: (odd,)}))
    assert not may_read(member, "orders")
    clients = found_clients(
        {
            "users/ana": {"producer_byte_rate": "x"},
            "users/bob": {"SCRAM-SHA-256": "x"},
            "users/eve": {"consumer_byte_rate": "0", "controller_mutation_rate": "1.0"},
            "users/joe": {"controller_mutation_rate": "1.0"},
            "topics/orders": {"retention.ms": "1"},
        }
    )
    assert len(clients.errors) == 3
    assert list(clients.quotas.values()) == [{}]


def test_numbers_of_other_tools_are_taken_as_texts(member: LonelyMember) -> None:
    member.zookeeper.make(
        "/config/users/ana", b'{"version":1,"config":{"producer_byte_rate":1024}}'
    )
    found = member.run(lambda: read_settings(["users/ana"])).result
    assert found is not None
    member.access.follow_clients(found_clients(found))
    ((_, limits),) = member.broker.admin._metadata.image.quotas.items()
    assert limits == {"producer_byte_rate": 1024.0}


def test_a_credential_is_written_as_it_is_read() -> None:
    credential = make_credential("SCRAM-SHA-256", b"x", SALT, 4096)
    assert decode_scram(encode_scram(credential)) == credential
