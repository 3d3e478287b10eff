"""May a principal do something: asked of rules alone, and of a broker."""

import random
from pathlib import Path

import pytest

from ottla.base.errors import UnknownNameError, UserError
from ottla.base.principal import parse_principal
from ottla.broker.security.authorizer import Authorizer, Reason
from ottla.cli.acls import acl_commands
from ottla.client.administration.acl_rulings import (
    NOT_KNOWN,
    AccessSettings,
    Question,
    administrators,
    ask_access,
    judge,
    question_of,
    settings_in,
    settings_shown,
)
from ottla.client.administration.acl_words import AclWords
from ottla.client.administration.admin import Admin
from ottla.client.administration.security_messages import described_acls
from ottla.client.administration.security_values import AclBinding
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
from ottla.testing import LocalBroker

NOBODY = AccessSettings()
ROOT = AccessSettings(super_users=frozenset({"User:root"}))
OPEN = AccessSettings(allows_without_acls=True)


def allow(operation: str, name: str = "orders", **more: str) -> AclBinding:
    return AclBinding(**{"principal": "User:ana", "name": name, "operation": operation, **more})


def may(principal: str, operation: str, name: str = "orders", host: str = "*") -> Question:
    return Question(
        principal=principal, operation=operation, resource_type="TOPIC", name=name, host=host
    )


@pytest.mark.parametrize(
    ("rules", "principal", "host", "settings", "text"),
    [
        ([], "User:ana", "*", NOBODY, "no: the resource has no rules"),
        ([], "User:ana", "*", OPEN,
         "yes: the resource has no rules, and allow.everyone.if.no.acl.found is true"),
        ([], "User:root", "*", ROOT, "yes: a super user, by super.users"),
        ([allow("WRITE")], "User:ana", "*", NOBODY, "yes: allow User:ana write on topic orders"),
        ([allow("WRITE", "ord", pattern_type="PREFIXED")], "User:ana", "*", NOBODY,
         "yes: allow User:ana write on topic ord*"),
        ([allow("ALL", "*", principal="User:*")], "User:bob", "*", NOBODY,
         "yes: allow User:* all on topic *"),
        ([allow("WRITE"), allow("WRITE", permission="DENY", host="10.0.0.9")], "User:ana",
         "10.0.0.9", NOBODY, "no: deny User:ana from 10.0.0.9 write on topic orders"),
        ([allow("WRITE"), allow("WRITE", permission="DENY", host="10.0.0.9")], "User:ana",
         "10.0.0.8", NOBODY, "yes: allow User:ana write on topic orders"),
        ([allow("WRITE", host="0:0:0:0:0:0:0:1")], "User:ana", "::1", NOBODY,
         "yes: allow User:ana from 0:0:0:0:0:0:0:1 write on topic orders"),
        ([allow("READ")], "User:ana", "*", OPEN,
         "no: there is 1 rule for the resource, and none allows this"),
        ([allow("WRITE"), allow("READ")], "User:bob", "*", NOBODY,
         "no: there are 2 rules for the resource, and none allows this"),
    ],
)  # fmt: skip
def test_an_answer_names_the_rule_that_decides(
    rules: list[AclBinding], principal: str, host: str, settings: AccessSettings, text: str
) -> None:
    assert judge(may(principal, "WRITE", host=host), rules, settings).text == text


def test_what_a_rule_implies_is_allowed() -> None:
    answer = judge(may("User:ana", "DESCRIBE"), [allow("WRITE")], NOBODY)
    assert (answer.is_allowed, answer.rule) == (True, allow("WRITE"))


def _some_rules(chance: random.Random) -> list[Acl]:
    kinds = (PatternType.LITERAL, PatternType.PREFIXED)
    return [
        Acl(
            ResourcePattern(
                ResourceType.TOPIC, chance.choice(kinds), chance.choice(("*", "o", "or", "orders"))
            ),
            Entry(
                chance.choice(("User:*", "User:ana", "User:a:b/c")),
                chance.choice(("*", "10.0.0.9")),
                chance.choice((Operation.READ, Operation.ALL, Operation.ALTER_CONFIGS)),
                chance.choice((Permission.ALLOW, Permission.ALLOW, Permission.DENY)),
            ),
        )
        for _ in range(chance.randrange(5))
    ]


def _binding(acl: Acl) -> AclBinding:
    pattern, entry = acl
    return AclBinding(
        resource_type=pattern.resource_type.name,
        name=pattern.name,
        pattern_type=pattern.pattern_type.name,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation.name,
        permission=entry.permission.name,
    )


def test_answers_are_those_of_the_broker_that_has_all_rules() -> None:
    chance = random.Random(8)
    for _ in range(300):
        acls = _some_rules(chance)
        principal, host = (
            chance.choice(("User:ana", "User:a:b/c")),
            chance.choice(("::1", "10.0.0.9")),
        )
        name = chance.choice(("orders", "order", "o", "x", "*"))
        operation = chance.choice((Operation.READ, Operation.DESCRIBE, Operation.DESCRIBE_CONFIGS))
        is_open = chance.random() < 0.5
        broker = Authorizer(acls, frozenset(), allows_without_acls=is_open)
        matching = AclFilter(
            resource_type=ResourceType.TOPIC, name=name, pattern_type=PatternType.MATCH
        ).select(acls)
        answer = judge(
            may(principal, operation.name, name, host),
            map(_binding, matching),
            AccessSettings(allows_without_acls=is_open),
        )
        assert answer.is_allowed is broker.allows(
            parse_principal(principal), host, operation, ResourceType.TOPIC, name
        )


