"""`ottla consume`: records of a broker's topics, and of a directory's, by the same words."""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
from ottla.cli.main import cli
from tests.integration.cli.support import ENVIRONMENT

HEADERS = [("h", b"\xff"), ("none", None)]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ottla.Log, str]]:
    # Its records are of 1970, and would be removed in the first look at what is too old.
    settings = {"log.retention.ms": -1}
    with ottla.open(tmp_path_factory.mktemp("log") / "data", settings) as log:
        log.create_topic("orders", partitions=2)
        log.create_topic("orders-old")
        log.create_topic("letters")
        for number in range(20):
            value = json.dumps({"id": number, "total": 10 * number}).encode()
            log.append(
                "orders", value, b"k%d" % number, partition=number % 2, timestamp_ms=1000 * number
            )
        log.append("orders-old", b"x\ny\xff", b"k", timestamp_ms=7, headers=HEADERS)
        log.append("orders-old", None, None, timestamp_ms=8)
        for letter in b"abcdefgh":
            log.append("letters", bytes([letter]))
        yield log, log.listen("127.0.0.1:0").address


@pytest.fixture(params=["broker", "directory"])
def target(request: pytest.FixtureRequest, broker: tuple[ottla.Log, str]) -> str:
    log, address = broker
    return address if request.param == "broker" else log.broker.directories[0].path


def consume(target: str, *arguments: str) -> tuple[int, bytes, str]:
    result = CliRunner().invoke(cli, ["consume", target, *arguments])
    return result.exit_code, result.stdout_bytes, result.stderr


def printed(target: str, *arguments: str) -> list[bytes]:
    code, out, error = consume(target, *arguments)
    assert (code, error) == (0, ""), (out, error)
    return out.splitlines()


def test_all_records_are_printed_as_they_are(target: str) -> None:
    assert consume(target, "orders-old")[1] == b"x\ny\xff\n\n"
    assert len(printed(target, "orders")) == 20


@pytest.mark.parametrize(
    ("arguments", "letters"),
    [
        ([], b"abcdefgh"),
        (["-o", "end"], b""),
        (["-o", "3"], b"defgh"),
        (["-o", "-2"], b"gh"),
        (["-o", "2", "--until", "5"], b"cde"),
        (["-o", "beginning", "-n", "3"], b"abc"),
        (["--where", "value > e"], b"fgh"),
        (["--where", "offset >= 2 and not value = d", "-n", "2"], b"ce"),
        (["--grep", "[aeiou]"], b"ae"),
        (["-p", "0", "-n", "1"], b"a"),
    ],
)
def test_a_part_is_printed(target: str, arguments: list[str], letters: bytes) -> None:
    assert b"".join(printed(target, "letters", *arguments)) == letters


@pytest.mark.slow
def test_times_choose_records_and_paths_lead_into_json(target: str) -> None:
    found = printed(target, "orders", "-o", "@15", "--until", "@18", "-F", "{partition} {.id}")
    assert sorted(found) == [b"0 16", b"1 15", b"1 17"]
    assert printed(target, "orders", "-w", ".total = 70", "-F", r"%t %p %o %k %T %S\n") == [
        b"orders 1 3 k7 7000 22"
    ]


def test_json_lines_say_what_is_no_text(target: str) -> None:
    first, second = [json.loads(line) for line in printed(target, "orders-old", "--json")]
    assert first["value_base64"] == "eAp5/w=="
    assert first["headers"] == [
        {"key": "h", "value_base64": "/w=="},
        {"key": "none", "value": None},
    ]
    assert (second["key"], second["value"], second["timestamp_ms"]) == (None, None, 8)


def test_a_pattern_names_several_topics(target: str) -> None:
    assert len(printed(target, "orders*")) == 23, "one value has two lines"
    assert len(printed(target, "^orders$")) == 20


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["lettres"], 1, "there is no topic lettres; did you mean letters?"),
        (["x*"], 1, "there is no topic like x*"),
        ([], 2, "name a topic"),
        (["letters", "-p", "5"], 2, "topic letters has no partition 5; it has 0"),
        (["letters", "-o", "soon"], 2, "--offset soon: name beginning"),
        (["letters", "-o", "stored"], 2, "name it with --group"),
        (["letters", "--where", "value ="], 2, "a value to compare with is expected"),
        (["letters", "-F", "%q"], 2, "unknown letter %q"),
        (["letters", "--value", "json"], 1, "is not json"),
        (["letters", "--value", "avro"], 2, "--schema"),
    ],
)
def test_a_mistake_is_one_line(target: str, arguments: list[str], code: int, said: str) -> None:
    result = subprocess_consume(target, *arguments)
    assert (result.returncode, result.stderr.count(b"\n")) == (code, 1), result.stderr
    assert said in result.stderr.decode()


def subprocess_consume(target: str, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-m", "ottla", "consume", target, *arguments],
        capture_output=True,
        env=ENVIRONMENT,
        check=False,
        timeout=120,
    )


def test_a_group_continues_where_it_was(target: str) -> None:
    group = "of-the-address" if ":" in target else "of-its-directory"

    def read(*more: str) -> bytes:
        return b"".join(printed(target, "letters", "--group", group, *more))

    assert read("-n", "3") == b"abc"
    assert read("-n", "2") == b"de"
    assert read() == b"fgh"
    assert read() == b""
    code, _, said = consume(target, "letters", "--group", group, "-o", "3")
    assert (code, "ottla groups reset moves it" in said) == (2, True)


@pytest.mark.slow
def test_a_group_of_a_directory_keeps_its_offsets_in_it(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("t")
        log.append("t", b"a")
        log.append("t", b"b")
    target = str(tmp_path / "data")
    assert printed(target, "t", "-G", "g", "-n", "1") == [b"a"]
    assert printed(target, "t", "-G", "g") == [b"b"]


@pytest.mark.slow
def test_a_reader_that_has_enough_ends_a_pipe_quietly(broker: tuple[ottla.Log, str]) -> None:
    command = f"{sys.executable} -m ottla consume {broker[1]} orders | head -1"
    result = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True, env=ENVIRONMENT, check=False, timeout=120,
    )  # fmt: skip
    assert (result.returncode, result.stderr) == (0, b"")
    assert result.stdout == b'{"id": 0, "total": 0}\n'


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
@pytest.mark.parametrize("topic", ["orders", "orders-old"])
def test_it_prints_what_kcat_prints(broker: tuple[ottla.Log, str], topic: str) -> None:
    letters = r"%t|%p|%o|%T|%K|%k|%S|%s|%h\n"
    kcat = subprocess.run(
        ["kcat", "-q", "-b", broker[1], "-C", "-t", topic, "-e", "-f", letters],
        capture_output=True, check=True, timeout=120,
    )  # fmt: skip
    ours = consume(broker[1], topic, "-F", letters)[1]
    assert sorted(ours.split(b"\n")) == sorted(kcat.stdout.split(b"\n"))
