"""Commands read a directory together with its tier, and refuse one where there can be none."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
import ottla.table
from ottla.base.errors import UserError
from ottla.cli.main import cli
from tests.support.tiered import TieredPlace, uploaded

ALL = [*range(26)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> TieredPlace:
    root = tmp_path_factory.mktemp("tiered")
    return TieredPlace(root, [uploaded(1, 0, 9), uploaded(2, 10, 19)], (20, 25))


def run(place: TieredPlace, command: str, *arguments: str) -> str:
    words = [command, f"{place.data}/", *arguments, "--tier", str(place.tier)]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, (done.stdout, done.stderr, done.exception)
    return done.stdout


@pytest.mark.parametrize("command", ["records", "consume"])
def test_records_are_printed_from_the_tier_and_then_from_the_files(
    place: TieredPlace, command: str
) -> None:
    lines = run(place, command, "orders", "--json").splitlines()
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


@pytest.mark.slow
def test_a_mirror_has_the_whole_log(place: TieredPlace, tmp_path: Path) -> None:
    run(place, "mirror", str(tmp_path / "copy"))
    with ottla.open(tmp_path / "copy", read_only=True) as log:
        assert [one.offset for one in log.read("orders")] == ALL


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("consume", "localhost:9", "orders", "--tier", "t"), "a broker reads its own tier"),
        (("records", "{data}", "orders", "--tier-key", "k"), "add --tier"),
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