@pytest.mark.parametrize(
    ("rules", "settings", "names"),
    [
        ([], NOBODY, set()),
        ([], OPEN, {"User:*"}),
        ([], ROOT, {"User:root"}),
        ([allow("ALTER"), allow("DESCRIBE", principal="User:bob")], NOBODY, {"User:ana"}),
        ([allow("ALL"), allow("ALTER", permission="DENY", principal="User:*")], NOBODY, set()),
        ([allow("ALTER", host="10.0.0.9"), allow("ALTER", permission="DENY", host="10.0.0.8")],
         NOBODY, {"User:ana"}),
        ([allow("ALTER"), allow("ALL", permission="DENY")], ROOT, {"User:root"}),
    ],
)  # fmt: skip
def test_who_can_change_rules(
    rules: list[AclBinding], settings: AccessSettings, names: set[str]
) -> None:
    on_cluster = [
        allow(
            one.operation,
            "kafka-cluster",
            resource_type="CLUSTER",
            principal=one.principal,
            host=one.host,
            permission=one.permission,
        )
        for one in rules
    ]
    assert administrators(on_cluster, settings) == names


@pytest.mark.parametrize(
    ("words", "error", "text"),
    [
        (("ana", "write", "topic"), UserError, "ana: a principal looks like User:ana"),
        (("User:a", "reed", "topic"), UnknownNameError, "no topic operation reed; did you mean"),
        (("User:a", "all", "topic"), UnknownNameError, "no topic operation all; there are alter"),
        (("User:a", "write", "cluster"), UnknownNameError, "no cluster operation write"),
    ],
)
def test_questions_that_have_no_answer_are_refused(
    words: tuple[str, str, str], error: type[UserError], text: str
) -> None:
    with pytest.raises(error, match=text):
        question_of(*words, "orders", None)


def test_what_is_not_known_and_would_decide_is_said() -> None:
    assert judge(may("User:ana", "WRITE"), [], NOT_KNOWN).doubts == (
        "unless User:ana is one of super.users, which brokers do not show",
        "unless allow.everyone.if.no.acl.found is true, which brokers do not show",
    )
    assert len(judge(may("User:ana", "WRITE"), [allow("READ")], NOT_KNOWN).doubts) == 1
    assert judge(may("User:ana", "WRITE"), [allow("WRITE")], NOT_KNOWN).doubts == ()


@pytest.mark.slow
def test_a_broker_tells_its_rules_and_not_its_super_users(tmp_path: Path) -> None:
    properties = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:root",
    }
    with LocalBroker(tmp_path / "data", properties) as broker, Admin(broker.log) as admin:
        admin.create_acls([allow("WRITE", "ord", pattern_type="PREFIXED"), allow("READ", "bills")])
        shown = settings_shown(admin)
        assert shown == AccessSettings(super_users=None, allows_without_acls=False)
        answer = ask_access(admin, question_of("User:ana", "write", "topic", "orders", None), shown)
        assert answer.rule == allow("WRITE", "ord", pattern_type="PREFIXED")
        assert answer.matching == [answer.rule]
        asked = question_of("User:root", "alter", "cluster", "", "10.0.0.9")
        assert ask_access(admin, asked, shown).text == (
            "no: the resource has no rules; "
            "unless User:root is one of super.users, which brokers do not show"
        )
        answer = ask_access(admin, asked, settings_in(properties))
        assert (answer.is_allowed, answer.reason) == (True, Reason.SUPER_USER)


@pytest.mark.parametrize(
    "words",
    [
        AclWords(principal="User:ana", operations=("READ",), resources={"topic": "-orders"}),
        AclWords(principal="User:a b:c", role="consumer", resources={"topic": "t", "group": "'"}),
        AclWords(principal="User:*", operations=("ALTER", "DESCRIBE"), resources={"cluster": ""},
                 host="10.0.0.9", permission="DENY"),
        AclWords(principal="User:a", operations=("WRITE",), is_prefixed=True,
                 resources={"transactional_id": "pay", "topic": "\n"}),
    ],
)  # fmt: skip
def test_the_options_of_words_say_the_same_in_a_command(words: AclWords) -> None:
    given = acl_commands.add_command.make_context(
        "add", ["localhost:9092", *words.options, "--", *words.arguments]
    ).params
    target, principal, operations, role = (
        given.pop(one) for one in ("target", "principal", "operations", "role")
    )
    assert target.text == "localhost:9092"
    found = acl_commands._words(given, principal, operations, role)
    assert sorted(found.bindings()) == sorted(words.bindings())


def test_what_a_later_kafka_knows_is_listed_and_decides_nothing() -> None:
    class Resource:
        resource_type, resource_name, pattern_type = 2, "orders", 3

    class Later:
        principal, host, operation, permission_type = "User:ana", "*", 99, 3

    (later,) = described_acls([type("R", (Resource,), {"acls": [Later]})])
    assert (later.operation, later.permission) == ("UNKNOWN", "ALLOW")
    assert judge(may("User:ana", "WRITE"), [later], NOBODY).reason is Reason.NOT_NAMED
