"""`ottla acls`: rules that are added, listed and removed, on a data directory too."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.cli.administered import Administered, administered


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Administered]:
    with administered(tmp_path, is_served=False) as found:
        yield found


@pytest.mark.slow
def test_rules_are_added_listed_and_removed(directory: Administered) -> None:
    role = ("--role", "consumer", "--topic", "orders", "--group", "billing")
    assert directory.lines("acls", "add", "TARGET", "User:ana", *role) == [
        "allow User:ana read on topic orders",
        "allow User:ana describe on topic orders",
        "allow User:ana read on group billing",
    ]
    words = ("write", "--topic", "logs-", "--prefixed", "--deny", "--host", "10.0.0.9")
    assert directory.lines("acls", "add", "TARGET", "User:*", *words) == [
        "deny User:* from 10.0.0.9 write on topic logs-*"
    ]
    directory.lines("acls", "add", "TARGET", "User:root", "alter", "--cluster")
    assert len(directory.json("acls", "list", "TARGET")) == 5
    (found,) = directory.json("acls", "list", "TARGET", "--topic", "logs-", "--prefixed")
    assert found == {
        "resource": "topic",
        "name": "logs-",
        "pattern": "prefixed",
        "principal": "User:*",
        "host": "10.0.0.9",
        "operation": "write",
        "permission": "deny",
    }
    assert len(directory.json("acls", "list", "TARGET", "--principal", "User:ana")) == 3
    assert directory.lines("acls", "remove", "TARGET", "User:ana", "read", "--topic", "orders") == [
        "removed: allow User:ana read on topic orders"
    ]
    directory.lines("acls", "remove", "TARGET", "User:root", "--cluster")
    assert len(directory.json("acls", "list", "TARGET")) == 3


@pytest.mark.slow
def test_rules_of_everyone_and_on_whatever_resource_are_removed(directory: Administered) -> None:
    for name, operation in (("User:ana", "read"), ("User:bob", "read"), ("User:bob", "write")):
        directory.lines("acls", "add", "TARGET", name, operation, "--topic", "orders")
    directory.lines("acls", "add", "TARGET", "User:ana", "read", "--topic", "orders", "--deny")
    directory.lines("acls", "add", "TARGET", "User:ana", "read", "--group", "g")
    assert directory.lines("acls", "remove", "TARGET", "any", "read", "--topic", "orders") == [
        "removed: allow User:ana read on topic orders",
        "removed: deny User:ana read on topic orders",
        "removed: allow User:bob read on topic orders",
    ]
    directory.lines("acls", "add", "TARGET", "User:ana", "read", "--topic", "orders", "--deny")
    every = ("acls", "remove", "TARGET", "User:ana", "--all-resources")
    assert directory.lines(*every, "--allow") == ["removed: allow User:ana read on group g"]
    assert directory.lines(*every) == ["removed: deny User:ana read on topic orders"]
    assert directory.lines("acls", "list", "TARGET", "-q") == ["User:bob"]


@pytest.mark.slow
def test_whether_somebody_may_do_something_is_answered_by_the_rule_that_decides(
    directory: Administered, tmp_path: Path
) -> None:
    directory.lines("acls", "add", "TARGET", "User:ana", "write", "--topic", "ord", "--prefixed")
    asked = ("acls", "may", "TARGET", "User:ana", "write", "--topic", "orders")
    assert directory.lines(*asked) == ["yes: allow User:ana write on topic ord*"]
    directory.lines("acls", "add", "TARGET", "User:ana", "all", "--topic", "orders", "--deny")
    doubt = "unless User:ana is one of super.users, which brokers do not show"
    assert directory.end(*asked) == (1, f"no: deny User:ana all on topic orders; {doubt}")
    properties = tmp_path / "server.properties"
    properties.write_text("super.users=User:bob\nallow.everyone.if.no.acl.found=true\n")
    given = ("--config", str(properties))
    assert directory.end(*asked, *given) == (1, "no: deny User:ana all on topic orders")
    bob = ("acls", "may", "TARGET", "User:bob", "write", "--topic", "orders")
    assert directory.lines(*bob, *given) == ["yes: a super user, by super.users"]
    code, text = directory.end(*asked, "--host", "10.0.0.9", "--json")
    assert code == 1
    assert json.loads(text)["rule"]["permission"] == "deny"
    assert json.loads(text)["host"] == "10.0.0.9"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("acls add TARGET User:ana reed --topic t", 1, "there is no operation reed; did you mean"),
        ("acls add TARGET ana read --topic t", 2, "ana: a principal looks like User:ana"),
        ("acls add TARGET User:ana read", 2, "name resources, such as --topic orders"),
        ("acls add TARGET User:ana --topic t", 2, "name operations, such as read, or --role"),
        (
            "acls add TARGET User:ana --role consumer --cluster",
            2,
            "--role consumer applies to topic and group, not cluster",
        ),
        ("acls remove TARGET any --all-resources --topic t", 2, "--all-resources stands alone"),
        ("acls remove TARGET any --topic t --deny --allow", 2, "--allow and --deny exclude"),
        ("acls may TARGET User:ana read", 2, "name one resource, such as --topic orders"),
        ("acls may TARGET User:ana read --topic t --group g", 2, "name one resource"),
        ("acls may TARGET User:ana reed --topic t", 1, "there is no topic operation reed"),
        ("acls remove TARGET User:ana --topic t", 1, "there is no ACL of User:ana like that"),
        ("acls add TARGET User:ana idempotent-write --topic t", 2, "Operation IDEMPOTENT_WRITE"),
    ],
)
def test_a_mistake_is_one_line_that_helps(
    words: str, code: int, text: str, directory: Administered
) -> None:
    ended, said = directory.end(*words.split())
    assert (ended, text in said) == (code, True), said


def test_without_an_authorizer_there_are_no_acls_and_how_to_have_one_is_said(
    same_broker: Administered,
) -> None:
    code, said = same_broker.end("acls", "list", "TARGET")
    assert code == 1
    assert "No Authorizer is configured; start the broker with authorizer.class.name=" in said
