"""`ottla topics` and `delete-records`, as a person or a script uses them."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.cli.main import cli
from tests.unit.cli.administered import Administered


def test_topics_are_listed_with_what_they_hold(broker: Administered) -> None:
    heading, _, books, orders = broker.lines("topics", "list", "TARGET")
    assert heading.split() == ["topic", "partitions", "records", "size", "records/s", "retention"]
    assert books.split() == ["books", "1", "0", "0", "B", "0", "compact"]
    assert orders.split()[:3] == ["orders", "2", "100"]
    assert orders.endswith("7 d")
    assert broker.lines("topics", "list", "TARGET", "-q") == ["books", "orders"]
    assert broker.lines("topics", "list", "TARGET", "o*", "-q") == ["orders"]
    assert "__consumer_offsets" in broker.lines("topics", "list", "TARGET", "-q", "--internal")


def test_a_topic_is_listed_as_json_with_numbers(broker: Administered) -> None:
    (orders,) = broker.json("topics", "list", "TARGET", "orders")
    assert (orders["partitions"], orders["records"], orders["replicas"]) == (2, 100, 1)
    assert orders["size"] > 0
    assert orders["retention_ms"] == 604_800_000


def test_a_topic_is_described_with_partitions_and_settings(broker: Administered) -> None:
    (books,) = broker.json("topics", "describe", "TARGET", "books")
    assert books["settings"] == {"cleanup.policy": "compact"}
    (orders,) = broker.json("topics", "describe", "TARGET", "orders")
    assert [one["next_offset"] for one in orders["by_partition"]] == [100, 0]
    first, *rest = broker.lines("topics", "describe", "TARGET", "orders")
    assert first.startswith("orders: 2 partitions, 100 records, ")
    assert rest[-1].split()[:2] == ["1", "1"]


@pytest.mark.slow
def test_topics_are_created_changed_grown_and_deleted(broker: Administered) -> None:
    made = broker.lines("topics", "create", "TARGET", "a", "b", "-p", "2", "-o", "retention.ms=2d")
    assert made == ["created a with 2 partitions", "created b with 2 partitions"]
    (a,) = broker.json("topics", "list", "TARGET", "a")
    assert (a["partitions"], a["retention_ms"]) == (2, 172_800_000)
    broker.lines("topics", "alter", "TARGET", "?", "-o", "retention.bytes=1Ki", "--unset",
                 "retention.ms")  # fmt: skip
    (b,) = broker.json("topics", "list", "TARGET", "b")
    assert (b["retention_bytes"], b["retention_ms"]) == (1024, 604_800_000)
    assert broker.lines("topics", "grow", "TARGET", "a", "3") == ["a grew from 2 partitions to 3"]
    assert broker.lines("topics", "delete", "TARGET", "a", "b") == ["deleted a, b"]
    assert broker.lines("topics", "list", "TARGET", "-q") == ["books", "orders"]


def test_what_is_there_or_gone_already_can_be_left_alone(broker: Administered) -> None:
    assert broker.lines("topics", "create", "TARGET", "orders", "--if-missing") == []
    assert broker.lines("topics", "create", "TARGET", "orders", "--if-not-exists") == []
    assert broker.lines("topics", "delete", "TARGET", "nothing", "--if-there") == []


def test_a_dry_run_changes_nothing(broker: Administered) -> None:
    assert broker.lines("topics", "create", "TARGET", "a", "--dry-run") == ["would create a"]
    broker.lines("topics", "grow", "TARGET", "orders", "9", "--dry-run")
    broker.lines("delete-records", "TARGET", "orders", "--before", "latest", "--dry-run")
    (orders,) = broker.json("topics", "list", "TARGET")[1:]
    assert (orders["partitions"], orders["records"]) == (2, 100)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("topics describe TARGET ordrs", 1, "there is no topic ordrs; did you mean orders?"),
        ("topics list TARGET x*", 1, "there is no topic x*; there are books, orders"),
        ("topics delete TARGET order", 1, "there is no topic order; did you mean orders?"),
        (
            "topics create TARGET orders",
            1,
            "topic orders: TOPIC_ALREADY_EXISTS: Topic 'orders' already exists.",
        ),
        (
            "topics create TARGET a -o retention.m=1",
            2,
            "retention.m: there is no such setting; did you mean retention.ms?",
        ),
        (
            "topics create TARGET a -o cleanup.policy=compat",
            2,
            "cleanup.policy=compat: one of compact, delete",
        ),
        ("topics alter TARGET orders", 2, "name a change: -o retention.ms=7d, or --unset KEY"),
        (
            "topics alter TARGET orders --unset retention.m",
            2,
            "retention.m: there is no such setting; did you mean retention.ms?",
        ),
        (
            "delete-records TARGET orders -p 7 --before latest",
            1,
            "there is no partition orders-7; there are 0, 1",
        ),
        (
            "delete-records TARGET orders --before 1000",
            2,
            "--before 1000: orders ends at offset 100; --before latest deletes all of its records",
        ),
        (
            "tokens list TARGET",
            1,
            "delegation tokens: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: Delegation token request not "
            "allowed; connect to a running broker, with a password or a certificate",
        ),
        (
            "topics list localhost",
            2,
            "localhost: there is no such directory; a target is a data directory or HOST:PORT, "
            "such as localhost:9092",
        ),
        (
            "delete-records TARGET orders --before yesterday",
            2,
            "--before yesterday: a place is beginning, end, current, an offset, @TIME such as "
            "@2026-01-31T12:00, or an age such as 2h",
        ),
    ],
)
def test_a_mistake_is_one_line_that_helps(
    words: str, code: int, text: str, same_broker: Administered
) -> None:
    assert same_broker.end(*words.split()) == (code, f"ottla: {text}")


@pytest.mark.parametrize("words", ["produce {} a=b --create", "import {} a=b lines.csv --create"])
def test_a_topic_that_cannot_be_makes_no_directory(words: str, tmp_path: Path) -> None:
    (tmp_path / "lines.csv").write_text("n\n1\n")
    line = words.format(tmp_path / "data").replace("lines.csv", str(tmp_path / "lines.csv"))
    result = CliRunner().invoke(cli, line.split(), input="tea\n")
    assert (result.exit_code, "topic a=b: " in result.output) == (2, True), result.output
    assert not (tmp_path / "data").exists()


def test_records_before_an_offset_or_a_time_are_deleted(broker: Administered) -> None:
    (done,) = broker.json("delete-records", "TARGET", "orders", "-p", "0", "--before", "10")
    assert (done["first_offset"], done["records"]) == (10, 10)
    time = "@2023-11-14T22:13:20.050"
    lines = broker.lines("delete-records", "TARGET", "orders", "--before", time)
    assert lines[-1] == "deleted 40 records of orders"
    assert broker.json("topics", "list", "TARGET", "orders")[0]["records"] == 50
    (left,) = broker.json("delete-records", "TARGET", "orders", "--before", "latest")
    assert left["records"] == 50


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ("orders retention.ms=5d", "other than ASCII letters, digits, '.', '_' and '-'; a setting "
         "of the topics is -o retention.ms=5d"),
        ("orders -o retention.ms=5days", "retention.ms=5days: there is no unit days; did you mean "
         "5d?"),
        ("orders -o retention.m=5d", "there is no such setting; did you mean retention.ms?"),
    ],
)  # fmt: skip
def test_a_mistake_in_what_is_to_be_created_leaves_no_directory(
    words: str, text: str, tmp_path: Path
) -> None:
    result = CliRunner().invoke(cli, ["topics", "create", str(tmp_path / "data"), *words.split()])
    assert (result.exit_code, text in result.output) == (2, True), result.output
    assert list(tmp_path.iterdir()) == []


def test_a_topic_is_copied_to_a_new_one(broker: Administered) -> None:
    dry = broker.lines("topics", "copy", "TARGET", "orders", "again", "--dry-run")
    assert dry == ["would copy 100 offsets of orders to again"]
    (done,) = broker.json(
        "topics", "copy", "TARGET", "orders", "again", "-o", "retention.bytes=1Mi"
    )
    assert (done["records"], done["partitions"], done["is_done"]) == (100, 2, True)
    (again,) = broker.json("topics", "describe", "TARGET", "again")
    assert again["settings"]["retention.bytes"] == "1048576"
    assert [one["next_offset"] for one in again["by_partition"]] == [100, 0]
