"""Which tables `ottla load` fills, what `--json` prints, and what `--metrics` exports."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import ottla
from ottla.cli.main import cli
from ottla.loading.follow import FollowStatus
from ottla.table import dataset
from ottla.testing import FakeClock

pytest.importorskip("deltalake")


def load(path: Path, *words: str) -> Result:
    return CliRunner().invoke(cli, ["load", str(path / "log"), *words, "--engine", "local"])


@pytest.fixture
def topics(tmp_path: Path) -> Path:
    with ottla.open(tmp_path / "log") as log:
        for count, topic in enumerate(("shop.orders", "shop.users", "audit"), 1):
            log.create_topic(topic)
            log.append_many(topic, [b"%d" % number for number in range(count)])
    return tmp_path


@pytest.mark.slow
def test_pairs_patterns_and_names_say_which_topic_goes_where(topics: Path) -> None:
    pairs = [f"--table=audit={topics / 'one'}", f"--table=shop.users={topics / 'two'}"]
    result = load(topics, *pairs, "--json")
    assert result.exit_code == 0, result.output
    objects = [json.loads(line) for line in result.stdout.splitlines()]
    assert [(one["event"], one["topic"], one["rows"]) for one in objects] == [
        ("commit", "audit", 3),
        ("commit", "shop.users", 2),
    ]
    assert objects[0]["partitions"] == [
        {"partition": 0, "from_offset": 0, "until_offset": 3, "rows": 3}
    ]
    assert json.loads(load(topics, pairs[0], "--json").stdout)["event"] == "nothing new"
    assert load(topics, "--pattern", "shop[.].*", "--into", str(topics / "all")).exit_code == 0
    found = {one.name: dataset(str(one)).count_rows() for one in (topics / "all").iterdir()}
    assert found == {"shop.orders": 1, "shop.users": 2}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a topic to load"),
        (["audit"], "name the table's location: --into PATH"),
        (["audit", "--into", ""], "name the table's location: --into PATH"),
        (["--into", "x"], "name a topic to load"),
        (["--table", "audit"], "--table takes TOPIC=PATH"),
        (["--table", "audit=x", "--into", "y"], "--into is for topics that are named"),
        (["--table", "audit=x", "audit", "--into", "x"], "give each topic another path"),
        (["--table", "audit=x", "audit", "--into", "./x"], "give each topic another path"),
        (["audit", "b", "--into", "iceberg://lake/shop"], "--table TOPIC=iceberg://CATALOG/"),
        (["--pattern", "a.*", "--into", "iceberg://lake/shop"], "give each topic its own"),
        (["audit", "--into", "s3:/x"], "write s3://x, or ./s3:/x"),
        (["--pattern", "a.*", "--into", "s3:/x"], "write s3://x/audit, or ./s3:/x/audit"),
        (["audit", "--pattern", "a", "--into", "x"], "--pattern selects the topics"),
        (["--pattern", "no.*", "--into", "x"], "has no topic that matches no.*"),
        (["--pattern", "a(", "--into", "x"], "a( is not a valid pattern"),
        (["audit", "--into", "x", "--metrics", "127.0.0.1:0"], "add --follow"),
        (["--pattern", "a.*", "--into", "x", "--rerun"], "--rerun reads one topic's range"),
    ],
)
def test_what_names_no_table_is_refused_in_one_line(
    topics: Path, words: list[str], said: str
) -> None:
    result = load(topics, *words)
    assert result.exit_code == 2, result.output
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not Path("x").exists()


@pytest.mark.parametrize(
    "command",
    [
        ["load", "log", "audit", "--engine", "local", "--into"],
        ["load", "log", "--engine", "local", "--pattern", "a.*", "--into"],
        ["audit", "log", "audit", "--table"],
        *(["table", verb] for verb in ("read", "files", "history", "hours", "vacuum")),
        ["table", "optimize", "--engine", "local"],
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_a_file_where_a_directory_of_the_table_should_be_is_one_line(
    topics: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(topics)
    Path("afile").touch()
    result = CliRunner().invoke(cli, [*command, "afile/x"])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == (
        f"ottla: {topics}/afile is a file, and a table is a directory; name another path\n"
    )


def test_all_events_of_a_followed_table_name_it_in_one_way(
    topics: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(topics)
    result = load(topics, "audit", "--into", "here/", "--follow", "--json", "--until-eof")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert {"commit", "lag"} <= {one["event"] for one in events}
    assert {one["table"] for one in events} == {str(topics / "here")}


def test_the_lag_of_followed_tables_is_exported() -> None:
    pytest.importorskip("prometheus_client")
    from ottla.cli.metrics.tables import TableCollector

    clock = FakeClock()
    status = FollowStatus(
        topic="orders",
        into="t",
        lag_records=5,
        complete_ms=clock.now_ms() - 2500,
        commits=3,
        rows=70,
        errors=1,
    )
    samples = {
        sample.name: sample.value
        for metric in TableCollector(lambda: [status], clock).collect()
        for sample in metric.samples
        if sample.labels == {"topic": "orders", "table": "t"}
    }
    assert samples == {
        "ottla_table_lag_records": 5,
        "ottla_table_lag_seconds": 2.5,
        "ottla_table_up": 1,
        "ottla_table_commits_total": 3,
        "ottla_table_rows_total": 70,
        "ottla_table_errors_total": 1,
    }
