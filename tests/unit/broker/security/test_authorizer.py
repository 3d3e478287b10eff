"""Decisions as Kafka's `StandardAuthorizer` makes them, from rules alone."""

import itertools
import random

import pytest

from ottla.base.errors import ApiError, ProtocolError, UnreadyError
from ottla.base.principal import Principal
from ottla.base.turns import PART_SIZE, TurnsNeededError
from ottla.broker.security.authorizer import Authorizer, Reason
from ottla.metadata.acls import (
    OPERATIONS,
    Acl,
    AclFilter,
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from tests.support.turns import with_others_in_between

ANA = Principal("User", "ana")
T = ResourceType.TOPIC
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY


def acl(
    name: str = "orders",
    operation: Operation = Operation.READ,
    permission: Permission = ALLOW,
    pattern_type: PatternType = LITERAL,
    *,
    principal: str = "User:ana",
    host: str = "*",
) -> Acl:
    pattern = ResourcePattern(T, pattern_type, name)
    return Acl(pattern, Entry(principal, host, operation, permission))


def allows(
    acls: list[Acl],
    operation: Operation = Operation.READ,
    name: str = "orders",
    *,
    principal: Principal = ANA,
    without_acls: bool = False,
) -> bool:
    authorizer = Authorizer(acls, frozenset({"User:root"}), allows_without_acls=without_acls)
    return authorizer.allows(principal, "10.0.0.9", operation, T, name)


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([acl()], True),
        ([acl("*")], True),
        ([acl("ord", pattern_type=PREFIXED)], True),
        ([acl("orders", pattern_type=PREFIXED)], True),
        ([acl("orders-", pattern_type=PREFIXED)], False),
        ([acl("ord")], False),
        ([acl("*", pattern_type=PREFIXED)], False),
        ([acl(principal="User:*")], True),
        ([acl(principal="User:bob")], False),
        ([acl(principal="Group:ana")], False),
        ([acl(host="10.0.0.9")], True),
        ([acl(host="10.0.0.8")], False),
        ([acl(operation=Operation.ALL)], True),
        ([acl(operation=Operation.WRITE)], False),
        ([acl(), acl(permission=DENY)], False),
        ([acl(), acl("*", permission=DENY)], False),
        ([acl(), acl("or", permission=DENY, pattern_type=PREFIXED)], False),
        ([acl(), acl(operation=Operation.ALL, permission=DENY)], False),
        ([acl(), acl(permission=DENY, principal="User:*")], False),
        ([acl(), acl(permission=DENY, principal="User:bob")], True),
        ([acl(), acl(permission=DENY, host="10.0.0.8")], True),
        ([acl(), acl(permission=DENY, operation=Operation.WRITE)], True),
        ([acl(host="10.0.0.0/24")], True),
        ([acl(host="10.0.0.0/29")], False),
        ([acl(host="fd00::/8")], False),
        ([acl(host="10.0.0.0/33")], False),
        ([acl(), acl(permission=DENY, host="10.0.0.77/24")], False),
        ([acl(host="10.0.0.0/8"), acl(permission=DENY, host="10.0.0.8/31")], False),
        ([acl(host="10.0.0.9"), acl(permission=DENY, host="10.0.1.0/24")], True),
    ],
)
def test_a_rule_counts_for_whom_and_what_it_names(acls: list[Acl], expected: bool) -> None:
    assert allows(acls) is expected


@pytest.mark.parametrize("operation", OPERATIONS[T])
def test_some_operations_imply_that_a_resource_may_be_described(operation: Operation) -> None:
    operation = Operation(operation)
    acls = [acl(operation=operation)]
    implies = {Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}
    assert allows(acls, Operation.DESCRIBE) is (operation in implies | {Operation.DESCRIBE})
    configs = {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS}
    assert allows(acls, Operation.DESCRIBE_CONFIGS) is (operation in configs)
    denied = [acl(operation=Operation.DESCRIBE), acl(operation=operation, permission=DENY)]
    assert allows(denied, Operation.DESCRIBE) is (operation is not Operation.DESCRIBE)


def test_a_super_user_may_do_everything() -> None:
    assert allows([acl(permission=DENY, principal="User:*")], principal=Principal("User", "root"))


