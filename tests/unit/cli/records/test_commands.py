"""`ottla produce`, `consume` and `records`, over a broker and over a data directory."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ottla.cli.main import cli
from tests.unit.cli.administered import Administered, administered, broker, same_broker

__all__ = ["broker", "same_broker"]


def run(on: Administered, *words: str, data: bytes = b"") -> Result:
    arguments = [on.target if word == "TARGET" else word for word in words]
    return CliRunner().invoke(cli, arguments, input=data)


def output(on: Administered, *words: str, data: bytes = b"") -> bytes:
    result = run(on, *words, data=data)
    assert result.exit_code == 0, result.output
    return result.stdout_bytes


def test_lines_go_in_and_come_out_as_the_same_bytes(broker: Administered) -> None:
    lines = b"".join(b"k%d:v%d\xff\n" % (n % 7, n) for n in range(500))
    result = run(broker, "produce", "TARGET", "books", "-K", ":", "-z", "gzip", data=lines)
    assert result.exit_code == 0
    assert result.stderr.startswith("produced 500 records (3.3 KiB) in ")
    assert output(broker, "consume", "TARGET", "books", "-K", ":") == lines
    assert (
        output(broker, "consume", "TARGET", "books", "-o", "-2", "-F", "%o %k|")
        == b"498 k1|499 k2|"
    )
    found = output(broker, "consume", "TARGET", "books", "-w", "key = k3", "-n", "2")
    assert found == b"v3\xff\nv10\xff\n"


@pytest.mark.slow
def test_a_topic_goes_into_another_with_all_that_a_record_has(broker: Administered) -> None:
    line = {
        "key_base64": "/w==",
        "value": None,
        "headers": [{"key": "h", "value": "1"}],
        "partition": 1,
        "timestamp_ms": 5,
    }
    output(broker, "produce", "TARGET", "orders", "--json", data=json.dumps(line).encode())
    copied = output(broker, "consume", "TARGET", "orders", "-p", "1", "--json")
    output(broker, "produce", "TARGET", "copy", "--json", "-p", "0", "--create", data=b"")
    again = copied.replace(b'"partition":1', b'"partition":0')
    output(broker, "produce", "TARGET", "copy", "--json", data=again)
    found = json.loads(output(broker, "consume", "TARGET", "copy", "--json"))
    assert found == {**json.loads(again), "topic": "copy"}
    assert found["timestamp_ms"] == 5


def test_times_offsets_and_ends_bound_what_is_read(same_broker: Administered) -> None:
    def offsets(*words: str) -> list[int]:
        found = output(same_broker, "consume", "TARGET", "orders", "-F", "%o ", *words)
        return [int(one) for one in found.split()]

    assert offsets("-o", "@1700000000090") == list(range(90, 100))
    assert offsets("-o", "@1700000000090", "--until", "@1700000000092") == [90, 91]
    assert offsets("-o", "end") == []
    assert offsets("--from", "97") == [97, 98, 99]
    assert offsets("-w", "timestamp >= 1700000000098 and offset != 98") == [99]
    assert offsets("-p", "0", "-o", "5", "--until", "7", "--follow") == [5, 6]


@pytest.mark.parametrize(
    ("words", "ending"),
    [
        (("consume", "TARGET", "orderz"), (1, "there is no topic orderz; did you mean orders?")),
        (("consume", "TARGET", "x*"), (1, "there is no topic like x*")),
        (("consume", "TARGET", "orders", "-f", "%k"), (2, "a format is given with --format (-F)")),
        (("consume", "TARGET", "^["), (2, "is not a valid regular expression")),
        (("consume", "TARGET"), (2, "name a topic, or a pattern such as")),
        (("consume", "TARGET", "orders", "-p", "9"), (2, "topic orders has no partition 9")),
        (
            ("consume", "TARGET", "orders", "-f", "-e"),
            (2, "--follow and --exit exclude each other"),
        ),
        (("consume", "TARGET", "orders", "-g", "["), (2, "--grep [ is not a regular expression")),
        (
            ("consume", "TARGET", "orders", "--value", "json", "-n", "1"),
            (1, "its value is not json"),
        ),
        (
            ("consume", "TARGET", "orders", "-f", "-o", "end", "--timeout", "10ms"),
            (124, "--timeout"),
        ),
        (("produce", "TARGET", "orderz"), (1, "there is no topic orderz; did you mean orders?")),
        (("produce", "TARGET", "orders", "-p", "9", "FILE"), (2, "No such file")),
        (("produce", "TARGET", "orders", "--repeat", "2"), (2, "--repeat reads its input again")),
        (("produce", "TARGET", "orders", "--files"), (2, "--files sends each FILE")),
        (
            ("records", "kafka:9092", "orders"),
            (2, "records reads files; for a broker use: ottla consume"),
        ),
        (("records", "nowhere", "orders"), (2, "nowhere does not exist")),
    ],
)
def test_what_goes_wrong_is_one_line_and_an_exit_code(
    same_broker: Administered, words: tuple[str, ...], ending: tuple[int, str]
) -> None:
    result = run(same_broker, *words)
    assert (result.exit_code, result.stderr.count("\n")) == (ending[0], 1), result.output
    assert ending[1] in result.stderr


def test_patterns_choose_topics_but_no_internal_ones(same_broker: Administered) -> None:
    found = output(same_broker, "consume", "TARGET", "o*", "^book", "-F", "%t ", "-n", "3")
    assert found == b"orders orders orders "
    assert output(same_broker, "consume", "TARGET", "^.*", "-F", "%t\n").count(b"__") == 0


def test_grep_selects_what_is_printed_and_colours_no_pipe(broker: Administered) -> None:
    output(broker, "produce", "TARGET", "drinks", "--create", data=b"tea\nmilk\nsteam\n")
    found = output(broker, "consume", "TARGET", "drinks", "--grep", "^t|ea", "-n", "2")
    assert found == b"tea\nsteam\n"


@pytest.mark.slow
def test_all_of_a_transaction_is_written_or_nothing(broker: Administered) -> None:
    bad = b'{"a": 1}\n' * 20_000 + b"nonsense\n"
    words = ("produce", "TARGET", "books", "--json-value", "--transaction", "-q", "-k", "k")
    result = run(broker, *words, data=bad)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "standard input, line 20001: this is not JSON" in result.stderr
    assert output(broker, "consume", "TARGET", "books") == b""
    output(broker, *words, data=b'{"a": 2}\n')
    assert output(broker, "consume", "TARGET", "books") == b'{"a": 2}\n'
    both = output(broker, "consume", "TARGET", "books", "--isolation", "read_uncommitted")
    assert both.count(b"\n") > 1


@pytest.mark.slow
def test_producer_settings_go_by_kafkas_names(broker: Administered) -> None:
    words = ("produce", "TARGET", "books", "-q", "-k", "k")
    output(broker, *words, "--acks", "0", data=b"sent\n")
    output(broker, *words, "-o", "transaction.timeout.ms=700000", "--transaction", data=b"kept\n")
    assert output(broker, "consume", "TARGET", "books") == b"sent\nkept\n"
    for options, line in (
        (("-o", "linger=5"), "linger: there is no such setting; did you mean linger.ms?"),
        (("-o", "max.request.size=50"), "larger than max.request.size=50"),
        (
            ("-o", "transaction.timeout.ms=1000000", "--transaction"),
            "at most the broker's transaction.max.timeout.ms",
        ),
    ):
        result = run(broker, *words, *options, data=b"x" * 60)
        assert (result.exit_code > 0, result.stderr.count("\n")) == (True, 1), result.stderr
        assert line in result.stderr


def test_what_stands_before_a_wrong_line_is_sent(broker: Administered) -> None:
    result = run(broker, "produce", "TARGET", "books", "--json-value", "-k", "k", data=b"1\n2\nx\n")
    assert (result.exit_code, "line 3: this is not JSON" in result.stderr) == (2, True)
    assert output(broker, "consume", "TARGET", "books") == b"1\n2\n"


def test_files_headers_tombstones_and_repetition(broker: Administered, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "ab"]
    for path in paths:
        path.write_bytes(b"line\n" + path.name.encode())
    words = ("produce", "TARGET", "books", "-q", "-k", "k", "-H", "x=1", "-H", "none")
    output(broker, *words, "--files", *map(str, paths), "--repeat", "2", "--rate", "10000")
    found = output(broker, "consume", "TARGET", "books", "-F", "%k %s %h;")
    one, two = b"k line\na x=1,none=NULL;", b"k line\nb x=1,none=NULL;"
    assert found == one + two + one + two
    output(broker, "produce", "TARGET", "books", "-q", "-K", ":", "-Z", data=b"gone:\n")
    assert (
        output(broker, "consume", "TARGET", "books", "-o", "-1", "-Z", "-K", ":") == b"gone:NULL\n"
    )


def test_records_reads_beside_a_broker_what_consume_reads_through_it(tmp_path: Path) -> None:
    with administered(tmp_path, is_served=True) as broker:
        words = ("orders", "--format", "%p %o %T %s\n", "-w", "offset < 50")
        through = output(broker, "consume", "TARGET", *words)
        assert output(broker, "records", str(tmp_path / "d"), *words) == through
        assert output(broker, "consume", str(tmp_path / "d"), *words) == through
        output(broker, "produce", str(tmp_path / "d"), "orders", data=b"through the broker\n")
        assert output(broker, "consume", "TARGET", "orders", "--grep", "through").count(b"\n") == 1


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["parquet", "csv", "jsonl", "arrow", "duckdb"])
def test_what_is_exported_is_imported_whole(
    broker: Administered, tmp_path: Path, suffix: str
) -> None:
    pytest.importorskip("pyarrow")
    pytest.importorskip("duckdb")
    lines = [
        {"key": "k", "value": 'v\n"é"', "headers": {"h": "1"}, "timestamp_ms": 5, "partition": 1},
        {"key_base64": "/w==", "value": None, "partition": 0, "headers": [["none", None]]},
        {"value_base64": "/w==", "partition": 0},
        {"key": "", "value": None, "partition": 0},
        {"key": None, "value": "", "partition": 0},
        {"value": "larger than Python's CSV takes by default" * 4000, "partition": 0},
    ]
    data = b"".join(json.dumps(one).encode() + b"\n" for one in lines)
    output(broker, "topics", "create", "TARGET", "from", "to", "-p", "2")
    output(broker, "produce", "TARGET", "from", "--json", data=data)
    path = str(tmp_path / f"out.{suffix}")
    assert run(broker, "export", "TARGET", "from", "-o", path).stderr.startswith("exported 6 rec")
    output(broker, "import", "TARGET", "to", path, "--keep-partitions", "-q")
    wanted = output(broker, "consume", "TARGET", "from", "--json")
    found = output(broker, "consume", "TARGET", "to", "--json")
    assert found.replace(b'"topic":"to"', b'"topic":"from"') == wanted


def test_a_range_is_exported_and_what_is_no_export_is_refused(
    same_broker: Administered, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "o.jsonl"
    words = ("export", "TARGET", "orders", "-o", str(path), "-q")
    output(same_broker, *words, "--from", "@1700000000090", "--until", "95", "-p", "0")
    offsets = [json.loads(line)["offset"] for line in path.read_text().splitlines()]
    assert offsets == list(range(90, 95))
    for name, told in [
        ("x.parquet", "there is no such file"),
        ("o.dat", "its name does not indicate a format"),
        ("bad.parquet", "this is no parquet file"),
        ("empty.csv", "there is no column value, and no other; to write rows as JSON: "),
        ("latin.csv", "this is not CSV in UTF-8, after line 0: 'utf-8' codec can't"),
        ("longer.csv", "there is no column value; there are a, b"),
    ]:
        if name == "latin.csv":
            (tmp_path / name).write_bytes(b"value\n\xfcber\n")
        if name == "longer.csv":
            (tmp_path / name).write_text("a,b\n1,2,3\n")
        if name == "bad.parquet":
            (tmp_path / name).write_text("nonsense")
        if name == "empty.csv":
            (tmp_path / name).touch()
        result = run(same_broker, "import", "TARGET", "orders", str(tmp_path / name))
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1), result.output
        assert told in result.stderr


@pytest.mark.slow
def test_an_export_leaves_a_pipe_what_it_is_and_names_what_it_cannot_write_to(
    same_broker: Administered, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    words = ("export", "TARGET", "orders", "-p", "0", "--until", "3")
    with ThreadPoolExecutor(1) as readers:
        read = readers.submit(pipe.read_text)
        output(same_broker, *words, "-o", str(pipe), "--as", "json")
        assert [json.loads(line)["offset"] for line in read.result().splitlines()] == [0, 1, 2]
    assert pipe.is_fifo()
    link, linked = tmp_path / "link", tmp_path / "linked"
    linked.touch()
    link.symlink_to(linked)
    output(same_broker, *words, "-o", str(link), "--as", "csv")
    assert link.is_symlink()
    assert len(linked.read_text().splitlines()) == 4
    for kind in ("csv", "json", "arrow", "parquet"):
        named = tmp_path / f"o.{kind}"
        output(same_broker, *words, "-o", str(named))
        assert output(same_broker, *words, "-o", "-", "--as", kind) == named.read_bytes()
    for name, told in [
        (str(tmp_path), f"{tmp_path} is a directory; name a file in it"),
        (
            f"{tmp_path}/none/o.csv",
            f"{tmp_path}/none/o.csv: directory {tmp_path}/none does not exist",
        ),
    ]:
        result = run(same_broker, *words, "-o", name, "--as", "csv")
        assert (result.exit_code, result.stderr) == (2, f"ottla: {told}\n")
    assert "use --as FORMAT" in run(same_broker, *words, "-o", "-").stderr
    for name in ("out.parquet", "-"):
        result = run(same_broker, "export", "TARGET", "orders", name)
        told = f"Error: Name the file to write with an option: -o {name}\n"
        assert (result.exit_code, result.stderr.endswith(told)) == (2, True), result.stderr
    database = run(same_broker, *words, "-o", "-", "--as", "duckdb")
    assert (database.exit_code, "a database cannot be" in database.stderr) == (2, True)


@pytest.mark.slow
def test_an_export_to_standard_output_may_be_cut_short(
    same_broker: Administered, tmp_path: Path
) -> None:
    pytest.importorskip("pyarrow")
    export = f"{sys.executable} -m ottla export {same_broker.target} orders -o - --as csv -q"
    command = ["bash", "-c", f"set -o pipefail; {export} | head -n 2"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [line.split(",")[:2] for line in done.stdout.splitlines()] == [
        ["partition", "offset"],
        ["0", "0"],
    ]
    path = tmp_path / "both"
    both = f"{{ echo before; {export} --until 2; }} > {path}"
    subprocess.run(["bash", "-c", both], cwd=tmp_path, check=True)
    assert path.read_text().splitlines()[:2] == ["before", done.stdout.splitlines()[0]]


@pytest.mark.slow
def test_an_import_that_stops_says_what_it_left(broker: Administered, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "o.jsonl"
    path.write_text('{"value": "a"}\n{no\n')
    missing = run(broker, "import", "TARGET", "neu", str(path))
    assert missing.exit_code == 1
    assert missing.stderr.endswith("; --create creates it\n")
    for words, where in [((), " to orders and then stopped"), (["--transaction"], "took them ba")]:
        result = run(broker, "import", "TARGET", "orders", str(path), *words)
        said, error = result.stderr.splitlines()
        assert said.startswith("imported 1 record (1 B) in ")
        assert where in said
        assert error.startswith(f"ottla: {path}, line 2: this is not JSON: ")
        assert result.exit_code == 2


def test_only_records_that_were_taken_are_said_to_be_produced(broker: Administered) -> None:
    output(broker, "topics", "create", "TARGET", "small", "-o", "max.message.bytes=300")
    small, large = b"tea\n", b"x" * 1000 + b"\n"
    for data, said in ((large, []), (small + large, ["produced 1 record (3 B) in"])):
        result = run(broker, "produce", "TARGET", "small", "-o", "batch.size=1", data=data)
        *before, error = result.stderr.splitlines()
        assert error.startswith("ottla: small-0: ")
        assert [one[: len(said[0])] for one in before] == said
        assert result.exit_code == 1


@pytest.mark.slow
def test_what_was_moved_is_said_as_json_when_asked(broker: Administered, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    output(broker, "topics", "create", "TARGET", "told", "-p", "2")

    def said(*words: str, data: bytes = b"") -> dict[str, Any]:
        result = run(broker, *words, data=data)
        assert (result.exit_code, result.stderr) == (0, "")
        (line,) = result.stdout.splitlines()
        found: dict[str, Any] = json.loads(line)
        assert found.pop("seconds") >= 0
        return found

    produce = ("produce", "TARGET", "told", "--json-report", "-p", "1")
    assert said(*produce, data=b"")["by_partition"] == []
    first = {"partition": 1, "records": 2, "first_offset": 0, "next_offset": 2}
    wanted = {"topic": "told", "by_partition": [first], "records": 2, "size": 3}
    assert said(*produce, data=b"a\nbc\n") == wanted
    assert said(*produce, data=b"d\n")["by_partition"][0]["first_offset"] == 2
    path = str(tmp_path / "o.jsonl")
    exported = said("export", "TARGET", "told", "-o", path, "--json")
    assert exported.pop("size") > 0
    assert exported == {
        "topic": "told",
        "output": path,
        "format": "json",
        "by_partition": [{"partition": 1, "first_offset": 0, "next_offset": 3}],
        "records": 3,
    }
    imported = said("import", "TARGET", "told", path, "--keep-partitions", "--json")
    assert imported["by_partition"] == [
        {"partition": 1, "records": 3, "first_offset": 3, "next_offset": 6}
    ]
    both = run(broker, "export", "TARGET", "told", "-o", "-", "--as", "json", "--json")
    assert (both.exit_code, both.stdout) == (2, "")
    assert "cannot share standard output" in both.stderr


@pytest.mark.slow
def test_a_query_that_runs_long_can_be_interrupted(same_broker: Administered) -> None:
    pytest.importorskip("duckdb")
    pytest.importorskip("pyarrow")
    query = "select count(*) from range(1000000000000) t"
    result = run(same_broker, "sql", "TARGET", query, "--timeout", "1s")
    assert (result.exit_code, result.stdout) == (124, "")
    swapped = run(same_broker, "sql", query, "TARGET")
    assert (swapped.exit_code, "the target comes before the query" in swapped.stderr) == (2, True)


@pytest.mark.slow
def test_topics_are_tables_of_sql(same_broker: Administered, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")

    def rows(query: str, *words: str) -> list[str]:
        return output(same_broker, "sql", "TARGET", query, *words).decode().splitlines()

    assert rows('select count(*) as n, max("offset") as last from Orders', "--csv") == [
        "n,last",
        "100,99",
    ]
    found = rows(
        'select a."offset", a.value from orders a join orders b using ("offset") '
        'order by 1 desc limit 1', "--json"
    )  # fmt: skip
    assert [json.loads(one) for one in found] == [{"offset": 99, "value": "x"}]
    assert "100" in "".join(rows("select count(*) from orders"))
    joined = 'select 1 as a, 2 as a_1, 3 as a, 4 as "A"'
    assert rows(joined, "--csv") == ["a,a_1,a_2,A", "1,2,3,4"]
    assert [json.loads(one) for one in rows(joined, "--json")] == [
        {"a": 1, "a_1": 2, "a_2": 3, "A": 4}
    ]
    narrow = CliRunner(env={"COLUMNS": "12"})
    folded = narrow.invoke(cli, ["sql", same_broker.target, "select 'a text of 20 letters' as it"])
    assert "".join(folded.output.split()[2:]) == "atextof20letters"
    path = tmp_path / "o.parquet"
    words = ("sql", "TARGET", "select partition, timestamp from orders", "--parquet")
    assert run(same_broker, *words, str(path)).stderr == f"wrote 100 rows to {path}\n"
    assert run(same_broker, *words, str(path), "-q").stderr == ""
    assert duckdb.sql(f"select count(*) from '{path}'").fetchall() == [(100,)]
    for query, ending in [
        ("select * from orderz", (1, "there is no topic orderz; did you mean orders?")),
        ("select nothing from orders", (2, "sql: ")),
        ("select from where", (2, "sql: ")),
        ("select 1; select 2", (2, "sql: a query must be a single select; ask one after")),
        ("select ofset from orders", (2, 'sql: Binder Error: Referenced column "ofset" not fou')),
        (
            "drop table orders",
            (2, "sql: a query must be a single select, since topics cannot be changed"),
        ),
        ("select offset from orders", (2, 'sql: syntax error at or near "from"; offset is a key')),
        (f"select * from read_csv('{tmp_path}/x')", (2, "sql: ")),
    ]:
        result = run(same_broker, "sql", "TARGET", query)
        assert result.exit_code == ending[0], result.output
        assert result.stderr.startswith(f"ottla: {ending[1]}")
