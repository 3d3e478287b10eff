"""What `--json` and `-q` make of results, shown once for each kind of command."""

from pathlib import Path
from typing import Any

import pytest

from ottla.cli.output import Output
from tests.unit.cli.administered import Administered, administered

BRIEF = {
    "topics list TARGET": ["books", "orders"],
    "topics describe TARGET o*": ["orders"],
    "groups list TARGET": ["billing"],
    "groups describe TARGET b*": ["billing"],
    "configs get TARGET books": ["cleanup.policy=compact"],
    "quotas list TARGET": [],
    "users list TARGET": [],
    "transactions list TARGET": [],
    "context list": [],
    "configs set TARGET orders retention.ms=7d --dry-run": [],
    "delete-records TARGET orders --before 10 --dry-run": [],
    "groups reset TARGET billing --to earliest": [],
}
"""What is left with `-q`, in a log that `Administered` describes."""

OBJECTS: dict[str, list[dict[str, Any]]] = {
    "topics create TARGET teas -p 2": [{"topic": "teas", "partitions": 2, "is_done": True}],
    "topics create TARGET cups --dry-run": [
        {"topic": "cups", "partitions": None, "is_done": False}
    ],
    "topics alter TARGET teas -o retention.ms=1s --unset segment.ms": [
        {"topic": "teas", "settings": {"retention.ms": "1000", "segment.ms": None}}
    ],
    "topics grow TARGET teas 3": [
        {"topic": "teas", "before": 2, "partitions": 3, "is_done": True},
    ],
    "topics delete TARGET teas books": [
        {"topic": "books", "is_deleted": True},
        {"topic": "teas", "is_deleted": True},
    ],
    "configs set TARGET orders retention.ms=1s": [
        {"name": "retention.ms", "before": "604800000", "value": "1000", "is_done": True}
    ],
    "configs unset TARGET orders retention.ms": [
        {"name": "retention.ms", "before": "1000", "value": "604800000", "is_done": True}
    ],
    "groups commit TARGET late orders:1=0": [
        {"group": "late", "topic": "orders", "partition": 1, "offset": 0}
    ],
    "groups delete TARGET billing --topic orders:0": [
        {"group": "billing", "topic": "orders", "partition": 0, "is_deleted": True}
    ],
    "groups delete TARGET billing late": [
        {"group": "billing", "is_deleted": True},
        {"group": "late", "is_deleted": True},
    ],
    "quotas set TARGET --user ana producer_byte_rate=10": [
        {"entity": {"user": "ana"}, "limits": {"producer_byte_rate": 10.0}}
    ],
    "quotas remove TARGET --user ana": [
        {"entity": {"user": "ana"}, "removed": ["producer_byte_rate"]}
    ],
    "context add here localhost:9092": [
        {"name": "here", "target": "localhost:9092", "is_current": True, "settings": {}}
    ],
    "context use --none": [{"current": None}],
    "context remove here": [{"name": "here", "is_deleted": True}],
}
"""What each of these commands did, one after the other."""


def test_quiet_leaves_names_of_what_is_listed_and_nothing_of_what_is_done(
    same_broker: Administered,
) -> None:
    for command, lines in BRIEF.items():
        result = same_broker.run(*command.split(), "-q")
        assert (result.exit_code, result.stderr) == (0, ""), command
        assert result.stdout.splitlines() == lines, command


@pytest.mark.slow
def test_json_says_of_each_thing_what_was_done(
    broker: Administered,
) -> None:
    for command, objects in OBJECTS.items():
        assert broker.json(*command.split()) == objects, command


def test_quiet_leaves_the_exit_code_of_a_check_alone(tmp_path: Path) -> None:
    with administered(tmp_path, is_served=False) as sound:
        for command in ("doctor TARGET", "log check TARGET", "log repair TARGET"):
            assert sound.end(*command.split(), "-q") == (0, ""), command
        (segment,) = Path(sound.target, "orders-0").glob("*.log")
        segment.write_bytes(b"?" * 100 + segment.read_bytes()[100:])
        for command in ("doctor TARGET --deep", "log check TARGET", "log repair TARGET"):
            assert sound.end(*command.split(), "-q") == (1, ""), command


def test_names_are_printed_once(capsys: pytest.CaptureFixture[str]) -> None:
    Output(is_quiet=True).names(["a", "b", "a"])
    assert capsys.readouterr().out == "a\nb\n"


def test_with_json_and_quiet_objects_are_printed_without_remarks(
    capsys: pytest.CaptureFixture[str],
) -> None:
    output = Output(as_json=True, is_quiet=True)
    output.say("done", {"is_done": True})
    output.remark("by the way")
    said = capsys.readouterr()
    assert (said.out, said.err) == ('{"is_done": true}\n', "")