def test_without_rules_for_a_resource_everybody_may_where_the_settings_say_so() -> None:
    assert allows([], without_acls=True)
    assert not allows([acl(principal="User:bob")], without_acls=True)
    assert not allows([acl("or", pattern_type=PREFIXED, principal="User:b")], without_acls=True)
    assert allows([acl("other")], without_acls=True)


@pytest.mark.parametrize(
    ("acls", "principal", "without_acls", "reason", "rule"),
    [
        ([acl()], "root", False, Reason.SUPER_USER, None),
        ([acl(), acl("or", pattern_type=PREFIXED, permission=DENY)], "ana", False,
         Reason.DENIED, acl("or", pattern_type=PREFIXED, permission=DENY)),
        ([acl("*", principal="User:*"), acl("or", pattern_type=PREFIXED)], "ana", False,
         Reason.ALLOWED, acl("*", principal="User:*")),
        ([acl(operation=Operation.WRITE)], "ana", True, Reason.NOT_NAMED, None),
        ([acl("others")], "ana", True, Reason.OPEN, None),
        ([acl("others")], "ana", False, Reason.NO_RULE, None),
    ],
)  # fmt: skip
def test_a_ruling_names_what_decides(
    acls: list[Acl], principal: str, without_acls: bool, reason: Reason, rule: Acl | None
) -> None:
    authorizer = Authorizer(acls, frozenset({"User:root"}), allows_without_acls=without_acls)
    question = (Principal("User", principal), "10.0.0.9", Operation.READ, T, "orders")
    found = authorizer.rule(*question)
    assert (found.reason, found.rule) == (reason, rule)
    assert found.is_allowed is authorizer.allows(*question)


def test_the_rule_that_decides_is_named_as_it_was_given() -> None:
    given = acl(host="0:0:0:0:0:0:0:1")
    authorizer = Authorizer([given], frozenset(), allows_without_acls=False)
    assert authorizer.rule(ANA, "::1", Operation.READ, T, "orders").rule == given


def test_ranges_come_and_go_with_the_rules_that_have_them() -> None:
    one, same = acl(host="10.1.0.0/8"), acl("ord", pattern_type=PREFIXED, host="10.0.0.0/8")
    authorizer = Authorizer([one], frozenset(), allows_without_acls=False)
    question = (ANA, "10.9.9.9", Operation.READ, T, "orders")
    assert authorizer.rule(*question).rule == one
    assert authorizer.allows_any(*question[:4])
    authorizer.put(*one)
    authorizer.put(*same)
    authorizer.drop(*one)
    assert authorizer.allows(*question)
    assert authorizer.rule(*question).rule == same
    denial = acl("ord", pattern_type=PREFIXED, permission=DENY, host="10.9.0.0/16")
    authorizer.put(*denial)
    assert not authorizer.allows(*question)
    assert not authorizer.allows_any(*question[:4])
    assert authorizer.allows(ANA, "10.8.9.9", *question[2:])
    authorizer.drop(*denial)
    authorizer.drop(*same)
    assert not authorizer.allows(*question)


def test_before_there_were_ranges_a_host_with_a_slash_is_nobody() -> None:
    authorizer = Authorizer([acl(host="10.0.0.0/8")], frozenset(), allows_without_acls=False)
    question = (ANA, "10.9.9.9", Operation.READ, T, "orders")
    authorizer.read_ranges(False)
    assert not authorizer.allows(*question)
    authorizer.read_ranges(True)
    assert authorizer.allows(*question)


def test_decisions_change_with_the_rules() -> None:
    authorizer = Authorizer([acl()], frozenset(), allows_without_acls=False)
    question = (ANA, "10.0.0.9", Operation.READ, T, "orders")
    assert authorizer.allows(*question)
    authorizer.change([])
    assert not authorizer.allows(*question)


