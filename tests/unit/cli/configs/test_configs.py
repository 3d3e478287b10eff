"""`ottla configs`: values with their origin, and changes to them."""

import pytest

from tests.unit.cli.administered import Administered


def test_a_value_is_shown_with_its_origin_and_default(broker: Administered) -> None:
    broker.lines("configs", "set", "TARGET", "orders", "retention.ms=2d")
    (found,) = broker.json("configs", "get", "TARGET", "orders")
    assert found == {
        "name": "retention.ms",
        "value": "172800000",
        "origin": "of_the_resource",
        "default": "604800000",
        "is_read_only": False,
        "is_sensitive": False,
    }
    _, _, row = broker.lines("configs", "get", "TARGET", "orders")
    assert row.split("  ")[0] == "retention.ms"
    assert "172800000 (2 d)" in row
    assert row.endswith("604800000 (7 d)")
    assert len(broker.json("configs", "get", "TARGET", "orders", "--all")) > 20


def test_a_change_says_what_was_before(broker: Administered) -> None:
    assert broker.lines("configs", "set", "TARGET", "orders", "segment.bytes=1Mi") == [
        "segment.bytes: 1048576 (1.0 MiB) (was 1073741824 (1.0 GiB))"
    ]
    assert broker.lines("configs", "unset", "TARGET", "orders", "segment.bytes") == [
        "segment.bytes: 1073741824 (1.0 GiB) (was 1048576 (1.0 MiB))"
    ]


def test_brokers_and_groups_have_settings_too(broker: Administered) -> None:
    broker.lines("configs", "set", "TARGET", "--brokers", "log.cleaner.threads=2")
    (found,) = broker.json("configs", "get", "TARGET", "--broker", "1", "log.cleaner.threads")
    assert (found["value"], found["origin"], found["default"]) == ("2", "of_all_brokers", "1")
    key = "consumer.session.timeout.ms"
    broker.lines("configs", "set", "TARGET", "--group", "billing", f"{key}=50s")
    (found,) = broker.json("configs", "get", "TARGET", "--group", "billing")
    assert (found["name"], found["value"]) == (key, "50000")


def test_a_brokers_unknown_setting_is_set_with_a_remark_and_hidden(broker: Administered) -> None:
    result = broker.run("configs", "set", "TARGET", "--broker", "1", "num.partition=2")
    assert result.output.splitlines() == [
        "not known, and without effect here: num.partition (did you mean num.partitions?)",
        "num.partition: (hidden) (was not set)",
    ]
    (found,) = broker.json("configs", "get", "TARGET", "--broker", "1", "num.partition")
    assert (found["value"], found["is_sensitive"]) == (None, True)
    broker.lines("configs", "unset", "TARGET", "--broker", "1", "num.partition")
    assert broker.run("configs", "unset", "TARGET", "--broker", "1", "num.partition").exit_code == 1


def test_subscriptions_to_metrics_have_settings_too(broker: Administered) -> None:
    owner = ("TARGET", "--client-metrics", "m")
    broker.lines("configs", "set", *owner, "interval.ms=1000", "metrics=org.a")
    found = broker.json("configs", "get", *owner)
    assert {one["name"]: (one["value"], one["default"]) for one in found} == {
        "interval.ms": ("1000", "300000"),
        "metrics": ("org.a", ""),
    }
    broker.lines("configs", "unset", *owner, "interval.ms", "metrics")
    assert broker.json("configs", "get", *owner) == []
    code, text = broker.end("configs", "get", *owner, "--broker", "1")
    assert (code, "--broker-logger" in text) == (2, True)


def test_a_setting_is_explained_without_a_broker(broker: Administered) -> None:
    first, second, *_ = broker.lines("configs", "explain", "cleanup.policy")
    assert first.startswith("cleanup.policy (topic): ")
    assert second == "  type list, default delete"
    assert broker.lines("configs", "explain", "TARGET", "cleanup.policy")[0] == first
    (row,) = broker.json("configs", "explain", "cleanup.policy")
    assert row["one_of"] == ["compact", "delete"]


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (
            "configs get TARGET orders cleanup.polcy",
            1,
            "there is no setting cleanup.polcy; did you mean cleanup.policy?",
        ),
        (
            "configs set TARGET orders cleanup.policy=compat",
            2,
            "cleanup.policy=compat: one of compact, delete",
        ),
        ("configs set TARGET orders retention.ms=-7", 2, "retention.ms=-7: at least -1"),
        (
            "configs set TARGET orders retention.ms",
            2,
            "setting retention.ms: a setting is KEY=VALUE, such as retention.ms=7d",
        ),
        ("configs get TARGET", 2, "name a topic, or --broker ID, --brokers or --group GROUP"),
        ("configs get TARGET --broker 7", 2, "there is no broker 7; there are 1"),
        ("configs get TARGET ordrs", 1, "there is no topic ordrs; did you mean orders?"),
        (
            "configs get TARGET --broker 1 --group g",
            2,
            "--brokers, --broker, --group, --broker-logger and --client-metrics exclude each other",
        ),
        ("configs explain cleanup.polcy", 1,
         "there is no setting cleanup.polcy; did you mean cleanup.policy or log.cleanup.policy?"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_helps(
    words: str, code: int, text: str, same_broker: Administered
) -> None:
    assert same_broker.end(*words.split()) == (code, f"ottla: {text}")
