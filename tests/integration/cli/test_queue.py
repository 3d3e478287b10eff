"""`ottla queue`: records one by one, what is in flight and why, and dead letters sent back."""

import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
from ottla.cli.main import cli
from ottla.cli.records import share_group
from tests.support.patience import PATIENCE_S, wait_until

pytestmark = pytest.mark.slow

SETTINGS = {
    "group.share.assignment.interval.ms": 0,
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
}
names = (f"name{number}" for number in itertools.count())


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ottla.Log, str]]:
    with ottla.open(tmp_path_factory.mktemp("log") / "data", SETTINGS) as log:
        yield log, log.listen("127.0.0.1:0").address


@pytest.fixture
def log(broker: tuple[ottla.Log, str], monkeypatch: pytest.MonkeyPatch) -> ottla.Log:
    monkeypatch.setattr(share_group, "IDLE_S", 0.6)
    return broker[0]


@pytest.fixture
def address(broker: tuple[ottla.Log, str]) -> str:
    return broker[1]


@pytest.fixture
def topic(log: ottla.Log) -> str:
    name = next(names)
    log.create_topic(name)
    log.append_many(name, [b"cut", b"glue", b"paint"])
    return name


@pytest.fixture
def group(log: ottla.Log) -> str:
    name = next(names)
    with ottla.Admin(log) as admin:
        kind = ottla.ResourceKind.GROUP
        admin.alter_configs(kind, name, {"share.auto.offset.reset": "earliest"})
    return name


def queue(*arguments: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(cli, ["queue", *arguments])
    return result.exit_code, result.stdout, result.stderr


def explicit(log: ottla.Log, group: str, topic: str) -> ottla.ShareConsumer:
    settings = {"share.acknowledgement.mode": "explicit"}
    consumer = ottla.ShareConsumer(log, group, settings=settings)
    consumer.subscribe(topic)
    return consumer


def test_records_are_printed_and_accepted_and_no_more_than_were_asked_for(
    address: str, topic: str
) -> None:
    group = next(names)
    first = queue("consume", address, group, topic, "--from", "beginning", "-n", "2")
    assert first == (0, "cut\nglue\n", "2 records: 2 accepted\n")
    code, out, error = queue("consume", address, group, topic, "--json")
    assert (code, error) == (0, "1 record: 1 accepted\n")
    assert json.loads(out)["value"] == "paint"
    assert queue("consume", address, group, topic) == (0, "", "no records\n")


def test_a_command_decides_by_its_exit_code(
    address: str, group: str, topic: str, tmp_path: Path
) -> None:
    script = tmp_path / "work.py"
    script.write_text(
        "import os, sys\n"
        "value = sys.stdin.read()\n"
        "count = os.environ['OTTLA_DELIVERY_COUNT']\n"
        f"open({str(tmp_path / 'done')!r}, 'a').write(f'{{value}} {{count}}\\n')\n"
        "sys.exit({'cut': 0, 'paint': 65}.get(value, 0 if count == '2' else 1))\n"
    )
    command = f"{sys.executable} {script}"
    code, out, error = queue("consume", address, group, topic, "--run", command)
    assert (code, out) == (0, "")
    assert error == "4 records: 2 accepted, 1 released, 1 rejected\n"
    lines = (tmp_path / "done").read_text().splitlines()
    assert sorted(lines) == ["cut 1", "glue 1", "glue 2", "paint 1"]


def test_a_long_command_keeps_its_record(
    address: str, group: str, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(share_group, "RENEW_S", 0.05)
    told = queue("consume", address, group, topic, "-n", "1", "--run", "sleep 0.2")
    assert told == (0, "", "1 record: 1 accepted\n")


def test_what_is_in_flight_is_described_and_explained(
    log: ottla.Log, address: str, group: str, topic: str
) -> None:
    with explicit(log, group, topic) as consumer:
        first, second, third = consumer.consume(3, timeout=PATIENCE_S)
        consumer.accept(first)
        consumer.commit()
        consumer.release(second)
        consumer.commit()  # Where the group begins is written with the next change.
        code, out, _ = queue("describe", address, group, "--json")
        described = json.loads(out)
        assert code == 0
        assert described["by_partition"] == [
            {
                "topic": topic,
                "partition": 0,
                "start": 1,
                "end": 3,
                "lag": 2,
                "with_members": 1,
                "again": 1,
            }
        ]
        assert [one["assigned"] for one in described["by_member"]] == [[f"{topic}-0"]]
        code, out, _ = queue("explain", address, group, "--json")
        again, held = map(json.loads, out.splitlines())
        member = described["by_member"][0]["member_id"]
        assert (again["first_offset"], again["state"], again["reasons"]) == (
            1,
            "AVAILABLE",
            ["RELEASED"],
        )
        assert (held["first_offset"], held["state"], held["member_id"]) == (2, "ACQUIRED", member)
        assert held["locked_until_ms"] > held["since_ms"]
        _, out, _ = queue("explain", address, group, f"{topic}:0")
        assert "released" in out
        assert f"({member})" in out
        consumer.accept(third)
    code, _, error = queue("explain", address, group, "nosuch")
    assert (code, error) == (2, "ottla: the group reads no partition of nosuch\n")


def test_dead_letters_go_back_once_and_those_without_a_record_are_left(
    log: ottla.Log, address: str, group: str, topic: str
) -> None:
    dead = f"dlq.{next(names)}"
    log.create_topic(dead, config={"errors.deadletterqueue.group.enable": True})
    with ottla.Admin(log) as admin:
        settings = {"errors.deadletterqueue.topic.name": dead}
        admin.alter_configs(ottla.ResourceKind.GROUP, group, settings)
    with explicit(log, group, topic) as consumer:
        for record in consumer.consume(3, timeout=PATIENCE_S):
            consumer.reject(record)
        consumer.commit()
    wait_until(lambda: log.offsets(dead)[0][1] == 3)
    log.delete_records(topic, {0: 1})
    code, out, error = queue("redrive", address, dead, "--dry-run")
    assert (code, error) == (1, f"would send 2 records back to {topic}\n")
    assert f"left: {dead}-0 offset 0: it has no copy of its record, which is deleted" in out
    code, out, error = queue("redrive", address, dead, "--json")
    assert (code, error) == (1, f"sent 2 records back to {topic}\n")
    assert [json.loads(line)["is_done"] for line in out.splitlines()] == [False, True, True]
    values = [one.value for one in log.read(topic)]
    assert values == [b"glue", b"paint", b"glue", b"paint"]
    code, out, error = queue("redrive", address, dead)
    assert (code, out) == (0, "")
    assert error == f"{dead} has no dead letters that were not sent back\n"


def test_what_is_no_queue_is_named(address: str, topic: str) -> None:
    code, _, error = queue("redrive", address, "nosuch")
    assert code == 1
    assert "there is no topic nosuch" in error
    code, _, error = queue("explain", address, "nosuch")
    assert code == 1
    assert "there is no group nosuch" in error