@pytest.mark.parametrize(
    ("acls", "expected"),
    [
        ([], False),
        ([acl("a", Operation.WRITE)], True),
        ([acl("a", Operation.READ)], False),
        ([acl("a", Operation.ALL)], True),
        ([acl("*", Operation.WRITE)], True),
        ([acl("a", Operation.WRITE, pattern_type=PREFIXED)], True),
        ([acl("a", Operation.WRITE), acl("a", Operation.WRITE, DENY)], False),
        ([acl("ab", Operation.WRITE), acl("a", Operation.WRITE, DENY, PREFIXED)], False),
        ([acl("ab", Operation.WRITE, ALLOW, PREFIXED), acl("a", Operation.ALL, DENY, PREFIXED)],
         False),
        ([acl("ab", Operation.WRITE), acl("*", Operation.WRITE, DENY)], False),
        ([acl("a", Operation.WRITE), acl("b", Operation.WRITE, DENY)], True),
        ([acl("*", Operation.WRITE), acl("b", Operation.WRITE, DENY, PREFIXED)], True),
        ([acl("a", Operation.WRITE, principal="User:bob")], False),
    ],
)  # fmt: skip
def test_whether_there_is_a_topic_that_may_be_written_to(acls: list[Acl], expected: bool) -> None:
    authorizer = Authorizer(acls, frozenset(), allows_without_acls=False)
    assert authorizer.allows_any(ANA, "h", Operation.WRITE, T) is expected


def test_the_index_decides_as_a_look_at_every_rule_does() -> None:
    chance = random.Random(18)
    names = ["*", "a", "ab", "abc", "b", "ba"]
    for _ in range(300):
        acls = [
            acl(
                chance.choice(names),
                chance.choice([Operation.READ, Operation.WRITE, Operation.ALL]),
                chance.choice([ALLOW, ALLOW, DENY]),
                chance.choice([LITERAL, PREFIXED]),
                principal=chance.choice(["User:ana", "User:*", "User:bob"]),
            )
            for _ in range(chance.randrange(6))
        ]
        for name, operation in itertools.product(names[1:], [Operation.READ, Operation.DESCRIBE]):
            assert allows(acls, operation, name) is _slowly(acls, operation, name)


def _slowly(acls: list[Acl], operation: Operation, name: str) -> bool:
    found = [
        entry
        for entry in (
            one.entry
            for one in acls
            if AclFilter(name=name, pattern_type=PatternType.MATCH).matches(one)
        )
        if entry.principal in ("User:ana", "User:*")
    ]
    exact = {operation, Operation.ALL}
    if any(one.permission is DENY and one.operation in exact for one in found):
        return False
    if operation is Operation.DESCRIBE:
        exact |= {Operation.READ, Operation.WRITE}
    return any(one.permission is ALLOW and one.operation in exact for one in found)


@pytest.mark.parametrize(
    "wrong",
    [
        acl(""),
        acl(principal="ana"),
        acl(principal="User:"),
        acl(host=""),
        acl(operation=Operation.ANY),
        acl(permission=Permission.ANY),
        acl(pattern_type=PatternType.MATCH),
        acl()._replace(pattern=ResourcePattern(ResourceType.ANY, LITERAL, "a")),
        acl()._replace(pattern=ResourcePattern(ResourceType.CLUSTER, LITERAL, "a")),
    ],
)
def test_a_rule_that_nobody_could_follow_is_refused(wrong: Acl) -> None:
    with pytest.raises(ApiError):
        wrong.check()


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8::7", "2001:db8::7"),
        ("::ffff:10.0.0.9", "10.0.0.9"),
        ("fe80:0:0:0:0:0:0:1%eth0", "fe80::1%eth0"),
    ],
)
def test_a_host_is_the_same_however_its_address_is_written(host: str, shown: str) -> None:
    """Java writes out what sockets of Python shorten, and a denial must not be lost by that."""
    rules = [acl(), acl(permission=DENY, host=host)]
    changed = Authorizer([], frozenset(), allows_without_acls=False)
    for one in rules:
        changed.put(*one)
    for authorizer in (Authorizer(rules, frozenset(), allows_without_acls=False), changed):
        assert not authorizer.allows(ANA, shown, Operation.READ, T, "orders")
        assert authorizer.allows(ANA, "10.0.0.1", Operation.READ, T, "orders")


def test_a_name_of_any_length_is_decided_on_and_not_kept() -> None:
    authorizer = Authorizer(
        [acl("x", pattern_type=PREFIXED)], frozenset(), allows_without_acls=False
    )
    for name in ("x" * 30_000, "y" * 30_000):
        decided = authorizer.allows(ANA, "10.0.0.9", Operation.READ, T, name)
        assert decided is name.startswith("x")
    assert not authorizer.known


def test_a_rule_may_name_an_operation_that_its_resource_does_not_have() -> None:
    """As in Kafka: it is kept, and asked for by nobody."""
    acl(operation=Operation.IDEMPOTENT_WRITE).check()


