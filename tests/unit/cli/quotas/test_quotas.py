"""`ottla quotas`: limits of users, client ids and addresses."""

import pytest

from tests.unit.cli.administered import Administered


def test_limits_are_set_listed_and_removed(broker: Administered) -> None:
    words = ("quotas", "set", "TARGET", "--client-id", "loader")
    assert broker.lines(*words, "producer_byte_rate=10M", "request_percentage=50") == [
        "client-id loader: producer_byte_rate=10000000, request_percentage=50"
    ]
    broker.lines("quotas", "set", "TARGET", "--user", "(default)", "consumer_byte_rate=1Mi")
    assert [line.split() for line in broker.lines("quotas", "list", "TARGET")[2:]] == [
        ["loader", "producer_byte_rate", "10,000,000"],
        ["loader", "request_percentage", "50"],
        ["(default)", "consumer_byte_rate", "1,048,576"],
    ]
    (found,) = broker.json("quotas", "list", "TARGET", "--user", "(default)")
    assert found == {"entity": {"user": None}, "limits": {"consumer_byte_rate": 1048576.0}}
    one = ("quotas", "remove", "TARGET", "--client-id", "loader")
    assert broker.lines(*one, "request_percentage") == [
        "client-id loader: removed request_percentage"
    ]
    assert broker.lines(*one) == ["client-id loader: removed producer_byte_rate"]
    assert len(broker.json("quotas", "list", "TARGET")) == 1


def test_the_quota_that_applies_is_named_with_those_that_have_no_effect(
    broker: Administered,
) -> None:
    for words in (
        ("--client-id", "loader", "producer_byte_rate=10M"),
        ("--user", "ana", "producer_byte_rate=5M", "request_percentage=50"),
        ("--user", "(default)", "producer_byte_rate=1M"),
    ):
        broker.lines("quotas", "set", "TARGET", *words)
    words = ("quotas", "explain", "TARGET", "--client-id", "loader")
    rate, percentage = broker.json(*words, "--user", "ana")
    assert rate == {
        "limit": "producer_byte_rate",
        "value": 5e6,
        "entity": {"user": "ana"},
        "shared_by": {"user": "ana"},
        "overridden": [
            {"entity": {"user": None}, "value": 1e6},
            {"entity": {"client-id": "loader"}, "value": 1e7},
        ],
    }
    assert (percentage["limit"], percentage["value"]) == ("request_percentage", 50)
    (other,) = broker.json(*words, "--user", "bob")
    assert (other["entity"], other["shared_by"]) == ({"user": None}, {"user": "bob"})
    assert [line.split()[:2] for line in broker.lines(*words)[2:]] == [
        ["producer_byte_rate", "1,000,000"]
    ]
    assert broker.lines("quotas", "explain", "TARGET", "--user", "x", "-q") == [
        "producer_byte_rate"
    ]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (
            "quotas set TARGET --user u producer_byte=1",
            1,
            "there is no limit producer_byte; did you mean producer_byte_rate?",
        ),
        (
            "quotas set TARGET --user u producer_byte_rate=fast",
            2,
            "producer_byte_rate=fast: a limit is a number, such as 10M",
        ),
        (
            "quotas set TARGET producer_byte_rate=1",
            2,
            "name what is limited: --user NAME, --client-id ID or --ip ADDRESS",
        ),
        (
            "quotas remove TARGET --user u producer_byte_rate",
            1,
            "there is no quota producer_byte_rate in user u",
        ),
        (
            "quotas list TARGET --user u --ip 10.0.0.1",
            2,
            "--ip stands alone: addresses have limits of their own",
        ),
    ],
)
def test_a_mistake_is_one_line_that_helps(
    words: str, code: int, text: str, same_broker: Administered
) -> None:
    assert same_broker.end(*words.split()) == (code, f"ottla: {text}")
