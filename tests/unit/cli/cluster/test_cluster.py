"""`ottla cluster`, on a single broker: what it shows, and what it refuses in one line."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.cli.cluster.local import refusal_of
from tests.unit.cli.administered import Administered, administered


@pytest.fixture(params=[False, True], ids=["a directory", "a broker"])
def one(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Administered]:
    with administered(tmp_path, is_served=request.param) as found:
        yield found


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Administered]:
    with administered(tmp_path, is_served=False) as found:
        yield found


def test_status_shows_brokers_and_with_an_option_all_partitions(one: Administered) -> None:
    lines = one.lines("cluster", "status", "TARGET")
    assert lines[0].split(": ")[1].startswith("1 broker, ")
    assert lines[0].endswith("0 under-replicated, 0 below min.insync.replicas, 0 offline")
    assert len(lines) == 4
    assert "controller" in lines[3]
    rows = [line.split() for line in one.lines("cluster", "status", "TARGET", "orders")]
    assert [row[0] for row in rows if row and row[0].startswith("orders")] == [
        "orders-0",
        "orders-1",
    ]


def test_status_has_an_object_for_each_broker_and_partition(here: Administered) -> None:
    cluster, broker, *partitions = here.json("cluster", "status", "TARGET", "orders")
    assert cluster["under_replicated"] == 0
    assert (broker["leaders"], broker["is_controller"]) == (2, True)
    (own,) = partitions[0]["lag"]
    assert partitions[0]["end_offsets"] == {own: 100}
    assert [one["partition"] for one in partitions] == [0, 1]


def test_the_only_broker_cannot_be_drained(here: Administered) -> None:
    code, text = here.end("cluster", "drain", "TARGET", "77")
    assert (code, "there is no broker 77; there are" in text) == (2, True)
    broker = here.json("cluster", "status", "TARGET")[1]["broker"]
    code, text = here.end("cluster", "drain", "TARGET", str(broker))
    assert (code, "there are 0 brokers; start another one" in text) == (2, True)


@pytest.mark.slow
def test_partitions_that_are_where_they_are_to_be_are_not_moved(
    here: Administered, tmp_path: Path
) -> None:
    broker = here.json("cluster", "status", "TARGET")[1]["broker"]
    reassign = ("cluster", "reassign", "TARGET")
    assert here.lines(*reassign) == ["no moves are under way"]
    assert here.lines(*reassign, "--cancel") == ["no moves are under way"]
    assert here.lines(*reassign, "orders", "--to", str(broker)) == ["nothing is to be moved"]
    plan = tmp_path / "plan.json"
    rows = [{"topic": "orders", "partition": 0, "replicas": [broker]}]
    plan.write_text(json.dumps({"version": 1, "partitions": rows}))
    assert here.lines(*reassign, "--plan", str(plan)) == ["nothing is to be moved"]
    assert here.lines("cluster", "elect", "TARGET", "orders") == ["no election was needed"]


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("orders", "--to", "one"), "--to one: name brokers by their ids, such as 1,2,3"),
        (("orders", "--to", "99"), "--to 99: broker 99 is not up; brokers that are up:"),
        (("--replicas", "1"), "name the topics to move; '*' means all of them"),
        (("orders", "--replicas", "2"), "orders-0: 2 replicas need as many brokers"),
        (("--plan", "PLAN"), "is not a plan of moves"),
    ],
)
def test_a_move_that_cannot_be_is_one_line(
    here: Administered, tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"partitions": [{"topic": "orders"}]}')
    chosen = [str(plan) if word == "PLAN" else word for word in words]
    code, text = here.end("cluster", "reassign", "TARGET", *chosen)
    assert (code, reason in text, "\n" in text) == (2, True, False)


def test_a_dry_run_prints_the_plan_and_moves_nothing(here: Administered, tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    rows = [{"topic": "orders", "partition": 0, "replicas": [88]}]
    plan.write_text(json.dumps({"version": 1, "partitions": rows}))
    (line,) = here.lines("cluster", "reassign", "TARGET", "--plan", str(plan), "--dry-run")
    assert line.startswith("orders-0: ")
    assert line.endswith(" -> 88")
    code, text = here.end("cluster", "reassign", "TARGET", "--plan", str(plan), "--yes")
    assert (code, "INVALID_REPLICA_ASSIGNMENT" in text or "only broker" in text) == (1, True)


def test_a_broker_that_does_not_start_is_told_of_by_the_line_by_which_it_has_ended() -> None:
    said = "recovering d/t-1 (1 left); 3 of 3 logs left\nottla: d/quorum-state: it is damaged"
    assert refusal_of(said) == "d/quorum-state: it is damaged"
    assert refusal_of("Killed") == "Killed"


def test_no_cluster_is_made_in_the_directory_of_a_broker(here: Administered) -> None:
    code, text = here.end("cluster", "up", "--data", "TARGET")
    assert (code, "it is a broker's own log directory; name a folder for the cluster" in text) == (
        2,
        True,
    )
