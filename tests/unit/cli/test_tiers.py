"""Commands read a directory together with its tier, and refuse one where there can be none."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
import ottla.table
from ottla.base.errors import UserError
from ottla.cli.main import cli
from ottla.storage.remote.settings import LOCAL_CLASS
from tests.support.server_properties import write_properties
from tests.support.tiered import TieredPlace, uploaded

ALL = [*range(26)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> TieredPlace:
    root = tmp_path_factory.mktemp("tiered")
    made = TieredPlace(root, [uploaded(1, 0, 9), uploaded(2, 10, 19)], (20, 25))
    write_properties(
        properties_of(made),
        {
            "log.dirs": str(made.data),
            "remote.log.storage.manager.class.name": LOCAL_CLASS,
            "remote.log.storage.manager.impl.prefix": "my.",
            "my.dir": str(made.tier),
        },
    )
    return made


def properties_of(place: TieredPlace) -> Path:
    return place.data.with_name("server.properties")


def run(place: TieredPlace, command: str, *arguments: str, by: str = "--config") -> str:
    tier = {"--tier": place.tier, "--config": properties_of(place)}[by]
    words = [*command.split(), f"{place.data}/", *arguments, by, str(tier)]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, (done.stdout, done.stderr, done.exception)
    return done.stdout


@pytest.mark.parametrize("command", ["records", "consume"])
@pytest.mark.parametrize("by", ["--tier", "--config"])
def test_records_are_printed_from_the_tier_and_then_from_the_files(
    place: TieredPlace, command: str, by: str
) -> None:
    lines = run(place, command, "orders", "--json", by=by).splitlines()
    assert [json.loads(line)["offset"] for line in lines] == ALL


def test_an_open_log_reads_its_tier(place: TieredPlace) -> None:
    with ottla.open(place.data, read_only=True, tier=str(place.tier)) as log:
        assert [one.offset for one in log.read("orders")] == ALL
        assert log.offsets("orders") == {0: (0, 26)}


@pytest.mark.slow
def test_exports_and_queries_have_what_lies_in_the_tier(place: TieredPlace, tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    found = run(
        place, "sql", "select count(*) as n, min(orders.offset) as first from orders", "--json"
    )
    assert json.loads(found) == {"n": 26, "first": 0}
    run(place, "export", "orders", "-o", str(tmp_path / "orders.csv"))
    assert len((tmp_path / "orders.csv").read_text().splitlines()) == 1 + len(ALL)


@pytest.mark.slow
def test_a_load_and_its_audit_read_the_tier(place: TieredPlace, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    table = str(tmp_path / "table")
    run(place, "load", "orders", "--into", table, "--engine", "local")
    rows = ottla.table.dataset(table).to_table(columns=["offset"])
    assert sorted(rows["offset"].to_pylist()) == ALL
    run(place, "audit", "orders", "--table", table, "--all")


def test_the_commands_about_a_tier_find_it_by_its_settings(place: TieredPlace) -> None:
    lines = run(place, "tier list", "--json").splitlines()
    assert len(lines) == 2


@pytest.mark.slow
def test_a_mirror_has_the_whole_log(place: TieredPlace, tmp_path: Path) -> None:
    run(place, "mirror", str(tmp_path / "copy"))
    with ottla.open(tmp_path / "copy", read_only=True) as log:
        assert [one.offset for one in log.read("orders")] == ALL
        assert "__remote_log_metadata" not in log.topics()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("consume", "localhost:9", "orders", "--tier", "t"), "a broker reads its own tier"),
        (("records", "{data}", "orders", "--tier-key", "k"), "add --tier"),
        (("records", "{data}", "orders", "--config", "c", "--tier", "t"), "leave one of them out"),
        (
            ("records", "{data}", "orders", "--config", "none.properties"),
            "none.properties: No such",
        ),
        (("consume", "localhost:9", "orders", "--config", "c"), "a broker reads its own tier"),
        (("load", "localhost:9", "orders", "--into", "t", "--config", "c"), "option tier.config"),
        (("records", "{data}", "orders", "--tier", "{data}/nowhere"), "nowhere"),
        (
            ("consume", "{data}", "orders", "--tier", "{tier}", "-G", "g"),
            "committed to a broker",
        ),
        (("mirror", "localhost:9", "copy", "--tier", "t"), "reads its own tier"),
        (("load", "localhost:9", "orders", "--into", "t", "--tier", "t"), "option tier"),
    ],
)
def test_a_tier_is_refused_where_there_can_be_none(
    place: TieredPlace, words: tuple[str, ...], message: str
) -> None:
    given = [one.format(data=place.data, tier=place.tier) for one in words]
    done = CliRunner().invoke(cli, given)
    assert done.exit_code == 2 or isinstance(done.exception, UserError), done.output
    assert message in f"{done.output}{done.stderr}{done.exception}"


def test_an_open_log_refuses_a_tier_that_it_cannot_use(place: TieredPlace) -> None:
    with pytest.raises(UserError, match="read_only=True"):
        ottla.open(place.data, tier=str(place.tier))  # type: ignore[call-overload]
    with pytest.raises(UserError, match="read_only=True"):
        ottla.open(place.data, tier_key="key")  # type: ignore[call-overload]
    with pytest.raises(UserError, match="give tier"):
        ottla.open(place.data, read_only=True, tier_key="key")


def test_settings_that_name_no_tier_are_refused_with_the_file(
    place: TieredPlace, tmp_path: Path
) -> None:
    properties = write_properties(tmp_path / "server.properties", {"log.dirs": str(place.data)})
    done = CliRunner().invoke(
        cli, ["records", str(place.data), "orders", "--config", str(properties)]
    )
    text = f"{properties}: remote.log.storage.manager.class.name is not set"
    assert text in f"{done.output}{done.stderr}{done.exception}"
