"""`ottla configs`: values with their origin, and changes to them."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
from ottla.cli.main import cli
from tests.unit.cli.administered import Administered, administered


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


@pytest.mark.slow
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


@pytest.mark.slow
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


NAME = "ottla.server.network.listener"


@pytest.fixture
def level() -> Iterator[int]:
    """Of a logger of the server, which a test changes."""
    level = logging.getLogger(NAME).level
    yield level
    logging.getLogger(NAME).setLevel(level)


def test_a_brokers_loggers_have_levels(same_broker: Administered, level: int) -> None:
    owner = ("TARGET", "--broker-logger", "1")
    same_broker.lines("configs", "set", *owner, f"{NAME}=DEBUG")
    assert logging.getLogger(NAME).level == logging.DEBUG
    (found,) = same_broker.json("configs", "get", *owner, NAME)
    assert (found["name"], found["value"]) == (NAME, "DEBUG")
    assert same_broker.run("configs", "set", *owner, f"{NAME}=LOUD").exit_code != 0
    assert logging.getLogger(NAME).level == logging.DEBUG
    same_broker.lines("configs", "unset", *owner, NAME)
    assert logging.getLogger(NAME).level == logging.NOTSET
    assert same_broker.run("configs", "get", "TARGET", "--broker-logger", "7").exit_code != 0


def test_a_directory_has_no_loggers_whose_levels_could_be_seen_or_changed(
    tmp_path: Path, level: int
) -> None:
    with administered(tmp_path, is_served=False) as directory:
        for words in (("get",), ("set", f"{NAME}=DEBUG"), ("unset", NAME)):
            deed, *rest = words
            ended = directory.end("configs", deed, "TARGET", "--broker-logger", "1", *rest)
            assert ended == (
                2,
                "ottla: a directory has no loggers; name a broker that runs: HOST:PORT",
            )
    assert logging.getLogger(NAME).level == level


def test_a_setting_of_the_command_line_is_not_said_to_be_in_a_file(tmp_path: Path) -> None:
    with ottla.open(tmp_path, {"num.partitions": "3"}) as log:
        address = log.listen("127.0.0.1:0").address
        result = CliRunner().invoke(
            cli, ["configs", "get", address, "--broker", "1", "num.partitions"]
        )
    assert "given at start" in result.output
    assert "server.properties" not in result.output