def test_rules_that_come_and_go_one_by_one_decide_as_those_that_are_given_at_once() -> None:
    chance = random.Random(7)
    names = ["*", "a", "ab", "abc", "b"]
    asked = ["a", "ab", "abcd", "b", "c"]
    patterns = [ResourcePattern(T, kind, name) for kind in (LITERAL, PREFIXED) for name in names]
    known: dict[ResourcePattern, list[Entry]] = {}
    changing = Authorizer([], frozenset(), allows_without_acls=False)
    for _ in range(200):
        pattern = chance.choice(patterns)
        before = known.get(pattern, [])
        known[pattern] = [
            acl(
                operation=chance.choice([Operation.READ, Operation.WRITE, Operation.ALL]),
                permission=chance.choice([ALLOW, ALLOW, DENY]),
                principal=chance.choice(["User:ana", "User:*", "User:bob"]),
            ).entry
            for _ in range(chance.randrange(3))
        ]
        for entry in before:
            changing.drop(pattern, entry)
        for entry in known[pattern]:
            changing.put(pattern, entry)
        all_of_them = [Acl(pattern, entry) for pattern, its in known.items() for entry in its]
        whole = Authorizer(all_of_them, frozenset(), allows_without_acls=False)
        for name in asked:
            for operation in (Operation.READ, Operation.DESCRIBE):
                question = (ANA, "h", operation, T, name)
                assert changing.allows(*question) == whole.allows(*question)
        assert changing.allows_any(ANA, "h", Operation.READ, T) == whole.allows_any(
            ANA, "h", Operation.READ, T
        )


def test_many_rules_are_looked_through_in_turns_and_may_change_meanwhile() -> None:
    rules = [acl(f"t-{number}", host="10.0.0.1") for number in range(3 * PART_SIZE)]
    rules += [acl(f"t-{number}", host="10.0.0.1", permission=DENY) for number in range(PART_SIZE)]
    authorizer = Authorizer(rules, frozenset(), allows_without_acls=False)

    def ask_for_turns() -> None:
        raise TurnsNeededError

    question = (ANA, "10.0.0.9", Operation.READ, T)
    with pytest.raises(TurnsNeededError):
        authorizer.allows_any(*question, ask_for_turns)
    last = rules[3 * PART_SIZE - 1].pattern
    left = iter(rules[: 3 * PART_SIZE])

    def change() -> None:
        authorizer.drop(*next(left))
        authorizer.put(last, acl(host="*").entry)

    with with_others_in_between(change):
        assert authorizer.allows_any(*question)
    few = Authorizer(rules[: PART_SIZE - 1], frozenset(), allows_without_acls=False)
    assert not few.allows_any(*question, ask_for_turns)


def test_while_the_rules_are_not_known_only_super_users_are_answered() -> None:
    authorizer = Authorizer([acl()], frozenset({"User:root"}), allows_without_acls=True)
    authorizer.is_complete = False
    root, question = Principal("User", "root"), ("10.0.0.9", Operation.READ, T)
    assert authorizer.allows(root, *question, "orders")
    assert authorizer.allows_any(root, *question)
    for refused in (
        lambda: authorizer.allows(ANA, *question, "orders"),
        lambda: authorizer.allows_any(ANA, *question),
    ):
        with pytest.raises(ProtocolError):
            refused()
    authorizer.is_complete = True
    assert authorizer.allows(ANA, *question, "orders"), "no answer was remembered"


@pytest.mark.parametrize("is_open", [True, False])
def test_nodes_ask_each_other_before_the_rules_are_known_where_what_no_rule_says_is_allowed(
    is_open: bool,
) -> None:
    authorizer = Authorizer([], frozenset(), allows_without_acls=is_open)
    authorizer.is_complete = False

    def asked(operation: Operation, kind: ResourceType, name: str) -> bool | None:
        try:
            return authorizer.allows(ANA, "h", operation, kind, name)
        except UnreadyError:
            return None

    found = asked(Operation.CLUSTER_ACTION, ResourceType.CLUSTER, "kafka-cluster")
    assert found is (True if is_open else None)
    assert asked(Operation.ALTER, ResourceType.CLUSTER, "kafka-cluster") is None
    assert asked(Operation.READ, ResourceType.TOPIC, "t") is None
