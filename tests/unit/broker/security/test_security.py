"""Access rules that several requests change at the same time."""

from dataclasses import replace
from itertools import count

from ottla.base.error_codes import ErrorCode
from ottla.base.principal import Principal
from ottla.base.turns import CURRENT, Turn, at_once
from ottla.metadata.acls import (
    Acl,
    AclFilter,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.metadata.image import METADATA_VERSION
from ottla.testing import FakeFileSystem
from tests.support.brokers import open_broker

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def rule(topic: str, principal: str = "User:ana", host: str = "*") -> Acl:
    return Acl(
        ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, topic),
        Entry(principal, host, Operation.READ, Permission.ALLOW),
    )


def test_ranges_of_addresses_count_from_the_level_on_that_has_them() -> None:
    security = open_broker(FakeFileSystem(), authorizer_class_name=AUTHORIZER).security
    ranged = rule("a", host="10.0.0.0/8")
    refusals = security.create_acls([rule("b"), ranged])
    assert refusals[0] is None
    assert refusals[1] is not None
    assert refusals[1].code == ErrorCode.UNSUPPORTED_VERSION
    assert "10.0.0.0/8" in str(refusals[1].message), "a broker alone is at 3.9's level"
    assert list(security.image.all_acls()) == [rule("b")]

    security.adopt({}, [ranged], {})
    assert security.authorizer is not None
    question = (Principal("User", "ana"), "10.1.1.1", Operation.READ, ResourceType.TOPIC, "a")
    for level, is_allowed in ((31, False), (32, True), (31, False)):
        security.follow(replace(security.image, features={METADATA_VERSION: level}))
        assert security.authorizer.allows(*question) is is_allowed, level


def test_a_rule_that_comes_while_others_are_looked_through_is_kept_or_removed_with_them() -> None:
    security = open_broker(FakeFileSystem(), authorizer_class_name=AUTHORIZER).security
    security.create_acls([rule("a"), rule("b", "User:bob"), rule("c")])
    turns = count()

    def suspend() -> None:
        if next(turns) == 2:
            with at_once():
                security.create_acls([rule("d"), rule("e", "User:bob")])

    ticks = count()
    turn = Turn(suspend, lambda: float(next(ticks)), max_elements=1000, max_size=1000)
    token = CURRENT.set(turn)
    try:
        matched = security.delete_acls([AclFilter(principal="User:ana"), AclFilter(name="b")])
    finally:
        CURRENT.reset(token)
    assert matched == [[rule("a"), rule("c"), rule("d")], [rule("b", "User:bob")]]
    assert list(security.image.all_acls()) == [rule("e", "User:bob")]


def test_a_name_that_nobody_has_is_asked_for_a_proof_as_all_others() -> None:
    def salts(secret: str) -> list[tuple[bytes, int]]:
        broker = open_broker(FakeFileSystem(), delegation_token_secret_key=secret)
        find = broker.security.find_account("SCRAM-SHA-256", lambda: 0, lambda: secret_of_process)
        accounts = [find("ana", False), find("ana", False), find("bob", False), find("ana", True)]
        assert [one.login for one in accounts] == [None] * 4
        return [(one.credential.salt, one.credential.iterations) for one in accounts[:3]]

    secret_of_process = b"one"
    ana, again, bob = salts("sealed")
    assert ana == again != bob
    alone = salts("")
    secret_of_process = b"another"
    assert salts("sealed") == [ana, ana, bob], "all brokers of a cluster say the same"
    assert salts("") != alone
