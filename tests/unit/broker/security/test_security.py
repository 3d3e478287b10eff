"""Access rules that several requests change at the same time."""

from itertools import count

from ottla.base.turns import CURRENT, Turn, at_once
from ottla.broker.security.acls import (
    Acl,
    AclFilter,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.testing import FakeFileSystem
from tests.support.brokers import open_broker

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def rule(topic: str, principal: str = "User:ana") -> Acl:
    return Acl(
        ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, topic),
        Entry(principal, "*", Operation.READ, Permission.ALLOW),
    )


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
    assert security.state.acls == (rule("e", "User:bob"),)
