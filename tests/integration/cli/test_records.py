"""`ottla records`: a data directory as lines, without a broker."""

import base64
import json
from pathlib import Path

import pytest
from confluent_kafka import Producer

import ottla
from tests.integration.cli.support import run_ottla, serving


@pytest.fixture
def data(tmp_path: Path) -> Path:
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("t", partitions=2)
        headers = [("h", b"\xff"), ("none", None)]
        log.append("t", b"tea\tand\nmilk", key=b"k", partition=0, timestamp_ms=0, headers=headers)
        log.append("t", None, key=None, partition=1, timestamp_ms=1_700_000_000_123)
        log.append("t", b"\xfe", partition=1, timestamp_ms=5)
    return tmp_path / "data"


def contents(directory: Path) -> dict[str, bytes]:
    return {str(one): one.read_bytes() for one in directory.rglob("*") if one.is_file()}


def test_a_record_is_one_line_of_text(data: Path) -> None:
    before = contents(data)
    lines = run_ottla("records", data, "--topic", "t").stdout.splitlines()
    assert lines == [
        "t-0\t0\t1970-01-01T00:00:00.000+00:00\tk\ttea\\tand\\nmilk\th=\\xff\tnone=null",
        "t-1\t0\t2023-11-14T22:13:20.123+00:00\tnull\tnull",
        "t-1\t1\t1970-01-01T00:00:00.005+00:00\tnull\t\\xfe",
    ]
    assert contents(data) == before, "a reader wrote something"


def test_json_has_everything_and_no_loss(data: Path) -> None:
    output = run_ottla("records", data, "--topic", "t", "--partition", "0", "--json").stdout
    assert json.loads(output) == {
        "topic": "t",
        "partition": 0,
        "offset": 0,
        "timestamp_ms": 0,
        "timestamp_type": "CreateTime",
        "key": "k",
        "value": "tea\tand\nmilk",
        "headers": [{"key": "h", "value_base64": "/w=="}, {"key": "none", "value": None}],
    }


@pytest.mark.parametrize(("start", "count"), [(0, 2), (1, 1), (2, 0), (99, 0)])
def test_it_starts_where_it_is_told(data: Path, start: int, count: int) -> None:
    result = run_ottla("records", data, "-t", "t", "-p", "1", "--from", str(start))
    assert result.returncode == 0
    assert len(result.stdout.splitlines()) == count


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--topic", "nowhere"], (1, "there is no topic nowhere")),
        (["--topic", "t", "--partition", "7"], (2, "topic t has no partition 7; it has 0, 1")),
    ],
)
def test_what_is_not_there_is_named(
    data: Path, arguments: list[str], told: tuple[int, str]
) -> None:
    result = run_ottla("records", data, *arguments)
    assert result.returncode == told[0]
    assert told[1] in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_directory_that_is_none_is_named(tmp_path: Path) -> None:
    result = run_ottla("records", tmp_path / "nothing", "--topic", "t")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "does not exist" in result.stderr


def bytes_of(one: dict[str, str]) -> bytes:
    if "value_base64" in one:
        return base64.b64decode(one["value_base64"])
    return one["value"].encode()


@pytest.mark.slow
def test_it_prints_exactly_what_a_client_sent(tmp_path: Path) -> None:
    sent = [(b"k%d" % (n % 7), bytes([n % 256]) * (n % 50), 1_000_000 + n) for n in range(2000)]
    with serving(tmp_path / "data") as (address, _):
        producer = Producer({"bootstrap.servers": address, "compression.type": "zstd"})
        for key, value, timestamp_ms in sent:
            producer.produce("t", value, key, partition=0, timestamp=timestamp_ms)
        assert producer.flush(30) == 0
    lines = run_ottla("records", tmp_path / "data", "--topic", "t", "--json").stdout.splitlines()
    read = [json.loads(line) for line in lines]
    assert [one["offset"] for one in read] == list(range(2000))
    assert [(one["key"].encode(), bytes_of(one), one["timestamp_ms"]) for one in read] == sent


@pytest.mark.slow
def test_it_reads_beside_a_running_broker(data: Path) -> None:
    with serving(data):
        assert len(run_ottla("records", data, "--topic", "t").stdout.splitlines()) == 3
